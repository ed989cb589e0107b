//! Opening on Unix systems without `openat2`: name by name, each below the descriptor of the last.

use crate::workspace::path::RelativePath;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::Mode;
use std::os::fd::OwnedFd;
use std::path::Path;

/// Opens `path` below `root`. No name of it is followed if it is a symbolic link, and a name cannot
/// be `..`, so there is no way out, whatever is exchanged meanwhile.
pub fn open_beneath(root: &Path, path: &RelativePath) -> Result<OwnedFd, Errno> {
    let base = OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let folder = base | OFlag::O_DIRECTORY;
    let mut at = open(root, folder, Mode::empty())?;
    let Some((last, above)) = path.names().split_last() else { return Ok(at) };
    for name in above {
        // With both flags a link is ENOTDIR on some systems: it is "not found" either way.
        at = openat(&at, name.as_str(), folder, Mode::empty())?;
    }
    openat(&at, last.as_str(), base | OFlag::O_NOCTTY, Mode::empty())
}
