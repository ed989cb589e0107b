//! What is known of an unpacked image: `image.json` beside its tree.

use protocol::Sandbox;
use protocol::environment::VARIABLES;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

/// The form of the file; another one is not read.
pub const FORMAT: u32 = 1;
/// The most bytes that the file may have.
const MAX: u64 = 8 << 20;

/// An unpacked image.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Record {
    /// The form of the file, [`FORMAT`].
    pub format: u32,
    /// What the setting said.
    pub reference: String,
    /// The digest of its manifest.
    pub manifest: String,
    /// The digest of its configuration.
    pub config: String,
    /// Its layers, the lowest first.
    pub layers: Vec<Layer>,
    /// The machine it is for: `linux/amd64`.
    pub platform: String,
    /// When it was made, as it says itself.
    pub created: Option<String>,
    /// When it was unpacked, in UTC.
    pub unpacked: String,
    /// `NAME=value`, as its configuration has them.
    pub environment: Vec<String>,
    /// Bytes of its files.
    pub bytes: u64,
    /// Its files, folders and links.
    pub entries: u64,
}

/// A layer of an image.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Layer {
    /// The digest of what was loaded.
    pub digest: String,
    /// The digest of what that decoded to.
    pub diff_id: String,
    /// Bytes that were loaded.
    pub size: u64,
}

/// Why a record says nothing.
#[derive(Debug, thiserror::Error)]
pub enum UnreadableRecord {
    /// It cannot be read.
    #[error("its image.json cannot be read ({0})")]
    Io(#[from] io::Error),
    /// It is not what `setup` writes.
    #[error("its image.json is damaged ({0})")]
    Shape(#[from] serde_json::Error),
    /// It is another version's.
    #[error("its image.json is of format {0}, which this version does not know")]
    Format(u32),
}

impl Record {
    /// Reads a record.
    ///
    /// # Errors
    /// [`UnreadableRecord`].
    pub fn read(path: &Path) -> Result<Record, UnreadableRecord> {
        let mut text = Vec::new();
        File::open(path)?.take(MAX).read_to_end(&mut text)?;
        let record: Record = serde_json::from_slice(&text)?;
        match record.format {
            FORMAT => Ok(record),
            other => Err(UnreadableRecord::Format(other)),
        }
    }

    /// Writes the record to a new file.
    ///
    /// # Errors
    /// Those of the file.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut text = serde_json::to_vec_pretty(self)?;
        text.push(b'\n');
        File::create(path)?.write_all(&text)
    }

    /// The image's variables that a sandbox can be given: those that are its own, such as `HOME`, stay
    /// as they are, and what no environment can hold is left out.
    pub fn environment(&self) -> Vec<(String, String)> {
        let own = |name: &str| VARIABLES.iter().any(|(own, _)| *own == name);
        let parted = self.environment.iter().filter_map(|line| line.split_once('='));
        let usable = parted.filter(|(name, value)| {
            !own(name) && *name != "PYTHONPYCACHEPREFIX" && Sandbox::is_variable(name, value)
        });
        let pairs = usable.map(|(name, value)| (name.to_owned(), value.to_owned()));
        pairs.take(Sandbox::MAX_VARIABLES).collect()
    }
}

#[cfg(test)]
impl Record {
    /// A record for tests.
    pub fn example() -> Record {
        Record {
            format: FORMAT,
            reference: "python:3".to_owned(),
            manifest: "m".to_owned(),
            config: "c".to_owned(),
            layers: Vec::new(),
            platform: "linux/amd64".to_owned(),
            created: None,
            unpacked: "2026-11-30T00:00:00Z".to_owned(),
            environment: Vec::new(),
            bytes: 0,
            entries: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_another_format_is_none() {
        let path = std::env::temp_dir().join(format!("record-{}", std::process::id()));
        let record = Record { bytes: 7, ..Record::example() };
        record.write(&path).unwrap();
        assert_eq!(Record::read(&path).unwrap(), record);
        Record { format: 2, ..record }.write(&path).unwrap();
        assert!(matches!(Record::read(&path), Err(UnreadableRecord::Format(2))));
        std::fs::write(&path, "{}").unwrap();
        assert!(matches!(Record::read(&path), Err(UnreadableRecord::Shape(_))));
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn of_an_images_variables_those_are_taken_that_a_sandbox_can_have() {
        let lines = ["PATH=/a:/b", "HOME=/root", "X=", "no name=1", "9=1", "PLAIN", "V=a=b"];
        let mut environment: Vec<String> = lines.map(str::to_owned).to_vec();
        environment.push(format!("LONG={}", "x".repeat(5000)));
        environment.push("PYTHONPYCACHEPREFIX=/x".to_owned());
        let record = Record { environment, ..Record::example() };
        let names: Vec<String> = record.environment().into_iter().map(|pair| pair.0).collect();
        assert_eq!(names, ["PATH", "X", "V"]);
        let many = (0..100).map(|number| format!("V{number}=1")).collect();
        assert_eq!(Record { environment: many, ..record }.environment().len(), 64);
    }
}
