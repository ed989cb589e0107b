//! Whether every call of a test has its audit records: counted for all tests, when their places go.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// The end of an answer that names an invalid setting: the log's own place may be wrong then, so nothing
/// is recorded.
const SETTING: &str = "where your MCP client sets this server's environment";

/// The calls of a place's servers.
#[derive(Clone, Debug, Default)]
pub struct Tally(Arc<Mutex<Counts>>);

#[derive(Debug, Default)]
struct Counts {
    /// Calls of `run_code` that were sent.
    sent: u64,
    /// Those of them that were answered, and must have records.
    answered: u64,
    /// A server keeps its log elsewhere, or is not allowed to.
    elsewhere: bool,
}

impl Tally {
    /// The servers of this place are not counted: their test looks at the log itself.
    pub fn leave_out(&self) {
        self.with(|counts| counts.elsewhere = true);
    }

    /// A call was sent.
    pub fn sent(&self) {
        self.with(|counts| counts.sent += 1);
    }

    /// A call was answered.
    pub fn answered(&self, message: &Value) {
        let text = message["result"]["content"][0]["text"].as_str();
        let Some(text) = text else { return };
        if !text.contains(SETTING) {
            self.with(|counts| counts.answered += 1);
        }
    }

    fn with(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut self.0.lock().expect("no counting panics"));
    }

    /// Compares the calls with the records in a home's audit log.
    ///
    /// # Errors
    /// What does not fit.
    pub fn check(&self, home: &Path) -> Result<(), String> {
        let counts = self.0.lock().expect("no counting panics");
        if counts.elsewhere || counts.sent == 0 {
            return Ok(());
        }
        let calls = calls(&home.join(".vestibule/audit"))?;
        let ended = calls.values().filter(|events| is_whole(events)).count() as u64;
        if ended < counts.answered || calls.len() as u64 > counts.sent {
            return Err(format!(
                "{} calls were sent, {} answered; {} have records, {ended} to the end",
                counts.sent,
                counts.answered,
                calls.len()
            ));
        }
        Ok(())
    }
}

/// A call was refused, or has a start and an end.
fn is_whole(events: &BTreeSet<String>) -> bool {
    let has = |event| events.contains(event);
    has("blocked") != (has("start") && has("end"))
}

/// The events of each call in a log.
fn calls(folder: &Path) -> Result<BTreeMap<String, BTreeSet<String>>, String> {
    let mut calls: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    for file in files {
        let text = fs::read_to_string(file.path()).map_err(|error| error.to_string())?;
        for line in text.lines() {
            let record: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
            let word = |name: &str| record[name].as_str().unwrap_or_default().to_owned();
            if !calls.entry(word("id")).or_default().insert(word("event")) {
                return Err(format!("two records of one kind for one call: {line}"));
            }
        }
    }
    Ok(calls)
}
