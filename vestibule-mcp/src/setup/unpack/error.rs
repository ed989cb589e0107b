//! Why a layer could not be unpacked.

use crate::escape::for_display;
use crate::setup::error::FILE_LIMIT;
use crate::store::digest::Digest;
use nix::errno::Errno;
use std::fmt;

/// Why a layer could not be unpacked. Names are escaped.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum UnpackError {
    /// The system refused a step.
    #[error("cannot {step} `{name}` of the image: {}", errno.desc())]
    Os {
        /// What was tried.
        step: Step,
        /// For which entry.
        name: String,
        /// The system's reason.
        errno: Errno,
    },
    /// The name of an entry, or of what one links to.
    #[error("an entry's name `{name}` {why}")]
    Name {
        /// The name.
        name: String,
        /// What is wrong with it.
        why: BadName,
    },
    /// A hard link's target.
    #[error("the hard link `{name}` is to `{target}`, {why}")]
    HardLink {
        /// The link.
        name: String,
        /// What it is to.
        target: String,
        /// What is wrong with that, as a clause with `which`.
        why: &'static str,
    },
    /// A symbolic link's target.
    #[error("the symbolic link `{name}` {why}")]
    Symlink {
        /// The link.
        name: String,
        /// What is wrong with it, as a verb with its object.
        why: &'static str,
    },
    /// It is in something that is no folder.
    #[error("the entry `{0}` is in something that is no folder")]
    NoFolder(String),
    /// The way to it has too many links.
    #[error("the way to the entry `{0}` has too many symbolic links")]
    Links(String),
    /// The way to it has more parts than the limit, links followed.
    #[error("the way to the entry `{name}` has more than {limit} parts, links followed")]
    Way {
        /// The entry.
        name: String,
        /// The limit.
        limit: usize,
    },
    /// It is deeper in folders than the limit, links followed.
    #[error("the entry `{name}` is more than {limit} folders deep")]
    Deep {
        /// The entry.
        name: String,
        /// The limit.
        limit: usize,
    },
    /// There are more entries than the limit.
    #[error("it has more than {limit} entries; the limit was reached at `{name}`")]
    Entries {
        /// The entry that is one too many.
        name: String,
        /// The limit.
        limit: u64,
    },
    /// There is more in its files than the limit.
    #[error("it unpacks to more than {limit} bytes; the limit was reached at `{name}`")]
    Bytes {
        /// The entry that would have gone over it.
        name: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// There is more in its archives than the limit.
    #[error("its layers decode to more than {limit} bytes; the limit was reached after `{after}`")]
    Decoded {
        /// The entry before.
        after: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// The archive or its compression cannot be read.
    #[error("its layer cannot be read {} ({why})", place(after))]
    Archive {
        /// The entry before; empty before the first.
        after: String,
        /// What is wrong.
        why: String,
    },
    /// Its bytes are not those that the image names.
    #[error("its layer decodes to {found} and not to {expected}, which the image names")]
    DiffId {
        /// What the image's configuration says.
        expected: Digest,
        /// What it is.
        found: Digest,
    },
}

/// What was tried, as a verb with its preposition.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// Opening a folder on the way.
    Reach,
    /// Making a folder.
    Folder,
    /// Making a file.
    File,
    /// Writing a file.
    Write,
    /// Making a link.
    Link,
    /// Setting a mode.
    Mode,
    /// Setting a time.
    Time,
    /// Removing what is there.
    Remove,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Step::Reach => "open the folder of",
            Step::Folder => "make the folder",
            Step::File => "make the file",
            Step::Write => "write the file",
            Step::Link => "make the link",
            Step::Mode => "set the mode of",
            Step::Time => "set the time of",
            Step::Remove => "remove what was there before at",
        })
    }
}

/// What is wrong with a name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum BadName {
    /// There is nothing in it.
    Empty,
    /// Nothing is between two of its slashes.
    EmptyPart,
    /// One of its parts is `..`.
    Up,
    /// It has a NUL byte.
    Nul,
    /// One of its parts is longer than 255 bytes.
    LongPart,
    /// It is longer than 4095 bytes.
    Long,
    /// It is a whiteout of nothing, `.` or `..`.
    Whiteout,
    /// A folder on its way has the name of a whiteout.
    InWhiteout,
    /// It is the root, and no folder.
    Root,
}

impl fmt::Display for BadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BadName::Empty => "is empty",
            BadName::EmptyPart => "has two slashes in a row",
            BadName::Up => "has a part that is `..`",
            BadName::Nul => "has a NUL byte",
            BadName::LongPart => "has a part of more than 255 bytes",
            BadName::Long => "has more than 4095 bytes",
            BadName::Whiteout => "is a whiteout that hides nothing which can be named",
            BadName::InWhiteout => "has a whiteout for a folder",
            BadName::Root => "is the root of the image, and the entry is no folder",
        })
    }
}

impl UnpackError {
    /// What to do about it, as one clause.
    pub fn fix(&self) -> String {
        match self {
            UnpackError::Os { errno, .. } => errno_fix(*errno).to_owned(),
            UnpackError::Entries { .. }
            | UnpackError::Bytes { .. }
            | UnpackError::Decoded { .. } => {
                "take a smaller image; one that is so much larger than it looks may be made to fill disks"
                    .to_owned()
            }
            UnpackError::DiffId { .. } => {
                "run `vestibule-mcp setup` again; if it fails alike, the image itself is broken: take \
                 another one"
                    .to_owned()
            }
            _ => "take another image: this one is broken, or made to do harm".to_owned(),
        }
    }

    pub(super) fn os(step: Step, name: &str, errno: Errno) -> UnpackError {
        UnpackError::Os { step, name: name.to_owned(), errno }
    }

    pub(super) fn name(name: &[u8], why: BadName) -> UnpackError {
        UnpackError::Name { name: shown(name), why }
    }
}

fn errno_fix(errno: Errno) -> &'static str {
    match errno {
        Errno::ENOSPC => {
            "make room on the disk of VESTIBULE_ROOTFS_DIR (`df -h` and `df -i` show it), or set it to a \
             folder on another one"
        }
        Errno::EDQUOT => {
            "remove files of this user, have the quota raised, or set VESTIBULE_ROOTFS_DIR to a folder on \
             another disk"
        }
        Errno::EROFS => "set VESTIBULE_ROOTFS_DIR to a folder that can be written to",
        Errno::EMFILE | Errno::ENFILE => {
            "raise the limit of open files (`ulimit -n`) and try again"
        }
        Errno::EFBIG => FILE_LIMIT,
        Errno::EIO => {
            "check the disk of VESTIBULE_ROOTFS_DIR, or set it to a folder on another one"
        }
        Errno::ESTALE | Errno::EEXIST | Errno::ENOTEMPTY | Errno::ENOENT => {
            "find out what else writes to VESTIBULE_ROOTFS_DIR, and run `vestibule-mcp setup` again"
        }
        // Names that it cannot have, links or rights that it does not know.
        _ => {
            "set VESTIBULE_ROOTFS_DIR to a folder on a file system of Linux, such as ext4, xfs or btrfs"
        }
    }
}

/// Where in a layer the reader was.
fn place(after: &str) -> String {
    match after {
        "" => "at its beginning".to_owned(),
        after => format!("after the entry `{after}`"),
    }
}

/// A name as it stands in messages.
pub(super) fn shown(name: &[u8]) -> String {
    for_display(&String::from_utf8_lossy(name), 200)
}
