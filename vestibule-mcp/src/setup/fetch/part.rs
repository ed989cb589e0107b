//! The file that a blob is loaded into, which a later run can go on with.

use super::FetchError;
use crate::setup::oci::Descriptor;
use crate::store::digest::{Digest, Hasher};
use nix::libc;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// How much is read and written at once, in bytes.
pub const CHUNK: usize = 64 * 1024;

/// A part of a blob: what is in the file, from its beginning, and its digest so far.
pub struct Part {
    /// Its path.
    pub path: PathBuf,
    file: File,
    hasher: Hasher,
    /// How many bytes there are.
    pub have: u64,
}

impl Part {
    /// Opens or makes the file, which stays locked until it is dropped. `wait` is told when another
    /// process has it.
    ///
    /// # Errors
    /// It is no plain file, or the system refuses.
    pub fn open(
        path: &Path,
        blob: &Descriptor,
        mut wait: impl FnMut(),
    ) -> Result<Part, FetchError> {
        let failed = |error| FetchError::file(path, error);
        loop {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).mode(0o600);
            let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path);
            let file = file.map_err(failed)?;
            if !file.metadata().map_err(failed)?.is_file() {
                return Err(failed(io::Error::other("it is no plain file")));
            }
            if file.try_lock().is_err() {
                wait();
                file.lock().map_err(failed)?;
            }
            // Whoever had it may have finished it: then it has another name now.
            let own = file.metadata().map_err(failed)?;
            let named = fs::symlink_metadata(path);
            if named.is_ok_and(|named| (named.dev(), named.ino()) == (own.dev(), own.ino())) {
                let hasher = blob.digest.hasher();
                let mut part = Part { path: path.to_owned(), file, hasher, have: 0 };
                part.take_up(own.len(), blob)?;
                return Ok(part);
            }
        }
    }

    /// Hashes what an earlier run left. Too much cannot be a part of the blob.
    fn take_up(&mut self, length: u64, blob: &Descriptor) -> Result<(), FetchError> {
        if length > blob.size {
            return self.clear(blob);
        }
        let (got, read) = hash(&mut self.file, &blob.digest, length, &self.path)?;
        (self.hasher, self.have) = (got, read);
        Ok(())
    }

    /// Throws away what is there.
    ///
    /// # Errors
    /// What the system says.
    pub fn clear(&mut self, blob: &Descriptor) -> Result<(), FetchError> {
        let cleared = self.file.set_len(0).and_then(|()| self.file.rewind());
        cleared.map_err(|error| FetchError::file(&self.path, error))?;
        (self.hasher, self.have) = (blob.digest.hasher(), 0);
        Ok(())
    }

    /// Appends.
    ///
    /// # Errors
    /// What the system says.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), FetchError> {
        let written = self.file.write_all(bytes);
        written.map_err(|error| FetchError::file(&self.path, error))?;
        self.hasher.update(bytes);
        self.have += bytes.len() as u64;
        Ok(())
    }

    /// The digest of what is there. More cannot be appended after it.
    pub fn digest(&mut self, blob: &Descriptor) -> Digest {
        std::mem::replace(&mut self.hasher, blob.digest.hasher()).finish()
    }

    /// Gives the finished file its name and hands it out, at its beginning.
    ///
    /// # Errors
    /// What the system says.
    pub fn finish(mut self, name: &Path) -> Result<File, FetchError> {
        // No need to sync it: whoever finds the name later hashes the bytes again.
        let renamed = fs::rename(&self.path, name).and_then(|()| self.file.rewind());
        renamed.map_err(|error| FetchError::file(name, error))?;
        // The lock is on the open file; the next user needs none.
        let _ = self.file.unlock();
        Ok(self.file)
    }

    /// Removes the file.
    pub fn discard(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Hashes `length` bytes at most, and says how many there were.
pub fn hash(
    file: &mut File,
    digest: &Digest,
    length: u64,
    path: &Path,
) -> Result<(Hasher, u64), FetchError> {
    let (mut hasher, mut have) = (digest.hasher(), 0);
    let mut bytes = Read::by_ref(file).take(length);
    let mut buffer = vec![0; CHUNK];
    loop {
        let count = match bytes.read(&mut buffer) {
            Ok(0) => return Ok((hasher, have)),
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(FetchError::file(path, error)),
        };
        hasher.update(buffer.get(..count).unwrap_or_default());
        have += count as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_named_with_its_folder() {
        let blob = crate::setup::registry::fake::descriptor(b"abc");
        let file = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let path = PathBuf::from("/some/folder/blob.part");
        let mut part = Part { path, file, hasher: blob.digest.hasher(), have: 0 };
        let error = part.append(b"abc").unwrap_err();
        assert_eq!(error.to_string(), "there is no space left in /some/folder");
        assert!(error.fix().contains("VESTIBULE_ROOTFS_DIR"));
        assert_eq!(part.have, 0);
        let limited = io::Error::from(io::ErrorKind::FileTooLarge);
        assert!(FetchError::file(Path::new("/x"), limited).fix().contains("`ulimit -f`"));
    }
}
