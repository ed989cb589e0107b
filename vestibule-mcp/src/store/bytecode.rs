//! Python's compiled modules beside an image, and whether they are still those that were made.
//!
//! Python believes what a `.pyc` says and dies of a damaged one, so a tree is used only while every
//! file of it has the size and the time of change that it was made with. The kernel alone sets that
//! time (`st_ctime`). Looking costs a `statx` for each file, some 3 microseconds, and no byte is read; it
//! is done for each run, while the sandbox is built.

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, percent_encode};
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The tree, in its image's folder.
pub const TREE: &str = "bytecode";
/// The list of its files, in its image's folder. Written last: without it the tree does not count.
pub const LIST: &str = "bytecode.files";
/// The most files that a tree may have, and the most bytes; python's library has 600 and 10 MB of them.
const MOST: (usize, u64) = (200_000, 1 << 30);
/// What would break a line of the list.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%').add(b' ');

/// Size in bytes and time of change in nanoseconds, by the file's path below the tree.
type Files = BTreeMap<PathBuf, (u64, i128)>;

/// The trees that were found changed, by their image's folder: which list they did not fit any more.
#[derive(Debug, Default)]
pub struct Bytecode {
    changed: Mutex<HashMap<PathBuf, ListId>>,
}

/// A list, known again: `setup` writes a new one.
type ListId = (u64, i64, i64);

impl Bytecode {
    /// The tree of an image's folder, unless there is none or it was found changed. Whether it still holds
    /// good is for [`check`] to say.
    pub fn find(&self, image: &Path) -> Option<PathBuf> {
        let id = list_id(image)?;
        (self.lock().get(image) != Some(&id)).then(|| image.join(TREE))
    }

    /// Takes a tree out of use until `setup` has made it anew.
    pub fn leave_out(&self, image: &Path, why: &io::Error) {
        let Some(id) = list_id(image) else { return };
        if self.lock().insert(image.to_owned(), id) != Some(id) {
            let place = crate::escape::for_display(&image.to_string_lossy(), 300);
            tracing::warn!(
                "python's compiled modules in {place} are not used until `vestibule-mcp setup` has \
                 made them anew: {why}"
            );
        }
    }

    /// The map is whole after every operation, so a panic elsewhere cannot have broken it.
    fn lock(&self) -> MutexGuard<'_, HashMap<PathBuf, ListId>> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn list_id(image: &Path) -> Option<ListId> {
    let status = fs::metadata(image.join(LIST)).ok()?;
    Some((status.ino(), status.ctime(), status.ctime_nsec()))
}

/// Whether the tree in an image's folder is the one that was made.
///
/// # Errors
/// Why it is not; `NotFound` where there is none.
pub fn check(image: &Path) -> io::Result<()> {
    let list = fs::read_to_string(image.join(LIST))?;
    let listed = parse(&list).ok_or_else(|| io::Error::other("its list is damaged"))?;
    let there = look(&image.join(TREE))?;
    match there == listed {
        true => Ok(()),
        false => Err(io::Error::other("it was changed since `setup` made it")),
    }
}

/// Whether a tree that a sandbox has left is one that can be kept: it has folders and files alone, within
/// limits, and can be removed without further ado.
///
/// # Errors
/// Why it is not, and those of the files.
pub fn fit(tree: &Path) -> io::Result<()> {
    let files = look(tree)?;
    let bytes = files.values().fold(0, |sum: u64, (size, _)| sum.saturating_add(*size));
    match files.len() > MOST.0 || bytes > MOST.1 {
        true => Err(io::Error::other("it holds too much")),
        false => Ok(()),
    }
}

/// Writes the list of the tree in an image's folder.
///
/// # Errors
/// Those of the files, and where the tree holds anything but folders and files.
pub fn seal(image: &Path) -> io::Result<usize> {
    let files = look(&image.join(TREE))?;
    let new = image.join(format!("{LIST}.new"));
    let mut text = Vec::new();
    for (name, (size, changed)) in &files {
        let name = percent_encode(name.as_os_str().as_bytes(), ESCAPED);
        writeln!(text, "{size} {changed} {name}")?;
    }
    writeln!(text, "end {}", files.len())?;
    fs::write(&new, text)?;
    fs::File::open(&new)?.sync_all()?;
    fs::rename(new, image.join(LIST))?;
    Ok(files.len())
}

fn parse(list: &str) -> Option<Files> {
    let (lines, end) = list.strip_suffix('\n')?.rsplit_once('\n').unwrap_or(("", list.trim_end()));
    let count: usize = end.strip_prefix("end ")?.parse().ok()?;
    let mut files = Files::new();
    for line in lines.lines() {
        let mut words = line.splitn(3, ' ');
        let (size, changed) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let name = percent_decode_str(words.next()?).collect();
        files.insert(PathBuf::from(std::ffi::OsString::from_vec(name)), (size, changed));
    }
    (files.len() == count).then_some(files)
}

/// The files of a tree.
fn look(tree: &Path) -> io::Result<Files> {
    let mut files = Files::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(tree.join(&folder))? {
            let entry = entry?;
            let (name, kind) = (folder.join(entry.file_name()), entry.file_type()?);
            if kind.is_dir() {
                if entry.metadata()?.mode() & 0o700 != 0o700 {
                    return Err(io::Error::other("it holds a folder that is locked"));
                }
                folders.push(name);
            } else if kind.is_file() {
                // Of the entry itself, and not of what a link leads to.
                let status = entry.metadata()?;
                let changed = i128::from(status.ctime()) * 1_000_000_000;
                files.insert(name, (status.len(), changed + i128::from(status.ctime_nsec())));
            } else {
                return Err(io::Error::other("it holds something that is no file"));
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn image(name: &str) -> PathBuf {
        let image = std::env::temp_dir().join(format!("bytecode-{name}-{}", std::process::id()));
        let folder = image.join(TREE).join("usr/lib");
        fs::create_dir_all(&folder).unwrap();
        for file in ["a.pyc", "b c%.pyc"] {
            fs::write(folder.join(file), "some bytes").unwrap();
        }
        assert_eq!(seal(&image).unwrap(), 2);
        image
    }

    #[test]
    fn a_tree_that_nothing_has_touched_holds_good() {
        let image = image("good");
        let bytecode = Bytecode::default();
        assert_eq!(bytecode.find(&image), Some(image.join(TREE)));
        check(&image).unwrap();
        bytecode.leave_out(&image, &io::Error::other("changed"));
        assert_eq!(bytecode.find(&image), None, "it was found changed");
        seal(&image).unwrap();
        assert_eq!(bytecode.find(&image), Some(image.join(TREE)), "it was made anew");
        fs::remove_file(image.join(LIST)).unwrap();
        assert_eq!(bytecode.find(&image), None);
        assert_eq!(check(&image).unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::remove_dir_all(image).unwrap();
    }

    #[test]
    fn an_empty_tree_has_a_list_too() {
        assert_eq!(parse("end 0\n"), Some(Files::new()));
        for damaged in ["", "end 0", "end 1\n", "1 2 a\nend 2\n", "x 2 a\nend 1\n", "1 2\nend 1\n"]
        {
            assert_eq!(parse(damaged), None, "{damaged:?}");
        }
    }

    #[test]
    fn what_could_not_be_removed_or_is_no_file_is_not_kept() {
        type Deed = fn(&Path) -> io::Result<()>;
        let mode = std::os::unix::fs::PermissionsExt::from_mode;
        let locked: fn(&Path) -> io::Result<()> = |tree| {
            fs::set_permissions(
                tree.join("usr"),
                std::os::unix::fs::PermissionsExt::from_mode(0o500),
            )
        };
        let large: Deed = |tree| fs::File::create(tree.join("x"))?.set_len(MOST.1 + 1);
        let linked: Deed = |tree| symlink("/etc", tree.join("l"));
        for (name, deed) in [("locked", locked), ("large", large), ("linked", linked)] {
            let image = image(&format!("unfit-{name}"));
            fit(&image.join(TREE)).unwrap();
            deed(&image.join(TREE)).unwrap();
            assert!(fit(&image.join(TREE)).is_err(), "{name}");
            fs::set_permissions(image.join(TREE).join("usr"), mode(0o700)).unwrap();
            fs::remove_dir_all(image).unwrap();
        }
    }

    #[test]
    fn whatever_is_done_to_a_tree_is_seen() {
        type Deed = fn(&Path) -> io::Result<()>;
        let deeds: [(&str, Deed); 7] = [
            // Of the same length, so that the time alone tells.
            ("rewritten", |tree| fs::write(tree.join("usr/lib/a.pyc"), "other byte")),
            ("cut", |tree| fs::write(tree.join("usr/lib/a.pyc"), "some")),
            ("removed", |tree| fs::remove_file(tree.join("usr/lib/a.pyc"))),
            ("added", |tree| fs::write(tree.join("usr/x.pyc"), "")),
            ("linked", |tree| symlink("/etc/passwd", tree.join("usr/l.pyc"))),
            ("gone", |tree| fs::remove_dir_all(tree)),
            ("replaced", |tree| fs::remove_dir_all(tree).and_then(|()| fs::write(tree, ""))),
        ];
        for (name, deed) in deeds {
            let image = image(name);
            deed(&image.join(TREE)).unwrap();
            assert!(check(&image).is_err(), "{name}");
            fs::remove_dir_all(image).unwrap();
        }
    }
}
