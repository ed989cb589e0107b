//! The watch over a run: output, refused calls, the deadline, the server's hang-up, init's end.

use super::denials::Denials;
use super::diagnosis;
use super::outbox::Sink;
use super::running::{Caged, Running};
use crate::cgroup::{KilledAt, Leaf, Measurements};
use crate::control::{self, Report};
use crate::trace::Trace;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::read;
use protocol::{
    Ending, Limit, LimitHit, Measured, Outcome, Refusal, Script, Step, StepError, Stream,
    StreamTotals, Usage,
};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// How much is read at once.
const CHUNK: usize = 64 * 1024;

/// How a run ended for the supervisor.
#[derive(Debug)]
pub enum Verdict {
    /// There is an outcome.
    Ended(Box<Outcome>),
    /// The server hung up or broke the order: the sandbox is gone, and nobody is told.
    Abandoned,
}

/// What ended the watch.
enum Cause {
    Guest(i32),
    InitEnded,
    Failed(StepError),
    TimedOut,
    Overflow,
    HungUp,
}

/// What a descriptor of the poll set is.
#[derive(Clone, Copy)]
enum Source {
    Server,
    Control,
    Output(usize),
    Denials,
    /// No process with the filter is left.
    NoMoreDenials,
    Sink,
}

impl Source {
    /// A listener that hangs up would be reported again and again.
    fn seen(self, events: Option<PollFlags>) -> Source {
        match (self, events) {
            (Source::Denials, Some(events)) if !events.contains(PollFlags::POLLIN) => {
                Source::NoMoreDenials
            }
            (source, _) => source,
        }
    }
}

/// One output stream of the guest.
struct Output {
    stream: Stream,
    pipe: Option<OwnedFd>,
    totals: StreamTotals,
}

struct Watch<'a> {
    control: OwnedFd,
    server: Option<BorrowedFd<'a>>,
    sink: &'a mut Sink,
    outputs: [Output; 2],
    denials: Denials,
    trace: &'a mut Trace,
    cap: u64,
    deadline: Instant,
    guest_ready: bool,
    buffer: Vec<u8>,
}

/// Watches a run that was started at `started`, until nothing of it is left. `server` is the pipe
/// whose end means: cancel.
///
/// # Errors
/// A refusal if the guest never came to execute the interpreter.
pub(super) fn watch(
    running: Running,
    started: Instant,
    script: &Script,
    server: Option<BorrowedFd<'_>>,
    sink: &mut Sink,
    trace: &mut Trace,
) -> Result<Verdict, Refusal> {
    let Running { sandbox, control, stdout, stderr } = running;
    let output =
        |stream, pipe| Output { stream, pipe: Some(pipe), totals: StreamTotals::default() };
    let mut watch = Watch {
        control,
        server,
        sink,
        outputs: [output(Stream::Stdout, stdout), output(Stream::Stderr, stderr)],
        denials: Denials::default(),
        trace,
        cap: script.output_bytes.get().into(),
        deadline: started + Duration::from_secs(script.timeout_seconds.get().into()),
        guest_ready: false,
        buffer: vec![0; CHUNK],
    };
    let cause = watch.until_the_end();
    sandbox.kill();
    let wall = started.elapsed();
    watch.drain();
    watch.conclude(cause, wall, sandbox)
}

impl Watch<'_> {
    fn until_the_end(&mut self) -> Cause {
        loop {
            let left = self.deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Cause::TimedOut;
            }
            for source in self.wait(left) {
                if let Some(cause) = self.attend(source) {
                    return cause;
                }
            }
        }
    }

    /// Waits until something happens, at most `left`, and tells where.
    fn wait(&self, left: Duration) -> Vec<Source> {
        let mut sources = vec![Source::Control];
        let mut fds = vec![PollFd::new(self.control.as_fd(), PollFlags::POLLIN)];
        let mut add = |source, fd, events| {
            sources.push(source);
            fds.push(PollFd::new(fd, events));
        };
        for (index, output) in self.outputs.iter().enumerate() {
            if let Some(pipe) = &output.pipe {
                add(Source::Output(index), pipe.as_fd(), PollFlags::POLLIN);
            }
        }
        if let Some(fd) = self.denials.fd() {
            add(Source::Denials, fd, PollFlags::POLLIN);
        }
        if let Some(fd) = self.server {
            add(Source::Server, fd, PollFlags::POLLIN);
        }
        for fd in self.sink.waiting() {
            add(Source::Sink, fd, PollFlags::POLLOUT);
        }
        // Rounded up, or the last millisecond would be spent turning.
        let milliseconds = u32::try_from(left.as_millis() + 1).unwrap_or(u32::MAX);
        let timeout = PollTimeout::try_from(milliseconds).unwrap_or(PollTimeout::MAX);
        match poll(&mut fds, timeout) {
            Ok(_) => {
                let ready = sources.iter().zip(&fds).filter(|(_, fd)| fd.any().unwrap_or(true));
                ready.map(|(source, fd)| source.seen(fd.revents())).collect()
            }
            Err(_) => Vec::new(),
        }
    }

    fn attend(&mut self, source: Source) -> Option<Cause> {
        match source {
            Source::Server => Some(Cause::HungUp),
            Source::Control => self.hear(),
            Source::Denials => {
                self.denials.answer();
                None
            }
            Source::NoMoreDenials => {
                self.denials.close();
                None
            }
            Source::Output(index) => {
                self.pass_on(index);
                self.has_overflowed().then_some(Cause::Overflow)
            }
            Source::Sink => {
                self.sink.flush();
                self.sink.is_broken().then_some(Cause::HungUp)
            }
        }
    }

    /// A report of init or of the guest.
    fn hear(&mut self) -> Option<Cause> {
        match control::receive(self.control.as_fd()) {
            Ok(Some((Report::GuestReady(steps), Some(listener)))) => {
                self.guest_ready = true;
                self.trace.extend(steps);
                self.denials.listen(listener);
                None
            }
            // The listener got lost on its way: refused calls could not be told, so the run is ended.
            Ok(Some((Report::GuestReady(_), None))) => {
                self.guest_ready = true;
                Some(Cause::InitEnded)
            }
            Ok(Some((Report::Failed(error, steps), _))) => {
                self.trace.extend(steps);
                Some(Cause::Failed(error))
            }
            Ok(Some((Report::Ended(status, steps), _))) => {
                self.trace.extend(steps);
                Some(Cause::Guest(status))
            }
            Ok(Some((Report::Built(..) | Report::SandboxReady(..), _)) | None) | Err(_) => {
                Some(Cause::InitEnded)
            }
        }
    }

    /// Reads once from a stream. False when nothing is there.
    fn pass_on(&mut self, index: usize) -> bool {
        let Some(output) = self.outputs.get_mut(index) else { return false };
        let Some(pipe) = &output.pipe else { return false };
        match read(pipe, &mut self.buffer) {
            Ok(0) => output.pipe = None,
            Ok(length) => {
                let room = self.cap.saturating_sub(output.totals.forwarded);
                let taken = length.min(usize::try_from(room).unwrap_or(usize::MAX));
                output.totals.seen += length as u64;
                output.totals.forwarded += taken as u64;
                if let Some(bytes) = self.buffer.get(..taken).filter(|bytes| !bytes.is_empty()) {
                    self.sink.output(output.stream, bytes);
                }
                return true;
            }
            Err(Errno::EINTR) => return true,
            Err(Errno::EAGAIN) => {}
            Err(_) => output.pipe = None,
        }
        false
    }

    fn has_overflowed(&self) -> bool {
        self.overflowed().is_some()
    }

    /// The stream that passed twice the cap.
    fn overflowed(&self) -> Option<Stream> {
        let over = |output: &&Output| output.totals.seen > 2 * self.cap;
        self.outputs.iter().find(over).map(|output| output.stream)
    }

    /// Reads what the sandbox had written when it ended: what its pipes can hold. More comes only
    /// from a process of another run that was handed the pipe, and is nobody's output.
    fn drain(&mut self) {
        for index in 0..self.outputs.len() {
            let end = self.seen(index) + self.capacity(index);
            while self.seen(index) < end && self.pass_on(index) {}
        }
        while let Ok(Some((report, _))) = self.pending_report() {
            if let Report::GuestReady(steps) | Report::Failed(_, steps) = report {
                self.trace.extend(steps);
            }
        }
    }

    fn seen(&self, index: usize) -> u64 {
        self.outputs.get(index).map_or(0, |output| output.totals.seen)
    }

    fn capacity(&self, index: usize) -> u64 {
        let pipe = self.outputs.get(index).and_then(|output| output.pipe.as_ref());
        let size = pipe.and_then(|pipe| fcntl(pipe, FcntlArg::F_GETPIPE_SZ).ok());
        size.and_then(|size| u64::try_from(size).ok()).unwrap_or(0)
    }

    fn pending_report(&self) -> nix::Result<Option<(Report, Option<OwnedFd>)>> {
        let mut fds = [PollFd::new(self.control.as_fd(), PollFlags::POLLIN)];
        match poll(&mut fds, PollTimeout::ZERO)? {
            0 => Ok(None),
            _ => control::receive(self.control.as_fd()),
        }
    }

    fn conclude(
        mut self,
        cause: Cause,
        wall: Duration,
        sandbox: Caged,
    ) -> Result<Verdict, Refusal> {
        let measured = sandbox.cgroup.as_ref().map(Leaf::measure);
        let killed = measured.as_ref().and_then(|measured| measured.killed);
        let refuse = |error| Err(diagnosis::explain_here(error));
        let ending = match cause {
            Cause::HungUp => {
                sandbox.clear();
                return Ok(Verdict::Abandoned);
            }
            Cause::Failed(error) => return refuse(error).map_err(|seen| sandbox.refuse(seen)),
            Cause::Guest(_) | Cause::InitEnded if !self.guest_ready => {
                let error = StepError { step: Step::Exec, errno: libc::ECHILD };
                return refuse(error).map_err(|seen| sandbox.refuse(seen));
            }
            // The first process that is killed for memory takes the whole sandbox with it, whatever
            // was seen of that first.
            _ if killed == Some(KilledAt::Own) => Ending::OutOfMemory,
            _ if killed == Some(KilledAt::Outside) => Ending::OutOfMemoryOutside,
            // Whether a flood was still going on when it was noticed is a matter of chance; the
            // verdict must not be.
            Cause::Guest(_) | Cause::Overflow if self.has_overflowed() => {
                Ending::Overflow(self.overflowed().unwrap_or(Stream::Stdout))
            }
            Cause::Guest(status) => ending_of(status),
            Cause::Overflow | Cause::InitEnded => Ending::InitEnded,
            Cause::TimedOut => Ending::TimedOut,
        };
        sandbox.clear();
        self.denials.close();
        let (usage, limits_hit, limits_lost) = used(wall, measured);
        let [stdout, stderr] = self.outputs.map(|output| output.totals);
        let (denied, denied_stopped) = self.denials.into_result();
        Ok(Verdict::Ended(Box::new(Outcome {
            ending,
            stdout,
            stderr,
            usage,
            limits_hit,
            limits_lost,
            denied,
            denied_stopped,
            steps: self.trace.take(),
        })))
    }
}

fn ending_of(status: i32) -> Ending {
    if libc::WIFEXITED(status) {
        Ending::Exited(libc::WEXITSTATUS(status) as u8)
    } else {
        Ending::Killed(libc::WTERMSIG(status))
    }
}

/// What the run used, the limits it ran into, and those that did not hold until its end. Without a
/// cgroup of the run's own, wall time is all that the guest cannot forge.
fn used(wall: Duration, measured: Option<Measurements>) -> (Usage, Vec<LimitHit>, Vec<Limit>) {
    let missing = || Measured::Missing(super::level::NO_CGROUP.to_owned());
    let wall_us = u64::try_from(wall.as_micros()).unwrap_or(u64::MAX);
    let Some(measured) = measured else {
        let (cpu_us, mem_peak_bytes, pids_peak) = (missing(), missing(), missing());
        return (Usage { wall_us, cpu_us, mem_peak_bytes, pids_peak }, Vec::new(), Vec::new());
    };
    let Measurements { cpu_us, mem_peak_bytes, pids_peak, limits_hit, limits_lost, .. } = measured;
    (Usage { wall_us, cpu_us, mem_peak_bytes, pids_peak }, limits_hit, limits_lost)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_status_is_taken_apart() {
        assert_eq!(ending_of(3 << 8), Ending::Exited(3));
        assert_eq!(ending_of(libc::SIGSEGV | 0x80), Ending::Killed(libc::SIGSEGV));
    }
}
