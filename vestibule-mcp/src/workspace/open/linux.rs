//! Opening on Linux: one call in which the kernel itself refuses every way out.

use crate::workspace::path::RelativePath;
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat2};
use nix::sys::stat::Mode;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Opens `path` below `root` with `openat2` (Linux 5.6). The root itself is a real path, so a
/// symbolic link in it means that someone exchanged a folder meanwhile.
pub fn open_beneath(root: &Path, path: &RelativePath) -> Result<OwnedFd, Errno> {
    let folder = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let links = ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS;
    let slash = open("/", folder, Mode::empty())?;
    let root = openat2(&slash, root, OpenHow::new().flags(folder).resolve(links))?;
    let read = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let beneath = OpenHow::new().flags(read).resolve(links | ResolveFlag::RESOLVE_BENEATH);
    openat2(&root, path.joined().as_str(), beneath)
}
