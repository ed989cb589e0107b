//! Walking a tree in the order of its names.

use super::cursor::{Cursor, Id};
use super::error::{InventoryError, shown};
use super::line::{Entry, Kind};
use crate::store::digest::{Algorithm, Hasher};
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat, readlinkat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};
use nix::unistd::geteuid;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// A walk. No more than one folder is open, and nothing recurses.
pub struct Walk<'a> {
    cursor: Cursor<'a>,
    /// For each folder down to the one that the cursor is in: the names that are left, the first of
    /// them last.
    left: Vec<Vec<OsString>>,
    /// The path of that folder.
    path: Vec<u8>,
    /// The folder that was found last and is entered next.
    next: Option<OsString>,
    begun: bool,
    user: u32,
    buffer: Vec<u8>,
    /// What files with several names have in them: each is read once.
    known: HashMap<Id, String>,
}

/// What was found at one name.
pub struct Found {
    /// Its path from the root.
    pub path: Vec<u8>,
    name: OsString,
    stat: FileStat,
}

impl<'a> Walk<'a> {
    /// A walk from `root`, which comes first itself.
    pub fn new(root: BorrowedFd<'a>) -> Walk<'a> {
        Walk {
            cursor: Cursor::new(root),
            left: Vec::new(),
            path: Vec::new(),
            next: None,
            begun: false,
            user: geteuid().as_raw(),
            buffer: vec![0; 128 << 10],
            known: HashMap::new(),
        }
    }

    /// The next entry, which the tree may have.
    ///
    /// # Errors
    /// [`InventoryError::Os`] and [`InventoryError::Unfit`].
    pub fn step(&mut self) -> Result<Option<Found>, InventoryError> {
        if !self.begun {
            self.begun = true;
            self.next = Some(OsString::new());
            return self.look(OsString::from(".")).map(Some);
        }
        if let Some(name) = self.next.take() {
            self.enter(&name)?;
        }
        loop {
            let Some(names) = self.left.last_mut() else { return Ok(None) };
            if let Some(name) = names.pop() {
                let found = self.look(name)?;
                if format(&found.stat) == SFlag::S_IFDIR {
                    self.next = Some(found.name.clone());
                }
                return Ok(Some(found));
            }
            self.left.pop();
            if !self.left.is_empty() {
                let left = self.cursor.leave();
                left.map_err(|errno| InventoryError::os("get out of", &self.path, errno))?;
                let end = self.path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
                self.path.truncate(end);
            }
        }
    }

    fn enter(&mut self, name: &OsStr) -> Result<(), InventoryError> {
        // The root has no name; the cursor is there from the beginning.
        if !name.is_empty() {
            self.path = self.join(name);
            let entered = self.cursor.enter(name);
            entered.map_err(|errno| InventoryError::os("open", &self.path, errno))?;
        }
        let names = self.cursor.names();
        let names = names.map_err(|errno| InventoryError::os("list", &self.path, errno))?;
        let mut names: Vec<OsString> = names.into_iter().map(|(name, _)| name).collect();
        names.sort_unstable_by(|one, other| other.cmp(one));
        self.left.push(names);
        Ok(())
    }

    fn look(&mut self, name: OsString) -> Result<Found, InventoryError> {
        let path = if name == "." { Vec::new() } else { self.join(&name) };
        let flag = AtFlags::AT_SYMLINK_NOFOLLOW;
        let stat = fstatat(self.cursor.folder(), name.as_os_str(), flag)
            .map_err(|errno| InventoryError::os("look at", &path, errno))?;
        let unfit = |what| Err(InventoryError::Unfit { name: shown(&path), what });
        match format(&stat) {
            SFlag::S_IFDIR | SFlag::S_IFREG | SFlag::S_IFLNK => {}
            SFlag::S_IFIFO => return unfit("is a fifo"),
            SFlag::S_IFSOCK => return unfit("is a socket"),
            _ => return unfit("is a device"),
        }
        if stat.st_mode & 0o7000 != 0 {
            return unfit("has a set-user-id, set-group-id or sticky bit");
        }
        if stat.st_uid != self.user {
            return unfit("belongs to another user");
        }
        Ok(Found { path, name, stat })
    }

    /// Everything that a line says of what was found last. Files are read for it.
    ///
    /// # Errors
    /// [`InventoryError::Os`] and [`InventoryError::Moving`].
    pub fn entry(&mut self, found: &Found) -> Result<Entry, InventoryError> {
        let kind = match found.kind() {
            Kind::File { size, time, .. } => Kind::File { size, time, content: self.hash(found)? },
            Kind::Link { .. } => Kind::Link { target: self.target(found)? },
            Kind::Folder => Kind::Folder,
        };
        Ok(Entry { path: found.path.clone(), mode: found.mode(), kind })
    }

    /// Where a link that was found last points.
    ///
    /// # Errors
    /// [`InventoryError::Os`].
    pub fn target(&self, found: &Found) -> Result<Vec<u8>, InventoryError> {
        let target = readlinkat(self.cursor.folder(), found.name.as_os_str());
        let target = target.map_err(|errno| InventoryError::os("read", &found.path, errno))?;
        Ok(target.into_vec())
    }

    /// The SHA-256 of a file that was found last, in hexadecimal digits.
    ///
    /// # Errors
    /// [`InventoryError::Os`] and [`InventoryError::Moving`].
    pub fn hash(&mut self, found: &Found) -> Result<String, InventoryError> {
        let id = (found.stat.st_dev, found.stat.st_ino);
        let is_shared = found.stat.st_nlink > 1;
        if let (true, Some(known)) = (is_shared, self.known.get(&id)) {
            return Ok(known.clone());
        }
        let os = |errno| InventoryError::os("read", &found.path, errno);
        // Nothing else than the file that was looked at is read, and a fifo does not make it wait.
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = openat(self.cursor.folder(), found.name.as_os_str(), flags, Mode::empty());
        let file = file.map_err(os)?;
        let stat = fstat(&file).map_err(os)?;
        let mut file = File::from(file);
        let mut hasher = Hasher::new(Algorithm::Sha256);
        let mut size = 0;
        loop {
            let count = match file.read(&mut self.buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(os(errno(&error))),
            };
            hasher.update(self.buffer.get(..count).unwrap_or_default());
            size += count as u64;
        }
        if (stat.st_dev, stat.st_ino) != id || size != found.size() {
            return Err(InventoryError::Moving(shown(&found.path)));
        }
        let hash = hasher.finish().hex().to_owned();
        if is_shared {
            self.known.insert(id, hash.clone());
        }
        Ok(hash)
    }

    fn join(&self, name: &OsStr) -> Vec<u8> {
        match self.path.is_empty() {
            true => name.as_bytes().to_vec(),
            false => [self.path.as_slice(), b"/", name.as_bytes()].concat(),
        }
    }
}

impl Found {
    /// What it is, without its content or target.
    pub fn kind(&self) -> Kind {
        match format(&self.stat) {
            SFlag::S_IFDIR => Kind::Folder,
            SFlag::S_IFLNK => Kind::Link { target: Vec::new() },
            _ => Kind::File { size: self.size(), time: self.stat.st_mtime, content: String::new() },
        }
    }

    /// The mode's lower twelve bits.
    pub fn mode(&self) -> u32 {
        self.stat.st_mode & 0o7777
    }

    fn size(&self) -> u64 {
        u64::try_from(self.stat.st_size).unwrap_or(0)
    }
}

fn format(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT
}

fn errno(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}
