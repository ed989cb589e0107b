//! Numbers with a unit and a range: a value of one of these types is always within its range.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A number outside the range of its type.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{value} is out of range: {what} must be a whole number from {min} to {max}")]
pub struct OutOfRange {
    /// What the number means, with its unit.
    pub what: &'static str,
    /// The number that was given.
    pub value: u64,
    /// The smallest number allowed.
    pub min: u32,
    /// The largest number allowed.
    pub max: u32,
}

macro_rules! ranged {
    ($(#[$doc:meta])* $name:ident, $what:literal, $min:literal..=$max:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
        #[serde(try_from = "u32", into = "u32")]
        pub struct $name(u32);

        impl $name {
            /// The smallest value.
            pub const MIN: u32 = $min;
            /// The largest value.
            pub const MAX: u32 = $max;

            /// The value, if it is within `MIN..=MAX`.
            ///
            /// # Errors
            /// [`OutOfRange`] with the range, if it is not.
            pub const fn new(value: u64) -> Result<Self, OutOfRange> {
                if value < Self::MIN as u64 || value > Self::MAX as u64 {
                    return Err(OutOfRange { what: $what, value, min: $min, max: $max });
                }
                Ok(Self(value as u32))
            }

            /// The number itself, in the unit of the type.
            pub const fn get(self) -> u32 {
                self.0
            }
        }

        impl TryFrom<u32> for $name {
            type Error = OutOfRange;
            fn try_from(value: u32) -> Result<Self, OutOfRange> {
                Self::new(value.into())
            }
        }

        impl From<$name> for u32 {
            fn from(value: $name) -> u32 {
                value.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

ranged! {
    /// A memory cap in MiB.
    MemoryMib, "memory_mib (a memory cap in MiB)", 1..=1_048_576
}
ranged! {
    /// A CPU cap in percent of one core.
    CpuPercent, "cpu_percent (a CPU cap in percent of one core)", 1..=102_400
}
ranged! {
    /// A cap on processes and threads, the sandbox's init included.
    PidsMax, "pids_max (a cap on processes)", 2..=4_194_304
}
ranged! {
    /// The size of the sandbox's `/tmp` in MiB.
    TmpfsMib, "tmpfs_mib (the size of /tmp in MiB)", 1..=1_048_576
}
ranged! {
    /// A run's timeout in seconds.
    TimeoutSeconds, "timeout_seconds (a timeout in seconds)", 1..=86_400
}
ranged! {
    /// How many bytes of each output stream are returned.
    OutputBytes, "output_bytes (an output cap in bytes)", 1..=8_388_608
}
ranged! {
    /// How many bytes of code a call may bring.
    CodeBytes, "code (a code size in bytes)", 1..=16_777_216
}
