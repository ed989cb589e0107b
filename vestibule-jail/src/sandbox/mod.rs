//! Init, PID 1 of the sandbox: has the world built around itself, drops every privilege, starts the
//! guest at the supervisor's word, and from then on only reaps.

mod builder;
mod dev;
mod etc;
mod identity;
mod limits;
mod mounter;
mod proc;
mod remote;
mod rootfs;
mod verify;

use crate::control::{self, Report, Seen, Word};
use crate::plan::Settings;
use crate::sys::{self, process::SingleThread};
use crate::trace::Trace;
use crate::{filter, guest};
use nix::errno::Errno;
use nix::unistd::{Pid, chdir};
use protocol::{Step, StepError};
use std::cell::Cell;
use std::os::fd::{AsFd, OwnedFd};
pub use verify::namespaces;

/// The sandbox's ends of the pipes and of the control socket.
#[derive(Debug)]
pub struct Ends {
    /// The socket to the supervisor.
    pub control: OwnedFd,
    /// Where the guest's standard output goes.
    pub stdout: OwnedFd,
    /// Where the guest's standard error goes.
    pub stderr: OwnedFd,
}

/// The life of init. Called on the child's side of the clone; `plan` is the pipe that what has to be
/// built arrives through.
pub fn main(settings: &Settings, ends: Ends, plan: OwnedFd, alone: SingleThread) -> ! {
    let mut trace = Trace::default();
    let stood = stand(settings, &ends, plan, &alone, &mut trace);
    let listener = stood.unwrap_or_else(|error| {
        let report = Report::Failed(error, trace.take());
        let _ = control::report(ends.control.as_fd(), &report, None);
        sys::process::exit_now(1)
    });
    let word = control::wait_for_start(ends.control.as_fd());
    let Ok(Some(word)) = word else { sys::process::exit_now(1) };
    let started = start_guest(settings, &ends, listener, &word, alone, &mut trace);
    serve(started, ends, trace)
}

/// Everything from the clone to a sandbox that stands, and the report of it. Returns where the filter
/// reports to.
fn stand(
    settings: &Settings,
    ends: &Ends,
    plan: OwnedFd,
    alone: &SingleThread,
    trace: &mut Trace,
) -> Result<OwnedFd, StepError> {
    let control = ends.control.as_fd();
    begin(settings, ends, &plan, trace)?;
    let builder = trace.step(Step::StartBuilder, || {
        sys::process::start_copy(alone, || builder::main(settings, control, plan))
    })?;
    let listener = confine(settings, ends, trace)?;
    let seen = trace.step(Step::AwaitBuilder, || await_builder(builder))?;
    control::report(control, &Report::SandboxReady(seen, trace.take()), None)
        .map_err(|errno| StepError { step: Step::AwaitBuilder, errno: errno as i32 })?;
    Ok(listener)
}

/// Who init is, as far as the builder has to be it too.
fn begin(
    settings: &Settings,
    ends: &Ends,
    plan: &OwnedFd,
    trace: &mut Trace,
) -> Result<(), StepError> {
    let keep = [ends.control.as_fd(), ends.stdout.as_fd(), ends.stderr.as_fd(), plan.as_fd()];
    trace.step(Step::CloseDescriptors, || identity::close_descriptors(&keep))?;
    trace.step(Step::MapIds, || identity::map_ids(settings.uid, settings.gid))?;
    if settings.own_cgroup {
        trace.step(Step::CgroupNamespace, identity::enter_cgroup_namespace)?;
    }
    trace.step(Step::OomScore, identity::raise_oom_score)?;
    trace.step(Step::NonDumpable, || nix::sys::prctl::set_dumpable(false))?;
    trace.step(Step::HostName, identity::name_host)
}

/// Makes the network, drops what init has no use for, and sets what it and the guest have in common.
/// Init needs no call that the filter refuses. Returns where the filter reports to.
fn confine(settings: &Settings, ends: &Ends, trace: &mut Trace) -> Result<OwnedFd, StepError> {
    trace.step(Step::NetworkNamespace, identity::enter_network_namespace)?;
    trace.step(Step::Loopback, sys::network::bring_loopback_up)?;
    trace.optional(Step::JoinKeyring, sys::process::join_session_keyring);
    trace.step(Step::DropCapabilities, identity::drop_capabilities)?;
    trace.step(Step::NoNewPrivileges, nix::sys::prctl::set_no_new_privs)?;
    trace.step(Step::DieWithSupervisor, || identity::die_with_supervisor(ends.control.as_fd()))?;
    trace.step(Step::OrdinaryTask, sys::process::become_ordinary)?;
    trace.step(Step::SetLimits, || limits::set(settings))?;
    trace.step(Step::LoadFilter, || sys::seccomp::load(filter::program()))
}

/// Waits for the end of the builder, which has power that the guest must not meet; one that failed has
/// told the supervisor why. Looks at where init is now.
fn await_builder(builder: Pid) -> nix::Result<Seen> {
    if reap_until(builder)? != 0 {
        return Err(Errno::ECHILD);
    }
    // Whatever folder it was in, that of the root which the builder has made is the one.
    chdir("/")?;
    verify::look_around()
}

fn start_guest(
    settings: &Settings,
    ends: &Ends,
    listener: OwnedFd,
    word: &Word,
    alone: SingleThread,
    trace: &mut Trace,
) -> Result<Pid, StepError> {
    let start = guest::Start { settings, ends, listener, word };
    // The guest shares this memory: init, which goes on at the exec, sees when that began.
    let exec_began = Cell::new(None);
    let life = || guest::main(&start, &exec_began);
    let started = trace.step(Step::StartGuest, || sys::process::start_sharing_memory(alone, life));
    if let Some(began) = exec_began.get() {
        trace.seen(Step::Exec, began);
    }
    started
}

/// Reaps until the guest has ended. Init's own end then ends whatever is left.
fn serve(started: Result<Pid, StepError>, ends: Ends, mut trace: Trace) -> ! {
    let Ends { control, stdout, stderr } = ends;
    drop((stdout, stderr));
    let report = match started.map(reap_until) {
        Ok(Ok(status)) => Report::Ended(status, trace.take()),
        // Without a child to wait for there is no status to report: an end without a word.
        Ok(Err(_)) => sys::process::exit_now(1),
        Err(error) => Report::Failed(error, trace.take()),
    };
    // The supervisor sees init's end too, whether or not this arrives.
    let _ = control::report(control.as_fd(), &report, None);
    sys::process::exit_now(0)
}

/// Reaps until this child has ended, and returns its status of `waitpid(2)`.
fn reap_until(child: Pid) -> nix::Result<i32> {
    loop {
        match sys::process::reap() {
            Ok((pid, status)) if pid == child => return Ok(status),
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}
