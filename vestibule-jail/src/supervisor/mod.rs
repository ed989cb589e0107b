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
mod running;
mod script;
mod workspace;

pub use outbox::{Outbox, Sink};
pub use pump::Verdict;

use crate::cgroup::{self, Leaf};
use crate::control::{self, Report, Word};
use crate::plan::{Plan, Settings, StandIns};
use crate::sandbox::{self, Ends};
use crate::sys::process::{self, Cloned};
use crate::trace::Trace;
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::unistd::pipe2;
use protocol::{
    Applied, Interpreters, Language, Limit, NoCgroup, Refusal, Rootfs, RunCgroup, Sandbox, Script,
    Step, StepError, TimedStep,
};
use running::{Caged, Running};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Instant;

/// A sandbox that stands and waits for its script.
#[derive(Debug)]
pub struct Standing {
    running: Running,
    scripts: OwnedFd,
    interpreters: Interpreters,
    programs: rootfs::Programs,
    from_image: bool,
}

/// The cgroup of a run, or why it has none.
type Own = Result<(Leaf, RunCgroup), NoCgroup>;

/// The supervisor's ends of the pipes.
struct Outside {
    control: OwnedFd,
    plan: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
}

/// Builds a sandbox: the steps of the supervisor up to `Ready`, in order. Init is cloned first and
/// begins with what is the same for every sandbox, while the rest is found out here. `server` is the
/// pipe whose end means: cancel.
///
/// # Errors
/// A refusal with the step, the cause and the fix; nothing of the sandbox is left then.
pub fn prepare(
    sandbox: &Sandbox,
    server: Option<BorrowedFd<'_>>,
    trace: &mut Trace,
) -> Result<(Standing, Applied), Refusal> {
    trace.refusing(Step::CheckPrivileges, checks::privileges)?;
    let kernel = trace.refusing(Step::CheckKernel, checks::kernel)?;
    raise_descriptor_limit();
    let (outside, ends, plan_end) =
        trace.step(Step::MakePipes, make_pipes).map_err(diagnosis::explain_here)?;
    let mut own = own_cgroup(sandbox, server, trace);
    let mut settings = settings(sandbox, kernel, &own);
    let mut cloned = clone(&own, trace);
    if let Err(error) = &cloned
        && own.is_ok()
    {
        // Where the cgroup is what stands in the way, the run goes on without.
        own = without(own, *error);
        settings = self::settings(sandbox, kernel, &own);
        cloned = clone(&own, trace);
    }
    let (pid, pidfd) = match cloned.map_err(diagnosis::explain_here)? {
        Cloned::Supervisor(pid, pidfd) => (pid, pidfd),
        Cloned::Init(alone) => {
            drop((outside, own));
            sandbox::main(&settings, ends, plan_end, alone)
        }
    };
    drop((ends, plan_end));
    let Outside { control, plan, stdout, stderr } = outside;
    let (cgroup, leaf) = match own {
        Ok((leaf, run)) => (Ok(run), Some(leaf)),
        Err(reason) => (Err(reason), None),
    };
    let caged = Caged { pid, pidfd, cgroup: leaf, memory: sandbox.limits.memory_mib };
    let running = Running { sandbox: caged, control, stdout, stderr };
    match stand(sandbox, &settings, &running, cgroup, plan, server, trace) {
        Ok((scripts, programs, applied)) => {
            let interpreters = applied.interpreters.clone();
            let from_image = sandbox.rootfs != Rootfs::Host;
            Ok((Standing { running, scripts, interpreters, programs, from_image }, applied))
        }
        Err(refusal) => Err(running.sandbox.refuse(refusal)),
    }
}

fn clone(own: &Own, trace: &mut Trace) -> Result<Cloned, StepError> {
    let folder = own.as_ref().ok().map(|(leaf, _)| leaf.folder().fd());
    trace.step(Step::Clone, || process::clone_init(folder))
}

/// Gives a cgroup up that init could not be cloned into.
fn without(own: Own, error: StepError) -> Own {
    if let Ok((leaf, _)) = own {
        let _ = leaf.remove();
    }
    Err(NoCgroup::Unusable(error.to_string()))
}

/// Finds a delegated cgroup and makes the run's own in it. Without one a run goes on.
fn own_cgroup(sandbox: &Sandbox, server: Option<BorrowedFd<'_>>, trace: &mut Trace) -> Own {
    let mut reason = NoCgroup::NoHierarchy;
    let find = || {
        cgroup::find(&sandbox.cgroup, server).map_err(|why| {
            reason = why;
            Errno::ENOENT
        })
    };
    let Some(home) = trace.optional(Step::FindCgroup, find) else { return Err(reason) };
    let made = trace.step(Step::MakeCgroup, || Leaf::make(&home, &sandbox.limits));
    let leaf = made.map_err(|error| NoCgroup::Unusable(error.to_string()))?;
    let run = leaf.folder().path().to_owned();
    Ok((leaf, RunCgroup { home: home.folder, run, origin: home.origin }))
}

/// What init has to know, but for the machine's files. A resource limit stands in for each limit that
/// no cgroup holds.
fn settings(sandbox: &Sandbox, kernel: (u32, u32), own: &Own) -> Settings {
    let missing =
        |limit| own.as_ref().map_or(true, |(leaf, _)| leaf.states().missing(limit).is_some());
    Settings {
        limits: sandbox.limits,
        stand_ins: StandIns {
            pids: missing(Limit::Pids) && kernel >= (5, 14),
            data: missing(Limit::Memory),
        },
        own_cgroup: own.is_ok(),
        environment: environment::compose(sandbox),
        uid: nix::unistd::getuid().as_raw(),
        gid: nix::unistd::getgid().as_raw(),
        landlock_abi: crate::sys::landlock::abi(),
    }
}

/// Descriptors that travel over a socket are counted per user, against the limit of whoever sends: the
/// sandboxes of this user must not keep this one from being built. It is set for the guest later.
fn raise_descriptor_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        // With the old limit it works as well, until many descriptors are on their way.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

fn make_pipes() -> nix::Result<(Outside, Ends, OwnedFd)> {
    let (ours, theirs) =
        socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
    let (plan_end, plan) = pipe2(OFlag::O_CLOEXEC)?;
    let (stdout, stdout_end) = pipe2(OFlag::O_CLOEXEC)?;
    let (stderr, stderr_end) = pipe2(OFlag::O_CLOEXEC)?;
    for end in [&stdout, &stderr] {
        nix::fcntl::fcntl(end, nix::fcntl::FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    }
    let outside = Outside { control: ours, plan, stdout, stderr };
    let ends = Ends { control: theirs, stdout: stdout_end, stderr: stderr_end };
    Ok((outside, ends, plan_end))
}

/// Finds out what the builder needs to know of the machine, hands it over, and waits until the sandbox
/// stands. Returns the folder that the script is written to, and the interpreters.
fn stand(
    sandbox: &Sandbox,
    settings: &Settings,
    running: &Running,
    cgroup: Result<RunCgroup, NoCgroup>,
    pipe: OwnedFd,
    server: Option<BorrowedFd<'_>>,
    trace: &mut Trace,
) -> Result<(OwnedFd, rootfs::Programs, Applied), Refusal> {
    let workspace = trace.refusing(Step::OpenWorkspace, || {
        workspace::check(&sandbox.workspace, sandbox.workspace_read_only, settings.uid)
    })?;
    let (root, programs) = trace.refusing(Step::OpenRootfs, || rootfs::plan(sandbox))?;
    match trace.step(Step::SendPlan, || Plan { root, workspace }.send(pipe)) {
        // A builder that is gone has reported why.
        Ok(()) | Err(StepError { errno: libc::EPIPE, .. }) => {}
        Err(error) => return Err(diagnosis::explain_here(error)),
    }
    let scripts =
        until_ready(running.control.as_fd(), server, trace).map_err(diagnosis::explain_here)?;
    let core_dumps = level::core_dumps();
    let limits = match (&running.sandbox.cgroup, &cgroup) {
        (Some(leaf), _) => Ok(leaf.states()),
        (None, reason) => Err(reason.as_ref().err()),
    };
    let (isolation, controls) = level::of(settings, &sandbox.rootfs, limits, core_dumps, trace);
    let steps = trace.steps().to_vec();
    let interpreters = rootfs::reported(&programs);
    Ok((scripts, programs, Applied { isolation, controls, interpreters, cgroup, steps }))
}

/// Hears the builder and then init out, and compares what they saw.
fn until_ready(
    control: BorrowedFd<'_>,
    server: Option<BorrowedFd<'_>>,
    trace: &mut Trace,
) -> Result<OwnedFd, StepError> {
    let (built, scripts) = match taken(next_report(control, server), Step::VerifyMounts, trace)? {
        (Report::Built(root, steps), Some(scripts)) => {
            trace.extend(steps);
            (root, scripts)
        }
        _ => return Err(out_of_turn(Step::VerifyMounts)),
    };
    // Here and not before, when the builder wanted the processor.
    let outside = sandbox::namespaces();
    let seen = match taken(next_report(control, server), Step::AwaitBuilder, trace)? {
        (Report::SandboxReady(seen, steps), _) => {
            trace.extend(steps);
            seen
        }
        _ => return Err(out_of_turn(Step::AwaitBuilder)),
    };
    trace.step(Step::VerifySandbox, || {
        let fresh = outside?.iter().zip(&seen.namespaces).all(|(ours, theirs)| ours != theirs);
        if fresh && seen.root == built { Ok(scripts) } else { Err(Errno::UnknownErrno) }
    })
}

type Received = nix::Result<Option<(Report, Option<OwnedFd>)>>;

/// How long each report of a sandbox that is being built may take, in milliseconds. A server gives up
/// before that.
const BUILD: u16 = 30_000;

/// Waits for the next report, at most [`BUILD`]. A server that hangs up meanwhile is not kept waiting
/// for a mount that hangs.
fn next_report(control: BorrowedFd<'_>, server: Option<BorrowedFd<'_>>) -> Received {
    let mut fds = vec![PollFd::new(control, PollFlags::POLLIN)];
    fds.extend(server.map(|server| PollFd::new(server, PollFlags::empty())));
    loop {
        match poll(&mut fds, PollTimeout::from(BUILD)) {
            Ok(0) => return Err(Errno::ETIMEDOUT),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
            Ok(_) if fds.first().is_some_and(|control| control.any() == Some(true)) => {
                return control::receive(control);
            }
            Ok(_) => return Err(Errno::ECANCELED),
        }
    }
}

/// A report that is no failure. `due` is the step that the wait was for.
fn taken(
    report: Received,
    due: Step,
    trace: &mut Trace,
) -> Result<(Report, Option<OwnedFd>), StepError> {
    match report {
        Ok(Some((Report::Failed(error, steps), _))) => {
            trace.extend(steps);
            Err(error)
        }
        Ok(Some(report)) => Ok(report),
        Ok(None) => Err(out_of_turn(due)),
        Err(errno) => Err(StepError { step: due, errno: errno as i32 }),
    }
}

/// Init is gone, or says what is not its turn to say.
fn out_of_turn(due: Step) -> StepError {
    StepError { step: due, errno: libc::ECHILD }
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
        trace: &mut Trace,
    ) -> Result<Verdict, Refusal> {
        let started = Instant::now();
        if let Err(refusal) = self.start(script, trace) {
            return Err(self.running.sandbox.refuse(refusal));
        }
        let Standing { running, scripts, .. } = self;
        // The kernel waits for all processors when a clone that is attached nowhere goes: here that
        // passes while the guest starts.
        drop(scripts);
        pump::watch(running, started, script, server, sink, trace)
    }

    fn start(&self, script: &Script, trace: &mut Trace) -> Result<(), Refusal> {
        self.interpreters.path(script.language)?;
        let write = || script::write_script(self.scripts.as_fd(), script);
        trace.step(Step::WriteScript, write).map_err(diagnosis::explain_here)?;
        self.say(script.language).map_err(|errno| {
            diagnosis::explain_here(StepError { step: Step::StartGuest, errno: errno as i32 })
        })
    }

    /// Says the word that starts the guest.
    fn say(&self, language: Language) -> nix::Result<()> {
        let found = self.programs.iter().find(|(known, _)| *known == language);
        let found = found.and_then(|(_, program)| program.as_ref().ok());
        let program = found.ok_or(Errno::ENOENT)?.clone();
        let word = Word { language, from_image: self.from_image, program };
        control::start(self.running.control.as_fd(), &word)
    }

    /// Init's pidfd, which becomes readable when it ends.
    pub fn init(&self) -> BorrowedFd<'_> {
        self.running.sandbox.init()
    }

    /// Ends a sandbox that is not wanted any more.
    pub fn discard(self) {
        self.running.sandbox.end();
    }
}

impl Trace {
    /// Takes a step of the supervisor that words its own refusal.
    fn refusing<T>(
        &mut self,
        step: Step,
        act: impl FnOnce() -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let start = Instant::now();
        let done = act();
        let nanoseconds = start.elapsed().as_nanos() as u64;
        let at = done.as_ref().err().and_then(|refusal| refusal.at);
        let errno = at.map_or(0, |error| error.errno);
        self.extend(vec![TimedStep { step, nanoseconds, errno }]);
        done
    }
}
