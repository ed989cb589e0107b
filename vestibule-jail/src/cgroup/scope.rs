//! A transient scope with delegation, asked of the user's systemd.
//!
//! The conversation takes place in a process of its own ([`super::bus`]): a bus that hangs is left by
//! ending it, whatever it does with memory or threads stays in it, and the supervisor has a single
//! thread and no descriptor of the bus when it clones init.

use super::bus;
use crate::plan::errno;
use crate::sys;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::sys::stat::Mode;
use nix::sys::wait::waitpid;
use nix::unistd::{Pid, dup2_stderr, dup2_stdin, dup2_stdout, pipe2};
use protocol::{Bus, NoCgroup};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long both ways together may take. Some milliseconds are usual.
const BUDGET: Duration = Duration::from_secs(5);

/// How much of it the session bus may take, so that something is left for the private socket.
const FIRST: Duration = Duration::from_secs(3);

/// How many bytes of an answer are read.
const LONGEST: u64 = 16 * 1024;

/// What systemd is asked.
#[derive(Clone, Copy, Debug)]
pub enum Question<'a> {
    /// Whether the unit whose folder this is is delegated.
    HasDelegated(&'a Path),
    /// A scope for these processes, named after the second.
    Scope(&'a [Pid], Pid),
}

/// What the asking process found out.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
pub enum Answer {
    /// Whether the unit is delegated.
    Delegated(bool),
    /// The processes are in this scope, and here is its folder.
    Scope {
        /// The unit's name.
        name: String,
        /// Its folder.
        folder: PathBuf,
    },
    /// Nobody listens, or not systemd.
    Nobody,
    /// It was refused or not understood.
    Failed(String),
}

/// The user's systemd as `ours` speak to it. All of it together takes no longer than [`BUDGET`].
#[derive(Debug)]
pub struct Systemd<'a> {
    ours: &'a [Pid],
    owner: Pid,
    /// The pipe whose end means: cancel.
    server: Option<BorrowedFd<'a>>,
    since: Instant,
}

impl<'a> Systemd<'a> {
    /// Starts the clock.
    pub fn new(ours: &'a [Pid], owner: Pid, server: Option<BorrowedFd<'a>>) -> Systemd<'a> {
        Systemd { ours, owner, server, since: Instant::now() }
    }

    /// Whether it says that a unit of its own is delegated. No answer counts as no.
    pub fn has_delegated(&self, folder: &Path) -> bool {
        let asked = self.ask(Bus::Session, Question::HasDelegated(folder), FIRST);
        matches!(asked, Ok(Some(Answer::Delegated(true))))
    }

    /// Asks for a scope, over the session bus, then over systemd's private socket.
    ///
    /// # Errors
    /// The first reason that says more than that nobody listens.
    pub fn make_scope(&self) -> Result<(PathBuf, String, Bus), NoCgroup> {
        let mut reason = NoCgroup::NoUserManager;
        for (bus, latest) in [(Bus::Session, FIRST), (Bus::Private, BUDGET)] {
            let answer = self.ask(bus, Question::Scope(self.ours, self.owner), latest);
            let why = match answer {
                Ok(Some(Answer::Scope { name, folder })) => return Ok((folder, name, bus)),
                Ok(Some(Answer::Nobody)) => continue,
                Ok(Some(Answer::Failed(what))) => NoCgroup::NoScope(what),
                Ok(None | Some(Answer::Delegated(_))) => {
                    NoCgroup::NoAnswer { seconds: BUDGET.as_secs() }
                }
                Err(errno) => NoCgroup::NoScope(errno.desc().to_owned()),
            };
            if reason == NoCgroup::NoUserManager {
                reason = why;
            }
        }
        Err(reason)
    }

    /// Asks over one of the ways; `None` when there was no answer by then, or the server hung up.
    fn ask(
        &self,
        bus: Bus,
        question: Question<'_>,
        latest: Duration,
    ) -> nix::Result<Option<Answer>> {
        let (answers, theirs) = pipe2(OFlag::O_CLOEXEC)?;
        let alone = sys::process::single_thread()?;
        let asker = sys::process::start_copy(&alone, || {
            let asked = detach(theirs.as_fd()).map(|()| bus::ask(bus, question));
            let answer = asked.unwrap_or_else(|errno| Answer::Failed(errno.desc().to_owned()));
            let text = serde_json::to_vec(&answer).unwrap_or_default();
            // A supervisor that is gone needs no answer.
            nix::unistd::write(&theirs, &text).is_ok()
        })?;
        // As long as this end is open, the asker's end without an answer would not be seen.
        drop(theirs);
        let answer = wait_for(&answers, self.server, self.since + latest);
        // It has ended, or is not waited for any longer.
        let _ = kill(asker, Signal::SIGKILL);
        while waitpid(asker, None) == Err(Errno::EINTR) {}
        answer
    }
}

/// Lets go of everything that is the supervisor's: its pipes would look open for as long as this
/// process lives.
fn detach(keep: BorrowedFd<'_>) -> nix::Result<()> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    sys::descriptors::close_all_but(&[keep])?;
    let null = open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty())?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)
}

fn wait_for(
    answers: &OwnedFd,
    server: Option<BorrowedFd<'_>>,
    latest: Instant,
) -> nix::Result<Option<Answer>> {
    let mut fds = vec![PollFd::new(answers.as_fd(), PollFlags::POLLIN)];
    fds.extend(server.map(|server| PollFd::new(server, PollFlags::empty())));
    loop {
        let left = latest.saturating_duration_since(Instant::now());
        let milliseconds = u16::try_from(left.as_millis()).unwrap_or(u16::MAX);
        match poll(&mut fds, PollTimeout::from(milliseconds)) {
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
            // The answer comes in one piece, or the end without one.
            Ok(_) if fds.first().is_some_and(|answer| answer.any() == Some(true)) => break,
            Ok(_) => return Ok(None),
        }
    }
    let mut text = Vec::new();
    let file = File::from(answers.try_clone().map_err(|error| errno(&error))?);
    file.take(LONGEST).read_to_end(&mut text).map_err(|error| errno(&error))?;
    Ok(serde_json::from_slice(&text).ok())
}
