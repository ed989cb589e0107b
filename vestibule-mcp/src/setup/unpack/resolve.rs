//! The way to an entry's folder, with the image's root as `/`.
//!
//! It is walked here, one name at a time, and no open follows a link: where a name is a link, its target
//! is walked instead, and `..` goes back on the stack of folders that are open, whose bottom is the root.
//! `openat2` with `RESOLVE_IN_ROOT` (Linux 5.6) resolves alike, but makes no missing folders, does not
//! tell how deep a folder lies, and is refused with `EPERM` under older container engines.

use super::Unpacker;
use super::error::{Step, UnpackError};
use super::name::Name;
use crate::store::inventory::cursor::open_own_folder;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, readlinkat};
use nix::sys::stat::{Mode, fchmod, mkdirat};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// The most folders that may be in each other below the root. As many descriptors are open at a time.
pub const DEPTH_MAX: usize = 128;

/// The most links on one way, as in the kernel (`MAXSYMLINKS`).
const LINKS_MAX: usize = 40;

/// The most parts that are walked on one way, those of links among them. Few links can have very many, and each
/// entry below them walks all.
const PARTS_MAX: usize = 2048;

/// What to do about folders that are missing.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Missing {
    /// Make them.
    Make,
    /// Stop there.
    Stop,
}

impl Unpacker {
    /// Opens the folder that `folders` lead to, as a mere place. `None` when it is missing and that is
    /// where to stop.
    pub(super) fn reach(
        &mut self,
        name: &Name,
        folders: &[OsString],
        missing: Missing,
    ) -> Result<Option<OwnedFd>, UnpackError> {
        let ahead = folders.iter().cloned().collect();
        let mut way = Way { open: Vec::new(), ahead, links: 0, walked: 0 };
        let os = |errno| UnpackError::os(Step::Reach, &name.shown, errno);
        while let Some(part) = way.ahead.pop_front() {
            way.walked += 1;
            if way.walked > PARTS_MAX {
                return Err(UnpackError::Way { name: name.shown.clone(), limit: PARTS_MAX });
            }
            match part.as_bytes() {
                b"" | b"." => continue,
                b".." => {
                    // Above the root is the root.
                    way.open.pop();
                    continue;
                }
                _ => {}
            }
            let here = way.here(&self.root);
            match openat(here, part.as_os_str(), PLACE, Mode::empty()) {
                Ok(folder) => way.open.push(folder),
                Err(Errno::ENOENT) if missing == Missing::Make => {
                    let here = here.try_clone_to_owned().map_err(|error| os(errno_of(&error)))?;
                    let made = self.make_folder(name, here.as_fd(), &part)?;
                    way.open.push(made);
                }
                Err(Errno::ENOENT) => return Ok(None),
                Err(Errno::ENOTDIR | Errno::ELOOP) => {
                    match readlinkat(here, part.as_os_str()) {
                        Ok(target) => way.turn(&target, name)?,
                        Err(Errno::EINVAL) if missing == Missing::Stop => return Ok(None),
                        Err(Errno::EINVAL) => {
                            return Err(UnpackError::NoFolder(name.shown.clone()));
                        }
                        Err(errno) => return Err(os(errno)),
                    };
                }
                Err(errno) => return Err(os(errno)),
            }
            // One below the folder is the entry itself.
            if way.open.len() >= DEPTH_MAX {
                return Err(UnpackError::Deep { name: name.shown.clone(), limit: DEPTH_MAX });
            }
        }
        let last = match way.open.pop() {
            Some(last) => Ok(last),
            None => self.root.try_clone(),
        };
        last.map(Some).map_err(|error| os(errno_of(&error)))
    }

    /// Makes a folder that has no entry of its own, and opens it.
    fn make_folder(
        &mut self,
        name: &Name,
        parent: BorrowedFd<'_>,
        part: &OsStr,
    ) -> Result<OwnedFd, UnpackError> {
        self.count(&name.shown)?;
        let os = |errno| UnpackError::os(Step::Folder, &name.shown, errno);
        mkdirat(parent, part, Mode::S_IRWXU).map_err(os)?;
        let folder = open_own_folder(parent, part).map_err(os)?;
        fchmod(&folder, super::place::folder_mode(0o755)).map_err(os)?;
        self.mark(parent, part).map_err(os)?;
        Ok(folder)
    }
}

const PLACE: OFlag =
    OFlag::O_PATH.union(OFlag::O_DIRECTORY).union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

struct Way {
    /// The folders from below the root down to where it is.
    open: Vec<OwnedFd>,
    /// The names that are to be walked.
    ahead: VecDeque<OsString>,
    links: usize,
    walked: usize,
}

impl Way {
    fn here<'a>(&'a self, root: &'a OwnedFd) -> BorrowedFd<'a> {
        self.open.last().unwrap_or(root).as_fd()
    }

    /// Goes on by a link's target, from the root when it is absolute.
    fn turn(&mut self, target: &OsStr, name: &Name) -> Result<(), UnpackError> {
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(UnpackError::Links(name.shown.clone()));
        }
        let target = target.as_bytes();
        if target.starts_with(b"/") {
            self.open.clear();
        }
        for part in target.rsplit(|byte| *byte == b'/') {
            self.ahead.push_front(OsString::from_vec(part.to_vec()));
        }
        Ok(())
    }
}

/// What the system said, where the library keeps it within its own error.
pub fn errno_of(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}
