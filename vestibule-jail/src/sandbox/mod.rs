//! Init, PID 1 of the sandbox: builds the world around itself, drops every privilege, starts the
//! guest at the supervisor's word, and from then on only reaps.

mod dev;
mod etc;
mod identity;
mod limits;
mod mounter;
mod proc;
mod remote;
mod rootfs;
mod verify;

use crate::control::{self, Report};
use crate::plan::{Plan, Settings};
use crate::sys::{self, process::SingleThread};
use crate::trace::Trace;
use crate::{filter, guest};
use mounter::Mounter;
use nix::errno::Errno;
use nix::unistd::Pid;
use protocol::{Step, StepError};
use std::cell::Cell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
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

/// The life of init. Called on the child's side of the clone; `plan` is the pipe it arrives through.
pub fn main(settings: &Settings, ends: Ends, plan: OwnedFd, alone: SingleThread) -> ! {
    let mut trace = Trace::default();
    let stood = stand(settings, &ends, plan, &mut trace);
    let (plan, listener) = stood.unwrap_or_else(|error| {
        let report = Report::Failed(error, trace.take());
        let _ = control::report(ends.control.as_fd(), &report, None);
        sys::process::exit_now(1)
    });
    let word = control::wait_for_start(ends.control.as_fd());
    let Ok(Some(language)) = word else { sys::process::exit_now(1) };
    // The supervisor has looked before it gave the word.
    let Ok(interpreter) = plan.root.interpreters.path(language) else { sys::process::exit_now(1) };
    let rootfs = &plan.root.source;
    let start = guest::Start { settings, ends: &ends, listener, rootfs, interpreter, language };
    let started = start_guest(&start, alone, &mut trace);
    drop(start);
    serve(started, ends, trace)
}

/// Builds the sandbox, reports it with the writable clone of `/sandbox`, and confines init, which it
/// reports as well. Returns the plan, and where the filter reports to.
fn stand(
    settings: &Settings,
    ends: &Ends,
    plan: OwnedFd,
    trace: &mut Trace,
) -> Result<(Plan, OwnedFd), StepError> {
    let control = ends.control.as_fd();
    let failed = |step| move |errno: Errno| StepError { step, errno: errno as i32 };
    let (plan, folder) = build(settings, ends, plan, trace)?;
    let report = Report::SandboxReady(trace.take());
    control::report(control, &report, Some(folder.as_fd())).map_err(failed(Step::MakeSandbox))?;
    drop(folder);
    let listener = confine(settings, trace)?;
    let report = Report::Confined(trace.take());
    control::report(control, &report, None).map_err(failed(Step::LoadFilter))?;
    Ok((plan, listener))
}

/// Everything from the clone to a sandbox that stands, in order. Returns the plan and the writable
/// clone of `/sandbox`.
fn build(
    settings: &Settings,
    ends: &Ends,
    plan: OwnedFd,
    trace: &mut Trace,
) -> Result<(Plan, OwnedFd), StepError> {
    let keep = [ends.control.as_fd(), ends.stdout.as_fd(), ends.stderr.as_fd(), plan.as_fd()];
    let (mut world, masked) = begin(settings, &keep, trace)?;
    let folder = trace.step(Step::MakeSandbox, || rootfs::make_sandbox(&world))?;
    let plan = trace.step(Step::ReceivePlan, || Plan::receive(plan))?;
    trace.step(Step::MountRootfs, || rootfs::mount(&mut world, &plan.root))?;
    trace.step(Step::MaskRootfs, || rootfs::mask(&mut world, &plan.root.masks))?;
    trace.step(Step::FillEtc, || etc::fill(&mut world, &plan.root, settings))?;
    trace.step(Step::MountWorkspace, || rootfs::mount_workspace(&mut world, &plan.workspace))?;
    trace.step(Step::PivotRoot, || world.pivot())?;
    trace.step(Step::DetachOldRoot, mounter::detach_old_root)?;
    trace.step(Step::ReadOnlyRoot, || world.finish())?;
    let mounts = trace.step(Step::CoverRemote, || remote::cover(&mut world))?;
    trace.optional(Step::JoinKeyring, sys::process::join_session_keyring);
    trace.step(Step::DropCapabilities, identity::drop_capabilities)?;
    trace.step(Step::NoNewPrivileges, nix::sys::prctl::set_no_new_privs)?;
    trace.step(Step::DieWithSupervisor, || identity::die_with_supervisor(ends.control.as_fd()))?;
    trace.step(Step::VerifySandbox, || verify::sandbox(&plan, &mounts, &masked))?;
    Ok((plan, folder))
}

/// What is the same for every sandbox, and so needs no plan: the ids, and the file systems that have
/// nothing of the machine's files. Returns where `/proc` was covered.
fn begin(
    settings: &Settings,
    keep: &[BorrowedFd<'_>],
    trace: &mut Trace,
) -> Result<(Mounter, Vec<PathBuf>), StepError> {
    trace.step(Step::CloseDescriptors, || identity::close_descriptors(keep))?;
    trace.step(Step::MapIds, || identity::map_ids(settings.uid, settings.gid))?;
    if settings.own_cgroup {
        trace.step(Step::CgroupNamespace, identity::enter_cgroup_namespace)?;
    }
    trace.step(Step::OomScore, identity::raise_oom_score)?;
    trace.step(Step::NonDumpable, || nix::sys::prctl::set_dumpable(false))?;
    trace.step(Step::HostName, identity::name_host)?;
    trace.step(Step::Loopback, sys::network::bring_loopback_up)?;
    trace.step(Step::PrivateMounts, mounter::make_private)?;
    let mut world = trace.step(Step::MountRoot, Mounter::over_the_root)?;
    trace.step(Step::MountProc, || proc::mount(&mut world))?;
    trace.optional(Step::ForbidNesting, || proc::forbid_nesting(&world));
    let masked = trace.step(Step::MaskProc, || proc::mask(&mut world))?;
    trace.step(Step::MountDev, || dev::mount(&mut world))?;
    trace.step(Step::MountTmp, || rootfs::mount_tmp(&mut world, settings.limits.tmpfs_mib))?;
    Ok((world, masked))
}

/// Sets what init and the guest have in common, while the supervisor gets ready to give the word. Init
/// needs no call that the filter refuses. Returns where the filter reports to.
fn confine(settings: &Settings, trace: &mut Trace) -> Result<OwnedFd, StepError> {
    trace.step(Step::OrdinaryTask, sys::process::become_ordinary)?;
    trace.step(Step::SetLimits, || limits::set(settings))?;
    trace.step(Step::LoadFilter, || sys::seccomp::load(filter::program()))
}

fn start_guest(
    start: &guest::Start<'_>,
    alone: SingleThread,
    trace: &mut Trace,
) -> Result<Pid, StepError> {
    // The guest shares this memory: init, which goes on at the exec, sees when that began.
    let exec_began = Cell::new(None);
    let life = || guest::main(start, &exec_began);
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
    let report = match started {
        Ok(guest) => Report::Ended(reap_until(guest), trace.take()),
        Err(error) => Report::Failed(error, trace.take()),
    };
    // The supervisor sees init's end too, whether or not this arrives.
    let _ = control::report(control.as_fd(), &report, None);
    sys::process::exit_now(0)
}

fn reap_until(guest: Pid) -> i32 {
    loop {
        match sys::process::reap() {
            Ok((pid, status)) if pid == guest => return status,
            Ok(_) | Err(Errno::EINTR) => {}
            // Without a child to wait for there is no status to report: an end without a word.
            Err(_) => sys::process::exit_now(1),
        }
    }
}
