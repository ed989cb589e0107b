//! What was in force, and how a run ended.

use crate::isolation::LOST;
use crate::{Cause, Isolation, Language, Limit, NoCgroup, Refusal, Retry, RunCgroup, Step};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A value that was measured, or why there is none.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Measured<T> {
    /// The value.
    Value(T),
    /// Why it was not measured.
    Missing(String),
}

/// One protection of the sandbox.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Control {
    /// User, PID, mount, network, UTS, IPC and cgroup namespaces of its own.
    Namespaces,
    /// The pivoted read-only root.
    Root,
    /// A fresh, masked `/proc`.
    Proc,
    /// Every capability set empty.
    Capabilities,
    /// `no_new_privs`.
    NoNewPrivs,
    /// The syscall filter.
    SyscallFilter,
    /// `max_user_namespaces` 0 inside, the second wall behind the filter.
    NestedNamespaces,
    /// Landlock, the second wall behind the mounts.
    Landlock,
    /// A session keyring of its own.
    Keyring,
    /// No core dumps.
    CoreDumps,
    /// The memory cap.
    Memory,
    /// The CPU cap.
    Cpu,
    /// The process cap.
    Pids,
}

impl From<Limit> for Control {
    fn from(limit: Limit) -> Control {
        match limit {
            Limit::Cpu => Control::Cpu,
            Limit::Memory => Control::Memory,
            Limit::Pids => Control::Pids,
        }
    }
}

impl Control {
    /// The name in texts.
    pub const fn name(self) -> &'static str {
        match self {
            Control::Namespaces => "namespaces",
            Control::Root => "read-only root",
            Control::Proc => "private /proc",
            Control::Capabilities => "no capabilities",
            Control::NoNewPrivs => "no_new_privs",
            Control::SyscallFilter => "syscall filter",
            Control::NestedNamespaces => "no nested user namespaces",
            Control::Landlock => "Landlock",
            Control::Keyring => "own keyring",
            Control::CoreDumps => "no core dumps",
            Control::Memory => "memory limit",
            Control::Cpu => "cpu limit",
            Control::Pids => "pids limit",
        }
    }
}

/// Whether a control is in force.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum ControlState {
    /// Applied and read back, or enforced by a call that reports failure; what the guest applies to
    /// itself (Landlock) is applied before it executes anything, or it executes nothing.
    InForce,
    /// Something weaker is in force in its place: what.
    StandIn(String),
    /// Not in force: why.
    Missing(String),
}

/// A language and its interpreter in the root file system.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Interpreter {
    /// The language.
    pub language: Language,
    /// The interpreter's path inside the sandbox, or why there is none.
    pub path: Measured<PathBuf>,
}

/// What the root file system has for each language.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Interpreters(pub Vec<Interpreter>);

impl Interpreters {
    /// The path of a language's interpreter inside the sandbox.
    ///
    /// # Errors
    /// A refusal that says where it was looked for.
    pub fn path(&self, language: Language) -> Result<&Path, Refusal> {
        let known = self.0.iter().find(|interpreter| interpreter.language == language);
        let reason = match known.map(|interpreter| &interpreter.path) {
            Some(Measured::Value(path)) => return Ok(path),
            Some(Measured::Missing(reason)) => reason.as_str(),
            None => "its interpreter was not looked for",
        };
        Err(Refusal {
            what: format!("{language} cannot run: {reason}"),
            cause: Cause::InterpreterMissing(language),
            fix: format!(
                "install {} from the distribution, so that there is a /usr/bin/{} (one that is \
                 elsewhere on PATH is not used), or use another language",
                language.package(),
                language.program()
            ),
            retry: Retry::AfterFix,
            at: None,
        })
    }
}

/// A step of the build and what it cost.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct TimedStep {
    /// The step.
    pub step: Step,
    /// Its duration in nanoseconds.
    pub nanoseconds: u64,
    /// Its errno where it failed and the build went on without it; 0 where it succeeded.
    pub errno: i32,
}

/// A sandbox that stands, control by control.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Applied {
    /// The level that results, given that the guest's own controls are verified before it starts;
    /// a guest that cannot verify them is never started.
    pub isolation: Isolation,
    /// Every control and its state.
    pub controls: Vec<(Control, ControlState)>,
    /// The interpreters.
    pub interpreters: Interpreters,
    /// The cgroup of the run, or why it has none.
    pub cgroup: Result<RunCgroup, NoCgroup>,
    /// The steps taken so far, in order.
    pub steps: Vec<TimedStep>,
}

impl Applied {
    /// Takes back what was claimed of limits that did not hold until the run's end.
    pub fn take_back(&mut self, lost: &[Limit]) {
        self.isolation.take_back(lost);
        for (control, state) in &mut self.controls {
            if lost.iter().any(|limit| Control::from(*limit) == *control) {
                *state = ControlState::Missing(LOST.to_owned());
            }
        }
    }
}

/// One of the two output streams.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Stream {
    /// The stream's name in texts.
    pub const fn name(self) -> &'static str {
        match self {
            Stream::Stdout => "stdout",
            Stream::Stderr => "stderr",
        }
    }
}

/// How much a stream brought.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct StreamTotals {
    /// Bytes written by the guest, as far as they were read.
    pub seen: u64,
    /// Bytes passed on: `seen`, at most the output cap.
    pub forwarded: u64,
}

/// Why a run ended.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Ending {
    /// The main process exited with this code, 0 to 255.
    Exited(u8),
    /// The main process was killed by this signal.
    Killed(i32),
    /// The timeout was reached.
    TimedOut,
    /// This stream passed twice the output cap.
    Overflow(Stream),
    /// The kernel killed the sandbox at its memory cap.
    OutOfMemory,
    /// The kernel killed the sandbox because the machine, or a cgroup above, ran out of memory.
    OutOfMemoryOutside,
    /// The sandbox's init was ended from inside.
    InitEnded,
}

/// What a run used, read from where the guest cannot write.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Usage {
    /// Wall time in microseconds, from hand-over to the sandbox's end.
    pub wall_us: u64,
    /// CPU time in microseconds.
    pub cpu_us: Measured<u64>,
    /// Peak memory of the whole sandbox in bytes.
    pub mem_peak_bytes: Measured<u64>,
    /// Peak number of processes and threads.
    pub pids_peak: Measured<u64>,
}

/// A limit that a run ran into.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum LimitHit {
    /// CPU time was withheld in `throttled` of `periods` periods of 100 ms.
    Cpu {
        /// Periods in which the sandbox was throttled.
        throttled: u64,
        /// Periods in which it wanted to run.
        periods: u64,
    },
    /// A process could not be started at this cap.
    Pids(u32),
    /// The kernel ended a process of the run at this cap, in MiB, and the run went on.
    Memory(u32),
}

/// How a run ended. Sent when nothing of the sandbox is left.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Outcome {
    /// Why it ended.
    pub ending: Ending,
    /// What standard output brought.
    pub stdout: StreamTotals,
    /// What standard error brought.
    pub stderr: StreamTotals,
    /// What it used.
    pub usage: Usage,
    /// The limits it ran into.
    pub limits_hit: Vec<LimitHit>,
    /// Limits that `Ready` named as in force and that did not hold until the end.
    pub limits_lost: Vec<Limit>,
    /// Names of reported syscalls that were refused, each once, in order of their first use.
    pub denied: Vec<String>,
    /// Whether reporting stopped because the guest made too many refused calls.
    pub denied_stopped: bool,
    /// The steps taken since hand-over, in order.
    pub steps: Vec<TimedStep>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_taken_back_is_in_force_nowhere() {
        let controls = [Control::Namespaces, Control::Cpu, Control::Memory, Control::Pids];
        let mut applied = Applied {
            isolation: Isolation::native(vec![], vec![], vec![], None),
            controls: controls.map(|control| (control, ControlState::InForce)).to_vec(),
            interpreters: Interpreters::default(),
            cgroup: Err(NoCgroup::NoControllers),
            steps: vec![],
        };
        let before = applied.clone();
        applied.take_back(&[]);
        assert_eq!(applied, before);
        applied.take_back(&[Limit::Memory]);
        let lost = ControlState::Missing(LOST.to_owned());
        assert_eq!(
            applied.controls,
            [
                (Control::Namespaces, ControlState::InForce),
                (Control::Cpu, ControlState::InForce),
                (Control::Memory, lost),
                (Control::Pids, ControlState::InForce),
            ]
        );
        assert_eq!(
            applied.isolation.to_string(),
            "native-degraded (limits not applied: memory; changed or taken away during the run: memory)"
        );
    }
}
