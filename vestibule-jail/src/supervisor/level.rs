//! What is really in force, control by control, and the level that follows from it.

use crate::cgroup::LimitStates;
use crate::plan::Settings;
use crate::procfs;
use crate::trace::Trace;
use nix::sys::resource::{Resource, getrlimit, rlim_t};
use protocol::{Control, ControlState, Isolation, Level, Limit, NoCgroup, Rootfs, StandIn, Step};
use std::path::Path;

/// Why there is no cgroup of the run's own.
pub const NO_CGROUP: &str = "no cgroup of the run's own";

/// The level of a sandbox that stands, with every control behind it.
pub fn of(
    settings: &Settings,
    rootfs: &Rootfs,
    limits: Limited<'_>,
    core_dumps: ControlState,
    trace: &Trace,
) -> (Isolation, Vec<(Control, ControlState)>) {
    let mut controls: Vec<(Control, ControlState)> = [
        Control::Namespaces,
        Control::Root,
        Control::Proc,
        Control::Capabilities,
        Control::NoNewPrivs,
        Control::SyscallFilter,
    ]
    .into_iter()
    .map(|control| (control, ControlState::InForce))
    .collect();
    let mut isolation = isolation(settings, rootfs, limits);
    if let ControlState::Missing(why) = &core_dumps {
        // No second wall stands behind this one.
        isolation.level = Level::NativeDegraded;
        isolation.reasons.push(format!("core dumps leave the sandbox: {why}"));
    }
    controls.push((Control::CoreDumps, core_dumps));
    controls.push((Control::NestedNamespaces, optional(trace, Step::ForbidNesting)));
    controls.push((Control::Keyring, optional(trace, Step::JoinKeyring)));
    controls.push((Control::Landlock, landlock(settings.landlock_abi)));
    controls.push((Control::Cpu, state(Limit::Cpu, settings, limits)));
    controls.push((Control::Memory, state(Limit::Memory, settings, limits)));
    controls.push((Control::Pids, state(Limit::Pids, settings, limits)));
    (isolation, controls)
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

/// `RLIMIT_CORE` 1 stops files and handlers. A hard limit of 0, which cannot be raised to 1, stops files
/// alone, core(5). A socket, which `core_pattern` can name since Linux 6.16, may be served whatever
/// the limit.
pub fn core_dumps() -> ControlState {
    let pattern = procfs::read(Path::new("/proc/sys/kernel/core_pattern")).unwrap_or_default();
    let highest = getrlimit(Resource::RLIMIT_CORE).map_or(0, |(_, hard)| hard);
    core_dumps_with(&pattern, highest)
}

fn core_dumps_with(pattern: &str, highest: rlim_t) -> ControlState {
    if pattern.starts_with('@') {
        ControlState::Missing("kernel.core_pattern names a socket, which no limit stops".to_owned())
    } else if pattern.starts_with('|') && highest == 0 {
        let what = "the hard limit on core dumps is 0 here, and only 1 stops the handler that \
                    kernel.core_pattern names";
        ControlState::Missing(what.to_owned())
    } else {
        ControlState::InForce
    }
}

/// The reasons why limits are missing: one for all without a cgroup, else one for each.
type Limited<'a> = Result<&'a LimitStates, Option<&'a NoCgroup>>;

fn missing(limit: Limit, limits: Limited<'_>) -> Option<String> {
    match limits {
        Ok(states) => states.missing(limit).map(str::to_owned),
        Err(reason) => Some(reason.map_or_else(|| NO_CGROUP.to_owned(), NoCgroup::to_string)),
    }
}

/// A limit of the whole sandbox, or what stands in for it.
fn state(limit: Limit, settings: &Settings, limits: Limited<'_>) -> ControlState {
    let Some(why) = missing(limit, limits) else { return ControlState::InForce };
    match limit {
        Limit::Memory if settings.stand_ins.data => ControlState::StandIn(
            "RLIMIT_DATA: each process's private memory; shared memory escapes it".to_owned(),
        ),
        Limit::Pids if settings.stand_ins.pids => {
            ControlState::StandIn("RLIMIT_NPROC: processes of this sandbox's user".to_owned())
        }
        Limit::Pids => ControlState::Missing(format!(
            "{why}, and RLIMIT_NPROC counts per sandbox from Linux 5.14 on"
        )),
        Limit::Cpu | Limit::Memory => ControlState::Missing(why),
    }
}

/// What is not held by a cgroup is named. Memory is always named as not applied then: shared memory
/// escapes any resource limit.
fn isolation(settings: &Settings, rootfs: &Rootfs, limits: Limited<'_>) -> Isolation {
    let all = [Limit::Cpu, Limit::Memory, Limit::Pids];
    let mut reasons: Vec<String> =
        all.into_iter().filter_map(|limit| missing(limit, limits)).collect();
    reasons.dedup();
    let stood_in = |limit: &Limit| *limit == Limit::Pids && settings.stand_ins.pids;
    let not_applied = all.into_iter().filter(|limit| missing(*limit, limits).is_some());
    let not_applied = not_applied.filter(|limit| !stood_in(limit)).collect();
    let stand_ins = [
        settings.stand_ins.pids.then_some(StandIn::Pids),
        settings.stand_ins.data.then_some(StandIn::Data),
    ];
    let rootfs = match rootfs {
        Rootfs::Host => Some("this machine's /usr, read-only".to_owned()),
        Rootfs::Image(_) => None,
    };
    Isolation::native(not_applied, stand_ins.into_iter().flatten().collect(), reasons, rootfs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(pids: bool, data: bool) -> Settings {
        let limits = r#"{"memory_mib": 256, "cpu_percent": 75, "pids_max": 128, "tmpfs_mib": 1}"#;
        Settings {
            limits: serde_json::from_str(limits).unwrap(),
            stand_ins: crate::plan::StandIns { pids, data },
            own_cgroup: !pids,
            environment: Vec::new(),
            uid: 1,
            gid: 1,
            landlock_abi: 0,
        }
    }

    fn line(settings: &Settings, limits: Limited<'_>, core_dumps: ControlState) -> String {
        let image = Rootfs::Image("/image".into());
        of(settings, &image, limits, core_dumps, &Trace::default()).0.to_string()
    }

    #[test]
    fn native_is_said_when_nothing_is_missing() {
        let all = LimitStates::default();
        let full = settings(false, false);
        assert_eq!(line(&full, Ok(&all), ControlState::InForce), "native");
        let missing = ControlState::Missing("a socket".to_owned());
        assert_eq!(
            line(&full, Ok(&all), missing),
            "native-degraded (core dumps leave the sandbox: a socket)"
        );
    }

    #[test]
    fn without_a_cgroup_the_one_reason_is_said_once() {
        let reason = NoCgroup::NoUserManager;
        assert_eq!(
            line(&settings(true, true), Err(Some(&reason)), ControlState::InForce),
            "native-degraded (limits not applied: cpu, memory; per-process stand-ins: pids, data; \
             no systemd user bus)"
        );
        assert_eq!(
            line(&settings(false, true), Err(Some(&reason)), ControlState::InForce),
            "native-degraded (limits not applied: cpu, memory, pids; per-process stand-ins: data; \
             no systemd user bus)"
        );
    }

    #[test]
    fn what_no_limit_stops_is_named() {
        let in_force =
            |pattern, highest| core_dumps_with(pattern, highest) == ControlState::InForce;
        assert!(in_force("core", 0) && in_force("core", rlim_t::MAX));
        assert!(in_force("|/usr/lib/systemd/systemd-coredump %P", 1));
        assert!(!in_force("|/usr/lib/systemd/systemd-coredump %P", 0));
        assert!(!in_force("@/run/coredump.socket", rlim_t::MAX));
    }
}
