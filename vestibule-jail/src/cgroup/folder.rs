//! Files of one cgroup's folder.

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::Mode;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// More than any of the files read here has, in bytes.
const LARGEST: usize = 4096;

/// An open folder of the hierarchy.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    fd: OwnedFd,
}

impl Folder {
    /// Opens a folder.
    ///
    /// # Errors
    /// The errno of `open(2)`.
    pub fn open(path: &Path) -> nix::Result<Folder> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let fd = open(path, flags, Mode::empty())?;
        Ok(Folder { path: path.to_owned(), fd })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its descriptor, for `clone3(2)`.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// The content of a file of it, without the newline at its end.
    ///
    /// # Errors
    /// The errno of `openat(2)` or `read(2)`; `ENOENT` where the kernel or the controllers that are
    /// turned on do not have it.
    pub fn read(&self, name: &str) -> nix::Result<String> {
        let file = openat(&self.fd, name, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?;
        let mut text = vec![0; LARGEST];
        let length = nix::unistd::read(&file, &mut text)?;
        text.truncate(length);
        Ok(String::from_utf8_lossy(&text).trim_end().to_owned())
    }

    /// Writes to a file of it.
    ///
    /// # Errors
    /// The errno of `openat(2)` or `write(2)`.
    pub fn write(&self, name: &str, text: &str) -> nix::Result<()> {
        let file = openat(&self.fd, name, OFlag::O_WRONLY | OFlag::O_CLOEXEC, Mode::empty())?;
        match nix::unistd::write(&file, text.as_bytes())? {
            length if length == text.len() => Ok(()),
            _ => Err(Errno::EIO),
        }
    }

    /// A number of a file that holds `name number` on each line.
    ///
    /// # Errors
    /// As [`Folder::read`]; `ENODATA` if the file has no such line.
    pub fn keyed(&self, file: &str, name: &str) -> nix::Result<u64> {
        keyed(&self.read(file)?, name).ok_or(Errno::ENODATA)
    }

    /// A file that holds one number.
    ///
    /// # Errors
    /// As [`Folder::read`]; `ENODATA` if it is no number.
    pub fn number(&self, file: &str) -> nix::Result<u64> {
        self.read(file)?.parse().map_err(|_| Errno::ENODATA)
    }
}

/// The number behind a name in `name number` lines.
pub fn keyed(text: &str, name: &str) -> Option<u64> {
    let value = |line: &str| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok();
    text.lines().find_map(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_by_its_whole_name() {
        let text = "low 0\noom 3\noom_kill 1\noom_group_kill 2";
        assert_eq!(keyed(text, "oom_kill"), Some(1));
        assert_eq!(keyed(text, "oom"), Some(3));
        assert_eq!(keyed(text, "max"), None);
        assert_eq!(keyed("oom x", "oom"), None);
    }
}
