//! The facts of one run that passed selection, whichever backend ran it.

use super::output::Captured;
use super::request::RunRequest;
use crate::audit::Kept;
use crate::config::Config;
use protocol::{
    Ending, Isolation, Language, Level, LimitHit, Measured, MemoryMib, Outcome, OutputBytes,
    Refusal, StreamTotals, TimeoutSeconds, Usage,
};
use std::time::Duration;

/// How a run ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Ended {
    /// As its backend reports.
    Reported(Ending),
    /// It was under way, and Vestibule ended it or lost sight of it: why.
    Stopped(String),
    /// Nothing was executed: why, and what to do about it.
    NotStarted {
        /// Why.
        reason: String,
        /// What to do.
        fix: String,
    },
}

/// The facts of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// What the code was written in.
    pub language: Language,
    /// What ran it.
    pub backend: &'static str,
    /// The timeout that held.
    pub timeout: TimeoutSeconds,
    /// The output cap that held, per stream.
    pub output_cap: OutputBytes,
    /// The memory cap that was asked for.
    pub memory: MemoryMib,
    /// How it ended.
    pub ended: Ended,
    /// Standard output.
    pub stdout: Captured,
    /// Standard error.
    pub stderr: Captured,
    /// What it used, where anything was measured.
    pub usage: Option<Usage>,
    /// The limits it ran into.
    pub limits_hit: Vec<LimitHit>,
    /// Names of reported syscalls that were refused.
    pub denied: Vec<String>,
    /// What the reader should know beside the facts.
    pub notes: Vec<String>,
    /// Whether the audit log has it.
    pub audit: Kept,
    /// What protected it.
    pub isolation: Isolation,
}

impl Report {
    /// A run about which nothing is known yet.
    pub fn new(
        config: &Config,
        request: &RunRequest,
        backend: &'static str,
        isolation: Isolation,
    ) -> Report {
        Report {
            language: request.language,
            backend,
            timeout: request.timeout,
            output_cap: config.max_output,
            memory: config.memory,
            ended: Ended::Stopped("nothing is known about its end".to_owned()),
            stdout: Captured::default(),
            stderr: Captured::default(),
            usage: None,
            limits_hit: Vec::new(),
            denied: Vec::new(),
            notes: request.notes.clone(),
            audit: Kept::default(),
            isolation,
        }
    }

    /// Takes over what a backend reports.
    pub fn finish(&mut self, outcome: Outcome) {
        seen(&mut self.stdout, outcome.stdout);
        seen(&mut self.stderr, outcome.stderr);
        self.ended = Ended::Reported(outcome.ending);
        self.usage = Some(outcome.usage);
        self.limits_hit = outcome.limits_hit;
        self.isolation.take_back(&outcome.limits_lost);
        self.denied = outcome.denied;
        self.add_notes(outcome.denied_stopped);
    }

    /// Nothing was executed after all.
    pub fn never_started(&mut self, refusal: &Refusal, wall: Duration) {
        let at = refusal.at.map(|at| format!(" ({at})")).unwrap_or_default();
        let reason = format!("{}{at}", refusal.what);
        let missing = || Measured::Missing("nothing was executed".to_owned());
        self.isolation = Isolation::nothing_executed(&reason);
        self.usage = Some(Usage {
            wall_us: u64::try_from(wall.as_micros()).unwrap_or(u64::MAX),
            cpu_us: missing(),
            mem_peak_bytes: missing(),
            pids_peak: missing(),
        });
        self.ended = Ended::NotStarted { reason, fix: refusal.fix.clone() };
        self.add_notes(false);
    }

    /// The guest's exit code; 128+N for signal N, 137 for memory, -1 where Vestibule or the guest
    /// itself ended the sandbox. `None` where nothing was executed.
    pub fn exit_code(&self) -> Option<i32> {
        match &self.ended {
            Ended::Reported(Ending::Exited(code)) => Some(i32::from(*code)),
            Ended::Reported(Ending::Killed(signal)) => Some(128 + signal),
            Ended::Reported(Ending::OutOfMemory | Ending::OutOfMemoryOutside) => Some(137),
            Ended::Reported(Ending::TimedOut | Ending::Overflow(_) | Ending::InitEnded) => Some(-1),
            Ended::Stopped(_) => Some(-1),
            Ended::NotStarted { .. } => None,
        }
    }

    /// Whether the timeout ended it.
    pub fn timed_out(&self) -> bool {
        self.ended == Ended::Reported(Ending::TimedOut)
    }

    /// Whether the kernel ended it for memory.
    pub fn out_of_memory(&self) -> bool {
        matches!(self.ended, Ended::Reported(Ending::OutOfMemory | Ending::OutOfMemoryOutside))
    }

    /// The name of the signal that killed the main process.
    pub fn signal(&self) -> Option<String> {
        match self.ended {
            Ended::Reported(Ending::Killed(signal)) => Some(signal_name(signal)),
            _ => None,
        }
    }

    /// Why it was stopped by Vestibule, other than by its timeout.
    pub fn stopped(&self) -> Option<String> {
        match &self.ended {
            Ended::Reported(Ending::Overflow(stream)) => {
                Some(format!("{} passed twice the output cap", stream.name()))
            }
            Ended::Stopped(reason) => Some(reason.clone()),
            _ => None,
        }
    }

    /// Whether the answer is an error: the call could not be carried out.
    pub fn is_error(&self) -> bool {
        matches!(self.ended, Ended::Stopped(_) | Ended::NotStarted { .. })
    }

    /// Adds what the way it ended and its output have to say.
    pub(super) fn add_notes(&mut self, denied_stopped: bool) {
        let more = match &self.ended {
            Ended::Reported(Ending::Overflow(stream)) => {
                let (cap, stream) = (u64::from(self.output_cap.get()), stream.name());
                Some(format!(
                    "the run was stopped because {stream} passed {} bytes, twice the cap of {cap}",
                    2 * cap
                ))
            }
            Ended::Reported(Ending::InitEnded) => {
                Some("the sandbox's init was ended from inside, and everything with it".to_owned())
            }
            Ended::NotStarted { fix, .. } => Some(format!("nothing was executed; {fix}")),
            _ => None,
        };
        self.notes.extend(more);
        let ended_by_us =
            matches!(self.ended, Ended::Reported(Ending::TimedOut | Ending::Overflow(_)));
        if ended_by_us
            && matches!(self.isolation.level, Level::Container | Level::ContainerDegraded)
        {
            self.notes.push(format!(
                "{} was told to end the container, and its answer was not waited for",
                self.backend
            ));
        }
        if denied_stopped {
            self.notes.push(
                "the code made more than 256 refused syscalls; reporting stopped there".to_owned(),
            );
        }
    }
}

/// The totals count what the cap kept back; they cannot be less than what came through.
fn seen(captured: &mut Captured, totals: StreamTotals) {
    captured.seen = captured.seen.max(totals.seen);
}

/// A signal's name, or its number where it has none.
#[cfg(unix)]
pub fn signal_name(signal: i32) -> String {
    match nix::sys::signal::Signal::try_from(signal) {
        Ok(known) => known.as_str().to_owned(),
        Err(_) => format!("signal {signal}"),
    }
}

/// A signal's number.
#[cfg(not(unix))]
pub fn signal_name(signal: i32) -> String {
    format!("signal {signal}")
}
