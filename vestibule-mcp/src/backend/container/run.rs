//! One container: started, watched, ended.

use super::engine::{self, ANSWER, Engine, Kind};
use super::profile::{self, Values};
use super::record::{self, Record};
use super::removal::Remains;
use super::streams::{self, Streams};
use super::{refusal, seccomp};
use crate::backend::Finish;
use crate::backend::counter::Counter;
use crate::backend::scratch::{self, Scratch};
use crate::run::admission::Slot;
use crate::run::output::Output;
use protocol::{
    Ending, Language, LimitHit, Outcome, Refusal, Sandbox, Script, Stream, environment,
};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::process::Child;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long an engine may take until the code starts, at least. It counts from the call, so that one
/// with a long timeout has as much.
const START: Duration = Duration::from_secs(10);
/// How long after its timeout a container ends itself, should nobody have ended it.
const SELF_END: u64 = 5;
/// How long after that its end is certain, whatever the engine was doing at its start.
const MARGIN: u64 = 60;
/// How long the engine may take for its record when the time of the run is up.
const RECORD: Duration = Duration::from_secs(2);
/// How long output that is still on its way is waited for once the client was killed.
const DRAIN: Duration = Duration::from_millis(100);
/// How many bytes of `/tmp` there are for each inode.
const BYTES_PER_INODE: u64 = 4096;
/// Why nothing but the wall time is measured.
const NOT_MEASURED: &str = "not readable from outside a container";

/// The first program of a container: starts a timer that ends everything should nobody else have done
/// so, leaves behind what only the engine needed, writes the mark, and becomes the interpreter. The timer
/// is a child of the container's init and not of the code, which would else find it among its own. The
/// limits are the native ones, where the engine's own are not lower already.
const FIRST: &str = "( (exec </dev/null >/dev/null 2>&1; sleep \"$2\"; kill -KILL -1) & ); \
    unset HTTP_PROXY HTTPS_PROXY FTP_PROXY NO_PROXY ALL_PROXY \
    http_proxy https_proxy ftp_proxy no_proxy all_proxy container HOSTNAME OLDPWD; \
    { ulimit -c 0; ulimit -Sn 1024; ulimit -Hn 4096; } 2>/dev/null; umask 022; \
    printf '%s\\n' \"$1\" >&2; shift 2; exec \"$@\"";

/// What one container is made of.
pub struct Launch<'a> {
    /// The engine.
    pub engine: &'a Arc<Engine>,
    /// The image.
    pub image: &'a str,
    /// The workspace and the caps.
    pub sandbox: &'a Sandbox,
    /// The folder for scripts.
    pub scratch: &'a Path,
    /// Kept until the container is gone.
    pub slot: Slot,
}

/// How watching a container ended.
enum Watched {
    /// Its client ended.
    ClientEnded,
    /// Its time was up.
    TimedOut,
    /// Its time was up before its code was started.
    NotBegun,
    /// A stream flooded.
    Overflow(Stream),
    /// It was told to stop.
    Stopped,
}

impl Launch<'_> {
    /// Runs a script in a container of its own. The container is removed in the background, however
    /// this ends.
    pub async fn run(
        self,
        script: &Script,
        output: &mut Output<'_>,
        stop: &CancellationToken,
    ) -> Finish {
        let name = scratch::unique("vestibule");
        let scratch = match self.write(&name, script) {
            Ok(scratch) => scratch,
            Err(refusal) => return Finish::NotStarted(refusal),
        };
        let arguments = match self.arguments(&name, scratch.path(), script) {
            Ok(arguments) => arguments,
            Err(refusal) => return Finish::NotStarted(refusal),
        };
        let mut command = self.engine.cli.command(arguments);
        command.kill_on_drop(true);
        let called = Instant::now();
        let mut client = match command.spawn() {
            Ok(client) => client,
            Err(error) => {
                return Finish::NotStarted(refusal::cannot_start(self.engine.facts.kind, &error));
            }
        };
        let mut streams = Streams::new(&mut client, &name);
        let mut remains = Remains::new(self.engine.clone(), name, scratch, self.slot.clone());
        let mut counter = Counter::new(script, output);
        let timeout = Duration::from_secs(script.timeout_seconds.get().into());
        let mut clock = Clock { called, begun: None, timeout };
        let watched = watch(&mut client, &mut streams, &mut counter, &mut clock, stop).await;
        if !matches!(watched, Watched::ClientEnded) {
            end_client(&mut client).await;
            let rest = async { while streams.read(&mut counter).await {} };
            let _ = tokio::time::timeout(DRAIN, rest).await;
        }
        let wall = clock.wall();
        if clock.begun.is_some() {
            remains.container_is_known();
        }
        match watched {
            Watched::ClientEnded => {
                let patience = clock.left().max(RECORD);
                let found = record::read(&self.engine.cli, remains.name(), patience).await;
                match self.finish(found, &streams, &counter, wall) {
                    Finish::Lost(what) => {
                        let words = streams::take_last_words(&mut output.stderr);
                        let words = words.map(|words| format!(" ({})", refusal::words(&words)));
                        Finish::Lost(what + &words.unwrap_or_default())
                    }
                    finish => finish,
                }
            }
            Watched::TimedOut => finished(counter.outcome(Ending::TimedOut, wall, NOT_MEASURED)),
            Watched::Overflow(stream) => {
                finished(counter.outcome(Ending::Overflow(stream), wall, NOT_MEASURED))
            }
            Watched::Stopped => Finish::Stopped,
            Watched::NotBegun => Finish::Lost(format!(
                "{} did not start the code within {} s",
                self.engine.facts.kind.title(),
                called.elapsed().as_secs()
            )),
        }
    }

    /// Writes the script and the syscall policy to a folder of the run's own.
    fn write(&self, name: &str, script: &Script) -> Result<Scratch, Refusal> {
        let refused = |error| refusal::no_scratch(self.scratch, &error);
        crate::workspace::private::builder()
            .recursive(true)
            .create(self.scratch)
            .map_err(refused)?;
        let scratch = Scratch::named(self.scratch, name).map_err(refused)?;
        let policy = seccomp::profile(self.engine.arch).to_string();
        scratch.write("seccomp.json", policy.as_bytes()).map_err(refused)?;
        scratch.folder("sandbox").map_err(refused)?;
        let file = Path::new("sandbox").join(script.language.script());
        scratch.write(file, script.code.as_bytes()).map_err(refused)?;
        Ok(scratch)
    }

    fn arguments(
        &self,
        name: &str,
        scratch: &Path,
        script: &Script,
    ) -> Result<Vec<String>, Refusal> {
        let limits = &self.sandbox.limits;
        let timeout = u64::from(script.timeout_seconds.get());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let inodes = u64::from(limits.tmpfs_mib.get()) * 1024 * 1024 / BYTES_PER_INODE;
        let values = Values::from([
            ("name", name.to_owned()),
            ("deadline", (now + timeout + SELF_END + MARGIN).to_string()),
            ("life", (timeout + SELF_END + MARGIN).to_string()),
            ("seccomp", mountable(&scratch.join("seccomp.json"))?),
            ("user", user(self.engine.facts.rootless && !self.keeps_id())),
            ("memory", limits.memory_mib.get().to_string()),
            ("cpus", format!("{:.2}", f64::from(limits.cpu_percent.get()) / 100.0)),
            ("pids", limits.pids_max.get().to_string()),
            ("tmp", limits.tmpfs_mib.get().to_string()),
            ("inodes", inodes.to_string()),
            ("workspace", mountable(&self.sandbox.workspace)?),
            ("sandbox", mountable(&scratch.join("sandbox"))?),
        ]);
        let read_only = self.sandbox.workspace_read_only;
        let mut arguments = vec!["run".to_owned()];
        arguments.extend(profile::arguments(&self.engine.facts, read_only, &values));
        for (name, value) in environment::VARIABLES {
            arguments.extend(["--env".to_owned(), format!("{name}={value}")]);
        }
        arguments.push(self.image.to_owned());
        arguments.extend(["-c", FIRST, "bash", name].map(str::to_owned));
        arguments.push((timeout + SELF_END).to_string());
        arguments.extend(program(script.language));
        Ok(arguments)
    }

    /// Whether the engine is told to keep our uid.
    fn keeps_id(&self) -> bool {
        self.engine.facts.kind == Kind::Podman
    }

    /// Why the engine did not start the code, in its words.
    fn refused(&self, words: &str) -> Refusal {
        let (kind, program) = (self.engine.facts.kind, &self.engine.cli.program);
        if engine::is_missing_image(words) {
            return refusal::image_missing(kind, program, self.image);
        }
        refusal::said(kind, words)
    }

    /// What the engine's record makes of a run whose client has ended.
    fn finish(
        &self,
        found: Result<Option<Record>, String>,
        streams: &Streams,
        counter: &Counter<'_, '_>,
        wall: Duration,
    ) -> Finish {
        let kind = self.engine.facts.kind;
        match found {
            Ok(Some(record)) if record.running => Finish::Lost(format!(
                "the connection to {} ended before the run did{}",
                kind.title(),
                said(streams)
            )),
            Ok(Some(record)) if record.was_started() => {
                let mib = self.sandbox.limits.memory_mib.get();
                finished(judged(&record, mib, counter, wall))
            }
            Ok(Some(record)) => {
                let words = streams.words();
                let words = if words.trim().is_empty() { record.error } else { words };
                Finish::NotStarted(self.refused(&words))
            }
            Ok(None) if !streams.has_begun() => Finish::NotStarted(self.refused(&streams.words())),
            Ok(None) => Finish::Lost(format!("{} has lost the container", kind.title())),
            Err(why) => Finish::Lost(format!("{why}{}", said(streams))),
        }
    }
}

/// The time of one run.
struct Clock {
    called: Instant,
    begun: Option<Instant>,
    timeout: Duration,
}

impl Clock {
    fn deadline(&self) -> Instant {
        match self.begun {
            Some(begun) => begun + self.timeout,
            None => self.called + self.timeout.max(START),
        }
    }

    fn left(&self) -> Duration {
        self.deadline().saturating_duration_since(Instant::now()).min(ANSWER)
    }

    fn wall(&self) -> Duration {
        self.begun.unwrap_or(self.called).elapsed()
    }
}

/// Reads output until the client ends, a stream floods, or the time is up.
async fn watch(
    client: &mut Child,
    streams: &mut Streams,
    counter: &mut Counter<'_, '_>,
    clock: &mut Clock,
    stop: &CancellationToken,
) -> Watched {
    let mut open = true;
    loop {
        let deadline = clock.deadline();
        tokio::select! {
            biased;
            () = stop.cancelled() => return Watched::Stopped,
            () = tokio::time::sleep_until(deadline) => {
                return if clock.begun.is_some() { Watched::TimedOut } else { Watched::NotBegun };
            }
            more = streams.read(counter), if open => open = more,
            _ = client.wait(), if !open => return Watched::ClientEnded,
        }
        if let Some(stream) = counter.overflow {
            return Watched::Overflow(stream);
        }
        if clock.begun.is_none() && streams.has_begun() {
            clock.begun = Some(Instant::now());
        }
    }
}

/// Kills the client and what it has started; the container is not among that.
async fn end_client(client: &mut Child) {
    #[cfg(unix)]
    if let Some(leader) = client.id() {
        crate::backend::kill::group(leader);
    }
    let _ = client.kill().await;
}

fn judged(record: &Record, mib: u32, counter: &Counter<'_, '_>, wall: Duration) -> Outcome {
    let code = u8::try_from(record.exit_code).unwrap_or(u8::MAX);
    let killed = record.oom_killed && code == 128 + 9;
    let ending = if killed { Ending::OutOfMemory } else { Ending::Exited(code) };
    let mut outcome = counter.outcome(ending, wall, NOT_MEASURED);
    if record.oom_killed && !killed {
        outcome.limits_hit.push(LimitHit::Memory(mib));
    }
    outcome
}

fn finished(outcome: Outcome) -> Finish {
    Finish::Finished(outcome)
}

/// The engine's last words, as the end of a sentence.
fn said(streams: &Streams) -> String {
    let words = streams.words();
    if words.trim().is_empty() { String::new() } else { format!(" ({})", refusal::words(&words)) }
}

/// The interpreter and the script, as the container's arguments.
fn program(language: Language) -> [String; 2] {
    [language.program().to_owned(), format!("/sandbox/{}", language.script())]
}

/// A path as `--mount` and `--security-opt` take it: they read commas and quotation marks.
fn mountable(path: &Path) -> Result<String, Refusal> {
    let text = path.to_str().ok_or_else(|| refusal::unmountable(path))?;
    // Windows writes a resolved path in a form that no engine reads.
    let text = text.strip_prefix(r"\\?\").unwrap_or(text);
    if text.contains([',', '"', '\n', '\r']) {
        return Err(refusal::unmountable(path));
    }
    Ok(text.to_owned())
}

/// Who the code is inside: our own uid and gid, or root where root inside is ourselves outside.
fn user(root_is_us: bool) -> String {
    if root_is_us {
        return "0:0".to_owned();
    }
    #[cfg(unix)]
    return format!("{}:{}", nix::unistd::getuid(), nix::unistd::getgid());
    // Shared folders of Windows have no owner inside: any ordinary user can use them.
    #[cfg(not(unix))]
    return "1000:1000".to_owned();
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
