//! Opening on Unix: by descriptor, so that what was checked is what is read.

#[cfg(target_os = "linux")]
use super::linux::open_beneath;
#[cfg(not(target_os = "linux"))]
use super::other_unix::open_beneath;
use super::{Entries, Entry, EntryKind, OpenError, Opened, first_names};
use crate::workspace::path::RelativePath;
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::sys::stat::{FileStat, SFlag, fstat, fstatat};
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

/// Opens what `path` names below `root`. Never waits: a FIFO without a writer is found out, not read.
///
/// # Errors
/// [`OpenError`].
pub fn open(root: &Path, path: &RelativePath, limit: usize) -> Result<Opened, OpenError> {
    let descriptor = open_beneath(root, path).map_err(refusal)?;
    let stat = fstat(&descriptor).map_err(refusal)?;
    match kind(&stat) {
        EntryKind::File => Ok(Opened::File(File::from(descriptor), size(&stat))),
        EntryKind::Folder => list(descriptor, limit).map(Opened::Folder),
        EntryKind::Link => Err(OpenError::Link),
        EntryKind::Special(what) => Err(OpenError::Special(what)),
        EntryKind::Gone => Err(OpenError::NotFound),
    }
}

fn list(folder: OwnedFd, limit: usize) -> Result<Entries, OpenError> {
    let beside = folder.try_clone()?;
    let names = Dir::from_fd(folder).map_err(refusal)?.into_iter().flatten().filter_map(|entry| {
        let name = entry.file_name().to_bytes();
        let real = name != b"." && name != b"..";
        real.then(|| OsString::from_vec(name.to_vec()))
    });
    let (first, total, more) = first_names(names, limit);
    let entry =
        |name: OsString| match fstatat(&beside, name.as_os_str(), AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => Entry { name, kind: kind(&stat), size: size(&stat) },
            Err(_) => Entry { name, kind: EntryKind::Gone, size: 0 },
        };
    Ok(Entries { first: first.into_iter().map(entry).collect(), total, more })
}

fn kind(stat: &FileStat) -> EntryKind {
    let format = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
    match format {
        SFlag::S_IFREG => EntryKind::File,
        SFlag::S_IFDIR => EntryKind::Folder,
        SFlag::S_IFLNK => EntryKind::Link,
        SFlag::S_IFIFO => EntryKind::Special("fifo"),
        SFlag::S_IFSOCK => EntryKind::Special("socket"),
        _ => EntryKind::Special("device"),
    }
}

fn size(stat: &FileStat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

fn refusal(errno: Errno) -> OpenError {
    match errno {
        // A link where none may be; leaving the workspace by way of one.
        Errno::ELOOP | Errno::EXDEV => OpenError::Link,
        // What open(2) says of a socket or a device without a driver.
        Errno::ENXIO | Errno::EOPNOTSUPP => OpenError::Special("socket or device"),
        Errno::ENAMETOOLONG => OpenError::NotFound,
        errno => std::io::Error::from(errno).into(),
    }
}
