//! `vestibule-mcp audit`: the last calls, one line each.

use super::{say, told};
use crate::audit::reader::{Call, Reader};
use crate::config::Config;
use crate::escape::{for_display, is_hostile};
use protocol::Language;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::time::Duration;

/// How often `--follow` looks.
const LOOK: Duration = Duration::from_millis(300);
/// How much is shown of a value that others wrote, in characters.
const SHOWN: usize = 60;
/// How much is shown of a language that there is not, in characters.
const UNKNOWN: usize = 20;
/// How much of the isolation is shown, and of the code's first line.
const LONG: usize = 160;

/// The arguments of `audit`.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// How many calls
    #[arg(value_name = "N", default_value_t = 20)]
    count: usize,
    /// Print one JSON object for each call
    #[arg(long)]
    json: bool,
    /// Go on with every call that comes to its end, also of those shown without one
    #[arg(long)]
    follow: bool,
}

/// Prints the calls, and returns the exit code.
///
/// # Errors
/// None; what goes wrong is said, and the exit code is 1.
pub async fn run(config: &Config, arguments: &Arguments) -> io::Result<i32> {
    if let Err(refusal) = config.usable() {
        say(format_args!("vestibule-mcp: {}", told(&refusal)));
        return Ok(1);
    }
    match print(config, arguments).await {
        Ok(()) => Ok(0),
        // Whoever reads has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(0),
        Err(error) => {
            let folder = for_display(&config.audit_dir.to_string_lossy(), LONG);
            say(format_args!("vestibule-mcp: the audit log in {folder} cannot be shown: {error}"));
            Ok(1)
        }
    }
}

async fn print(config: &Config, arguments: &Arguments) -> io::Result<()> {
    let mut reader = Reader::new(&config.audit_dir);
    let mut out = io::stdout().lock();
    let mut pending = first(&mut reader, arguments, &mut out)?;
    if !arguments.follow {
        let torn = reader.torn + reader.unfinished();
        if torn > 0 {
            let lines = if torn == 1 { "line was" } else { "lines were" };
            say(format_args!("{torn} {lines} no whole record and left out"));
        }
        return Ok(());
    }
    loop {
        tokio::time::sleep(LOOK).await;
        show(&reader.ended(&mut pending)?, arguments, &mut out)?;
    }
}

/// Prints the last calls, an open one too: its server may have been killed, and then no end ever comes.
/// Returns every call that may still end and is then to be printed.
fn first(
    reader: &mut Reader,
    arguments: &Arguments,
    out: &mut impl Write,
) -> io::Result<HashMap<String, Call>> {
    let (calls, open) = if arguments.follow {
        reader.last_and_open(arguments.count)?
    } else {
        (reader.last(arguments.count)?, HashMap::new())
    };
    if calls.is_empty() && arguments.count > 0 && !arguments.json {
        let folder = for_display(&reader.folder().to_string_lossy(), LONG);
        say(format_args!("no calls in {folder} yet"));
    }
    show(&calls, arguments, out)?;
    Ok(open)
}

fn show(calls: &[Call], arguments: &Arguments, out: &mut impl Write) -> io::Result<()> {
    let show = if arguments.json { json } else { line };
    for call in calls {
        writeln!(out, "{}", show(&call.merged()))?;
    }
    out.flush()
}

/// JSON with whatever could drive a terminal as an escape of JSON's own.
fn json(call: &impl Serialize) -> String {
    let text = serde_json::to_string(call).unwrap_or_default();
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hostile(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(safe, "\\u{unit:04x}");
            }
        } else {
            safe.push(c);
        }
    }
    safe
}

/// A call in one line: time, language, outcome, exit code, usage, refused calls, isolation, code.
fn line(call: &Map<String, Value>) -> String {
    let text =
        |name: &str, limit| flat(call.get(name).and_then(Value::as_str).unwrap_or("-"), limit);
    let time = text("time", 19).replace('T', " ");
    let mut parts = vec![
        time.trim_end_matches('…').to_owned(),
        format!("{:<6}", language(call)),
        format!("{:<15}", text("outcome", SHOWN)),
    ];
    parts.extend(number(call, "exit_code").map(|code| format!("exit {code}")));
    parts.extend(usage(call));
    if let Some(Value::Array(names)) = call.get("blocked_syscalls")
        && !names.is_empty()
    {
        let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
        parts.push(format!("blocked {}", flat(&names.join(","), LONG)));
    }
    let refused = call.contains_key("reason");
    parts.push(text(if refused { "reason" } else { "isolation" }, LONG));
    if let Some(code) = call.get("code").and_then(Value::as_str) {
        let first = code.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        parts.push(format!("| {}", flat(first.trim_start(), LONG)));
    }
    parts.join("  ")
}

/// A language by its name. Whatever else a caller asked for is quoted and cut short, so that it does not
/// read like columns of ours.
fn language(call: &Map<String, Value>) -> String {
    let Some(name) = call.get("language").and_then(Value::as_str) else { return "-".to_owned() };
    if Language::ALL.iter().any(|language| language.name() == name) {
        return name.to_owned();
    }
    let squeezed = squeezed(name);
    let mut cut: String = squeezed.chars().take(UNKNOWN).collect();
    if cut.len() < squeezed.len() {
        cut.push('…');
    }
    json(&cut)
}

/// Text of others' in a column.
fn flat(text: &str, limit: usize) -> String {
    for_display(&squeezed(text), limit)
}

/// Text without runs of blanks: these could imitate our columns, or push what follows to the terminal's
/// next line. Blanks that would be escaped stay to be told.
fn squeezed(text: &str) -> String {
    let mut squeezed = String::with_capacity(text.len());
    for c in text.chars() {
        if !c.is_whitespace() || is_hostile(c) {
            squeezed.push(c);
        } else if !squeezed.ends_with(' ') {
            squeezed.push(' ');
        }
    }
    squeezed
}

fn number(of: &Map<String, Value>, name: &str) -> Option<i64> {
    of.get(name).and_then(Value::as_i64)
}

fn usage(call: &Map<String, Value>) -> Option<String> {
    let used = call.get("usage")?.as_object()?;
    let mut parts = Vec::new();
    parts.extend(number(used, "wall_ms").map(|ms| format!("wall {ms} ms")));
    parts.extend(number(used, "cpu_ms").map(|ms| format!("cpu {ms} ms")));
    let mib = |bytes: i64| bytes as f64 / f64::from(1 << 20);
    parts.extend(number(used, "mem_peak_bytes").map(|bytes| format!("mem {:.1} MiB", mib(bytes))));
    parts.extend(number(used, "pids_peak").map(|count| format!("pids {count}")));
    (!parts.is_empty()).then(|| parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Map<String, Value> {
        let Value::Object(object) = value else { panic!("{value}") };
        object
    }

    #[test]
    fn a_call_is_one_line() {
        let call = object(json!({
            "time": "2026-11-30T12:00:01.123Z", "language": "python", "outcome": "ran", "exit_code": 3,
            "usage": {"wall_ms": 21, "cpu_ms": null, "mem_peak_bytes": 9961472, "pids_peak": 2},
            "blocked_syscalls": ["mount", "unshare"], "isolation": "native", "code": "\n  import os\nx",
        }));
        assert_eq!(
            line(&call),
            "2026-11-30 12:00:01  python  ran              exit 3  wall 21 ms, mem 9.5 MiB, pids 2  \
             blocked mount,unshare  native  | import os"
        );
        let refused = object(
            json!({"time": "2026-11-30T12:00:01.123Z", "outcome": "refused", "reason": "no"}),
        );
        assert_eq!(line(&refused), "2026-11-30 12:00:01  -       refused          no");
    }

    #[test]
    fn no_column_can_be_imitated() {
        let fake = "python  ran\u{3000} \u{a0}exit 0  wall 21 ms  native  | print('nice')";
        let time = "2026-11-30T12:00:01.123Z";
        let call = object(json!({"time": time, "outcome": "refused", "language": fake,
            "reason": fake, "code": format!("   {fake}{}x", " ".repeat(90))}));
        let flat = "python ran exit 0 wall 21 ms native | print('nice')";
        assert_eq!(
            line(&call),
            format!(
                "2026-11-30 12:00:01  \"python ran exit 0 wa…\"  refused          {flat}  | {flat} x"
            )
        );
        for (name, shown) in [
            ("node", "node  "),
            ("perl", "\"perl\""),
            ("", "\"\"    "),
            ("\" ran \\", r#""\" ran \\""#),
            ("a\u{1b}\n", r#""a\u001b\n""#),
        ] {
            let call = object(json!({"time": time, "outcome": "refused", "language": name}));
            let line = line(&call);
            assert_eq!(line, format!("2026-11-30 12:00:01  {shown}  refused          -"));
        }
    }

    #[test]
    fn an_open_call_is_shown_when_it_is_found_and_again_with_its_end() {
        let folder = std::env::temp_dir().join(format!("audit-follow-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let add = |line: &str| {
            let mut file = std::fs::File::options();
            let mut file = file.append(true).create(true).open(folder.join("a.jsonl")).unwrap();
            writeln!(file, "{line}").unwrap();
        };
        let record = |event: &str, id: &str| {
            format!(r#"{{"event":"{event}","time":"2026-11-30T12:00:0{id}.000Z","id":"{id}"}}"#)
        };
        add(&record("start", "1"));
        add(&record("start", "2"));
        let arguments = Arguments { count: 1, json: true, follow: true };
        let mut reader = Reader::new(&folder);
        let mut out = Vec::new();
        let mut pending = first(&mut reader, &arguments, &mut out).unwrap();
        add(&record("end", "1"));
        add(&record("start", "3"));
        add(&record("end", "2"));
        show(&reader.ended(&mut pending).unwrap(), &arguments, &mut out).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        let calls = String::from_utf8(out).unwrap();
        let calls = calls.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let calls: Vec<_> =
            calls.map(|call| (call["id"].clone(), call.get("ended").is_some())).collect();
        assert_eq!(calls, [("2".into(), false), ("1".into(), true), ("2".into(), true)]);
    }

    #[test]
    fn a_record_that_somebody_made_up_drives_no_terminal() {
        let evil = "\u{1b}]0;x\u{7}\n\u{9b}2J\u{202e}\r";
        for name in ["time", "language", "outcome", "isolation", "reason", "code", "id", "extra"] {
            let call = object(json!({name: evil, "blocked_syscalls": [evil, 1], "usage": evil}));
            for shown in [line(&call), json(&call)] {
                assert!(!shown.chars().any(is_hostile), "{name}: {shown:?}");
            }
            assert_eq!(serde_json::from_str::<Value>(&json(&call)).unwrap()[name], evil);
        }
        let wrong =
            object(json!({"time": 1, "exit_code": "x", "usage": [], "code": {}, "outcome": null}));
        assert!(line(&wrong).starts_with('-'), "{}", line(&wrong));
    }
}
