//! Going down and up a tree by descriptors. One of them is open at a time, however deep the tree is,
//! and no link is ever followed.

use nix::dir::{Dir, Type};
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, fchmod, fstat};
use std::ffi::{OsStr, OsString};
use std::fs::Permissions;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;

/// What tells one folder from all others that there are: device and inode.
pub type Id = (u64, u64);

/// The identity of what is open.
///
/// # Errors
/// What the system says.
pub fn id(descriptor: impl AsFd) -> nix::Result<Id> {
    let stat = fstat(descriptor)?;
    Ok((stat.st_dev, stat.st_ino))
}

/// Opens a folder by one name, for reading it.
///
/// # Errors
/// What the system says: `ENOTDIR` for a link or anything else that is no folder.
pub fn open_folder(parent: impl AsFd, name: &OsStr) -> nix::Result<OwnedFd> {
    openat(parent, name, FOLDER | OFlag::O_RDONLY, Mode::empty())
}

/// As [`open_folder`], and gives the owner all rights to it first.
///
/// # Errors
/// What the system says. That the rights could not be given is no error: the caller may not need them.
pub fn open_own_folder(parent: impl AsFd, name: &OsStr) -> nix::Result<OwnedFd> {
    let folder = match open_folder(&parent, name) {
        Err(Errno::EACCES) => {
            // Without the right to read it, it can be opened as a mere place. `fchmod` refuses that
            // descriptor, its path in /proc leads to the same folder and nowhere else.
            let place = openat(&parent, name, FOLDER | OFlag::O_PATH, Mode::empty())?;
            let path = format!("/proc/self/fd/{}", place.as_raw_fd());
            std::fs::set_permissions(path, Permissions::from_mode(0o700))
                .map_err(|error| error.raw_os_error().map_or(Errno::EACCES, Errno::from_raw))?;
            open_folder(&parent, name)?
        }
        other => other?,
    };
    let mode = Mode::from_bits_truncate(fstat(&folder)?.st_mode);
    if !mode.contains(Mode::S_IRWXU) {
        let _ = fchmod(&folder, mode | Mode::S_IRWXU);
    }
    Ok(folder)
}

const FOLDER: OFlag = OFlag::O_DIRECTORY.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// A place in a tree.
pub struct Cursor<'a> {
    base: BorrowedFd<'a>,
    /// The folder that it is in, unless that is the base.
    inner: Option<OwnedFd>,
    /// The folders from below the base down to it.
    ids: Vec<Id>,
}

impl<'a> Cursor<'a> {
    /// Begins at a folder, above which it never gets.
    pub fn new(base: BorrowedFd<'a>) -> Cursor<'a> {
        Cursor { base, inner: None, ids: Vec::new() }
    }

    /// The folder that it is in.
    pub fn folder(&self) -> BorrowedFd<'_> {
        self.inner.as_ref().map_or(self.base, |folder| folder.as_fd())
    }

    /// Goes down into a folder.
    ///
    /// # Errors
    /// Those of [`open_folder`]; it stays where it is then.
    pub fn enter(&mut self, name: &OsStr) -> nix::Result<()> {
        let folder = open_folder(self.folder(), name)?;
        self.go(folder)
    }

    /// Goes down into a folder whose owner gets all rights to it first.
    ///
    /// # Errors
    /// Those of [`open_own_folder`]; it stays where it is then.
    pub fn enter_own(&mut self, name: &OsStr) -> nix::Result<()> {
        let folder = open_own_folder(self.folder(), name)?;
        self.go(folder)
    }

    fn go(&mut self, folder: OwnedFd) -> nix::Result<()> {
        self.ids.push(id(&folder)?);
        self.inner = Some(folder);
        Ok(())
    }

    /// Goes up again.
    ///
    /// # Errors
    /// What the system says, and `ESTALE` when somebody has moved a folder meanwhile: what `..` means
    /// then may lie anywhere.
    pub fn leave(&mut self) -> nix::Result<()> {
        self.ids.pop();
        let Some(expected) = self.ids.last() else {
            self.inner = None;
            return Ok(());
        };
        let above = open_folder(self.folder(), OsStr::new(".."))?;
        if id(&above)? != *expected {
            return Err(Errno::ESTALE);
        }
        self.inner = Some(above);
        Ok(())
    }

    /// The names in the folder that it is in, in no order, and what each is where the file system
    /// tells.
    ///
    /// # Errors
    /// What the system says.
    pub fn names(&self) -> nix::Result<Vec<(OsString, Option<Type>)>> {
        let mut names = Vec::new();
        for entry in Dir::from_fd(open_folder(self.folder(), OsStr::new("."))?)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                names.push((OsString::from_vec(name.to_vec()), entry.file_type()));
            }
        }
        Ok(names)
    }
}
