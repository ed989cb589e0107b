//! The lines of a listing:
//!
//! ```text
//! vestibule-inventory 1
//! d 0755 - - - .
//! f 0644 5 1700000000 2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824 etc/motd
//! l 0777 - - usr/lib lib
//! total 2 1 1 5 sha256:…
//! ```
//!
//! An entry has its type, mode in octal digits, size in bytes, seconds since 1970 of its last change,
//! content (the SHA-256 of a file, the target of a link) and name. Targets and names are
//! percent-encoded. The totals are folders, files, links and bytes.

use super::Totals;
use crate::store::digest::Digest;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use std::cmp::Ordering;
use std::fmt;

/// The first line.
pub const VERSION: &str = "vestibule-inventory 1\n";

/// What stands for itself. No line has a `%` that is none of an encoding's.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'/')
    .remove(b'.')
    .remove(b'-')
    .remove(b'_')
    .remove(b'+')
    .remove(b'@')
    .remove(b',')
    .remove(b':')
    .remove(b'=')
    .remove(b'~');

/// An entry of a tree.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// From the root, which itself is empty.
    pub path: Vec<u8>,
    /// The mode's lower twelve bits.
    pub mode: u32,
    /// What it is.
    pub kind: Kind,
}

/// What an entry is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Kind {
    /// A folder.
    Folder,
    /// A regular file.
    File {
        /// In bytes.
        size: u64,
        /// The moment of its last change, in seconds since 1970.
        time: i64,
        /// The SHA-256 of its content, in hexadecimal digits.
        content: String,
    },
    /// A symbolic link.
    Link {
        /// Where it points.
        target: Vec<u8>,
    },
}

impl Kind {
    /// The words for it in messages.
    pub fn words(&self) -> &'static str {
        match self {
            Kind::Folder => "a folder",
            Kind::File { .. } => "a file",
            Kind::Link { .. } => "a symbolic link",
        }
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mode = self.mode;
        match &self.kind {
            Kind::Folder => write!(f, "d {mode:04o} - - - ")?,
            Kind::File { size, time, content } => {
                write!(f, "f {mode:04o} {size} {time} {content} ")?;
            }
            Kind::Link { target } => {
                write!(f, "l {mode:04o} - - {} ", percent_encode(target, ENCODED))?;
            }
        }
        match self.path.as_slice() {
            [] => writeln!(f, "."),
            path => writeln!(f, "{}", percent_encode(path, ENCODED)),
        }
    }
}

/// Reads a line without its end. `None` is a line that [`Entry`] would not have written.
pub fn parse(line: &str) -> Option<Entry> {
    let fields: Vec<&str> = line.split(' ').collect();
    let [kind, mode, size, time, content, name] = *fields.as_slice() else { return None };
    let decoded = |text: &str| percent_decode_str(text).collect::<Vec<u8>>();
    let kind = match kind {
        "d" => Kind::Folder,
        "f" => Kind::File {
            size: size.parse().ok()?,
            time: time.parse().ok()?,
            content: Digest::parse(&format!("sha256:{content}"))?.hex().to_owned(),
        },
        "l" => Kind::Link { target: decoded(content) },
        _ => return None,
    };
    let path = if name == "." { Vec::new() } else { decoded(name) };
    let entry = Entry { path, mode: u32::from_str_radix(mode, 8).ok()?, kind };
    (entry.to_string().strip_suffix('\n') == Some(line)).then_some(entry)
}

/// The last line up to the digest of what is before it.
pub fn totals(totals: &Totals) -> String {
    let Totals { folders, files, links, bytes } = totals;
    format!("total {folders} {files} {links} {bytes}")
}

/// The order of a walk: a folder, what is in it by name, and only then what follows it.
pub fn order(one: &[u8], other: &[u8]) -> Ordering {
    // The root comes before everything, and an empty path would be one empty name.
    match (one.is_empty(), other.is_empty()) {
        (false, false) => one.split(|byte| *byte == b'/').cmp(other.split(|byte| *byte == b'/')),
        (one, other) => other.cmp(&one),
    }
}
