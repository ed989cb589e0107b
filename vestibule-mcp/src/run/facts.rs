//! The facts of a result as data: the twin of the text.

use super::report::Report;
use super::text;
use protocol::Measured;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// The key of the facts in a result's `_meta`.
pub const META_KEY: &str = "vestibule/run";

/// How a sandbox came to be; until there is a pool, each is built for its call.
pub const START: &str = "cold";

/// The facts of one run.
#[derive(Debug, JsonSchema, Serialize)]
struct Facts {
    /// The code's exit code; 128+N for signal N, 137 for out of memory, -1 if the run timed out or
    /// was stopped; null if nothing was executed.
    exit_code: Option<i32>,
    /// Whether the timeout ended the run.
    timed_out: bool,
    /// Whether the kernel ended the run for memory, at its limit or outside it.
    out_of_memory: bool,
    /// The signal that killed the main process.
    signal: Option<String>,
    /// Why Vestibule stopped the run, other than by its timeout.
    stopped: Option<String>,
    /// What the code was written in.
    language: String,
    /// The timeout that held, in seconds.
    timeout_seconds: u32,
    /// What ran the code.
    backend: String,
    /// Whether the sandbox was built ahead (warm) or for this call (cold).
    start: &'static str,
    /// Bytes that the code wrote to standard output, as far as they were read.
    stdout_bytes: u64,
    /// How many of them the text leaves out.
    stdout_truncated_bytes: u64,
    /// Bytes that the code wrote to standard error, as far as they were read.
    stderr_bytes: u64,
    /// How many of them the text leaves out.
    stderr_truncated_bytes: u64,
    /// What the run used; null if nothing was measured.
    usage: Option<UsageFacts>,
    /// The limits that the run ran into.
    limits_hit: Vec<String>,
    /// Refused system calls that are reported.
    blocked_syscalls: Vec<String>,
    /// What else there is to know.
    notes: Vec<String>,
    /// Why the audit log may lack this call; null if it has it.
    audit: Option<String>,
    /// What protected the run, as the text's last line has it.
    isolation: String,
    /// The same in parts.
    isolation_parts: IsolationFacts,
}

/// What a run used.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields)]
pub struct UsageFacts {
    /// Wall time in milliseconds.
    wall_ms: u64,
    /// CPU time in milliseconds; null if not measured.
    cpu_ms: Option<u64>,
    /// Peak memory of the whole sandbox in bytes; null if not measured.
    mem_peak_bytes: Option<u64>,
    /// Peak number of processes and threads; null if not measured.
    pids_peak: Option<u64>,
    /// Why values are null.
    not_measured: Vec<NotMeasured>,
}

/// A value that was not measured.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields)]
struct NotMeasured {
    /// Its name.
    value: &'static str,
    /// Why.
    reason: String,
}

/// What protected a run.
#[derive(Debug, JsonSchema, Serialize)]
#[schemars(deny_unknown_fields)]
struct IsolationFacts {
    /// native, container, native-degraded, container-degraded or none.
    level: String,
    /// Limits of the whole sandbox that were not in force.
    limits_not_applied: Vec<String>,
    /// Per-process limits in force in their place.
    stand_ins: Vec<String>,
    /// Why something was missing.
    reasons: Vec<String>,
    /// The root file system, where it is not a pinned image.
    rootfs: Option<String>,
}

/// Everything that the text says, the output included.
#[derive(Debug, JsonSchema, Serialize)]
struct Structured {
    /// Standard output, cut at the limit.
    stdout: String,
    /// Standard error, cut at the limit.
    stderr: String,
    /// The rest.
    #[serde(flatten)]
    facts: Facts,
}

/// The facts for `_meta`.
pub fn meta(report: &Report) -> Value {
    // These types hold nothing that JSON could not; a failure would leave the twin out, not the text.
    serde_json::to_value(facts(report)).unwrap_or_default()
}

/// The structured content.
pub fn structured(report: &Report) -> Value {
    let (stdout, stderr) = (report.stdout.text().0, report.stderr.text().0);
    serde_json::to_value(Structured { stdout, stderr, facts: facts(report) }).unwrap_or_default()
}

/// The JSON Schema of the structured content.
pub fn output_schema() -> Value {
    schemars::schema_for!(Structured).to_value()
}

fn facts(report: &Report) -> Facts {
    let (stdout_left_out, stderr_left_out) = (report.stdout.text().1, report.stderr.text().1);
    Facts {
        exit_code: report.exit_code(),
        timed_out: report.timed_out(),
        out_of_memory: report.out_of_memory(),
        signal: report.signal(),
        stopped: report.stopped(),
        language: report.language.to_string(),
        timeout_seconds: report.timeout.get(),
        backend: report.backend.to_owned(),
        start: START,
        stdout_bytes: report.stdout.seen,
        stdout_truncated_bytes: stdout_left_out,
        stderr_bytes: report.stderr.seen,
        stderr_truncated_bytes: stderr_left_out,
        usage: report.usage.as_ref().map(usage),
        limits_hit: report.limits_hit.iter().map(text::limit_hit).collect(),
        blocked_syscalls: report.denied.clone(),
        notes: report.notes.clone(),
        audit: report.audit.words(),
        isolation: text::isolation(report),
        isolation_parts: isolation(&report.isolation),
    }
}

/// What a run used, as data.
pub fn usage(usage: &protocol::Usage) -> UsageFacts {
    let mut not_measured = Vec::new();
    let mut value = |name, measured: &Measured<u64>| match measured {
        Measured::Value(value) => Some(*value),
        Measured::Missing(reason) => {
            not_measured.push(NotMeasured { value: name, reason: reason.clone() });
            None
        }
    };
    let cpu_ms = value("cpu", &usage.cpu_us).map(text::milliseconds);
    let mem_peak_bytes = value("mem_peak", &usage.mem_peak_bytes);
    let pids_peak = value("pids_peak", &usage.pids_peak);
    let wall_ms = text::milliseconds(usage.wall_us);
    UsageFacts { wall_ms, cpu_ms, mem_peak_bytes, pids_peak, not_measured }
}

fn isolation(isolation: &protocol::Isolation) -> IsolationFacts {
    fn names<T: ToString>(items: &[T]) -> Vec<String> {
        items.iter().map(T::to_string).collect()
    }
    IsolationFacts {
        level: isolation.level.to_string(),
        limits_not_applied: names(&isolation.not_applied),
        stand_ins: names(&isolation.stand_ins),
        reasons: isolation.reasons.clone(),
        rootfs: isolation.rootfs.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_of_an_object_with_every_fact() {
        let schema = output_schema();
        assert_eq!(schema["type"], "object");
        for name in ["stdout", "stderr", "exit_code", "isolation", "usage", "start", "notes"] {
            assert!(schema["properties"].get(name).is_some(), "{name}: {schema}");
        }
    }
}
