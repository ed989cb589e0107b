//! The builder: a child of init in the same namespaces, which makes the file system while init makes
//! the network and confines itself. It reports to the supervisor and ends.

use super::mounter::{self, Mounter};
use super::{dev, etc, proc, remote, rootfs, verify};
use crate::control::{self, Report};
use crate::plan::{Plan, Settings};
use crate::trace::Trace;
use nix::errno::Errno;
use protocol::{Step, StepError};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

/// The life of the builder. `plan` is the pipe that the plan arrives through. Returns whether the
/// sandbox stands; if not, the supervisor has been told.
pub fn main(settings: &Settings, control: BorrowedFd<'_>, plan: OwnedFd) -> bool {
    let mut trace = Trace::default();
    match build(settings, control, plan, &mut trace) {
        Ok(()) => true,
        Err(error) => {
            let _ = control::report(control, &Report::Failed(error, trace.take()), None);
            false
        }
    }
}

/// Builds the file system, and reports it with the writable clone of `/sandbox`.
fn build(
    settings: &Settings,
    control: BorrowedFd<'_>,
    plan: OwnedFd,
    trace: &mut Trace,
) -> Result<(), StepError> {
    let (mut world, masked) = begin(settings, trace)?;
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
    let root = trace.step(Step::VerifyMounts, || {
        verify::mounts(&plan, &mounts, &masked)?;
        verify::root()
    })?;
    control::report(control, &Report::Built(root, trace.take()), Some(folder.as_fd()))
        .map_err(|errno: Errno| StepError { step: Step::VerifyMounts, errno: errno as i32 })
}

/// What is the same for every sandbox, and so needs no plan: the file systems that have nothing of
/// the machine's files. Returns where `/proc` was covered.
fn begin(settings: &Settings, trace: &mut Trace) -> Result<(Mounter, Vec<PathBuf>), StepError> {
    trace.step(Step::PrivateMounts, mounter::make_private)?;
    let mut world = trace.step(Step::MountRoot, Mounter::over_the_root)?;
    trace.step(Step::MountProc, || proc::mount(&mut world))?;
    trace.optional(Step::ForbidNesting, || proc::forbid_nesting(&world));
    let masked = trace.step(Step::MaskProc, || proc::mask(&mut world))?;
    trace.step(Step::MountDev, || dev::mount(&mut world))?;
    trace.step(Step::MountTmp, || rootfs::mount_tmp(&mut world, settings.limits.tmpfs_mib))?;
    Ok((world, masked))
}
