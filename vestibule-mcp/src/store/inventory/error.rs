//! Why a tree could not be listed, or is not what its listing says.

use crate::escape::for_display;
use crate::setup::error::FILE_LIMIT;
use nix::errno::Errno;
use std::{fmt, io};

/// Why a tree could not be listed, or is not what its listing says.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum InventoryError {
    /// The system refused a step.
    #[error("cannot {step} `{name}`: {}", errno.desc())]
    Os {
        /// What was tried, as a verb with its preposition.
        step: &'static str,
        /// With what, escaped.
        name: String,
        /// The system's reason.
        errno: Errno,
    },
    /// Something is in the tree that no unpacked image has.
    #[error("`{name}` {what}")]
    Unfit {
        /// Its path, escaped.
        name: String,
        /// What is wrong with it, as a verb with its object.
        what: &'static str,
    },
    /// A file changed while it was read.
    #[error("`{0}` changed while it was read")]
    Moving(String),
    /// The tree is not what its listing says; this is the first difference by the order of names.
    #[error("`{name}` {difference}")]
    Differs {
        /// Its path, escaped.
        name: String,
        /// In what.
        difference: Difference,
    },
    /// The listing cannot be used.
    #[error("the listing is damaged ({0})")]
    Damaged(String),
    /// The listing could not be read.
    #[error("cannot read the listing: {0}")]
    Read(String),
    /// The names are too many and too long.
    #[error("the list of its files has more than {0} bytes")]
    Long(u64),
    /// The listing could not be written.
    #[error("cannot write the listing: {why}")]
    Write {
        /// What the system says.
        why: String,
        /// Of what kind that is.
        kind: io::ErrorKind,
    },
}

/// In what an entry differs from its line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Difference {
    /// It is gone.
    Missing,
    /// It has no line.
    Extra,
    /// It is something else: what it was, and what it is.
    Kind(&'static str, &'static str),
    /// Its mode, as it was and as it is.
    Mode(u32, u32),
    /// Its size in bytes, as it was and as it is.
    Size(u64, u64),
    /// The moment of its last change, in seconds since 1970, as it was and as it is.
    Time(i64, i64),
    /// What is in it.
    Content,
    /// Where the link points, as it was and as it is, escaped.
    Target(String, String),
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Difference::Missing => write!(f, "is missing"),
            Difference::Extra => write!(f, "was not there before"),
            Difference::Kind(was, is) => write!(f, "was {was} and is {is}"),
            Difference::Mode(was, is) => write!(f, "had mode {was:04o} and has {is:04o}"),
            Difference::Size(was, is) => write!(f, "had {was} bytes and has {is}"),
            Difference::Time(was, is) => write!(f, "was of second {was} and is of {is}"),
            Difference::Content => write!(f, "has other content than before"),
            Difference::Target(was, is) => write!(f, "pointed to `{was}` and points to `{is}`"),
        }
    }
}

impl InventoryError {
    /// What to do about it, as one clause.
    pub fn fix(&self) -> String {
        let fix = match self {
            InventoryError::Os { errno: Errno::EMFILE | Errno::ENFILE, .. } => {
                "raise the limit of open files (`ulimit -n`) and try again"
            }
            InventoryError::Os { .. } | InventoryError::Read(_) => {
                "make VESTIBULE_ROOTFS_DIR and everything in it readable for this user, or remove it and \
                 run `vestibule-mcp setup` again"
            }
            InventoryError::Write { kind: io::ErrorKind::FileTooLarge, .. } => FILE_LIMIT,
            InventoryError::Write { .. } => {
                "make room on the disk of VESTIBULE_ROOTFS_DIR, or set it to a folder on another one"
            }
            InventoryError::Moving(_) => {
                "find out what writes to VESTIBULE_ROOTFS_DIR, and run `vestibule-mcp setup` again"
            }
            InventoryError::Long(_) => "take an image with fewer files, or with shorter names",
            InventoryError::Unfit { .. }
            | InventoryError::Differs { .. }
            | InventoryError::Damaged(_) => "run `vestibule-mcp setup` again to unpack it anew",
        };
        fix.to_owned()
    }

    pub(super) fn os(step: &'static str, path: &[u8], errno: Errno) -> InventoryError {
        InventoryError::Os { step, name: shown(path), errno }
    }

    pub(super) fn write(error: &io::Error) -> InventoryError {
        InventoryError::Write { why: error.to_string(), kind: error.kind() }
    }

    pub(super) fn differs(path: &[u8], difference: Difference) -> InventoryError {
        InventoryError::Differs { name: shown(path), difference }
    }
}

/// A path as it stands in messages; that of the root is `.`.
pub(super) fn shown(path: &[u8]) -> String {
    match path {
        [] => ".".to_owned(),
        path => for_display(&String::from_utf8_lossy(path), 200),
    }
}
