//! The folders of the sandbox that come from the machine or are made anew: system folders, `/tmp`,
//! `/workspace` and `/sandbox`.

use super::mounter::{BYTES_PER_INODE, Mounter, open_source, open_within};
use crate::plan::{Entry, EntryKind, RootPlan, Workspace};
use crate::sys::mount::Attributes;
use nix::errno::Errno;
use nix::sys::stat::fstat;
use protocol::TmpfsMib;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Takes the top folders over, read-only.
pub fn mount(world: &mut Mounter, root: &RootPlan) -> nix::Result<()> {
    let base = open_source(&root.base)?;
    for entry in &root.top {
        take_over(world, base.as_fd(), &entry.name, &entry.name, &entry.kind)?;
    }
    Ok(())
}

/// Takes one entry over from `source` below `base` to `target`. Links on the way to it stay within
/// the root file system: an image's must not lead to the machine's files.
pub fn take_over(
    world: &mut Mounter,
    base: BorrowedFd<'_>,
    source: &Path,
    target: &Path,
    kind: &EntryKind,
) -> nix::Result<()> {
    match kind {
        EntryKind::Link(to) => world.link(target, to),
        EntryKind::Folder => {
            let folder = open_within(base, source)?;
            world.folder(target)?;
            world.clone(folder.as_fd(), Path::new(""), target, Attributes::READ_ONLY, true)
        }
        EntryKind::File => {
            let file = open_within(base, source)?;
            world.file(target, b"")?;
            world.clone(file.as_fd(), Path::new(""), target, Attributes::READ_ONLY, false)
        }
    }
}

/// Covers folders of the root file system with an empty one.
pub fn mask(world: &mut Mounter, masks: &[PathBuf]) -> nix::Result<()> {
    for target in masks {
        let place = world.look_up(target)?;
        world.cover_with_nothing(place.as_fd(), target)?;
    }
    Ok(())
}

/// `/tmp`, also the guest's home.
pub fn mount_tmp(world: &mut Mounter, size: TmpfsMib) -> nix::Result<()> {
    let target = Path::new("tmp");
    world.folder(target)?;
    let bytes = u64::from(size.get()) << 20;
    let inodes = bytes / BYTES_PER_INODE;
    world.tmpfs(target, bytes, inodes, Attributes::PLAIN)
}

/// `/workspace`: the folder that the supervisor has checked, opened again in this namespace.
pub fn mount_workspace(world: &mut Mounter, workspace: &Workspace) -> nix::Result<()> {
    let folder = open_source(&workspace.path)?;
    let status = fstat(&folder)?;
    if (status.st_dev, status.st_ino) != workspace.identity {
        return Err(Errno::ESTALE);
    }
    let attributes = if workspace.read_only { Attributes::READ_ONLY } else { Attributes::PLAIN };
    let target = Path::new("workspace");
    world.folder(target)?;
    world.clone(folder.as_fd(), Path::new(""), target, attributes, true)
}

/// `/sandbox`, a folder of the root tmpfs and read-only as that. Returns a writable clone of it
/// that is attached nowhere.
pub fn make_sandbox(world: &Mounter) -> nix::Result<OwnedFd> {
    let target = Path::new("sandbox");
    world.folder(target)?;
    world.detached(target)
}

impl Entry {
    /// The entry's place when it belongs below `folder`.
    pub fn below(&self, folder: &str) -> PathBuf {
        Path::new(folder).join(&self.name)
    }
}
