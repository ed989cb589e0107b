//! A folder of one run's own, for its script.

use crate::workspace::private;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A name that nothing on this machine has had before: of this process, this moment and this call.
pub fn unique(kind: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    format!("{kind}-{}-{count}-{time}", std::process::id())
}

/// The folder; removed with everything in it when dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes it in a folder that is there, for its owner alone, under a name that begins with `kind`.
    pub fn new(parent: &Path, kind: &str) -> io::Result<Scratch> {
        Scratch::named(parent, &unique(kind))
    }

    /// Makes it under a name that nothing may have yet.
    pub fn named(parent: &Path, name: &str) -> io::Result<Scratch> {
        let path = parent.join(name);
        // Fails where something is there already, a symbolic link included.
        private::builder().create(&path)?;
        Ok(Scratch(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Makes a folder in it.
    pub fn folder(&self, name: &str) -> io::Result<()> {
        private::builder().create(self.0.join(name))
    }

    /// Writes a file in it.
    pub fn write(&self, name: impl AsRef<Path>, bytes: &[u8]) -> io::Result<PathBuf> {
        let path = self.0.join(name);
        OpenOptions::new().write(true).create_new(true).open(&path)?.write_all(bytes)?;
        Ok(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::warn!("{} cannot be removed: {error}", self.0.display());
        }
    }
}
