//! The text of a result. Text is the contract: what stands here, and in which order, is what agents
//! and people rely on.

use super::output::Captured;
use super::report::{Ended, Report};
use crate::escape;
use protocol::{Ending, LimitHit, Measured, Usage};

/// How many characters a line of ours may have that holds text from elsewhere.
const LINE: usize = 2000;
/// What the peak memory covers.
const MEMORY_SCOPE: &str = "whole sandbox: setup, processes, /tmp, file cache";

/// How the lines after the streams begin.
const AFTER_STREAMS: [&str; 6] =
    ["note:", "usage:", "limits hit:", "blocked syscalls:", "audit:", "isolation:"];

/// The whole text, without a newline at its end.
pub fn render(report: &Report) -> String {
    let mut lines = Vec::new();
    lines.extend(head(report));
    lines.extend(report.exit_code().map(|code| format!("exit_code: {code}")));
    lines.extend(stream("stdout", &report.stdout));
    lines.extend(stream("stderr", &report.stderr));
    lines.extend(tail(report));
    lines.join("\n")
}

/// The text without the two streams, for a reader who has seen them already.
pub fn render_report(report: &Report) -> String {
    let mut lines = Vec::new();
    lines.extend(head(report));
    lines.extend(report.exit_code().map(|code| format!("exit_code: {code}")));
    for (name, captured) in [("stdout", &report.stdout), ("stderr", &report.stderr)] {
        let (_, left_out) = captured.text();
        lines.extend((left_out > 0).then(|| format!("{name}: {}", truncated(left_out))));
    }
    lines.extend(tail(report));
    lines.join("\n")
}

/// How it ended, where that is more than an exit code.
fn head(report: &Report) -> Option<String> {
    if let Some(reason) = report.stopped() {
        return Some(format!("[stopped: {}]", escape::for_display(&reason, LINE)));
    }
    if let Some(signal) = report.signal() {
        return Some(format!("[killed by {signal}]"));
    }
    match report.ended {
        Ended::Reported(Ending::TimedOut) => {
            Some(format!("[timed out after {} s and was terminated]", report.timeout))
        }
        Ended::Reported(Ending::OutOfMemory) => Some(format!(
            "[out of memory: the kernel ended the sandbox at its {} MiB limit]",
            report.memory
        )),
        Ended::Reported(Ending::OutOfMemoryOutside) => Some(
            "[out of memory: not at the sandbox's own limit; the machine, or a limit above, ran out]"
                .to_owned(),
        ),
        _ => None,
    }
}

fn stream(name: &str, captured: &Captured) -> Option<String> {
    let (mut text, left_out) = captured.text();
    if text.is_empty() && left_out == 0 {
        return None;
    }
    if text.ends_with('\n') {
        text.pop();
    }
    if left_out > 0 {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&truncated(left_out));
    }
    // An empty line shows where the stream ends if its last line could be taken for one of ours.
    if text.lines().next_back().is_some_and(looks_like_ours) {
        text.push('\n');
    }
    Some(format!("{name}:\n{text}"))
}

/// Whether a line of the guest's could be taken for one that stands after the streams, or for one
/// that says how the run ended.
fn looks_like_ours(line: &str) -> bool {
    let bracketed = line.starts_with('[') && line.trim_end().ends_with(']');
    bracketed || AFTER_STREAMS.iter().any(|begin| line.starts_with(begin))
}

fn truncated(bytes: u64) -> String {
    format!("…[{bytes} bytes truncated]")
}

/// The lines after the streams; `isolation:` is always the last.
fn tail(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    for note in &report.notes {
        lines.push(format!("note: {}", escape::for_display(note, LINE)));
    }
    if let Some(used) = &report.usage {
        let wall_only = matches!(report.ended, Ended::NotStarted { .. });
        lines.push(format!("usage: {}", if wall_only { wall(used) } else { usage(used) }));
    }
    if !report.limits_hit.is_empty() {
        let hits: Vec<_> = report.limits_hit.iter().map(limit_hit).collect();
        lines.push(format!("limits hit: {}", hits.join("; ")));
    }
    if !report.denied.is_empty() {
        let names = escape::for_display(&report.denied.join(", "), LINE);
        lines.push(format!("blocked syscalls: {names}"));
    }
    if let Some(words) = report.audit.words() {
        lines.push(format!("audit: {}", escape::for_display(&words, LINE)));
    }
    lines.push(format!("isolation: {}", isolation(report)));
    lines
}

/// The isolation line's text.
pub fn isolation(report: &Report) -> String {
    escape::for_display(&report.isolation.to_string(), LINE)
}

/// A limit that was hit, in words.
pub fn limit_hit(hit: &LimitHit) -> String {
    match hit {
        LimitHit::Cpu { throttled, periods } => {
            format!("cpu (throttled in {throttled} of {periods} periods of 100 ms)")
        }
        LimitHit::Pids(max) => format!("pids ({max})"),
        LimitHit::Memory(mib) => format!("memory (a process was ended at {mib} MiB)"),
    }
}

/// Microseconds as whole milliseconds, rounded.
pub fn milliseconds(microseconds: u64) -> u64 {
    microseconds.saturating_add(500) / 1000
}

fn wall(usage: &Usage) -> String {
    format!("wall {} ms", milliseconds(usage.wall_us))
}

/// Neighbouring values that read alike.
enum Group<'a> {
    Measured(Vec<String>),
    Missing(Vec<&'static str>, &'a str),
}

/// The values, in a fixed order; neighbours that were not measured for the same reason share it.
fn usage(usage: &Usage) -> String {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let values = [
        ("cpu", shown(&usage.cpu_us, |us| format!("{} ms", milliseconds(us)))),
        (
            "mem_peak",
            shown(&usage.mem_peak_bytes, |b| format!("{:.1} MiB ({MEMORY_SCOPE})", mib(b))),
        ),
        ("pids_peak", shown(&usage.pids_peak, |count| count.to_string())),
    ];
    let mut groups = vec![Group::Measured(vec![wall(usage)])];
    for (name, value) in values {
        match (value, groups.last_mut()) {
            (Ok(value), Some(Group::Measured(group))) => group.push(format!("{name} {value}")),
            (Ok(value), _) => groups.push(Group::Measured(vec![format!("{name} {value}")])),
            (Err(reason), Some(Group::Missing(names, same))) if *same == reason => names.push(name),
            (Err(reason), _) => groups.push(Group::Missing(vec![name], reason)),
        }
    }
    let groups: Vec<String> = groups.iter().map(Group::text).collect();
    escape::for_display(&groups.join("; "), LINE)
}

fn shown(value: &Measured<u64>, show: impl Fn(u64) -> String) -> Result<String, &str> {
    match value {
        Measured::Value(value) => Ok(show(*value)),
        Measured::Missing(reason) => Err(reason),
    }
}

impl Group<'_> {
    fn text(&self) -> String {
        match self {
            Group::Measured(values) => values.join(", "),
            Group::Missing(names, reason) => {
                let names = match names.as_slice() {
                    [first @ .., last] if !first.is_empty() => {
                        format!("{} and {last}", first.join(", "))
                    }
                    names => names.concat(),
                };
                format!("{names} not measured: {reason}")
            }
        }
    }
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
