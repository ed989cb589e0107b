//! The record of the steps of one process: what `--explain` prints, and where a failure gets its
//! name from.

use nix::errno::Errno;
use protocol::{Step, StepError, TimedStep};
use std::time::Instant;

/// The steps taken so far by one process.
#[derive(Debug, Default)]
pub struct Trace {
    steps: Vec<TimedStep>,
}

impl Trace {
    /// Takes a step and records its time.
    ///
    /// # Errors
    /// The step's name with its errno.
    pub fn step<T>(
        &mut self,
        step: Step,
        act: impl FnOnce() -> nix::Result<T>,
    ) -> Result<T, StepError> {
        self.record(step, act).map_err(|errno| StepError { step, errno: errno as i32 })
    }

    /// Takes a step that the build can go on without; its errno is kept in the record.
    pub fn optional<T>(&mut self, step: Step, act: impl FnOnce() -> nix::Result<T>) -> Option<T> {
        self.record(step, act).ok()
    }

    fn record<T>(&mut self, step: Step, act: impl FnOnce() -> nix::Result<T>) -> nix::Result<T> {
        let start = Instant::now();
        let done = act();
        let nanoseconds = start.elapsed().as_nanos() as u64;
        let errno = done.as_ref().err().map_or(0, |errno: &Errno| *errno as i32);
        self.steps.push(TimedStep { step, nanoseconds, errno });
        done
    }

    /// Adds the steps of another process. Those that were taken at the same time stand in the order
    /// of the table.
    pub fn extend(&mut self, steps: Vec<TimedStep>) {
        self.steps.extend(steps);
        self.steps.sort_by_key(|taken| taken.step);
    }

    /// Records a step that was seen to have begun at `start` and succeeded by now.
    pub fn seen(&mut self, step: Step, start: Instant) {
        let nanoseconds = start.elapsed().as_nanos() as u64;
        self.steps.push(TimedStep { step, nanoseconds, errno: 0 });
    }

    /// The errno of a step that was taken and failed.
    pub fn failure(&self, step: Step) -> Option<i32> {
        let failed = self.steps.iter().find(|taken| taken.step == step && taken.errno != 0);
        failed.map(|taken| taken.errno)
    }

    /// The record so far.
    pub fn steps(&self) -> &[TimedStep] {
        &self.steps
    }

    /// Hands the record over and starts a new one.
    pub fn take(&mut self) -> Vec<TimedStep> {
        std::mem::take(&mut self.steps)
    }
}
