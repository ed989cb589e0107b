//! Opening what a path below the workspace names, without ever following a link out of it.
//!
//! Guests can change the workspace while it is read: what was checked must be what is opened.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(all(unix, not(target_os = "linux")))]
mod other_unix;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub use unix::open;
#[cfg(windows)]
pub use windows::open;

use std::ffi::OsString;
use std::fs::File;
use std::io;

/// What a path led to.
pub enum Opened {
    /// A regular file and its size in bytes at that moment.
    File(File, u64),
    /// A folder's entries.
    Folder(Entries),
}

/// What kind of thing an entry is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EntryKind {
    /// A folder.
    Folder,
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
    /// A FIFO, a socket or a device.
    Special(&'static str),
    /// It was gone when it was looked at.
    Gone,
}

impl EntryKind {
    /// The word for it in listings.
    pub const fn word(self) -> &'static str {
        match self {
            EntryKind::Folder => "dir",
            EntryKind::File => "file",
            EntryKind::Link => "symlink",
            EntryKind::Special(word) => word,
            EntryKind::Gone => "gone",
        }
    }
}

/// An entry of a folder.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// Its name.
    pub name: OsString,
    /// What it is.
    pub kind: EntryKind,
    /// A regular file's size in bytes.
    pub size: u64,
}

/// The first entries of a folder by name, and how many there are in all.
#[derive(Debug, Default)]
pub struct Entries {
    /// At most as many as were asked for.
    pub first: Vec<Entry>,
    /// How many names the folder has, as far as they were counted.
    pub total: usize,
    /// Whether counting stopped early.
    pub more: bool,
}

/// Why nothing was opened.
#[derive(Debug)]
pub enum OpenError {
    /// There is nothing of that name.
    NotFound,
    /// A part of the path is a symbolic link.
    Link,
    /// It is neither a file nor a folder: what it is.
    Special(&'static str),
    /// The system's own reason.
    Io(io::Error),
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> OpenError {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => OpenError::NotFound,
            _ => OpenError::Io(error),
        }
    }
}

/// How many names are looked at in one folder.
const COUNTED: usize = 1_000_000;

/// Keeps the first `limit` names in order, with room for no more than those.
fn first_names(
    names: impl Iterator<Item = OsString>,
    limit: usize,
) -> (Vec<OsString>, usize, bool) {
    let mut first = std::collections::BinaryHeap::with_capacity(limit + 1);
    let mut total = 0;
    for name in names {
        if total == COUNTED {
            return (first.into_sorted_vec(), total, true);
        }
        total += 1;
        first.push(name);
        if first.len() > limit {
            first.pop();
        }
    }
    (first.into_sorted_vec(), total, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_names_are_kept_and_the_rest_counted() {
        let names = (0..1000).rev().map(|n| OsString::from(format!("f{n:04}")));
        let (first, total, more) = first_names(names, 3);
        assert_eq!(first, ["f0000", "f0001", "f0002"]);
        assert_eq!((total, more), (1000, false));
    }
}
