//! The file of one server: made at its first record, and anew where it is gone.

use super::record;
use crate::workspace::private;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The log of this process.
pub struct Log {
    folder: PathBuf,
    file: Option<Open>,
}

struct Open {
    file: File,
    /// A record may have been written in part.
    torn: bool,
}

impl Log {
    /// A log in this folder. Nothing is made yet.
    pub fn new(folder: &Path) -> Log {
        Log { folder: folder.to_owned(), file: None }
    }

    /// Appends a line, which ends with a newline.
    ///
    /// # Errors
    /// What the system says. The next record is tried all the same.
    pub fn append(&mut self, line: &[u8]) -> io::Result<()> {
        if self.file.as_ref().is_some_and(Open::is_gone) {
            self.file = None;
        }
        let open = match &mut self.file {
            Some(open) => open,
            none => none.insert(Open { file: create(&self.folder)?, torn: false }),
        };
        let written = match open.torn {
            // What is there of the last record stands on a line of its own.
            true => open.file.write_all(&[b"\n", line].concat()),
            false => open.file.write_all(line),
        };
        open.torn = written.is_err();
        written
    }
}

impl Open {
    /// Whether nobody can find it any more.
    #[cfg(unix)]
    fn is_gone(&self) -> bool {
        use std::os::unix::fs::MetadataExt;
        self.file.metadata().is_ok_and(|metadata| metadata.nlink() == 0)
    }

    /// A file that is open cannot be removed.
    #[cfg(not(unix))]
    fn is_gone(&self) -> bool {
        false
    }
}

/// Makes a file of this process's own, readable for its owner alone.
fn create(folder: &Path) -> io::Result<File> {
    private::builder().recursive(true).create(folder)?;
    let time = record::now().replace(':', "");
    let path = folder.join(format!("{time}-{}.jsonl", std::process::id()));
    let mut options = OpenOptions::new();
    // One write of a record is one append, whoever else writes.
    options.append(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            Folder(std::env::temp_dir().join(format!("audit-{name}-{}", std::process::id())))
        }

        fn text(&self) -> String {
            let mut text = String::new();
            for entry in fs::read_dir(&self.0).unwrap() {
                text += &fs::read_to_string(entry.unwrap().path()).unwrap();
            }
            text
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[cfg(unix)]
    #[test]
    fn the_folder_and_the_file_are_made_at_the_first_record_for_their_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let folder = Folder::new("modes");
        let mut log = Log::new(&folder.0);
        assert!(!folder.0.exists());
        log.append(b"a\n").unwrap();
        log.append(b"b\n").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let file = fs::read_dir(&folder.0).unwrap().next().unwrap().unwrap().path();
        assert_eq!((mode(&folder.0), mode(&file)), (0o700, 0o600));
        assert_eq!(folder.text(), "a\nb\n");
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_was_removed_is_made_anew() {
        let folder = Folder::new("removed");
        let mut log = Log::new(&folder.0);
        log.append(b"a\n").unwrap();
        fs::remove_dir_all(&folder.0).unwrap();
        log.append(b"b\n").unwrap();
        assert_eq!(folder.text(), "b\n");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_an_error_and_what_it_tore_does_not_touch_the_next_record() {
        let folder = Folder::new("full");
        let mut log = Log::new(&folder.0);
        log.append(b"a\n").unwrap();
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let file = std::mem::replace(&mut log.file.as_mut().unwrap().file, full);
        assert_eq!(log.append(b"b\n").unwrap_err().kind(), io::ErrorKind::StorageFull);
        log.file.as_mut().unwrap().file = file;
        log.append(b"c\n").unwrap();
        assert_eq!(folder.text(), "a\n\nc\n");
    }
}
