//! Python's compiled modules beside an image, and whether they are still those that were made.
//!
//! Python believes what a `.pyc` says and dies of a damaged one, so a tree is used only while every
//! file of it has the size and the time of change that it was made with. The kernel alone sets that
//! time (`st_ctime`). Looking costs a `statx` for each file, some 3 microseconds, and no byte is read; it
//! is done for each run, while the sandbox is built.
//!
//! The tree is what code of the image has left: how much of it is looked at, and held, is limited.

use percent_encoding::{AsciiSet, CONTROLS, percent_encode};
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The tree, in its image's folder.
pub const TREE: &str = "bytecode";
/// The list of its files, in its image's folder. Written last: without it the tree does not count.
pub const LIST: &str = "bytecode.files";
/// What a tree may have. Python's library has 600 files of 10 MB, whose paths have 30 KB.
const MOST: Most = Most { entries: 20_000, depth: 32, path: 1024, paths: 4 << 20, bytes: 1 << 30 };
/// What would break a line of the list.
const ESCAPED: &AsciiSet = &CONTROLS.add(b'%').add(b' ');

/// Limits of a tree, each on what the look at it, for each run, costs in time or memory.
struct Most {
    /// Files and folders.
    entries: usize,
    /// Folders in one another.
    depth: usize,
    /// Bytes of one path below the tree.
    path: usize,
    /// Bytes of all paths.
    paths: usize,
    /// Bytes of all files.
    bytes: u64,
}

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
    let mut list = BufReader::new(File::open(image.join(LIST))?);
    let files = look(&image.join(TREE), &MOST)?;
    // No more of the list is read, nor held, than the tree that is there needs.
    let mut listed = Vec::new();
    let mut same = |line: &[u8]| {
        listed.resize(line.len(), 0);
        list.read_exact(&mut listed).is_ok() && listed == line
    };
    match lines(&files).all(|line| same(line.as_bytes())) && list.read(&mut [0])? == 0 {
        true => Ok(()),
        false => Err(io::Error::other("it was changed since `setup` made it")),
    }
}

/// Whether a tree that a sandbox has left is one that can be kept: it has folders and compiled modules alone,
/// within limits, and can be removed without further ado.
///
/// # Errors
/// Why it is not, and those of the files.
pub fn fit(tree: &Path) -> io::Result<()> {
    look(tree, &MOST).map(drop)
}

/// Writes the list of the tree in an image's folder.
///
/// # Errors
/// Those of the files, and where the tree is not [`fit`].
pub fn seal(image: &Path) -> io::Result<usize> {
    let files = look(&image.join(TREE), &MOST)?;
    let new = image.join(format!("{LIST}.new"));
    let mut list = BufWriter::new(File::create(&new)?);
    lines(&files).try_for_each(|line| list.write_all(line.as_bytes()))?;
    list.into_inner()?.sync_all()?;
    fs::rename(new, image.join(LIST))?;
    Ok(files.len())
}

/// The list of files, line by line.
fn lines(files: &Files) -> impl Iterator<Item = String> + '_ {
    let line = |(name, (size, changed)): (&PathBuf, &(u64, i128))| {
        let name = percent_encode(name.as_os_str().as_bytes(), ESCAPED);
        format!("{size} {changed} {name}\n")
    };
    files.iter().map(line).chain(std::iter::once_with(|| format!("end {}\n", files.len())))
}

/// The files of a tree. Ends where it passes a limit, however much more there is.
fn look(tree: &Path, most: &Most) -> io::Result<Files> {
    let mut files = Files::new();
    let mut folders = vec![(PathBuf::new(), 0)];
    let (mut entries, mut paths, mut bytes) = (0, 0, 0_u64);
    while let Some((folder, depth)) = folders.pop() {
        for entry in fs::read_dir(tree.join(&folder))? {
            let entry = entry?;
            let (name, kind) = (folder.join(entry.file_name()), entry.file_type()?);
            let length = name.as_os_str().len();
            (entries, paths) = (entries + 1, paths + length);
            if entries > most.entries || length > most.path || paths > most.paths {
                return Err(io::Error::other(
                    "it has more files, or longer names, than modules have",
                ));
            }
            // Of the entry itself, and not of what a link leads to.
            let status = entry.metadata()?;
            if kind.is_dir() {
                if status.mode() & 0o700 != 0o700 {
                    return Err(io::Error::other("it holds a folder that is locked"));
                }
                if depth == most.depth {
                    return Err(io::Error::other("its folders are too deep in one another"));
                }
                folders.push((name, depth + 1));
            } else if kind.is_file() && name.extension().is_some_and(|end| end == "pyc") {
                bytes = bytes.saturating_add(status.len());
                if bytes > most.bytes {
                    return Err(io::Error::other("its files are larger than modules are"));
                }
                let changed = i128::from(status.ctime()) * 1_000_000_000;
                files.insert(name, (status.len(), changed + i128::from(status.ctime_nsec())));
            } else {
                return Err(io::Error::other("it holds something that is no compiled module"));
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
    fn an_empty_tree_has_a_list_too_and_another_list_is_none() {
        let image = image("lists");
        let whole = fs::read(image.join(LIST)).unwrap();
        let text = String::from_utf8(whole.clone()).unwrap();
        let cut = &text[..text.len() - 1];
        let end = &text[text.rfind("end").unwrap()..];
        let without_end = &text[..text.len() - end.len()];
        let more = format!("{text}x");
        for damaged in ["", cut, end, without_end, &more, &text.replace(".pyc", ".pyd")] {
            fs::write(image.join(LIST), damaged).unwrap();
            assert!(check(&image).is_err(), "{damaged:?}");
        }
        fs::write(image.join(LIST), whole).unwrap();
        check(&image).unwrap();
        fs::remove_dir_all(image.join(TREE).join("usr")).unwrap();
        assert_eq!(seal(&image).unwrap(), 0);
        assert_eq!(fs::read_to_string(image.join(LIST)).unwrap(), "end 0\n");
        check(&image).unwrap();
        fs::remove_dir_all(image).unwrap();
    }

    #[test]
    fn no_more_of_a_tree_is_looked_at_than_a_limit_allows() {
        let image = image("limits");
        let tree = image.join(TREE);
        // Folders `usr` and `usr/lib`, and in that two files of ten bytes, `a.pyc` and `b c%.pyc`.
        let just = || Most { entries: 4, depth: 2, path: 16, paths: 3 + 7 + 13 + 16, bytes: 20 };
        assert_eq!(look(&tree, &just()).unwrap().len(), 2);
        for (name, most) in [
            ("entries", Most { entries: 3, ..just() }),
            ("depth", Most { depth: 1, ..just() }),
            ("path", Most { path: 15, ..just() }),
            ("paths", Most { paths: 38, ..just() }),
            ("bytes", Most { bytes: 19, ..just() }),
        ] {
            assert!(look(&tree, &most).is_err(), "{name}");
        }
        // One more than is looked at, so that what is beyond cannot have been.
        fs::write(tree.join("usr/lib/c.pyc"), "").unwrap();
        assert!(look(&tree, &just()).is_err());
        fs::remove_dir_all(image).unwrap();
    }

    /// As an image's own code may leave it in place of modules.
    #[test]
    fn a_tree_of_many_long_names_is_neither_kept_nor_read() {
        let image = image("many");
        let folder = image.join(TREE).join("usr");
        for number in 0..MOST.entries {
            fs::write(folder.join(format!("{number}.pyc")), "").unwrap();
        }
        assert!(fit(&image.join(TREE)).unwrap_err().to_string().contains("more files"));
        assert!(seal(&image).is_err() && check(&image).is_err());
        let long = image.join(TREE).join(vec!["x".repeat(245); 5].join("/"));
        fs::remove_dir_all(&folder).unwrap();
        fs::create_dir_all(&long).unwrap();
        assert!(fit(&image.join(TREE)).unwrap_err().to_string().contains("longer names"));
        fs::remove_dir_all(image).unwrap();
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
        let large: Deed = |tree| File::create(tree.join("x.pyc"))?.set_len(MOST.bytes + 1);
        let linked: Deed = |tree| symlink("/etc", tree.join("l.pyc"));
        let other: Deed = |tree| fs::write(tree.join("module.so"), "");
        let deeds = [("locked", locked), ("large", large), ("linked", linked), ("other", other)];
        for (name, deed) in deeds {
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
