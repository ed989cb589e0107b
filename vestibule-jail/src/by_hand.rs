//! The commands of a person: a run from a JSON spec, the list of steps, the policy, a check.

use crate::arguments::{Arguments, Command, HELP};
use crate::pipe::bad_request;
use crate::supervisor::{self, Outbox, Sink, Verdict};
use crate::trace::Trace;
use crate::{filter, sys};
use protocol::{
    Applied, CgroupSource, CpuPercent, Ending, Language, Limits, Measured, MemoryMib, OutOfRange,
    Outcome, OutputBytes, PidsMax, Refusal, Rootfs, RunSpec, Sandbox, Script, TimedStep,
    TimeoutSeconds, TmpfsMib,
};
use serde::Serialize;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;

/// The exit code of a run that was refused or never started.
const REFUSED: i32 = 125;
/// The exit code of a run that Vestibule ended.
const STOPPED: i32 = 124;
/// The largest spec file, in bytes: the largest request, with every byte of code escaped.
const MAX_SPEC: u64 = 6 * protocol::frame::MAX_REQUEST as u64;

/// What `--json` prints.
#[derive(Debug, Default, Serialize)]
struct Printed {
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<Refusal>,
    #[serde(skip_serializing_if = "Option::is_none")]
    isolation: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    applied: Option<Applied>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<Outcome>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr: Option<String>,
}

/// The version with what it was built from.
fn version() -> String {
    format!(
        "{} (protocol {}, {} {}, filter compiled by libseccomp {}, {} instructions)",
        env!("CARGO_PKG_VERSION"),
        protocol::PROTOCOL_VERSION,
        std::env::consts::OS,
        std::env::consts::ARCH,
        filter::LIBSECCOMP,
        filter::program().len(),
    )
}

/// Carries a command out and returns the exit code.
pub fn main(arguments: Vec<OsString>) -> i32 {
    let arguments = match Arguments::parse(arguments) {
        Ok(arguments) => arguments,
        Err(wrong) => {
            // It repeats what was typed, and a shell may have put names there that code has chosen.
            let harmless = |c: char| if c.is_control() { '\u{fffd}' } else { c };
            let wrong: String = wrong.chars().map(harmless).collect();
            eprintln!("vestibule-jail: {wrong}; see --help");
            return 2;
        }
    };
    let done = match &arguments.command {
        Command::Spec(path) => return run(path, &arguments),
        Command::Check => return check(&arguments),
        Command::PrintSpec => print_spec(),
        Command::PrintFilter => filter::print_table(&mut io::stdout().lock()),
        Command::Help => io::stdout().write_all(HELP.as_bytes()),
        Command::Version => writeln!(io::stdout(), "vestibule-jail {}", version()),
    };
    i32::from(done.is_err())
}

fn print_spec() -> io::Result<()> {
    let spec = example(usable_folder()?).map_err(io::Error::other)?;
    let text = serde_json::to_string_pretty(&spec).map_err(io::Error::other)?;
    writeln!(io::stdout(), "{text}")
}

/// This folder, or the server's workspace where this one must not be given away.
fn usable_folder() -> io::Result<PathBuf> {
    let here = std::env::current_dir()?.canonicalize()?;
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    Ok(if home.starts_with(&here) { home.join(".vestibule/workspace") } else { here })
}

/// A complete spec with the server's default limits.
fn example(workspace: PathBuf) -> Result<RunSpec, OutOfRange> {
    Ok(RunSpec {
        prepare: Sandbox {
            rootfs: Rootfs::Host,
            workspace,
            workspace_read_only: false,
            limits: Limits {
                memory_mib: MemoryMib::new(256)?,
                cpu_percent: CpuPercent::new(75)?,
                pids_max: PidsMax::new(128)?,
                tmpfs_mib: TmpfsMib::new(64)?,
            },
            environment: Vec::new(),
            bytecode: None,
            cgroup: CgroupSource::Find,
        },
        execute: Script {
            language: Language::Python,
            code: "print('hello from the sandbox')\n".to_owned(),
            timeout_seconds: TimeoutSeconds::new(10)?,
            output_bytes: OutputBytes::new(20_000)?,
        },
    })
}

/// Builds a sandbox in an own, empty workspace and ends it.
fn check(arguments: &Arguments) -> i32 {
    let mut trace = Trace::default();
    let built = own_workspace().and_then(|workspace| {
        let spec = example(workspace.clone()).map_err(|error| bad_request(&error.to_string()))?;
        let built = supervisor::prepare(&spec.prepare, None, &mut trace);
        // Nothing has been written to it.
        let _ = std::fs::remove_dir(&workspace);
        built
    });
    let (result, code) = match built {
        Ok((standing, applied)) => {
            standing.discard();
            (Printed { applied: Some(applied), ..Printed::default() }, 0)
        }
        Err(refusal) => (Printed { refused: Some(refusal), ..Printed::default() }, 1),
    };
    if arguments.json {
        explain(arguments, trace.steps(), &[], &mut io::stderr());
    } else {
        explain(arguments, trace.steps(), &[], &mut io::stdout());
    }
    if print(arguments, &result, &mut io::stdout()) { code } else { 1 }
}

fn own_workspace() -> Result<PathBuf, Refusal> {
    let template = std::env::temp_dir().join("vestibule-check-XXXXXX");
    let made = nix::unistd::mkdtemp(&template).map_err(io::Error::from);
    made.and_then(|folder| folder.canonicalize()).map_err(|error| {
        let place = template.display();
        let what = format!("no workspace can be made for the check: {place:?}: {error}");
        Refusal { fix: "set TMPDIR to a folder of yours".to_owned(), ..bad_request(&what) }
    })
}

fn run(path: &PathBuf, arguments: &Arguments) -> i32 {
    let spec = match read_spec(path) {
        Ok(spec) => spec,
        Err(message) => {
            eprintln!("vestibule-jail: {message}");
            return 2;
        }
    };
    let mut trace = Trace::default();
    let (standing, mut applied) = match supervisor::prepare(&spec.prepare, None, &mut trace) {
        Ok(built) => built,
        Err(refusal) => return refused(arguments, refusal, trace.steps()),
    };
    let mut sink = match sink(arguments.json) {
        Ok(sink) => sink,
        Err(error) => {
            standing.discard();
            eprintln!("vestibule-jail: standard output: {error}");
            return REFUSED;
        }
    };
    sys::process::ignore_terminal_stops();
    match standing.execute(&spec.execute, None, &mut sink, &mut trace) {
        Ok(Verdict::Ended(outcome)) => {
            sink.finish();
            let lost = sink.has_lost();
            explain(arguments, &applied.steps, &outcome.steps, &mut io::stderr());
            applied.take_back(&outcome.limits_lost);
            let isolation = applied.isolation.to_string();
            let code = exit_code(&outcome.ending);
            let (stdout, stderr) = sink.into_kept();
            let (applied, isolation) = (Some(applied), Some(isolation));
            let outcome = Some(*outcome);
            let result = Printed { isolation, applied, outcome, stdout, stderr, refused: None };
            let printed = print(arguments, &result, &mut io::stderr());
            if lost || !printed { STOPPED } else { code }
        }
        Ok(Verdict::Abandoned) => STOPPED,
        Err(refusal) => refused(arguments, refusal, trace.steps()),
    }
}

fn read_spec(path: &PathBuf) -> Result<RunSpec, String> {
    let name = format!("{path:?}");
    let mut text = String::new();
    let read = if path.as_os_str() == "-" {
        io::stdin().lock().take(MAX_SPEC + 1).read_to_string(&mut text)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(MAX_SPEC + 1).read_to_string(&mut text))
    };
    let length = read.map_err(|error| format!("{name}: {error}"))?;
    if length as u64 > MAX_SPEC {
        return Err(format!("{name}: a spec has at most {MAX_SPEC} bytes"));
    }
    let example = "see --print-spec for a complete example";
    let spec: RunSpec =
        serde_json::from_str(&text).map_err(|error| format!("{name}: {error}; {example}"))?;
    let checked = spec.prepare.check().and_then(|()| spec.execute.check());
    checked.map_err(|error| format!("{name}: {error}"))?;
    if matches!(spec.prepare.cgroup, CgroupSource::FindWith(_) | CgroupSource::Below { .. }) {
        return Err(format!("{name}: cgroup: only a server asks for that; say \"find\""));
    }
    Ok(spec)
}

fn sink(keep: bool) -> io::Result<Sink> {
    if keep {
        return Ok(Sink::Kept { stdout: Vec::new(), stderr: Vec::new() });
    }
    Ok(Sink::Streams {
        stdout: Outbox::shared(io::stdout().as_fd())?,
        stderr: Outbox::shared(io::stderr().as_fd())?,
    })
}

fn refused(arguments: &Arguments, refusal: Refusal, steps: &[TimedStep]) -> i32 {
    explain(arguments, steps, &[], &mut io::stderr());
    // The exit code says it too, if this is lost.
    let _ = print(
        arguments,
        &Printed { refused: Some(refusal), ..Printed::default() },
        &mut io::stderr(),
    );
    REFUSED
}

/// The guest's exit code, as a shell would give it.
fn exit_code(ending: &Ending) -> i32 {
    match ending {
        Ending::Exited(code) => i32::from(*code),
        Ending::Killed(signal) => 128 + signal,
        Ending::OutOfMemory | Ending::OutOfMemoryOutside => 128 + 9,
        Ending::TimedOut | Ending::Overflow(_) | Ending::InitEnded => STOPPED,
    }
}

/// Prints the result as JSON on standard output, or in words to `out`. False if it is lost.
fn print(arguments: &Arguments, result: &Printed, out: &mut impl Write) -> bool {
    let written = if arguments.json {
        match serde_json::to_string_pretty(result) {
            Ok(text) => writeln!(io::stdout(), "{text}"),
            Err(error) => Err(io::Error::other(error)),
        }
    } else {
        let mut text = Vec::new();
        in_words(result, &mut text).and_then(|()| out.write_all(&text))
    };
    written.and_then(|()| io::stdout().flush()).is_ok()
}

fn in_words(result: &Printed, out: &mut impl Write) -> io::Result<()> {
    if let Some(refusal) = &result.refused {
        return writeln!(out, "Blocked: {}", refusal.without_retry());
    }
    if let Some(outcome) = &result.outcome {
        writeln!(out, "ending: {:?}", outcome.ending)?;
        if !outcome.denied.is_empty() {
            writeln!(out, "blocked syscalls: {}", outcome.denied.join(", "))?;
        }
    } else if let Some(applied) = &result.applied {
        for (control, state) in &applied.controls {
            writeln!(out, "{control:?}: {state:?}")?;
        }
        for interpreter in &applied.interpreters.0 {
            let path = match &interpreter.path {
                Measured::Value(path) => path.display().to_string(),
                Measured::Missing(why) => format!("missing: {why}"),
            };
            writeln!(out, "{}: {path}", interpreter.language)?;
        }
    }
    match &result.applied {
        Some(applied) => writeln!(out, "isolation: {}", applied.isolation),
        None => Ok(()),
    }
}

/// Each step with who took it, its time and its errno.
fn explain(arguments: &Arguments, build: &[TimedStep], run: &[TimedStep], out: &mut impl Write) {
    if !arguments.explain {
        return;
    }
    let mut text = String::new();
    for taken in build.iter().chain(run) {
        let result = match taken.errno {
            0 => "ok".to_owned(),
            errno => io::Error::from_raw_os_error(errno).to_string(),
        };
        text.push_str(&format!(
            "{:<11} {:<20} {:>8.1} µs  {result}\n",
            taken.step.actor().name(),
            taken.step.name(),
            taken.nanoseconds as f64 / 1000.0,
        ));
    }
    // Nobody is left to be told if this fails.
    let _ = out.write_all(text.as_bytes());
}
