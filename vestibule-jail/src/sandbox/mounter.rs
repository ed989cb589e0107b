//! Building a tree of mounts below a root tmpfs of our own. Every mount point is made here or is
//! looked up without following a symbolic link, so nothing can redirect a mount.

use crate::sys::mount::{self, Attributes};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::mount::{MntFlags, MsFlags, umount2};
use nix::sys::stat::{Mode, SFlag, mkdirat, mknodat};
use nix::unistd::{chdir, fchdir, pivot_root, symlinkat, write};
use protocol::CodeBytes;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Makes every mount private, recursively.
pub fn make_private() -> nix::Result<()> {
    let flags = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    nix::mount::mount(None::<&str>, "/", None::<&str>, flags, None::<&str>)
}

/// Detaches the old root, which `pivot` left mounted over the new one.
pub fn detach_old_root() -> nix::Result<()> {
    umount2(".", MntFlags::MNT_DETACH)?;
    chdir("/")
}

/// One inode for each of that many bytes of a tmpfs, so that empty files cannot fill the kernel's
/// memory.
pub const BYTES_PER_INODE: u64 = 4096;

/// An empty folder of the new root: what covers other folders is a clone of it.
const EMPTY: &str = "run";

/// The new root and what is still to be done to its mounts.
#[derive(Debug)]
pub struct Mounter {
    root: OwnedFd,
    /// Restrictions that a kernel without `mount_setattr` can only set by path, after the pivot.
    later: Vec<(PathBuf, Attributes, bool)>,
}

impl Mounter {
    /// Mounts a tmpfs over the old root, which stays where paths of this process begin. It has room
    /// for the largest script and little else.
    pub fn over_the_root() -> nix::Result<Mounter> {
        let size = u64::from(CodeBytes::MAX) + 128 * BYTES_PER_INODE;
        let root = new_tmpfs(size, 256, c"755", Attributes::PLAIN)?;
        let old = open_source(Path::new("/"))?;
        mount::attach(root.as_fd(), old.as_fd(), "")?;
        let world = Mounter { root, later: Vec::new() };
        world.folder(Path::new(EMPTY))?;
        Ok(world)
    }

    /// Makes a folder.
    pub fn folder(&self, path: &Path) -> nix::Result<()> {
        mkdirat(&self.root, path, Mode::from_bits_truncate(0o755))
    }

    /// Makes the folders above `path` that are missing.
    pub fn parents(&self, path: &Path) -> nix::Result<()> {
        let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else {
            return Ok(());
        };
        match self.folder(parent) {
            Err(Errno::ENOENT) => {
                self.parents(parent)?;
                self.folder(parent)
            }
            Err(Errno::EEXIST) => Ok(()),
            made => made,
        }
    }

    /// Makes an empty file, which is also a place to attach a file's clone at.
    pub fn place(&self, path: &Path) -> nix::Result<()> {
        mknodat(&self.root, path, SFlag::S_IFREG, Mode::from_bits_truncate(0o644), 0)
    }

    /// Makes a file with this content.
    pub fn file(&self, path: &Path, content: &[u8]) -> nix::Result<()> {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        let file = openat(&self.root, path, flags, Mode::from_bits_truncate(0o644))?;
        if write(&file, content)? != content.len() {
            return Err(Errno::ENOSPC);
        }
        Ok(())
    }

    /// Makes a symbolic link.
    pub fn link(&self, path: &Path, target: &Path) -> nix::Result<()> {
        symlinkat(target, &self.root, path)
    }

    /// Opens a place in what was taken over, without following any symbolic link.
    pub fn look_up(&self, path: &Path) -> nix::Result<OwnedFd> {
        let how = OpenHow::new()
            .flags(OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC)
            .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_SYMLINKS);
        openat2(&self.root, path, how)
    }

    /// Mounts a tmpfs that anyone inside may write to; sizes are in bytes.
    pub fn tmpfs(
        &self,
        target: &Path,
        size: u64,
        inodes: u64,
        attributes: Attributes,
    ) -> nix::Result<()> {
        let mounted = new_tmpfs(size, inodes, c"1777", attributes)?;
        self.attach(mounted.as_fd(), target)
    }

    /// Clones `source` below `base` to a place of our own, restricted before it is attached.
    pub fn clone(
        &mut self,
        base: BorrowedFd<'_>,
        source: &Path,
        target: &Path,
        attributes: Attributes,
        recursive: bool,
    ) -> nix::Result<()> {
        let cloned = mount::clone_tree(base, source, recursive)?;
        self.restrict(cloned.as_fd(), target, attributes, recursive)?;
        self.attach(cloned.as_fd(), target)
    }

    /// Clones `source` over `place`, which was looked up at `target`.
    pub fn cover(
        &mut self,
        source: BorrowedFd<'_>,
        place: BorrowedFd<'_>,
        target: &Path,
        attributes: Attributes,
    ) -> nix::Result<()> {
        let cloned = mount::clone_tree(source, "", false)?;
        self.restrict(cloned.as_fd(), target, attributes, false)?;
        mount::attach(cloned.as_fd(), place, "")
    }

    /// Covers `place`, which was looked up at `target`, with an empty folder.
    pub fn cover_with_nothing(&mut self, place: BorrowedFd<'_>, target: &Path) -> nix::Result<()> {
        let cloned = mount::clone_tree(self.root.as_fd(), EMPTY, false)?;
        self.restrict(cloned.as_fd(), target, Attributes::READ_ONLY, false)?;
        mount::attach(cloned.as_fd(), place, "")
    }

    /// A clone of one of our folders that is attached nowhere, with the attributes of the root.
    pub fn detached(&self, folder: &Path) -> nix::Result<OwnedFd> {
        mount::clone_tree(self.root.as_fd(), folder, false)
    }

    /// Adds attributes to a mount, now or, on kernels before 5.12, after the pivot.
    pub fn restrict(
        &mut self,
        mounted: BorrowedFd<'_>,
        target: &Path,
        attributes: Attributes,
        recursive: bool,
    ) -> nix::Result<()> {
        match mount::set_attributes(mounted, attributes, recursive) {
            Err(Errno::ENOSYS) => {
                self.later.push((Path::new("/").join(target), attributes, recursive));
                Ok(())
            }
            done => done,
        }
    }

    /// Attaches a mount at a place of our own: a folder or file that this process has made in the
    /// root tmpfs or in a tmpfs below it, so that no symbolic link can be on the way.
    pub fn attach(&self, mounted: BorrowedFd<'_>, target: &Path) -> nix::Result<()> {
        mount::attach(mounted, self.root.as_fd(), target)
    }

    /// Makes the tmpfs the root. The old root ends up on top of it, as the working folder.
    pub fn pivot(&self) -> nix::Result<()> {
        fchdir(&self.root)?;
        pivot_root(".", ".")
    }

    /// Makes the root itself read-only, and catches up on what `mount_setattr` could not do.
    pub fn finish(&mut self) -> nix::Result<()> {
        let root = self.root.try_clone().map_err(|error| crate::plan::errno(&error))?;
        self.restrict(root.as_fd(), Path::new(""), Attributes::READ_ONLY, false)?;
        if self.later.is_empty() { Ok(()) } else { remount_all(&self.later) }
    }
}

/// A detached tmpfs; sizes are in bytes.
fn new_tmpfs(size: u64, inodes: u64, mode: &CStr, attributes: Attributes) -> nix::Result<OwnedFd> {
    let text = |number: u64| CString::new(number.to_string()).map_err(|_| Errno::EINVAL);
    let (size, inodes) = (text(size)?, text(inodes)?);
    let options = [(c"size", size.as_c_str()), (c"nr_inodes", &inodes), (c"mode", mode)];
    mount::new_filesystem(c"tmpfs", &options, attributes)
}

/// Opens a folder or file of the old root in this mount namespace: a descriptor from before the
/// clone belongs to the old namespace, where nothing can be cloned from.
pub fn open_source(path: &Path) -> nix::Result<OwnedFd> {
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    openat2(AT_FDCWD, path, how)
}

/// Opens `path` below `base` as if `base` were the root, without following its last component.
pub fn open_within(base: BorrowedFd<'_>, path: &Path) -> nix::Result<OwnedFd> {
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    openat2(base, path, how)
}

/// Restricts mounts by path, keeping the flags they have: an unprivileged remount may only add.
fn remount_all(wanted: &[(PathBuf, Attributes, bool)]) -> nix::Result<()> {
    let table = crate::procfs::read(Path::new("/proc/self/mountinfo"))?;
    for mounted in crate::mountinfo::parse(&table) {
        let covers = |(path, _, recursive): &&(PathBuf, Attributes, bool)| {
            *path == mounted.point || (*recursive && mounted.point.starts_with(path))
        };
        // A later entry is deeper and more specific than an earlier one.
        let Some((_, attributes, _)) = wanted.iter().rev().find(covers) else { continue };
        let path = CString::new(mounted.point.as_os_str().as_bytes()).map_err(|_| Errno::EINVAL)?;
        mount::remount_bind(&path, attributes.as_mount_flags() | flags_of(&mounted))?;
    }
    Ok(())
}

fn flags_of(mounted: &crate::mountinfo::Mount<'_>) -> libc::c_ulong {
    let table = [
        ("ro", libc::MS_RDONLY),
        ("nosuid", libc::MS_NOSUID),
        ("nodev", libc::MS_NODEV),
        ("noexec", libc::MS_NOEXEC),
        ("noatime", libc::MS_NOATIME),
        ("nodiratime", libc::MS_NODIRATIME),
        ("relatime", libc::MS_RELATIME),
    ];
    let set = table.iter().filter(|(option, _)| mounted.has(option));
    set.fold(0, |flags, (_, flag)| flags | flag)
}
