//! The text of a folder.

use super::open::{Entries, Entry, EntryKind};
use crate::escape;
use std::ffi::OsStr;

/// How many entries are shown.
pub const SHOWN: usize = 200;
/// How many characters of a name are shown; the longest names have 255 bytes.
const NAME: usize = 1024;

/// The listing of a folder: kind, size and name of each entry, sorted by name.
pub fn render(path: &str, entries: &Entries) -> String {
    let folder =
        if path == "." { "The workspace".to_owned() } else { escape::for_display(path, NAME) };
    if entries.total == 0 {
        return format!("{folder} is empty.");
    }
    let count = if entries.total == 1 {
        "1 entry".to_owned()
    } else {
        format!("{} entries", entries.total)
    };
    let mut lines = vec![format!("{folder}: {count}{} (kind, bytes, name)", plus(entries))];
    lines.extend(entries.first.iter().map(line));
    let rest = entries.total.saturating_sub(entries.first.len());
    if rest > 0 {
        lines.push(format!("… and {rest}{} more entries, not shown", plus(entries)));
    }
    lines.join("\n")
}

fn plus(entries: &Entries) -> &'static str {
    if entries.more { "+" } else { "" }
}

fn line(entry: &Entry) -> String {
    let size = match entry.kind {
        EntryKind::File => entry.size.to_string(),
        _ => "-".to_owned(),
    };
    format!("{:<7} {size:>12} {}", entry.kind.word(), name(&entry.name))
}

/// A name that cannot break its line; bytes that are no UTF-8 as `\xNN`.
fn name(name: &OsStr) -> String {
    let mut shown = String::new();
    for chunk in name.as_encoded_bytes().utf8_chunks() {
        shown.push_str(&escape::for_display(chunk.valid(), NAME));
        for byte in chunk.invalid() {
            shown.push_str(&format!("\\x{byte:02x}"));
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, kind: EntryKind, size: u64) -> Entry {
        Entry { name: name.into(), kind, size }
    }

    #[test]
    fn a_listing_has_kind_size_and_name() {
        let first = vec![
            entry("a\nFORGED", EntryKind::File, 7),
            entry("b", EntryKind::Folder, 4096),
            entry("c", EntryKind::Link, 3),
            entry("d", EntryKind::Special("fifo"), 0),
        ];
        let entries = Entries { first, total: 5000, more: false };
        assert_eq!(
            render("sub", &entries),
            "sub: 5000 entries (kind, bytes, name)\n\
             file               7 a\\nFORGED\n\
             dir                - b\n\
             symlink            - c\n\
             fifo               - d\n\
             … and 4996 more entries, not shown"
        );
    }

    #[test]
    fn an_empty_folder_says_so() {
        assert_eq!(render(".", &Entries::default()), "The workspace is empty.");
        assert_eq!(render("a\u{202e}b", &Entries::default()), "a\\u{202e}b is empty.");
    }

    #[cfg(unix)]
    #[test]
    fn names_that_are_no_utf8_are_shown_byte_by_byte() {
        use std::os::unix::ffi::OsStrExt;
        assert_eq!(name(OsStr::from_bytes(b"caf\xe9.txt")), "caf\\xe9.txt");
    }
}
