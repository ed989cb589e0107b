//! The audit log: what was run, by whom, and how it ended. A record is no proof: whoever may write to the
//! folder can change it.

mod log;
pub mod reader;
pub mod record;
mod writer;

use crate::engine::Client;
use crate::run::report::Report;
use record::{Ask, Outcome, Record};
use serde_json::{Map, Value};
use std::path::Path;
use writer::Writer;

/// The audit log of one server.
pub struct Audit {
    writer: Writer,
}

/// Whether a record is on the disk.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Kept {
    /// It was written.
    #[default]
    Recorded,
    /// It was not: why.
    NotRecorded(String),
    /// The disk did not answer in time.
    NotConfirmed(String),
}

impl Kept {
    /// The worse of two.
    #[must_use]
    pub fn and(self, other: Kept) -> Kept {
        if self == Kept::Recorded { other } else { self }
    }

    /// In words, if there is something to say.
    pub fn words(&self) -> Option<String> {
        match self {
            Kept::Recorded => None,
            Kept::NotRecorded(why) => Some(format!("not recorded ({why})")),
            Kept::NotConfirmed(why) => Some(format!("not confirmed ({why})")),
        }
    }
}

/// The records of one call.
pub struct Entry<'a> {
    writer: &'a Writer,
    ask: Ask,
    kept: Kept,
}

impl Audit {
    /// A log in this folder. Nothing is made before the first record.
    pub fn new(folder: &Path) -> Audit {
        Audit { writer: Writer::new(folder.to_owned()) }
    }

    /// The records of a call with these arguments, which may be anything.
    pub fn entry(&self, client: &Client, arguments: &Map<String, Value>) -> Entry<'_> {
        Entry { writer: &self.writer, ask: Ask::new(client, arguments), kept: Kept::default() }
    }
}

impl Entry<'_> {
    /// The code is about to be run, in this root file system or image.
    pub async fn start(&mut self, report: &Report, rootfs: Option<String>) {
        self.kept = self.writer.write(&Record::start(&self.ask, report, rootfs)).await;
    }

    /// The run is over. Whether both of its records were kept.
    pub async fn end(self, report: &Report, outcome: Outcome) -> Kept {
        let record = Record::end(&self.ask, report, outcome);
        if matches!(self.kept, Kept::NotConfirmed(_)) {
            // A disk that hangs has cost two seconds already; the record is written when it answers.
            let _ = self.writer.send(&record);
            return self.kept;
        }
        self.kept.and(self.writer.write(&record).await)
    }

    /// The call ran nothing. There is no result that could say so, so that the log does.
    pub async fn blocked(self, reason: &str) {
        if let Some(words) = self.writer.write(&Record::blocked(&self.ask, reason)).await.words() {
            tracing::warn!("audit: a refused call is {words}");
        }
    }
}
