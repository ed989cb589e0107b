//! The conversation with the server over standard input and output: greetings, `Prepare`,
//! `Execute`, and the events that answer them. A server that breaks the order is not answered: the
//! sandbox goes, and so does this process.

use crate::supervisor::{self, Sink, Verdict};
use crate::trace::Trace;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use protocol::frame::{FrameError, ToJail};
use protocol::{Cause, Event, Hello, PROTOCOL_VERSION, Refusal, Request, Retry, Sandbox, Script};
use std::io::{Read, Stdin};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Serves one run.
///
/// # Errors
/// What the pipe or the peer did wrong. A hang-up is no error.
pub fn serve() -> Result<(), FrameError> {
    let mut input = Unbuffered(std::io::stdin());
    let output = duplicate(&std::io::stdout())?;
    let mut sink = Sink::Server(output);
    sink.raw(&protocol::frame::encode_hello(&Hello::ours()));
    match ToJail::read(&mut input)? {
        None => return Ok(()),
        // The greeting has told the server all that it can understand.
        Some(ToJail::Hello(theirs)) if theirs.protocol != PROTOCOL_VERSION => return Ok(()),
        Some(ToJail::Hello(_)) => {}
        Some(other) => return Err(out_of_order("a greeting", &other)),
    }
    let Some(sandbox) = next_prepare(&mut input)? else { return Ok(()) };
    if let Err(error) = sandbox.check() {
        return sink.event(&Event::Refused(bad_request(&error.to_string())));
    }
    let (server, mut trace) = (Some(input.0.as_fd()), Trace::default());
    let (standing, applied) = match supervisor::prepare(&sandbox, server, &mut trace) {
        Ok(built) => built,
        Err(_) if hung_up(input.0.as_fd()) => return Ok(()),
        Err(refusal) => return sink.event(&Event::Refused(refusal)),
    };
    sink.event(&Event::Ready(Box::new(applied)))?;
    let script = match next_execute(&mut input, &standing) {
        Ok(Next::Script(script)) => script,
        other => {
            standing.discard();
            return match other? {
                Next::SandboxEnded => sink.event(&Event::Refused(sandbox_ended())),
                Next::Script(_) | Next::HungUp => Ok(()),
            };
        }
    };
    if let Err(error) = script.check() {
        standing.discard();
        return sink.event(&Event::Refused(bad_request(&error.to_string())));
    }
    let mut trace = Trace::default();
    match standing.execute(&script, Some(input.0.as_fd()), &mut sink, &mut trace) {
        Ok(Verdict::Ended(outcome)) => sink.event(&Event::Finished(*outcome)),
        Ok(Verdict::Abandoned) => Ok(()),
        Err(refusal) => sink.event(&Event::Refused(refusal)),
    }
}

fn next_prepare(input: &mut impl Read) -> Result<Option<Sandbox>, FrameError> {
    match ToJail::read(input)? {
        None => Ok(None),
        Some(ToJail::Request(Request::Prepare(sandbox))) => Ok(Some(sandbox)),
        Some(other) => Err(out_of_order("Prepare", &other)),
    }
}

/// What ends the wait for a script.
enum Next {
    Script(Script),
    HungUp,
    SandboxEnded,
}

/// Waits for the script, or for the end of the sandbox or of the server.
fn next_execute(
    input: &mut Unbuffered,
    standing: &supervisor::Standing,
) -> Result<Next, FrameError> {
    let mut fds = [
        PollFd::new(input.0.as_fd(), PollFlags::POLLIN),
        PollFd::new(standing.init(), PollFlags::POLLIN),
    ];
    while poll(&mut fds, PollTimeout::NONE) == Err(nix::errno::Errno::EINTR) {}
    let [server, _] = fds;
    if !server.any().unwrap_or(false) {
        return Ok(Next::SandboxEnded);
    }
    match ToJail::read(input)? {
        None => Ok(Next::HungUp),
        Some(ToJail::Request(Request::Execute(script))) => Ok(Next::Script(script)),
        Some(other) => Err(out_of_order("Execute", &other)),
    }
}

/// Whether the server's end of the pipe is closed: nobody waits for an answer then.
fn hung_up(server: BorrowedFd<'_>) -> bool {
    let mut fds = [PollFd::new(server, PollFlags::empty())];
    let [server] = match poll(&mut fds, PollTimeout::ZERO) {
        Ok(_) => fds,
        Err(_) => return false,
    };
    server.revents().is_some_and(|events| events.contains(PollFlags::POLLHUP))
}

fn sandbox_ended() -> Refusal {
    Refusal {
        what: "the sandbox ended while it waited for its code".to_owned(),
        cause: Cause::Other,
        fix: "look for what kills processes on this machine, such as its out-of-memory killer"
            .to_owned(),
        retry: Retry::Now,
        at: None,
    }
}

fn out_of_order(expected: &'static str, got: &ToJail) -> FrameError {
    let got = match got {
        ToJail::Hello(_) => "a greeting",
        ToJail::Request(Request::Prepare(_)) => "Prepare",
        ToJail::Request(Request::Execute(_)) => "Execute",
    };
    FrameError::Order { expected, got }
}

/// A refusal of a request that no sandbox can be built from.
pub fn bad_request(what: &str) -> Refusal {
    Refusal {
        what: what.to_owned(),
        cause: Cause::Request,
        fix: "correct that field of the request".to_owned(),
        retry: Retry::AfterFix,
        at: None,
    }
}

fn duplicate(output: &impl AsFd) -> Result<supervisor::Outbox, FrameError> {
    let owned: OwnedFd = output.as_fd().try_clone_to_owned()?;
    Ok(supervisor::Outbox::new(owned))
}

/// Standard input without a buffer: what is buffered here could not be polled for.
struct Unbuffered(Stdin);

impl Read for Unbuffered {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        Ok(nix::unistd::read(self.0.as_fd(), buffer)?)
    }
}
