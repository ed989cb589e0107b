//! What is known of an unpacked image: `image.json` beside its tree.

use protocol::Sandbox;
use protocol::environment::VARIABLES;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

/// The form of the file; another one is not read.
pub const FORMAT: u32 = 1;
/// The most bytes that the file may have. It has some KB: each run reads it.
pub const MAX: u64 = 512 << 10;
/// The most bytes of what an image says of the moment it was made; RFC 3339 needs some 30.
const CREATED: usize = 64;

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
    /// `NAME=value`, as its configuration has them: those that a sandbox can be given.
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
    #[error("its image.json is damaged in {}", crate::escape::place_in_json(.0))]
    Shape(#[from] serde_json::Error),
    /// It is another version's.
    #[error("its image.json is of format {0}, which this version does not know")]
    Format(u32),
}

/// Why there is no record of an image.
#[derive(Debug, thiserror::Error)]
pub enum UnwritableRecord {
    /// The file cannot be written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It would be too long to be read again.
    #[error("its record has {0} bytes")]
    Long(u64),
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
    /// Those of the file, and where the record has more than [`MAX`] bytes: it could not be read again.
    pub fn write(&self, path: &Path) -> Result<(), UnwritableRecord> {
        let mut text = serde_json::to_vec_pretty(self).map_err(io::Error::from)?;
        text.push(b'\n');
        match text.len() as u64 {
            size if size > MAX => Err(UnwritableRecord::Long(size)),
            _ => Ok(File::create(path)?.write_all(&text)?),
        }
    }

    /// The image's variables that a sandbox can be given.
    pub fn environment(&self) -> Vec<(String, String)> {
        let pairs = usable(&self.environment);
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }
}

/// Of what an image says, the variables that a record holds, as `NAME=value`. What no run could have is
/// left out here, so that none has to read it.
pub fn variables(said: &[String]) -> Vec<String> {
    usable(said).map(|(name, value)| format!("{name}={value}")).collect()
}

/// When an image was made, unless what it says of that is no moment.
pub fn created(said: Option<&String>) -> Option<String> {
    said.filter(|text| text.len() <= CREATED).cloned()
}

/// Those that are the sandbox's own, such as `HOME`, stay as they are, and what no environment can hold is
/// left out.
fn usable(lines: &[String]) -> impl Iterator<Item = (&str, &str)> {
    let own = |name: &str| VARIABLES.iter().any(|(own, _)| *own == name);
    let parted = lines.iter().filter_map(|line| line.split_once('='));
    let usable = parted.filter(move |(name, value)| {
        !own(name) && *name != "PYTHONPYCACHEPREFIX" && Sandbox::is_variable(name, value)
    });
    usable.take(Sandbox::MAX_VARIABLES)
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
        // As a link can have it be another file.
        std::fs::write(&path, "\"hunter2\"").unwrap();
        let error = Record::read(&path).unwrap_err().to_string();
        assert_eq!(error, "its image.json is damaged in line 1, column 9");
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
        assert_eq!(variables(&record.environment), ["PATH=/a:/b", "X=", "V=a=b"]);
        let many = (0..100).map(|number| format!("V{number}=1")).collect();
        assert_eq!(Record { environment: many, ..record }.environment().len(), 64);
    }

    #[test]
    fn what_an_image_says_makes_no_record_that_is_not_read_again() {
        let path = std::env::temp_dir().join(format!("record-long-{}", std::process::id()));
        let mut said = vec![String::new(); 1_300_000];
        said.extend((0..100).map(|number| format!("V{number}={}", "x".repeat(4000))));
        let environment = variables(&said);
        assert_eq!(environment.len(), 64, "the rest is no use to a sandbox");
        let moment = "2026-11-30T00:00:00.123456789Z".to_owned();
        assert_eq!(created(Some(&moment)), Some(moment));
        assert_eq!(created(Some(&"x".repeat(1 << 20))), None);
        let record = Record { environment, ..Record::example() };
        record.write(&path).unwrap();
        assert_eq!(Record::read(&path).unwrap(), record);
        std::fs::remove_file(&path).unwrap();
        // Each is escaped to six bytes.
        let environment = (0..64).map(|number| format!("V{number}={}", "\u{1}".repeat(4000)));
        let long = Record { environment: environment.collect(), ..record };
        assert!(matches!(long.write(&path), Err(UnwritableRecord::Long(_))));
        assert!(!path.exists());
    }
}
