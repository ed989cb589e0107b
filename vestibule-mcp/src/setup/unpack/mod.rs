//! Unpacking the layers of an image into one folder, as an ordinary user.
//!
//! Nothing that a layer says reaches outside that folder: every name is resolved one component at a
//! time by descriptors that never follow a link (see [`resolve`]), so links mean what they would mean
//! with the folder as `/`. Owners, set-id bits, extended attributes and devices are left out.

mod error;
pub(super) mod headers;
mod name;
mod place;
mod resolve;
mod stream;
mod whiteout;

pub use error::{BadName, Step, UnpackError};

use crate::store::digest::Digest;
use crate::store::inventory::cursor::{Id, id, open_folder};
use headers::{Extensions, Item, Kind};
use name::{Name, Special};
use nix::errno::Errno;
use nix::sys::stat::fchmod;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufReader, Read};
use std::os::fd::{AsFd, OwnedFd};
use stream::{Metered, OverLimit};

/// How much is read at a time, in bytes.
const BUFFER: usize = 64 << 10;

/// How many bytes an entry may take in a layer beside its file's content: its headers, those of its
/// long names and attributes, and the padding. What is allowed for all entries together.
const OVERHEAD: u64 = 4096;

/// How much all layers of one image together may make.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Budget {
    /// Bytes in files and links.
    pub bytes: u64,
    /// Entries, those that are skipped and folders that are made without an entry of their own included.
    pub entries: u64,
}

/// What was done so far, over all layers.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Summary {
    /// Entries that were read, and folders that were made without one.
    pub entries: u64,
    /// Bytes that were written to files and links.
    pub bytes: u64,
    /// Devices that were left out.
    pub devices: u64,
    /// Fifos that were left out. Sockets have no type in archives.
    pub fifos: u64,
    /// Entries that lost a set-user-id, set-group-id or sticky bit.
    pub mode_bits: u64,
    /// Extended attributes that were left out, those of access lists and capabilities included.
    pub attributes: u64,
    /// Entries that hide others below.
    pub whiteouts: u64,
    /// Entries of AUFS's own that were skipped.
    pub metadata: u64,
}

/// Unpacks layers, the lowest first.
pub struct Unpacker {
    root: OwnedFd,
    budget: Budget,
    summary: Summary,
    /// Bytes that the layers decoded to.
    decoded: u64,
    /// What this layer made, by folder and name: its whiteouts hide only what others made. Inodes of
    /// files would not do, as hard links share them. A folder's inode that was removed and used again is
    /// one of this layer, and so is everything in it.
    made: HashSet<(Id, OsString)>,
    /// What this layer has hidden, by folder and name, an empty one standing for all of it: nothing from
    /// below comes there again, and to look through a large folder for each of many whiteouts takes days.
    hidden: HashSet<(Id, OsString)>,
    buffer: Vec<u8>,
    is_root_set: bool,
}

impl Unpacker {
    /// Unpacks into `root`, a folder of the caller's user that nobody else changes meanwhile.
    pub fn new(root: OwnedFd, budget: Budget) -> Unpacker {
        Unpacker {
            root,
            budget,
            summary: Summary::default(),
            decoded: 0,
            made: HashSet::new(),
            hidden: HashSet::new(),
            buffer: vec![0; BUFFER],
            is_root_set: false,
        }
    }

    /// What was done so far.
    pub fn summary(&self) -> Summary {
        self.summary
    }

    /// Puts a layer on top. `decoded` is read to its very end, what follows the archive's end included,
    /// and must have the digest `diff_id`.
    ///
    /// # Errors
    /// [`UnpackError`]. What is in the folder by then is of no use.
    pub fn layer(&mut self, decoded: impl Read, diff_id: &Digest) -> Result<(), UnpackError> {
        self.made.clear();
        self.hidden.clear();
        if !self.is_root_set {
            self.set_root_mode(0o755)?;
            self.is_root_set = true;
        }
        let allowed =
            self.budget.entries.saturating_mul(OVERHEAD).saturating_add(self.budget.bytes);
        let left = allowed.saturating_sub(self.decoded);
        let metered = Metered::new(decoded, diff_id.hasher(), left);
        let mut archive = tar::Archive::new(BufReader::with_capacity(BUFFER, metered));
        let mut last = String::new();
        let read = |error: &io::Error, last: &str| self::read_error(error, last, allowed);
        let mut ahead = Extensions::default();
        // The raw entries: extended headers are read here, as the crate would read them into memory
        // without a limit, and splits them at newlines, which names and attributes may have.
        for entry in archive.entries().map_err(|error| read(&error, &last))?.raw(true) {
            let mut entry = entry.map_err(|error| read(&error, &last))?;
            if ahead.take(&mut entry).map_err(|error| read(&error, &last))? {
                continue;
            }
            let item = std::mem::take(&mut ahead).item(&entry);
            let item = item.map_err(|error| read(&error, &last))?;
            last = error::shown(&item.name);
            self.apply(&item, &mut entry, allowed)?;
        }
        if !ahead.is_empty() {
            let why = "an extended header at its end is of no entry";
            return Err(UnpackError::Archive { after: last, why: why.to_owned() });
        }
        let mut rest = archive.into_inner();
        io::copy(&mut rest, &mut io::sink()).map_err(|error| read(&error, &last))?;
        let (size, found) = rest.into_inner().finish();
        self.decoded += size;
        match found == *diff_id {
            true => Ok(()),
            false => Err(UnpackError::DiffId { expected: diff_id.clone(), found }),
        }
    }

    /// Does what one entry says.
    fn apply(
        &mut self,
        item: &Item,
        data: &mut impl Read,
        allowed: u64,
    ) -> Result<(), UnpackError> {
        let name = Name::parse(&item.name)?;
        self.count(&name.shown)?;
        self.summary.attributes += item.attributes;
        match name.special()? {
            Special::None => {}
            Special::Metadata => {
                self.summary.metadata += 1;
                return Ok(());
            }
            Special::Whiteout(hidden) => return self.hide(&name, &hidden),
            Special::Opaque => return self.hide_all(&name),
        }
        if matches!(item.kind, Kind::File | Kind::Folder) && item.mode & 0o7000 != 0 {
            self.summary.mode_bits += 1;
        }
        match item.kind {
            Kind::Folder => self.folder(&name, item.mode),
            Kind::File => self.file(&name, item, data, allowed),
            Kind::Symlink => self.symlink(&name, &item.link),
            Kind::HardLink => self.hard_link(&name, &item.link),
            Kind::Device => {
                self.summary.devices += 1;
                self.nothing(&name)
            }
            Kind::Fifo => {
                self.summary.fifos += 1;
                self.nothing(&name)
            }
        }
    }

    /// Counts an entry.
    fn count(&mut self, name: &str) -> Result<(), UnpackError> {
        if self.summary.entries >= self.budget.entries {
            let limit = self.budget.entries;
            return Err(UnpackError::Entries { name: name.to_owned(), limit });
        }
        self.summary.entries += 1;
        Ok(())
    }

    /// Counts bytes before they are written.
    fn spend(&mut self, name: &Name, bytes: u64) -> Result<(), UnpackError> {
        let limit = self.budget.bytes;
        match self.summary.bytes.checked_add(bytes) {
            Some(sum) if sum <= limit => {
                self.summary.bytes = sum;
                Ok(())
            }
            _ => Err(UnpackError::Bytes { name: name.shown.clone(), limit }),
        }
    }

    /// Remembers that this layer made `name` in `folder`.
    fn mark(&mut self, folder: impl AsFd, name: &OsStr) -> Result<(), Errno> {
        self.made.insert((id(folder)?, name.to_owned()));
        Ok(())
    }

    fn set_root_mode(&self, mode: u32) -> Result<(), UnpackError> {
        // What the caller opened may be a mere place, whose mode cannot be set.
        let set = open_folder(&self.root, OsStr::new("."))
            .and_then(|root| fchmod(root, place::folder_mode(mode)));
        set.map_err(|errno| UnpackError::os(Step::Mode, ".", errno))
    }
}

/// What reading the archive came to.
fn read_error(error: &io::Error, after: &str, allowed: u64) -> UnpackError {
    if error.get_ref().is_some_and(|inner| inner.is::<OverLimit>()) {
        return UnpackError::Decoded { after: after.to_owned(), limit: allowed };
    }
    let why = crate::escape::for_display(&error.to_string(), 300);
    UnpackError::Archive { after: after.to_owned(), why }
}

#[cfg(test)]
mod tests;
