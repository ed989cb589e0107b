//! A tar archive as a set of files: its members are found once, and read where they lie.

use super::open_plain;
use crate::setup::unpack::headers::{Extensions, Item, Kind, NAME_MAX};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use tar::{Entry, EntryType};

/// The most members that an archive of images may have.
const MEMBERS_MAX: usize = 100_000;

/// The most bytes that all their names may have: these are kept while the archive is read, and those of
/// images have some kilobytes.
const NAMES_MAX: usize = 8 << 20;

/// An archive.
pub struct Archive {
    path: PathBuf,
    members: HashMap<String, Member>,
}

enum Member {
    File {
        start: u64,
        size: u64,
    },
    /// A link to another member; the older `docker save` writes them for layers that two images share.
    Link(String),
}

impl Archive {
    /// Finds an archive's members.
    ///
    /// # Errors
    /// Those of the file; `Unsupported` where it is compressed.
    pub fn open(path: &Path) -> io::Result<Archive> {
        let mut file = open_plain(path)?;
        let mut magic = [0; 4];
        let read = file.read(&mut magic)?;
        if magic[..read].starts_with(&[0x1f, 0x8b]) || magic[..read] == [0x28, 0xb5, 0x2f, 0xfd] {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "it is compressed"));
        }
        file.seek(SeekFrom::Start(0))?;
        let mut members = HashMap::new();
        let (mut ahead, mut count, mut names) = (Extensions::default(), 0, 0);
        // The raw entries, as in a layer: the crate would read extended headers into memory without a limit.
        for entry in tar::Archive::new(BufReader::new(file)).entries_with_seek()?.raw(true) {
            let mut entry = entry.map_err(|error| unread(&error))?;
            count += 1;
            if count > MEMBERS_MAX {
                return Err(io::Error::other(format!("it has more than {MEMBERS_MAX} members")));
            }
            bounded(&entry)?;
            if !ahead.take(&mut entry)? {
                let item = std::mem::take(&mut ahead).item(&entry)?;
                if item.name.len().max(item.link.len()) > NAME_MAX {
                    return Err(long());
                }
                names += item.name.len() + item.link.len();
                if names > NAMES_MAX {
                    let what = format!("its names have more than {NAMES_MAX} bytes");
                    return Err(io::Error::other(what));
                }
                members.extend(member(&item, entry.raw_file_position()));
            }
        }
        Ok(Archive { path: path.to_owned(), members })
    }

    /// Whether it has a file of this name.
    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// A member's size in bytes.
    ///
    /// # Errors
    /// `NotFound` without such a member.
    pub fn size(&self, name: &str) -> io::Result<u64> {
        let found = self.find(name).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        Ok(found.1)
    }

    /// Opens a member at an offset.
    ///
    /// # Errors
    /// Those of the file; `NotFound` without such a member.
    pub fn open_at(&self, name: &str, offset: u64) -> io::Result<Box<dyn Read>> {
        let (start, size) =
            self.find(name).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        let offset = offset.min(size);
        let mut file = open_plain(&self.path)?;
        file.seek(SeekFrom::Start(start.saturating_add(offset)))?;
        Ok(Box::new(file.take(size - offset)))
    }

    /// Where a file lies; one link is followed, and no link to a link.
    fn find(&self, name: &str) -> Option<(u64, u64)> {
        let member = match self.members.get(name)? {
            Member::Link(target) => self.members.get(target)?,
            file @ Member::File { .. } => file,
        };
        match member {
            Member::File { start, size } => Some((*start, *size)),
            Member::Link(_) => None,
        }
    }
}

/// Refuses a header with a name that is too long before it is read.
fn bounded<R: Read>(entry: &Entry<'_, R>) -> io::Result<()> {
    let kind = entry.header().entry_type();
    let is_name = matches!(kind, EntryType::GNULongName | EntryType::GNULongLink);
    // A NUL ends it.
    if is_name && entry.size() > NAME_MAX as u64 + 1 { Err(long()) } else { Ok(()) }
}

fn long() -> io::Error {
    io::Error::other(format!("a name in it has more than {NAME_MAX} bytes"))
}

/// What an entry is under which name, where it is a file or a link.
fn member(item: &Item, start: u64) -> Option<(String, Member)> {
    let path = |bytes| Path::new(OsStr::from_bytes(bytes));
    let (name, target) = (plain(path(&item.name))?, path(&item.link));
    let member = match item.kind {
        Kind::File => Member::File { start, size: item.size },
        Kind::Symlink => {
            let folder = Path::new(&name).parent().unwrap_or(Path::new(""));
            Member::Link(plain(&folder.join(target))?)
        }
        Kind::HardLink => Member::Link(plain(target)?),
        _ => return None,
    };
    Some((name, member))
}

/// What the crate says of a header that it cannot read quotes it, and the file need be no archive at all.
fn unread(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::other("a header in it cannot be read"),
    }
}

/// A name without `.`, and with `..` taken back; `None` where it leads out or is no text.
pub fn plain(path: &Path) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::ParentDir => drop(parts.pop()?),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    Some(parts.join("/"))
}
