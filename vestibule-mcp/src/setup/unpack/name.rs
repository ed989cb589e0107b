//! The names of entries.

use super::error::{BadName, UnpackError, shown};
use super::headers::NAME_MAX;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The longest part of a name in bytes that file systems of Linux take (`NAME_MAX` of the kernel).
const PART_MAX: usize = 255;

const WHITEOUT: &[u8] = b".wh.";
const METADATA: &[u8] = b".wh..wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

/// A name in the root, none of whose parts is empty, `.` or `..`.
#[derive(Debug)]
pub struct Name {
    /// The parts; the root itself has none.
    parts: Vec<OsString>,
    /// As it stands in messages.
    pub shown: String,
}

/// What a name means beside naming something.
#[derive(Debug, Eq, PartialEq)]
pub enum Special {
    /// Nothing.
    None,
    /// It hides an entry of that name beside it.
    Whiteout(OsString),
    /// It hides everything that lower layers have in its folder.
    Opaque,
    /// It is of AUFS's own housekeeping.
    Metadata,
}

impl Name {
    /// Reads a name. An absolute one is in the root as well.
    ///
    /// # Errors
    /// [`UnpackError::Name`].
    pub fn parse(name: &[u8]) -> Result<Name, UnpackError> {
        let bad = |why| Err(UnpackError::name(name, why));
        let relative = name.strip_prefix(b"/").unwrap_or(name);
        // A slash at the end only says that it is a folder.
        let relative = relative.strip_suffix(b"/").unwrap_or(relative);
        if name.is_empty() {
            return bad(BadName::Empty);
        }
        if name.len() > NAME_MAX {
            return bad(BadName::Long);
        }
        let mut parts = Vec::new();
        // `/` alone is the root.
        let split = relative.split(|byte| *byte == b'/').filter(|_| !relative.is_empty());
        for part in split {
            match part {
                b"" => return bad(BadName::EmptyPart),
                b"." => {}
                b".." => return bad(BadName::Up),
                part if part.contains(&0) => return bad(BadName::Nul),
                part if part.len() > PART_MAX => return bad(BadName::LongPart),
                part => parts.push(OsString::from_vec(part.to_vec())),
            }
        }
        Ok(Name { parts, shown: shown(name) })
    }

    /// The folders on the way, and the last part; `None` for the root.
    pub fn split(&self) -> Option<(&[OsString], &OsStr)> {
        self.parts.split_last().map(|(last, folders)| (folders, last.as_os_str()))
    }

    /// What it means beside naming something.
    ///
    /// # Errors
    /// [`UnpackError::Name`] for whiteouts that hide nothing or are folders.
    pub fn special(&self) -> Result<Special, UnpackError> {
        let Some((folders, last)) = self.split() else { return Ok(Special::None) };
        let bad = |why| Err(UnpackError::Name { name: self.shown.clone(), why });
        // Nothing in a folder of AUFS's is an entry of the image either.
        if folders.iter().any(|folder| folder.as_bytes().starts_with(METADATA)) {
            return Ok(Special::Metadata);
        }
        if folders.iter().any(|folder| folder.as_bytes().starts_with(WHITEOUT)) {
            return bad(BadName::InWhiteout);
        }
        let last = last.as_bytes();
        match last.strip_prefix(WHITEOUT) {
            None => Ok(Special::None),
            Some(_) if last == OPAQUE => Ok(Special::Opaque),
            Some(_) if last.starts_with(METADATA) => Ok(Special::Metadata),
            Some(b"" | b"." | b"..") => bad(BadName::Whiteout),
            Some(hidden) => Ok(Special::Whiteout(OsString::from_vec(hidden.to_vec()))),
        }
    }
}
