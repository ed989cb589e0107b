//! What a record holds.

use crate::engine::Client;
use crate::run::facts::{self, UsageFacts};
use crate::run::report::{Ended, Report};
use crate::run::text;
use chrono::{DateTime, SecondsFormat, Utc};
use protocol::Ending;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// How much of the code is kept, in bytes.
const CODE: usize = 4096;
/// How much of a name or a reason that others wrote is kept, in bytes.
const TEXT: usize = 1024;

/// How a call ended.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Outcome {
    /// Its code ran to an end of its own.
    #[serde(rename = "ran")]
    Ran,
    /// Its timeout ended it.
    #[serde(rename = "timed out")]
    TimedOut,
    /// Its caller cancelled it.
    #[serde(rename = "cancelled")]
    Cancelled,
    /// The kernel ended it for memory.
    #[serde(rename = "out of memory")]
    OutOfMemory,
    /// A stream passed twice the output cap.
    #[serde(rename = "overflow")]
    Overflow,
    /// Vestibule ended it or lost sight of it.
    #[serde(rename = "stopped")]
    Stopped,
    /// It was refused before it came to a backend.
    #[serde(rename = "refused")]
    Refused,
    /// Its backend executed nothing.
    #[serde(rename = "failed to start")]
    FailedToStart,
}

impl Outcome {
    /// How a run ended; `cancelled` says that its caller did not want it any more.
    pub fn of(report: &Report, cancelled: bool) -> Outcome {
        match &report.ended {
            Ended::Reported(Ending::Exited(_) | Ending::Killed(_) | Ending::InitEnded) => {
                Outcome::Ran
            }
            Ended::Reported(Ending::TimedOut) => Outcome::TimedOut,
            Ended::Reported(Ending::Overflow(_)) => Outcome::Overflow,
            Ended::Reported(Ending::OutOfMemory | Ending::OutOfMemoryOutside) => {
                Outcome::OutOfMemory
            }
            Ended::Stopped(_) if cancelled => Outcome::Cancelled,
            Ended::Stopped(_) => Outcome::Stopped,
            Ended::NotStarted { .. } => Outcome::FailedToStart,
        }
    }
}

/// What a call asks for, as far as it can be told: it may be refused for any part of it.
#[derive(Clone, Debug, Serialize)]
pub struct Ask {
    /// One id for the records of one call.
    pub id: String,
    client: String,
    client_version: String,
    language: Option<String>,
    /// As it was asked for; a start has the one that holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_asked: Option<String>,
    code: Option<String>,
    code_bytes: Option<usize>,
    code_sha256: Option<String>,
}

impl Ask {
    /// Takes what can be told from a call's arguments.
    pub fn new(client: &Client, arguments: &Map<String, Value>) -> Ask {
        let text = |name: &str| arguments.get(name).and_then(Value::as_str);
        let timeout = arguments.get("timeout_seconds").filter(|value| !value.is_null());
        let code = text("code");
        Ask {
            id: id(),
            client: cut(&client.name, TEXT).to_owned(),
            client_version: cut(&client.version, TEXT).to_owned(),
            language: text("language").map(|name| cut(name, TEXT).to_owned()),
            timeout_asked: timeout.map(|value| cut(&value.to_string(), TEXT).to_owned()),
            code: code.map(|code| cut(code, CODE).to_owned()),
            code_bytes: code.map(str::len),
            code_sha256: code.map(sha256),
        }
    }
}

/// One line of the log.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum Record<'a> {
    /// A run is about to begin.
    Start {
        /// When, in UTC.
        time: String,
        /// What was asked for.
        #[serde(flatten)]
        ask: &'a Ask,
        /// The timeout that holds, in seconds.
        timeout_seconds: u32,
        /// What runs it.
        backend: &'static str,
        /// What protects it.
        isolation: String,
        /// The root file system or the image that it runs in.
        rootfs: Option<String>,
        /// Whether its sandbox was built ahead.
        start: &'static str,
    },
    /// It is over.
    End {
        /// When, in UTC.
        time: String,
        /// That of its start.
        id: &'a str,
        /// How it ended.
        outcome: Outcome,
        /// Its exit code, as the result has it.
        exit_code: Option<i32>,
        /// What protected it.
        isolation: String,
        /// What it used.
        usage: Option<UsageFacts>,
        /// The limits that it ran into.
        limits_hit: Vec<String>,
        /// Refused system calls that are reported.
        blocked_syscalls: &'a [String],
        /// Bytes that it wrote to standard output.
        stdout_bytes: u64,
        /// Bytes that it wrote to standard error.
        stderr_bytes: u64,
    },
    /// A call ran nothing.
    Blocked {
        /// When, in UTC.
        time: String,
        /// What was asked for.
        #[serde(flatten)]
        ask: &'a Ask,
        /// That it was refused.
        outcome: Outcome,
        /// Why.
        reason: String,
    },
}

impl<'a> Record<'a> {
    /// A run is about to begin.
    pub fn start(ask: &'a Ask, report: &Report, rootfs: Option<String>) -> Record<'a> {
        Record::Start {
            time: now(),
            ask,
            timeout_seconds: report.timeout.get(),
            backend: report.backend,
            isolation: report.isolation.to_string(),
            rootfs,
            start: facts::START,
        }
    }

    /// A run is over.
    pub fn end(ask: &'a Ask, report: &'a Report, outcome: Outcome) -> Record<'a> {
        Record::End {
            time: now(),
            id: &ask.id,
            outcome,
            exit_code: report.exit_code(),
            isolation: report.isolation.to_string(),
            usage: report.usage.as_ref().map(facts::usage),
            limits_hit: report.limits_hit.iter().map(text::limit_hit).collect(),
            blocked_syscalls: &report.denied,
            stdout_bytes: report.stdout.seen,
            stderr_bytes: report.stderr.seen,
        }
    }

    /// A call ran nothing.
    pub fn blocked(ask: &'a Ask, reason: &str) -> Record<'a> {
        let reason = cut(reason, TEXT).to_owned();
        Record::Blocked { time: now(), ask, outcome: Outcome::Refused, reason }
    }

    /// As a line of the log.
    pub fn line(&self) -> Vec<u8> {
        // These types hold nothing that JSON could not.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }
}

/// Now, with milliseconds: texts of one length, which sort as the moments do.
pub fn now() -> String {
    DateTime::<Utc>::from(SystemTime::now()).to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// An id that no other call on this machine has.
fn id() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let time = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("{:x}-{:x}-{count:x}", time.as_micros(), std::process::id())
}

/// The beginning of a text, at most so many bytes, ending with a character.
fn cut(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

fn sha256(text: &str) -> String {
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(text) {
        // Writing to a string cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn arguments(value: Value) -> Map<String, Value> {
        let Value::Object(arguments) = value else { panic!("{value}") };
        arguments
    }

    fn blocked(value: Value) -> Value {
        let client = Client { name: "c\u{1b}".to_owned(), version: "1".to_owned() };
        let ask = Ask::new(&client, &arguments(value));
        serde_json::from_slice(&Record::blocked(&ask, "why").line()).unwrap()
    }

    #[test]
    fn code_is_cut_and_its_whole_is_told_by_size_and_hash() {
        let code = format!("{}é", "x".repeat(CODE - 1));
        let record = blocked(json!({"language": "bash", "code": code, "timeout_seconds": 7}));
        assert_eq!(record["code"].as_str().unwrap().len(), CODE - 1);
        assert_eq!(record["code_bytes"], CODE + 1);
        assert_eq!(record["code_sha256"], sha256(&code));
        assert_eq!(sha256("abc")[..16], *"ba7816bf8f01cfea");
        assert_eq!((&record["event"], &record["outcome"]), (&json!("blocked"), &json!("refused")));
        assert_eq!((&record["client"], &record["timeout_asked"]), (&json!("c\u{1b}"), &json!("7")));
    }

    #[test]
    fn arguments_of_any_kind_are_recorded() {
        let record = blocked(json!({"language": 1, "code": [], "timeout_seconds": {"a": 1}}));
        assert_eq!(record["language"], Value::Null);
        assert_eq!(record["code"], Value::Null);
        assert_eq!(record["timeout_asked"], r#"{"a":1}"#);
    }

    #[test]
    fn a_record_is_one_line_and_ids_differ() {
        let ask = || Ask::new(&Client::default(), &arguments(json!({"code": "a\nb\u{2028}"})));
        let line = Record::blocked(&ask(), "x\ny").line();
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        assert_ne!(ask().id, ask().id);
        assert_eq!(now().len(), "2026-11-30T12:00:00.000Z".len());
    }
}
