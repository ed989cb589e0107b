//! The folders of the sandbox that come from the machine or are made anew: system folders, `/tmp`,
//! `/workspace` and `/sandbox`.

use super::mounter::{BYTES_PER_INODE, Mounter, open_source, open_within};
use crate::plan::{Entry, EntryKind, RootPlan, Workspace};
use crate::sys::mount::{Attributes, clone_tree};
use nix::errno::Errno;
use nix::sys::stat::{SFlag, fstat};
use protocol::environment::BYTECODE;
use protocol::{Rootfs, TmpfsMib};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Takes the top folders over, read-only.
pub fn mount(world: &mut Mounter, root: &RootPlan) -> nix::Result<()> {
    let source = Source::open(root)?;
    for entry in &root.top {
        source.take_over(world, &entry.name, &entry.name, &entry.kind)?;
    }
    if let Some(tree) = &root.bytecode {
        mount_bytecode(world, tree)?;
    }
    Ok(())
}

/// Shows compiled python modules. A tree that cannot be had, such as one with mounts below it, is left out:
/// without it the same programs run, only slower. From there on a failure is the sandbox's own and refuses
/// it. Its place is made all the same, of the root's own and read-only as that: the guest's environment names
/// it, and python, which asks for the folders above a file until one is there, would take what has no root
/// for a name in its working folder, and write there.
fn mount_bytecode(world: &mut Mounter, tree: &Path) -> nix::Result<()> {
    let target = Path::new(BYTECODE.trim_start_matches('/'));
    world.folder(target)?;
    let Ok(cloned) = clone_bytecode(tree) else { return Ok(()) };
    world.restrict(cloned.as_fd(), target, Attributes::READ_ONLY, false)?;
    world.attach(cloned.as_fd(), target)
}

/// A clone of the tree that is attached nowhere yet.
fn clone_bytecode(tree: &Path) -> nix::Result<OwnedFd> {
    let folder = open_source(tree)?;
    if SFlag::from_bits_truncate(fstat(&folder)?.st_mode) & SFlag::S_IFMT != SFlag::S_IFDIR {
        return Err(Errno::ENOTDIR);
    }
    clone_tree(folder.as_fd(), "", false)
}

/// Where entries are taken over from.
#[derive(Debug)]
pub struct Source {
    base: OwnedFd,
    /// An image's links must not lead to the machine's files; those of the machine itself are its
    /// owner's.
    within: bool,
}

impl Source {
    /// Opens the root of a root file system.
    pub fn open(root: &RootPlan) -> nix::Result<Source> {
        let within = root.source != Rootfs::Host;
        let base = open_source(&root.base)?;
        let status = fstat(&base)?;
        if (status.st_dev, status.st_ino) != root.identity {
            return Err(Errno::ESTALE);
        }
        Ok(Source { base, within })
    }

    /// Takes one entry over from `source` to `target`.
    pub fn take_over(
        &self,
        world: &mut Mounter,
        source: &Path,
        target: &Path,
        kind: &EntryKind,
    ) -> nix::Result<()> {
        match kind {
            EntryKind::Link(to) => return world.link(target, to),
            EntryKind::Folder => world.folder(target)?,
            EntryKind::File => world.place(target)?,
        }
        let recursive = *kind == EntryKind::Folder;
        if self.within {
            let opened = open_within(self.base.as_fd(), source)?;
            let here = Path::new("");
            return world.clone(opened.as_fd(), here, target, Attributes::READ_ONLY, recursive);
        }
        world.clone(self.base.as_fd(), source, target, Attributes::READ_ONLY, recursive)
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
