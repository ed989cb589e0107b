//! The names of what `setup` has not finished. What a killed one left is removed by these names alone: the
//! folder may be one where the user keeps other things.

use crate::store::digest::Digest;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::Path;

/// What a folder that is not finished is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unfinished {
    /// An image that is being unpacked.
    Image,
    /// Bytecode that is being compiled.
    Bytecode,
    /// An image that is being removed.
    Old,
}

impl Unfinished {
    const ALL: [Unfinished; 3] = [Unfinished::Image, Unfinished::Bytecode, Unfinished::Old];

    /// The folder's name.
    pub fn name(self, process: u32) -> String {
        format!("{}{process}", self.beginning())
    }

    /// Whether `name` is one of these.
    pub fn names(name: &OsStr) -> bool {
        let digits =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let is_of =
            |kind: Unfinished, name: &str| name.strip_prefix(kind.beginning()).is_some_and(digits);
        name.to_str().is_some_and(|name| Unfinished::ALL.into_iter().any(|kind| is_of(kind, name)))
    }

    fn beginning(self) -> &'static str {
        match self {
            Unfinished::Image => ".tmp-image-",
            Unfinished::Bytecode => ".tmp-bytecode-",
            Unfinished::Old => ".tmp-old-",
        }
    }
}

/// The end of the name of a blob that is not here as a whole.
const PART: &str = ".part";

/// The name of the file that a blob is loaded into.
pub fn part_name(blob: &Digest) -> String {
    format!("{}{PART}", blob.file_name())
}

/// Removes the blobs in a folder, whole or not, and the folder if nothing else is in it.
///
/// # Errors
/// What the system says.
pub fn remove_blobs(folder: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if is_blob(&entry.file_name()) && entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
        }
    }
    match fs::remove_dir(folder) {
        // What is left is not of `setup`.
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        removed => removed,
    }
}

fn is_blob(name: &OsStr) -> bool {
    let digest = name.to_str().map(|name| name.strip_suffix(PART).unwrap_or(name));
    digest.and_then(Digest::of_file_name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_counts_if_setup_gives_it() {
        for kind in Unfinished::ALL {
            assert!(Unfinished::names(kind.name(4711).as_ref()), "{kind:?}");
        }
        let foreign =
            [".tmp-", ".tmp-notes", ".tmp-image-", ".tmp-image-1a", ".tmp-image-1.txt", ".tmp-x-1"];
        for name in foreign {
            assert!(!Unfinished::names(name.as_ref()), "{name}");
        }
    }

    #[test]
    fn blobs_go_and_what_else_is_there_stays() {
        let folder = std::env::temp_dir().join(format!("leftovers-{}", std::process::id()));
        let (whole, part) = (Digest::of(b"a"), Digest::of(b"b"));
        fs::create_dir_all(folder.join(Digest::of(b"c").file_name())).unwrap();
        fs::write(folder.join(whole.file_name()), "a").unwrap();
        fs::write(folder.join(part_name(&part)), "").unwrap();
        let foreign = ["thesis.part".to_owned(), format!("{}.txt", whole.file_name())];
        for name in &foreign {
            fs::write(folder.join(name), "").unwrap();
        }
        remove_blobs(&folder).unwrap();
        assert!(!folder.join(whole.file_name()).exists());
        assert!(!folder.join(part_name(&part)).exists());
        for name in &foreign {
            fs::remove_file(folder.join(name)).unwrap();
        }
        fs::remove_dir(folder.join(Digest::of(b"c").file_name())).unwrap();
        remove_blobs(&folder).unwrap();
        assert!(!folder.exists(), "an empty one is of no use");
        remove_blobs(&folder).unwrap();
    }
}
