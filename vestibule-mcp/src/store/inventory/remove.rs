//! Removing trees, whole or but for some of their entries, without following a link.

use super::cursor::{Cursor, Id, id};
use nix::dir::Type;
use nix::errno::Errno;
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;

/// Whether an entry is to stay, by its folder and its name there.
pub type Keeps<'a> = &'a dyn Fn(Id, &OsStr) -> bool;

/// Removes what one name stands for: a file, a link itself, or a tree with everything in it. That there
/// is nothing is no error. Folders that their owner may not read or change are made so that he may.
///
/// # Errors
/// What the system says. Some of the tree may be gone by then.
pub fn remove(parent: BorrowedFd<'_>, name: &OsStr) -> nix::Result<()> {
    prune(parent, name, &|_, _| false)
}

/// As [`remove`], except for entries that `keeps` wants to stay and the folders that they are in.
///
/// # Errors
/// What the system says. Some of the tree may be gone by then.
pub fn prune(parent: BorrowedFd<'_>, name: &OsStr, keeps: Keeps<'_>) -> nix::Result<()> {
    let mut level = Level::new(OsString::new(), true);
    level.meet(parent, id(parent)?, name.to_owned(), None, keeps)?;
    descend(Cursor::new(parent), level, keeps)
}

/// As [`prune`] for everything that is in a folder, which itself stays.
///
/// # Errors
/// What the system says. Some of the tree may be gone by then.
pub fn prune_inside(folder: BorrowedFd<'_>, keeps: Keeps<'_>) -> nix::Result<()> {
    let cursor = Cursor::new(folder);
    let level = Level::read(&cursor, OsString::new(), true, keeps)?;
    descend(cursor, level, keeps)
}

/// A folder on the way down.
struct Level {
    name: OsString,
    /// It is to stay, or something in it is.
    stays: bool,
    /// Names in it that are left, and whether each is to stay. One that is not is a folder.
    left: Vec<(OsString, bool)>,
}

impl Level {
    fn new(name: OsString, stays: bool) -> Level {
        Level { name, stays, left: Vec::new() }
    }

    /// Removes whatever is no folder in the one that the cursor is in.
    fn read(
        cursor: &Cursor<'_>,
        name: OsString,
        stays: bool,
        keeps: Keeps<'_>,
    ) -> nix::Result<Level> {
        let mut level = Level::new(name, stays);
        let here = id(cursor.folder())?;
        for (name, kind) in cursor.names()? {
            level.meet(cursor.folder(), here, name, kind, keeps)?;
        }
        Ok(level)
    }

    fn meet(
        &mut self,
        parent: BorrowedFd<'_>,
        parent_id: Id,
        name: OsString,
        kind: Option<Type>,
        keeps: Keeps<'_>,
    ) -> nix::Result<()> {
        let is_folder = kind == Some(Type::Directory);
        if keeps(parent_id, &name) {
            self.stays = true;
            if is_folder || kind.is_none() {
                self.left.push((name, true));
            }
            return Ok(());
        }
        if !is_folder {
            match unlinkat(parent, name.as_os_str(), UnlinkatFlags::NoRemoveDir) {
                Ok(()) | Err(Errno::ENOENT) => return Ok(()),
                // Linux says this of folders, whatever the rights to them.
                Err(Errno::EISDIR) => {}
                Err(error) => return Err(error),
            }
        }
        self.left.push((name, false));
        Ok(())
    }
}

/// Works off what is left on a level and below, without a stack frame or a descriptor for each.
fn descend(mut cursor: Cursor<'_>, first: Level, keeps: Keeps<'_>) -> nix::Result<()> {
    let mut levels = vec![first];
    while let Some(level) = levels.last_mut() {
        if let Some((name, stays)) = level.left.pop() {
            match cursor.enter_own(&name) {
                Ok(()) => levels.push(Level::read(&cursor, name, stays, keeps)?),
                Err(Errno::ENOTDIR | Errno::ELOOP) if stays => {}
                Err(Errno::ENOENT) => {}
                Err(error) => return Err(error),
            }
            continue;
        }
        let done = levels.pop();
        let (Some(done), Some(above)) = (done, levels.last_mut()) else { break };
        cursor.leave()?;
        above.stays |= done.stays;
        if !done.stays {
            match unlinkat(cursor.folder(), done.name.as_os_str(), UnlinkatFlags::RemoveDir) {
                Ok(()) | Err(Errno::ENOENT) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}
