//! The headers of an entry: its own, and those before it that say more of it than fits in there. Read
//! here and not by the tar crate, with a limit to their size, and with newlines in their values.

use std::io::{self, Read};
use tar::{Entry, EntryType};

/// The most bytes that an extended header may have. Linux has no attribute above 64 KiB and no name
/// above 4 KiB.
const EXTENSION_MAX: u64 = 1 << 20;

/// The longest name in bytes that a path for the kernel may have, without the NUL at its end
/// (`PATH_MAX`).
pub const NAME_MAX: usize = 4095;

/// The latest moment that a file may have, in seconds since 1970: what python's bytecode can record of
/// its source. Others are set to the nearest that there is.
const TIME_MAX: i64 = u32::MAX as i64;

/// An entry with everything that its headers say of it.
#[derive(Debug)]
pub struct Item {
    /// Its name as it was written.
    pub name: Vec<u8>,
    /// What it links to.
    pub link: Vec<u8>,
    /// What it is.
    pub kind: Kind,
    /// Its mode, all of it.
    pub mode: u32,
    /// The moment of its last change, in seconds since 1970.
    pub time: i64,
    /// The size of its content in bytes.
    pub size: u64,
    /// How many extended attributes it has.
    pub attributes: u64,
}

/// What an entry is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// A folder.
    Folder,
    /// A regular file.
    File,
    /// A symbolic link.
    Symlink,
    /// Another name of a file or a link.
    HardLink,
    /// A device.
    Device,
    /// A fifo.
    Fifo,
}

/// What the headers before an entry say of it.
#[derive(Debug, Default)]
pub struct Extensions {
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
    pax: Option<Pax>,
}

/// An extended header as POSIX defines it, in `pax`.
#[derive(Debug, Default)]
struct Pax {
    path: Option<Vec<u8>>,
    link: Option<Vec<u8>>,
    size: Option<u64>,
    time: Option<i64>,
    is_sparse: bool,
    attributes: u64,
}

impl Extensions {
    /// Whether nothing was taken since the last entry.
    pub fn is_empty(&self) -> bool {
        self.long_name.is_none() && self.long_link.is_none() && self.pax.is_none()
    }

    /// Takes an entry in when it is a header of the one that follows.
    ///
    /// # Errors
    /// What reading says, and what is wrong with the header.
    pub fn take<R: Read>(&mut self, entry: &mut Entry<'_, R>) -> io::Result<bool> {
        let kind = entry.header().entry_type();
        let is_twice = match kind {
            EntryType::GNULongName => self.long_name.is_some(),
            EntryType::GNULongLink => self.long_link.is_some(),
            EntryType::XHeader => self.pax.is_some(),
            EntryType::XGlobalHeader => false,
            _ => return Ok(false),
        };
        if is_twice {
            return Err(bad("an entry has two extended headers of one kind"));
        }
        let value = whole(entry)?;
        match kind {
            EntryType::GNULongName => self.long_name = Some(without_nul(value)),
            EntryType::GNULongLink => self.long_link = Some(without_nul(value)),
            EntryType::XHeader => self.pax = Some(Pax::parse(&value)?),
            _ => {
                // `git archive` leaves a comment in one; nothing has names for all entries.
                let all = Pax::parse(&value)?;
                if all.path.is_some() || all.link.is_some() || all.size.is_some() || all.is_sparse {
                    return Err(bad("a global header gives all entries one name or size"));
                }
            }
        }
        Ok(true)
    }

    /// The entry that they are of.
    ///
    /// # Errors
    /// What is wrong with its header.
    pub fn item<R: Read>(self, entry: &Entry<'_, R>) -> io::Result<Item> {
        let header = entry.header();
        let pax = self.pax.unwrap_or_default();
        let own_name = || header.path_bytes().into_owned();
        let name = self.long_name.or(pax.path).unwrap_or_else(own_name);
        let own_link =
            || header.link_name_bytes().map(|link| link.into_owned()).unwrap_or_default();
        let link = self.long_link.or(pax.link).unwrap_or_else(own_link);
        if pax.is_sparse || header.entry_type() == EntryType::GNUSparse {
            return Err(bad(&of(&name, "is a sparse file, which no layer may have")));
        }
        // Where parsers differ in which of the two holds, an archive can be two things at once
        // (CVE-2026-33055). Writers put it in both, unless it is above 8 GiB.
        if pax.size.is_some_and(|size| size != entry.size()) {
            return Err(bad(&of(&name, "has two sizes")));
        }
        let old = header.as_old();
        // Types before POSIX tell a folder from a file by the name alone.
        let is_old_folder = old.linkflag == [0] && name.ends_with(b"/");
        let kind = match header.entry_type() {
            EntryType::Regular if is_old_folder => Kind::Folder,
            EntryType::Regular | EntryType::Continuous => Kind::File,
            EntryType::Directory => Kind::Folder,
            EntryType::Symlink => Kind::Symlink,
            EntryType::Link => Kind::HardLink,
            EntryType::Char | EntryType::Block => Kind::Device,
            EntryType::Fifo => Kind::Fifo,
            other => {
                let what = format!("is of type {:#04x}, which no layer may have", other.as_byte());
                return Err(bad(&of(&name, &what)));
            }
        };
        let time = match pax.time {
            Some(time) => time,
            None if is_blank(&old.mtime) => 0,
            // Numbers of 64 bits with a sign may stand there in binary.
            None => header.mtime()?.cast_signed(),
        };
        let mode = if is_blank(&old.mode) { 0 } else { header.mode()? };
        let time = time.clamp(0, TIME_MAX);
        Ok(Item { name, link, kind, mode, time, size: entry.size(), attributes: pax.attributes })
    }
}

impl Pax {
    /// Reads records of `LENGTH KEY=VALUE` and a newline, where the length counts all of it. The last
    /// one of a key holds, and an empty one takes it back.
    fn parse(mut rest: &[u8]) -> io::Result<Pax> {
        let mut pax = Pax::default();
        while !rest.is_empty() {
            let (record, after) =
                record(rest).ok_or_else(|| bad("an extended header is damaged"))?;
            rest = after;
            let (key, value) = record;
            let text = (!value.is_empty()).then(|| value.to_vec());
            match key {
                b"path" => pax.path = text,
                b"linkpath" => pax.link = text,
                b"size" => pax.size = number(value)?,
                b"mtime" => pax.time = seconds(value)?,
                key if key.starts_with(b"GNU.sparse.") => pax.is_sparse = true,
                key if [&b"SCHILY.xattr."[..], b"SCHILY.acl.", b"LIBARCHIVE.xattr."]
                    .iter()
                    .any(|prefix| key.starts_with(prefix)) =>
                {
                    pax.attributes += 1;
                }
                _ => {}
            }
        }
        Ok(pax)
    }
}

type Record<'a> = (&'a [u8], &'a [u8]);

/// The first record, and what follows it.
fn record(rest: &[u8]) -> Option<(Record<'_>, &[u8])> {
    let space = rest.iter().position(|byte| *byte == b' ')?;
    let length = digits(rest.get(..space)?)?;
    let (record, after) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    let pair = record.get(space + 1..)?.strip_suffix(b"\n")?;
    let equals = pair.iter().position(|byte| *byte == b'=')?;
    Some(((pair.get(..equals)?, pair.get(equals + 1..)?), after))
}

/// Decimal digits and nothing else, not even a sign.
fn digits(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_number)?.parse().ok()
}

fn number(value: &[u8]) -> io::Result<Option<u64>> {
    match value {
        [] => Ok(None),
        value => digits(value)
            .map(Some)
            .ok_or_else(|| bad("the size in an extended header is no number")),
    }
}

/// Whole seconds of a decimal fraction, which may be below zero.
fn seconds(value: &[u8]) -> io::Result<Option<i64>> {
    if value.is_empty() {
        return Ok(None);
    }
    let (is_negative, value) = match value.strip_prefix(b"-") {
        Some(value) => (true, value),
        None => (false, value),
    };
    let whole = value.split(|byte| *byte == b'.').next().unwrap_or_default();
    let is_number = !whole.is_empty() && whole.iter().all(u8::is_ascii_digit);
    if !is_number {
        return Err(bad("the time in an extended header is no number"));
    }
    // Beyond 64 bits it is as absurd as at their end.
    let seconds = digits(whole).and_then(|whole| i64::try_from(whole).ok()).unwrap_or(i64::MAX);
    Ok(Some(if is_negative { -seconds } else { seconds }))
}

fn whole<R: Read>(entry: &mut Entry<'_, R>) -> io::Result<Vec<u8>> {
    if entry.size() > EXTENSION_MAX {
        let what = format!("an extended header has more than {EXTENSION_MAX} bytes");
        return Err(bad(&what));
    }
    let mut value = Vec::new();
    entry.read_to_end(&mut value)?;
    match value.len() as u64 == entry.size() {
        true => Ok(value),
        false => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn without_nul(mut value: Vec<u8>) -> Vec<u8> {
    while value.last() == Some(&0) {
        value.pop();
    }
    value
}

fn is_blank(field: &[u8]) -> bool {
    field.iter().all(|byte| matches!(byte, 0 | b' '))
}

fn of(name: &[u8], what: &str) -> String {
    // The reader of this escapes and cuts it as a whole.
    format!("the entry `{}` {what}", String::from_utf8_lossy(name))
}

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
