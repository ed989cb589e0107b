//! Opening on Windows: every folder on the way is held open and cannot be exchanged meanwhile.

use super::{Entries, Entry, EntryKind, OpenError, Opened, first_names};
use crate::workspace::path::RelativePath;
use std::fs::{File, Metadata, OpenOptions};
use std::os::windows::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Reading and writing by others is fine; deleting and renaming, which would exchange it, is not.
const SHARE_READ_WRITE: u32 = 0x1 | 0x2;
/// Folders can be opened, and of a link the link itself.
const BACKUP_SEMANTICS_OPEN_REPARSE_POINT: u32 = 0x0200_0000 | 0x0020_0000;
/// The attribute of links, junctions and mount points.
const REPARSE_POINT: u32 = 0x400;

/// Opens what `path` names below `root`.
///
/// # Errors
/// [`OpenError`].
pub fn open(root: &Path, path: &RelativePath, limit: usize) -> Result<Opened, OpenError> {
    let mut at = root.to_owned();
    let mut held = vec![hold(&at)?];
    for name in path.names() {
        at.push(name);
        held.push(hold(&at)?);
    }
    let Some((file, metadata)) = held.pop() else { return Err(OpenError::NotFound) };
    if metadata.is_dir() {
        return list(&at, limit).map(Opened::Folder);
    }
    if !metadata.is_file() {
        return Err(OpenError::Special("device"));
    }
    Ok(Opened::File(file, metadata.len()))
}

fn hold(path: &Path) -> Result<(File, Metadata), OpenError> {
    let file = OpenOptions::new()
        .read(true)
        .share_mode(SHARE_READ_WRITE)
        .custom_flags(BACKUP_SEMANTICS_OPEN_REPARSE_POINT)
        .open(path)?;
    let metadata = file.metadata()?;
    if metadata.file_attributes() & REPARSE_POINT != 0 {
        return Err(OpenError::Link);
    }
    Ok((file, metadata))
}

fn list(folder: &Path, limit: usize) -> Result<Entries, OpenError> {
    let names = std::fs::read_dir(folder)?.flatten().map(|entry| entry.file_name());
    let (first, total, more) = first_names(names, limit);
    let entry = |name: std::ffi::OsString| match folder.join(&name).symlink_metadata() {
        Ok(metadata) => Entry { name, kind: kind(&metadata), size: metadata.len() },
        Err(_) => Entry { name, kind: EntryKind::Gone, size: 0 },
    };
    Ok(Entries { first: first.into_iter().map(entry).collect(), total, more })
}

fn kind(metadata: &Metadata) -> EntryKind {
    if metadata.file_attributes() & REPARSE_POINT != 0 {
        EntryKind::Link
    } else if metadata.is_dir() {
        EntryKind::Folder
    } else if metadata.is_file() {
        EntryKind::File
    } else {
        EntryKind::Special("device")
    }
}
