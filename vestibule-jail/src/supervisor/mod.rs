//! The supervisor: outside the sandbox, of one thread, the only one who talks to the server. It
//! checks, clones init, hands the script over, watches, and kills.

mod checks;
mod denials;
pub mod diagnosis;
pub mod environment;
mod level;
mod outbox;
mod pump;
pub mod rootfs;
mod script;
mod workspace;

pub use outbox::{Outbox, Sink};
pub use pump::Verdict;

use crate::control::{self, Report};
use crate::plan::{Plan, StandIns};
use crate::sandbox::{self, Ends};
use crate::sys::process::{self, Cloned};
use crate::trace::Trace;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::unistd::{Pid, pipe2};
use protocol::{Applied, Refusal, Sandbox, Script, Step, StepError, TimedStep};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A sandbox that stands and waits for its script.
#[derive(Debug)]
pub struct Standing {
    init: Pid,
    pidfd: OwnedFd,
    control: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
    scripts: OwnedFd,
    plan: Plan,
}

/// The supervisor's ends of what it shares with the sandbox.
struct Outside {
    control: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
}

/// Builds a sandbox: the steps of the supervisor up to `Ready`, in order. `server` is the pipe whose
/// end means: cancel.
///
/// # Errors
/// A refusal with the step, the cause and the fix; nothing of the sandbox is left then.
pub fn prepare(
    sandbox: &Sandbox,
    server: Option<BorrowedFd<'_>>,
    trace: &mut Trace,
) -> Result<(Standing, Applied), Refusal> {
    let uid = nix::unistd::getuid().as_raw();
    trace.refusing(Step::CheckPrivileges, checks::privileges)?;
    let kernel = trace.refusing(Step::CheckKernel, checks::kernel)?;
    let workspace = trace.refusing(Step::OpenWorkspace, || {
        workspace::check(&sandbox.workspace, sandbox.workspace_read_only, uid)
    })?;
    let root =
        trace.refusing(Step::OpenRootfs, || rootfs::plan(&sandbox.rootfs, &sandbox.environment))?;
    let outside = sandbox::namespaces().map_err(|errno| {
        diagnosis::explain_here(StepError { step: Step::Clone, errno: errno as i32 })
    })?;
    let plan = Plan {
        root,
        workspace,
        limits: sandbox.limits,
        stand_ins: StandIns { pids: kernel >= (5, 14), data: true },
        environment: environment::compose(&sandbox.rootfs, &sandbox.environment),
        uid,
        gid: nix::unistd::getgid().as_raw(),
        landlock_abi: crate::sys::landlock::abi(),
        outside,
    };
    let (outside, ends) =
        trace.step(Step::MakePipes, make_pipes).map_err(diagnosis::explain_here)?;
    let cloned = trace.step(Step::Clone, process::clone_init).map_err(diagnosis::explain_here)?;
    let (init, pidfd) = match cloned {
        Cloned::Supervisor(init, pidfd) => (init, pidfd),
        Cloned::Init(alone) => {
            drop(outside);
            sandbox::main(&plan, ends, alone)
        }
    };
    drop(ends);
    let report = first_report(outside.control.as_fd(), server);
    standing(report, Built { init, pidfd, outside, plan }, trace)
}

fn make_pipes() -> nix::Result<(Outside, Ends)> {
    let (ours, theirs) =
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
    let (stdout, stdout_end) = pipe2(OFlag::O_CLOEXEC)?;
    let (stderr, stderr_end) = pipe2(OFlag::O_CLOEXEC)?;
    for end in [&stdout, &stderr] {
        nix::fcntl::fcntl(end, nix::fcntl::FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    }
    let outside = Outside { control: ours, stdout, stderr };
    Ok((outside, Ends { control: theirs, stdout: stdout_end, stderr: stderr_end }))
}

/// Waits for init's first report. A server that hangs up meanwhile is not kept waiting for a mount
/// that hangs.
fn first_report(control: BorrowedFd<'_>, server: Option<BorrowedFd<'_>>) -> FirstReport {
    let mut fds = vec![PollFd::new(control, PollFlags::POLLIN)];
    fds.extend(server.map(|server| PollFd::new(server, PollFlags::empty())));
    loop {
        match poll(&mut fds, PollTimeout::NONE) {
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
            Ok(_) if fds.first().is_some_and(|control| control.any() == Some(true)) => {
                return control::receive(control);
            }
            Ok(_) => return Err(Errno::ECANCELED),
        }
    }
}

type FirstReport = nix::Result<Option<(Report, Option<OwnedFd>)>>;

/// What a clone leaves in the supervisor's hands.
struct Built {
    init: Pid,
    pidfd: OwnedFd,
    outside: Outside,
    plan: Plan,
}

/// Takes init's word that the sandbox stands, or ends it.
fn standing(
    report: FirstReport,
    built: Built,
    trace: &mut Trace,
) -> Result<(Standing, Applied), Refusal> {
    let Built { init, pidfd, outside, plan } = built;
    let error = match report {
        Ok(Some((Report::SandboxReady(steps), Some(scripts)))) => {
            trace.extend(steps);
            let Outside { control, stdout, stderr } = outside;
            let (isolation, controls) = level::of(&plan, trace);
            let applied = Applied {
                isolation,
                controls,
                interpreters: plan.root.interpreters.clone(),
                cgroup: None,
                steps: trace.steps().to_vec(),
            };
            let standing = Standing { init, pidfd, control, stdout, stderr, scripts, plan };
            return Ok((standing, applied));
        }
        Ok(Some((Report::Failed(error, steps), _))) => {
            trace.extend(steps);
            error
        }
        Ok(_) => StepError { step: Step::VerifySandbox, errno: libc::ECHILD },
        Err(errno) => StepError { step: Step::VerifySandbox, errno: errno as i32 },
    };
    end(init, &pidfd);
    Err(diagnosis::explain_here(error))
}

/// Kills init, and with it everything in its PID namespace, and waits until all of it is gone.
fn end(init: Pid, pidfd: &OwnedFd) {
    // It may be gone already, which is as good.
    let _ = process::kill(pidfd.as_fd());
    while nix::sys::wait::waitpid(init, None) == Err(Errno::EINTR) {}
}

impl Standing {
    /// The interpreter check, the script, the guest, and the watch over it until nothing is left.
    /// `server` is the pipe whose end means: cancel.
    ///
    /// # Errors
    /// A refusal if nothing was executed.
    pub fn execute(
        self,
        script: &Script,
        server: Option<BorrowedFd<'_>>,
        sink: &mut Sink,
    ) -> Result<Verdict, Refusal> {
        let mut trace = Trace::default();
        match self.start(script, &mut trace) {
            Ok(()) => pump::watch(self, script, server, sink, trace),
            Err(refusal) => {
                self.discard();
                Err(refusal)
            }
        }
    }

    fn start(&self, script: &Script, trace: &mut Trace) -> Result<(), Refusal> {
        self.plan.root.interpreters.path(script.language)?;
        let write = || script::write_script(self.scripts.as_fd(), script);
        trace.step(Step::WriteScript, write).map_err(diagnosis::explain_here)?;
        control::start(self.control.as_fd(), script.language).map_err(|errno| {
            diagnosis::explain_here(StepError { step: Step::StartGuest, errno: errno as i32 })
        })
    }

    /// Init's pidfd, which becomes readable when it ends.
    pub fn init(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Ends a sandbox that is not wanted any more.
    pub fn discard(self) {
        end(self.init, &self.pidfd);
    }
}

impl Trace {
    /// Takes a step of the supervisor that words its own refusal.
    fn refusing<T>(
        &mut self,
        step: Step,
        act: impl FnOnce() -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let start = std::time::Instant::now();
        let done = act();
        let nanoseconds = start.elapsed().as_nanos() as u64;
        let at = done.as_ref().err().and_then(|refusal| refusal.at);
        let errno = at.map_or(0, |error| error.errno);
        self.extend(vec![TimedStep { step, nanoseconds, errno }]);
        done
    }
}
