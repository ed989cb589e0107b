//! A folder of one run's own, below the folder for temporary files.

use crate::workspace::private;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The folder; removed with everything in it when dropped.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Makes it, for its owner alone, under a name that nothing has had before.
    pub fn new() -> io::Result<Scratch> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let name = format!("vestibule-naive-{}-{count}-{time}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // Fails where something is there already, a symbolic link included.
        private::builder().create(&path)?;
        Ok(Scratch(path))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file in it.
    pub fn write(&self, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
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
