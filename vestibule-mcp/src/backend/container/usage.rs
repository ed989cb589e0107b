//! What a container used, read from its cgroup by us and not by anyone in it: on Linux with cgroup v2,
//! where the engine's containers are processes of this machine.

#[cfg(target_os = "linux")]
mod cgroup;
#[cfg(not(target_os = "linux"))]
mod elsewhere;

#[cfg(target_os = "linux")]
pub use cgroup::{Cgroups, Meter};
#[cfg(not(target_os = "linux"))]
pub use elsewhere::{Cgroups, Meter};

use protocol::{LimitHit, Measured, Outcome};

/// Why nothing but the wall time is measured.
pub const NOT_MEASURED: &str = "not readable from outside a container";

/// What the kernel counted.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Counters {
    /// CPU time in microseconds.
    pub cpu_us: Measured<u64>,
    /// Peak memory in bytes.
    pub mem_peak_bytes: Measured<u64>,
    /// Peak number of processes and threads.
    pub pids_peak: Measured<u64>,
    /// The limits that were run into, but for memory.
    pub limits_hit: Vec<LimitHit>,
    /// Whether the kernel killed a process for memory.
    pub killed: bool,
}

impl Counters {
    /// Puts them into the report of a run.
    pub fn add_to(self, outcome: &mut Outcome) {
        outcome.usage.cpu_us = self.cpu_us;
        outcome.usage.mem_peak_bytes = self.mem_peak_bytes;
        outcome.usage.pids_peak = self.pids_peak;
        outcome.limits_hit.extend(self.limits_hit);
    }
}
