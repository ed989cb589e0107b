//! The inventory of an unpacked image: what is in its folder, written once it is complete and checked
//! before it is used again. Both walk the tree itself, by descriptors and in the order of its names.
//!
//! A listing is a line of its version, one line an entry (see [`line`]), and a line of totals with the
//! SHA-256 of all lines before it: a listing that was cut or damaged is told from a tree that changed.

mod check;
pub mod cursor;
mod error;
mod line;
mod remove;
mod walk;

pub use check::check;
pub use error::{Difference, InventoryError};
pub use remove::{Keeps, prune, prune_inside, remove};

use super::digest::{Algorithm, Hasher};
use std::io::{BufWriter, Write};
use std::os::fd::BorrowedFd;
use walk::Walk;

/// The most bytes that a listing may have; that of 20,000 files has about 3 MB. What is written is limited
/// too: a layer of a megabyte can have names for gigabytes.
const LISTING_MAX: u64 = 256 << 20;

/// What a tree has. Its root is one of the folders.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Totals {
    /// Folders.
    pub folders: u64,
    /// Regular files, by their names: one with two names counts twice.
    pub files: u64,
    /// Symbolic links.
    pub links: u64,
    /// Bytes in the files, likewise.
    pub bytes: u64,
}

/// Lists the tree below `root`, which must be of the caller's user and have nothing but folders, regular
/// files and symbolic links without set-id bits.
///
/// # Errors
/// [`InventoryError`].
pub fn write(root: BorrowedFd<'_>, out: &mut impl Write) -> Result<Totals, InventoryError> {
    write_within(root, out, LISTING_MAX)
}

fn write_within(
    root: BorrowedFd<'_>,
    out: &mut impl Write,
    limit: u64,
) -> Result<Totals, InventoryError> {
    let mut out = BufWriter::new(out);
    let mut hasher = Hasher::new(Algorithm::Sha256);
    let mut size = 0;
    let mut put = |text: &str| {
        size += text.len() as u64;
        // The line of totals comes on top.
        if size > limit.saturating_sub(200) {
            return Err(InventoryError::Long(limit));
        }
        hasher.update(text.as_bytes());
        out.write_all(text.as_bytes()).map_err(|error| InventoryError::write(&error))
    };
    put(line::VERSION)?;
    let mut totals = Totals::default();
    let mut walk = Walk::new(root);
    while let Some(found) = walk.step()? {
        let entry = walk.entry(&found)?;
        totals.add(&entry);
        put(&entry.to_string())?;
    }
    let last = format!("{} {}\n", line::totals(&totals), hasher.finish());
    let written = out.write_all(last.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| InventoryError::write(&error))?;
    Ok(totals)
}

impl Totals {
    fn add(&mut self, entry: &line::Entry) {
        match &entry.kind {
            line::Kind::Folder => self.folders += 1,
            line::Kind::Link { .. } => self.links += 1,
            line::Kind::File { size, .. } => {
                self.files += 1;
                self.bytes += size;
            }
        }
    }
}

#[cfg(test)]
#[path = "inventory/tests.rs"]
mod tests;
