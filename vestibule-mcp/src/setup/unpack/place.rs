//! Putting an entry in its place: always by its folder's descriptor and its last name alone, which is
//! never followed. Modes and times are set by the descriptor of what was just made.

use super::error::{BadName, Step, UnpackError, shown};
use super::headers::Item;
use super::name::Name;
use super::resolve::{Missing, errno_of};
use super::{Unpacker, read_error};
use crate::store::inventory::cursor::{id, open_own_folder};
use crate::store::inventory::remove;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{Mode, SFlag, fchmod, fstatat, futimens, mkdirat};
use nix::sys::time::TimeSpec;
use nix::unistd::{linkat, symlinkat};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

/// The mode of a folder: its owner can always change and remove what is in it, nobody else can, and
/// no set-id or sticky bit is left.
pub fn folder_mode(mode: u32) -> Mode {
    Mode::from_bits_truncate((mode & 0o755) | 0o700)
}

/// The mode of a file, likewise.
fn file_mode(mode: u32) -> Mode {
    Mode::from_bits_truncate((mode & 0o755) | 0o600)
}

impl Unpacker {
    /// Makes a folder, or keeps the one that is there.
    pub(super) fn folder(&mut self, name: &Name, mode: u32) -> Result<(), UnpackError> {
        let Some((folders, last)) = name.split() else { return self.set_root_mode(mode) };
        let os = |errno| UnpackError::os(Step::Folder, &name.shown, errno);
        let parent = self.parent(name, folders)?;
        let folder = match mkdirat(&parent, last, Mode::S_IRWXU) {
            Ok(()) => open_own_folder(&parent, last).map_err(os)?,
            Err(Errno::EEXIST) => match open_own_folder(&parent, last) {
                Ok(folder) => folder,
                Err(Errno::ENOTDIR | Errno::ELOOP) => {
                    self.clear(name, &parent, last)?;
                    mkdirat(&parent, last, Mode::S_IRWXU).map_err(os)?;
                    open_own_folder(&parent, last).map_err(os)?
                }
                Err(errno) => return Err(os(errno)),
            },
            Err(errno) => return Err(os(errno)),
        };
        let set = fchmod(folder, folder_mode(mode));
        set.map_err(|errno| UnpackError::os(Step::Mode, &name.shown, errno))?;
        self.mark(&parent, last).map_err(os)
    }

    /// Makes a file anew, whatever was there: what was may have other names, which keep it.
    pub(super) fn file(
        &mut self,
        name: &Name,
        item: &Item,
        data: &mut impl Read,
        allowed: u64,
    ) -> Result<(), UnpackError> {
        let (parent, last) = self.vacate(name)?;
        self.spend(name, item.size)?;
        let os = |step| move |errno| UnpackError::os(step, &name.shown, errno);
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW;
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        let file = openat(&parent, last, flags | OFlag::O_CLOEXEC, mode).map_err(os(Step::File))?;
        let mut file = File::from(file);
        let mut written = 0;
        loop {
            let count = match data.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(read_error(&error, &name.shown, allowed)),
            };
            let bytes = self.buffer.get(..count).unwrap_or_default();
            let put = file.write_all(bytes);
            put.map_err(|error| os(Step::Write)(errno_of(&error)))?;
            written += count as u64;
        }
        if written != item.size {
            let error = io::Error::from(io::ErrorKind::UnexpectedEof);
            return Err(read_error(&error, &name.shown, allowed));
        }
        fchmod(&file, file_mode(item.mode)).map_err(os(Step::Mode))?;
        let time = TimeSpec::new(item.time, 0);
        futimens(&file, &time, &time).map_err(os(Step::Time))?;
        self.mark(&parent, last).map_err(os(Step::File))
    }

    /// Makes a symbolic link, whatever was there. Where it points is nobody's matter but the image's.
    pub(super) fn symlink(&mut self, name: &Name, target: &[u8]) -> Result<(), UnpackError> {
        let bad = |why| Err(UnpackError::Symlink { name: name.shown.clone(), why });
        match target {
            [] => return bad("points nowhere"),
            target if target.contains(&0) => return bad("points to a name with a NUL byte"),
            target if target.len() > 4095 => {
                return bad("points to a name of more than 4095 bytes");
            }
            _ => {}
        }
        let (parent, last) = self.vacate(name)?;
        self.spend(name, target.len() as u64)?;
        let os = |errno| UnpackError::os(Step::Link, &name.shown, errno);
        symlinkat(OsStr::from_bytes(target), &parent, last).map_err(os)?;
        self.mark(&parent, last).map_err(os)
    }

    /// Gives a file, or a symbolic link itself, another name.
    pub(super) fn hard_link(&mut self, name: &Name, target: &[u8]) -> Result<(), UnpackError> {
        let bad =
            |why| UnpackError::HardLink { name: name.shown.clone(), target: shown(target), why };
        let os = |errno| UnpackError::os(Step::Link, &name.shown, errno);
        let source = Name::parse(target)?;
        let Some((folders, source_last)) = source.split() else {
            return Err(bad("which is a folder"));
        };
        let missing = "which is not there before it";
        let source_parent = self.reach(name, folders, Missing::Stop)?;
        let source_parent = source_parent.ok_or_else(|| bad(missing))?;
        match fstatat(&source_parent, source_last, AtFlags::AT_SYMLINK_NOFOLLOW) {
            Ok(stat)
                if SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT == SFlag::S_IFDIR =>
            {
                return Err(bad("which is a folder"));
            }
            Ok(_) => {}
            Err(Errno::ENOENT) => return Err(bad(missing)),
            Err(errno) => return Err(os(errno)),
        }
        let (folders, last) = name.split().ok_or_else(|| root(name))?;
        let parent = self.parent(name, folders)?;
        if last == source_last && id(&parent).map_err(os)? == id(&source_parent).map_err(os)? {
            return Err(bad("which is itself"));
        }
        self.clear(name, &parent, last)?;
        // Without a flag, `linkat` does not follow a symbolic link but gives it another name.
        match linkat(&source_parent, source_last, &parent, last, AtFlags::empty()) {
            Ok(()) => self.mark(&parent, last).map_err(os),
            // It was in the folder that had to make way.
            Err(Errno::ENOENT) => Err(bad(missing)),
            Err(errno) => Err(os(errno)),
        }
    }

    /// Leaves a place empty, for what is not made here.
    pub(super) fn nothing(&mut self, name: &Name) -> Result<(), UnpackError> {
        self.vacate(name).map(drop)
    }

    /// Removes what an entry is to replace, and opens its folder.
    fn vacate<'n>(&mut self, name: &'n Name) -> Result<(OwnedFd, &'n OsStr), UnpackError> {
        let (folders, last) = name.split().ok_or_else(|| root(name))?;
        let parent = self.parent(name, folders)?;
        self.clear(name, &parent, last)?;
        Ok((parent, last))
    }

    fn parent(
        &mut self,
        name: &Name,
        folders: &[std::ffi::OsString],
    ) -> Result<OwnedFd, UnpackError> {
        let parent = self.reach(name, folders, Missing::Make)?;
        parent.ok_or_else(|| UnpackError::NoFolder(name.shown.clone()))
    }

    fn clear(&self, name: &Name, parent: &OwnedFd, last: &OsStr) -> Result<(), UnpackError> {
        let removed = remove(parent.as_fd(), last);
        removed.map_err(|errno| UnpackError::os(Step::Remove, &name.shown, errno))
    }
}

fn root(name: &Name) -> UnpackError {
    UnpackError::Name { name: name.shown.clone(), why: BadName::Root }
}
