//! What is really in force, control by control, and the level that follows from it.

use crate::plan::Plan;
use crate::trace::Trace;
use protocol::{Control, ControlState, Isolation, Limit, Rootfs, StandIn, Step};

/// Why there is no cgroup of the run's own.
pub const NO_CGROUP: &str = "no cgroup of the run's own";

/// The level of a sandbox that stands, with every control behind it.
pub fn of(plan: &Plan, trace: &Trace) -> (Isolation, Vec<(Control, ControlState)>) {
    let mut controls: Vec<(Control, ControlState)> = [
        Control::Namespaces,
        Control::Root,
        Control::Proc,
        Control::Capabilities,
        Control::NoNewPrivs,
        Control::SyscallFilter,
        Control::CoreDumps,
    ]
    .into_iter()
    .map(|control| (control, ControlState::InForce))
    .collect();
    controls.push((Control::NestedNamespaces, optional(trace, Step::ForbidNesting)));
    controls.push((Control::Keyring, optional(trace, Step::JoinKeyring)));
    controls.push((Control::Landlock, landlock(plan.landlock_abi)));
    controls.push((Control::Cpu, ControlState::Missing(NO_CGROUP.to_owned())));
    controls.push((Control::Memory, ControlState::Missing(NO_CGROUP.to_owned())));
    controls.push((Control::Pids, pids(plan)));
    (isolation(plan), controls)
}

fn optional(trace: &Trace, step: Step) -> ControlState {
    match trace.failure(step) {
        None => ControlState::InForce,
        Some(errno) => ControlState::Missing(std::io::Error::from_raw_os_error(errno).to_string()),
    }
}

fn landlock(abi: u32) -> ControlState {
    match abi {
        0 | 1 => {
            ControlState::Missing("Landlock ABI 2 (Linux 5.19) is not there or off".to_owned())
        }
        _ => ControlState::InForce,
    }
}

fn pids(plan: &Plan) -> ControlState {
    if plan.stand_ins.pids {
        ControlState::StandIn("RLIMIT_NPROC".to_owned())
    } else {
        ControlState::Missing("RLIMIT_NPROC counts per sandbox from Linux 5.14 on".to_owned())
    }
}

/// Without a cgroup, memory is always named as not applied: shared memory escapes any resource
/// limit.
fn isolation(plan: &Plan) -> Isolation {
    let mut not_applied = vec![Limit::Cpu, Limit::Memory];
    let mut stand_ins = Vec::new();
    if plan.stand_ins.pids {
        stand_ins.push(StandIn::Pids);
    } else {
        not_applied.push(Limit::Pids);
    }
    if plan.stand_ins.data {
        stand_ins.push(StandIn::Data);
    }
    let rootfs = match plan.root.source {
        Rootfs::Host => Some("this machine's /usr, read-only".to_owned()),
        Rootfs::Image(_) => None,
    };
    Isolation::native(not_applied, stand_ins, vec![NO_CGROUP.to_owned()], rootfs)
}
