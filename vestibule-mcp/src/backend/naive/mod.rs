//! No isolation: the code runs as the user, on the machine itself. Used only when named.

#[cfg(unix)]
mod guardian;
mod process;

use super::counter::Counter;
use super::scratch::Scratch;
use super::{Failure, Finish};
use crate::run::admission::Slot;
use crate::run::output::Output;
use process::Running;
use protocol::{Cause, Ending, Isolation, Language, Refusal, Retry, Sandbox, Script};
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long output that is still on its way is waited for once the main process has ended.
const DRAIN: Duration = Duration::from_millis(100);
/// Why nothing but the wall time is measured.
const NOT_MEASURED: &str = "the naive backend has no sandbox to measure";

/// The backend.
pub struct Naive;

/// A folder for the script, and nothing else.
pub struct Prepared {
    scratch: Scratch,
    workspace: PathBuf,
    isolation: Isolation,
    slot: Slot,
}

impl Naive {
    /// The interpreter of a language, on the server's own `PATH`.
    ///
    /// # Errors
    /// A refusal if there is none.
    pub fn interpreter(&self, language: Language) -> Result<PathBuf, Refusal> {
        process::interpreter(language).ok_or_else(|| missing(language))
    }

    /// Makes a folder for the script.
    ///
    /// # Errors
    /// [`Failure::Refused`] if the interpreter is missing or the folder cannot be made.
    pub fn prepare(
        &self,
        sandbox: &Sandbox,
        language: Language,
        slot: Slot,
    ) -> Result<Prepared, Failure> {
        self.interpreter(language).map_err(Failure::Refused)?;
        let scratch = Scratch::new(&std::env::temp_dir(), "vestibule-naive").map_err(|error| {
            let folder = std::env::temp_dir();
            Failure::Refused(Refusal {
                retry: Retry::AfterFixOrRestart,
                ..refusal(
                    format!("no folder can be made in {} ({error})", folder.display()),
                    "free space there, or set TMPDIR to a folder of yours",
                )
            })
        })?;
        let workspace = sandbox.workspace.clone();
        Ok(Prepared { scratch, workspace, isolation: Isolation::none(), slot })
    }
}

impl Prepared {
    /// None, by its name.
    pub fn isolation(&self) -> &Isolation {
        &self.isolation
    }

    /// Runs the code.
    pub async fn execute(
        self,
        script: Script,
        output: &mut Output<'_>,
        stop: &CancellationToken,
    ) -> Finish {
        let started = Instant::now();
        let mut running = match self.start(&script) {
            Ok(running) => running,
            Err(error) => {
                return Finish::NotStarted(refusal(
                    format!("{} cannot be started ({error})", script.language.program()),
                    "free processes, memory and space in the folder for temporary files",
                ));
            }
        };
        let mut counter = Counter::new(&script, output);
        let deadline = started + Duration::from_secs(script.timeout_seconds.get().into());
        let ending = tokio::select! {
            biased;
            () = stop.cancelled() => None,
            () = tokio::time::sleep_until(deadline) => Some(Ending::TimedOut),
            ending = watch(&mut running, &mut counter) => ending,
        };
        running.kill().await;
        let Some(mut ending) = ending else { return Finish::Stopped };
        // What was written before the end is in the pipes; a process that got away may hold them.
        let rest = async { while running.read(&mut counter).await {} };
        let _ = tokio::time::timeout(DRAIN, rest).await;
        if let (Ending::Exited(_), Some(stream)) = (&ending, counter.overflow) {
            ending = Ending::Overflow(stream);
        }
        let finish = Finish::Finished(counter.outcome(ending, started.elapsed(), NOT_MEASURED));
        drop(self.slot);
        finish
    }

    fn start(&self, script: &Script) -> std::io::Result<Running> {
        let file = self.scratch.write(script.language.script(), script.code.as_bytes())?;
        Running::start(script.language, &file, &self.workspace, self.scratch.path())
    }
}

/// Reads output until the main process ends or a stream floods; `None` if watching fails.
async fn watch(running: &mut Running, counter: &mut Counter<'_, '_>) -> Option<Ending> {
    loop {
        let (ended, open) = running.wait_or_read(counter).await;
        if let Some(stream) = counter.overflow {
            return Some(Ending::Overflow(stream));
        }
        if let Some(ending) = ended {
            return Some(ending);
        }
        if !open {
            return running.wait().await;
        }
    }
}

fn refusal(what: String, fix: &str) -> Refusal {
    let (fix, retry) = (fix.to_owned(), Retry::AfterFix);
    Refusal { what, cause: Cause::Other, fix, retry, at: None }
}

fn missing(language: Language) -> Refusal {
    let program = language.program();
    Refusal {
        cause: Cause::InterpreterMissing(language),
        retry: Retry::AfterFixOrRestart,
        ..refusal(
            format!("no {program} on the server's PATH, which {language} code needs"),
            &format!("install {program}, or name its folder in the server's PATH"),
        )
    }
}

#[cfg(test)]
mod tests;
