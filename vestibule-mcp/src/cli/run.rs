//! `vestibule-mcp run`: one run, for people and scripts.

use super::screen::Screen;
use super::{say, told};
use crate::config::Config;
use crate::engine::{Call, Client, Engine, Progress};
use crate::escape::for_display;
use crate::run::pipeline::NotRun;
use crate::run::report::{Ended, Report};
use crate::run::text;
use crate::signals::Signals;
use protocol::{Ending, Stream};
use serde_json::{Map, Value};
use std::io::{self, IsTerminal, Read, Write};
use std::path::PathBuf;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The exit code of a run that timed out or that Vestibule stopped.
const STOPPED: i32 = 124;
/// The exit code of a call that was refused or never started.
pub const REFUSED: i32 = 125;

/// The arguments of `run`.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// python, bash or node
    #[arg(value_name = "LANG")]
    language: String,
    /// The file with the code; - or nothing is standard input
    file: Option<PathBuf>,
    /// When the run is ended, 1 to VESTIBULE_MAX_TIMEOUT_S [default: VESTIBULE_DEFAULT_TIMEOUT_S]
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// Pass the output on as it is, even to a terminal, which may obey escape sequences in it
    #[arg(long)]
    raw: bool,
}

/// Runs the code, passes its output on, and returns the exit code: the code's own, 128+N for signal
/// N, 124 if it timed out or was stopped, 125 if it was refused or never started.
///
/// # Errors
/// When the process is refused a signal handler.
pub async fn run(config: Config, arguments: Arguments) -> io::Result<i32> {
    let code = match read_code(&arguments, config.max_code.get().into()) {
        Ok(code) => code,
        Err(why) => {
            say(format_args!("Blocked: {why}"));
            return Ok(REFUSED);
        }
    };
    let engine = Engine::new(config);
    let stop = CancellationToken::new();
    let progress = watch::Sender::new(Progress::Queued);
    let client = Client { name: "run".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    let call = Call { client, stop: stop.clone(), progress };
    let mut signals = Signals::new()?;
    let mut printer = Printer::new(arguments.raw, stop.clone());
    let mut tee = |stream, bytes: &[u8]| printer.print(stream, bytes);
    let running = engine.run(call_arguments(&arguments, code), call, Some(&mut tee));
    let relay = async {
        signals.next().await;
        stop.cancel();
        std::future::pending::<()>().await;
    };
    let result = tokio::select! {
        result = running => result,
        () = relay => Err(NotRun::Stopped),
    };
    printer.finish();
    let exit_code = conclude(result);
    engine.shut_down().await;
    Ok(exit_code)
}

/// How much of a file's name is shown, in characters.
const SHOWN: usize = 200;

/// Reads the code: one byte more than is allowed, so that too much is told from just enough.
fn read_code(arguments: &Arguments, max: u64) -> Result<String, String> {
    let named = arguments.file.as_ref().filter(|path| path.as_os_str() != "-");
    let mut bytes = Vec::new();
    // Code may have chosen the name: a shell expands `workspace/*`.
    let shown = |path: &PathBuf| for_display(&path.to_string_lossy(), SHOWN);
    let name = named.map_or("standard input".to_owned(), shown);
    let read = match named {
        Some(path) => {
            std::fs::File::open(path).and_then(|file| file.take(max + 1).read_to_end(&mut bytes))
        }
        None => io::stdin().lock().take(max + 1).read_to_end(&mut bytes),
    };
    read.map_err(|error| format!("{name} cannot be read ({error}). Fix: name a file of code"))?;
    if bytes.len() as u64 > max {
        let setting = crate::config::table::MAX_CODE_BYTES.name;
        return Err(format!(
            "{name} has more than {max} bytes. Fix: shorten it, or raise {setting}"
        ));
    }
    String::from_utf8(bytes)
        .map_err(|_| format!("{name} is not UTF-8. Fix: convert it, for example with iconv"))
}

fn call_arguments(arguments: &Arguments, code: String) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert("language".to_owned(), arguments.language.clone().into());
    map.insert("code".to_owned(), code.into());
    map.insert("timeout_seconds".to_owned(), arguments.timeout.into());
    map
}

/// Prints the report, and finds the exit code.
fn conclude(result: Result<Report, NotRun>) -> i32 {
    match result {
        Ok(report) => {
            say(text::render_report(&report));
            exit_code(&report)
        }
        Err(NotRun::Blocked(refusal)) => {
            say(format_args!("Blocked: {}", told(&refusal)));
            REFUSED
        }
        Err(NotRun::Stopped) => {
            say("Blocked: the run was stopped before its code was started. Fix: run it again.");
            STOPPED
        }
    }
}

fn exit_code(report: &Report) -> i32 {
    match (&report.ended, report.exit_code()) {
        (
            Ended::Reported(Ending::Exited(_) | Ending::Killed(_) | Ending::OutOfMemory),
            Some(code),
        ) => code,
        (Ended::NotStarted { .. }, _) => REFUSED,
        _ => STOPPED,
    }
}

/// Passes output on as it comes.
struct Printer {
    /// Set for each stream that goes to a terminal and is to be shown, not obeyed.
    screens: [Option<Screen>; 2],
    /// Whether the last byte printed to each stream was a newline.
    at_line_start: [bool; 2],
    stop: CancellationToken,
    /// Why a stream cannot be written to, other than that its reader has gone.
    broken: Option<(Stream, io::Error)>,
}

impl Printer {
    fn new(raw: bool, stop: CancellationToken) -> Printer {
        let screen = |terminal: bool| (terminal && !raw).then(Screen::default);
        let screens = [screen(io::stdout().is_terminal()), screen(io::stderr().is_terminal())];
        Printer { screens, at_line_start: [true; 2], stop, broken: None }
    }

    fn print(&mut self, stream: Stream, bytes: &[u8]) {
        match &mut self.screens[stream as usize] {
            Some(screen) => {
                let shown = screen.show(bytes);
                self.write(stream, shown.as_bytes());
            }
            None => self.write(stream, bytes),
        }
    }

    /// Whoever closed the stream wants no more of it: the run is stopped.
    fn write(&mut self, stream: Stream, bytes: &[u8]) {
        let Some(last) = bytes.last() else { return };
        self.at_line_start[stream as usize] = *last == b'\n';
        let written = match stream {
            Stream::Stdout => {
                let mut out = io::stdout().lock();
                out.write_all(bytes).and_then(|()| out.flush())
            }
            Stream::Stderr => io::stderr().write_all(bytes),
        };
        if let Err(error) = written {
            self.stop.cancel();
            if error.kind() != io::ErrorKind::BrokenPipe && self.broken.is_none() {
                self.broken = Some((stream, error));
            }
        }
    }

    /// Prints what the screens kept back, and lets the report begin on a line of its own.
    fn finish(&mut self) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            let rest = self.screens[stream as usize].as_mut().map(Screen::finish);
            self.write(stream, rest.unwrap_or_default().as_bytes());
        }
        let [stdout, stderr] = self.at_line_start;
        if !stderr || (!stdout && io::stdout().is_terminal()) {
            say("");
        }
        if let Some((stream, error)) = &self.broken {
            say(format_args!(
                "{} cannot be written ({error}), so the run is stopped",
                stream.name()
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::request::RunRequest;
    use protocol::{Isolation, Language, TimeoutSeconds};

    fn report(ended: Ended) -> Report {
        let config = Config::from_env([("HOME".into(), "/home/ada".into())]);
        let request = RunRequest {
            language: Language::Bash,
            code: String::new(),
            timeout: TimeoutSeconds::new(1).unwrap(),
            notes: vec![],
        };
        Report { ended, ..Report::new(&config, &request, "native", Isolation::none()) }
    }

    #[test]
    fn exit_codes_tell_the_codes_own_from_ours() {
        let reported = |ending| exit_code(&report(Ended::Reported(ending)));
        assert_eq!(reported(Ending::Exited(7)), 7);
        assert_eq!(reported(Ending::Killed(11)), 139);
        assert_eq!(reported(Ending::OutOfMemory), 137);
        for ending in [Ending::TimedOut, Ending::Overflow(Stream::Stdout), Ending::InitEnded] {
            assert_eq!(reported(ending), 124);
        }
        assert_eq!(exit_code(&report(Ended::Stopped("x".into()))), 124);
        let never = Ended::NotStarted { reason: "x".into(), fix: "y".into() };
        assert_eq!(exit_code(&report(never)), 125);
    }

    #[test]
    fn code_is_bounded_and_utf8() {
        let path = std::env::temp_dir().join(format!("cli-run-{}", std::process::id()));
        let arguments = Arguments {
            language: "bash".into(),
            file: Some(path.clone()),
            timeout: None,
            raw: false,
        };
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(read_code(&arguments, 5), Ok("12345".into()));
        assert!(read_code(&arguments, 4).unwrap_err().contains("VESTIBULE_MAX_CODE_BYTES"));
        std::fs::write(&path, b"\xff").unwrap();
        assert!(read_code(&arguments, 5).unwrap_err().contains("not UTF-8"));
        std::fs::remove_file(&path).unwrap();
        assert!(read_code(&arguments, 5).unwrap_err().contains("cannot be read"));
    }
}
