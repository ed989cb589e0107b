//! What the native sandbox needs and has: a sandbox is built, looked at and ended.

use super::interpreters::{answer, probe_each};
use super::languages::{Answers, state};
use super::{Check, State};
use crate::backend::native::Native;
use crate::run::admission::{Admission, Slot};
use protocol::{
    Applied, Cause, CgroupOrigin, Control, ControlState, Language, NoCgroup, Refusal, RunCgroup,
    Sandbox,
};
use std::time::Duration;

/// How long the end waits for the helper to be gone; longer than it takes to kill one that does not
/// clean up by itself.
const END: Duration = Duration::from_secs(3);
/// The backend's name, and that of its row.
const NATIVE: &str = "native";
/// The oldest kernel.
const OLDEST: (u32, u32) = (5, 9);

/// Builds a sandbox, reports what is in force, hangs up, and waits until the helper has ended: left
/// behind, it would be nobody's to wait for.
pub async fn probe(native: &Native, sandbox: &Sandbox, checks: &mut Vec<Check>) -> Answers {
    // One slot of its own: the doctor shares nothing with a server.
    let admission = Admission::new(1);
    let slot = match admission.slot().await {
        Ok(slot) => slot,
        Err(refusal) => return refused(NATIVE, &refusal, checks),
    };
    let answers = look(native, sandbox, slot, checks).await;
    if tokio::time::timeout(END, admission.all_free()).await.is_err() {
        tracing::warn!("the helper of the probe has not ended within {} s", END.as_secs());
    }
    answers
}

async fn look(native: &Native, sandbox: &Sandbox, slot: Slot, checks: &mut Vec<Check>) -> Answers {
    // That it is missing is known before anything is tried, and has a row of its own.
    if let Err(refusal) = native.helper() {
        return refused("helper", &refusal, checks);
    }
    let chosen = Language::ALL.map(|language| (language, native.choose(sandbox, language)));
    let probed = probe_each(native, &chosen, &slot).await;
    let Some((applied, hello)) = probed.iter().find_map(|(_, found)| found.as_ref().ok()) else {
        let refusals = probed.into_iter().filter_map(|(_, found)| found.err());
        let unchosen = chosen.into_iter().filter_map(|(_, found)| found.err());
        let refusal = refusals.chain(unchosen).next();
        let Some(refusal) = refusal else { return Answers { backend: NATIVE, of: [].into() } };
        let check = if refusal.cause == Cause::Version { "helper" } else { NATIVE };
        return refused(check, &refusal, checks);
    };
    let detail = format!("fits (version {}, protocol {})", hello.version, hello.protocol);
    checks.push(Check::new("helper", State::Ok, detail));
    let isolation = &applied.isolation;
    checks.push(Check::new(NATIVE, state(isolation), isolation.to_string()));
    checks.extend(prerequisites(applied));
    checks.extend(
        applied
            .controls
            .iter()
            .map(|(control, state)| control_check(*control, state, applied.cgroup.as_ref().err())),
    );
    let of = chosen
        .map(|(language, chosen)| (language, answer(native, language, chosen, &probed, checks)));
    Answers { backend: NATIVE, of: of.into() }
}

/// The row of `check` says why; those of the prerequisites as far as that tells.
fn refused(check: &str, refusal: &Refusal, checks: &mut Vec<Check>) -> Answers {
    checks.push(Check::missing(check, refusal));
    checks.extend(unproven(refusal));
    Answers::refused(NATIVE, check, refusal)
}

/// The prerequisites of a sandbox that stands.
fn prerequisites(applied: &Applied) -> Vec<Check> {
    let rootfs =
        applied.isolation.rootfs.as_deref().unwrap_or("an image that `setup` has unpacked");
    let mut checks = vec![
        kernel(),
        Check::new("user namespaces", State::Ok, "an ordinary user may make them"),
        Check::new("namespace limits", State::Ok, "there is room for one more of each kind"),
        Check::new("security modules", State::Ok, "none takes what a namespace gives"),
        Check::new("surroundings", State::Ok, "no chroot and no filter around it is in the way"),
        Check::new("/proc", State::Ok, "a fresh one may be mounted"),
        Check::new("seccomp", State::Ok, "a filter that reports refused calls could be loaded"),
        Check::new("rootfs", State::Ok, rootfs),
    ];
    checks.extend(cgroup(&applied.cgroup));
    if applied.cgroup.is_ok() {
        checks.push(usage(release()));
    }
    checks
}

/// The prerequisites as far as a refusal tells: which one failed, and that the rest is not known.
fn unproven(refusal: &Refusal) -> Vec<Check> {
    let failed = match refusal.cause {
        Cause::KernelTooOld => "kernel",
        Cause::UserNamespacesOff => "user namespaces",
        Cause::NamespaceLimit => "namespace limits",
        Cause::SecurityModule => "security modules",
        Cause::Chroot | Cause::ContainerFilter => "surroundings",
        Cause::MaskedProc => "/proc",
        Cause::Rootfs => "rootfs",
        _ => "",
    };
    let check = |name: &str| match name {
        name if name == failed => Check::missing(name, refusal),
        "kernel" => kernel(),
        name => Check::new(name, State::Note, "not looked at: native was refused before"),
    };
    let names = [
        "kernel",
        "user namespaces",
        "namespace limits",
        "security modules",
        "surroundings",
        "/proc",
        "seccomp",
        "rootfs",
        "cgroup v2",
        "systemd",
    ];
    names.into_iter().map(check).collect()
}

/// The kernel needs no sandbox to be looked at.
fn kernel() -> Check {
    let name = nix::sys::utsname::uname();
    let name = name.map(|name| name.release().to_string_lossy().into_owned());
    let detail = format!("Linux {} (5.9 or newer is needed)", name.unwrap_or_default());
    match release() {
        Some(release) if release < OLDEST => Check {
            fix: Some("update the kernel".to_owned()),
            ..Check::new("kernel", State::Missing, detail)
        },
        _ => Check::new("kernel", State::Ok, detail),
    }
}

/// The first two numbers of the kernel's release.
fn release() -> Option<(u32, u32)> {
    let name = nix::sys::utsname::uname().ok()?;
    numbers(&name.release().to_string_lossy())
}

fn numbers(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// What the kernel counts for the usage line of a result.
fn usage(release: Option<(u32, u32)>) -> Check {
    let lacks = match release {
        Some(release) if release < (5, 19) => "mem_peak (Linux 5.19+) and pids_peak (6.1+)",
        Some(release) if release < (6, 1) => "pids_peak (Linux 6.1+)",
        _ => return Check::new("usage", State::Ok, "the kernel counts all that a result tells"),
    };
    Check::note("usage", format!("the kernel does not count {lacks}"), "a newer kernel")
}

/// Where the cgroup of a run comes from, or what is missing on the way to one.
fn cgroup(found: &Result<RunCgroup, NoCgroup>) -> Vec<Check> {
    let mounted = "mounted at /sys/fs/cgroup";
    match found {
        Ok(run) => {
            let systemd = match &run.origin {
                CgroupOrigin::Scope { name, bus } => format!("made {name}, asked over its {bus}"),
                CgroupOrigin::Delegated | CgroupOrigin::Given => {
                    format!("not needed: {} is delegated", run.home.display())
                }
            };
            vec![
                Check::new("cgroup v2", State::Ok, mounted),
                Check::new("systemd", State::Ok, systemd),
            ]
        }
        Err(reason @ (NoCgroup::NoHierarchy | NoCgroup::Hybrid)) => vec![
            missing("cgroup v2", reason),
            Check::new("systemd", State::Note, "not asked: without cgroup v2 it can do nothing"),
        ],
        Err(reason @ (NoCgroup::Unusable(_) | NoCgroup::NoControllers)) => vec![
            missing("cgroup v2", reason),
            Check::new("systemd", State::Note, "the cgroup that it gave, or another, is of no use"),
        ],
        Err(reason) => {
            vec![Check::new("cgroup v2", State::Ok, mounted), missing("systemd", reason)]
        }
    }
}

fn missing(name: &str, reason: &NoCgroup) -> Check {
    let fix = Some(reason.fix().to_owned());
    Check { fix, ..Check::new(name, State::Missing, reason.to_string()) }
}

fn control_check(control: Control, state: &ControlState, no_cgroup: Option<&NoCgroup>) -> Check {
    let limit = matches!(control, Control::Memory | Control::Cpu | Control::Pids);
    match state {
        ControlState::InForce if limit => {
            let detail = "in force: its controller is delegated, the value was read back";
            Check::new(control.name(), State::Ok, detail)
        }
        ControlState::InForce => Check::new(control.name(), State::Ok, "in force"),
        ControlState::StandIn(what) => Check::new(control.name(), State::Note, what.as_str()),
        ControlState::Missing(why) => Check {
            fix: Some(remedy(control, no_cgroup).to_owned()),
            ..Check::new(control.name(), State::Missing, why.as_str())
        },
    }
}

/// What brings a control that the sandbox can do without.
fn remedy(control: Control, no_cgroup: Option<&NoCgroup>) -> &'static str {
    match (control, no_cgroup) {
        (Control::Memory | Control::Cpu | Control::Pids, Some(reason)) => reason.fix(),
        (Control::Memory | Control::Cpu | Control::Pids, None) => NoCgroup::NoControllers.fix(),
        (Control::Landlock, _) => "a kernel from 5.19 on, with Landlock turned on at boot",
        _ => "a newer kernel, or a surrounding container that allows it",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::doctor::backends::look;
    use crate::config::Config;
    use protocol::{Bus, Event, Hello, Interpreters, Isolation, Language, Retry, frame};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn states(checks: &[Check]) -> Vec<(&str, State)> {
        checks.iter().map(|check| (check.name.as_str(), check.state)).collect()
    }

    #[test]
    fn what_stands_in_for_a_limit_is_a_note_that_names_it() {
        let state = ControlState::StandIn("RLIMIT_DATA, per process".to_owned());
        let check = control_check(Control::Memory, &state, None);
        assert_eq!((check.state, check.detail.as_str()), (State::Note, "RLIMIT_DATA, per process"));
        assert_eq!(check.name, "memory limit");
    }

    #[test]
    fn a_missing_limit_has_the_fix_of_what_is_missing() {
        let state = ControlState::Missing("w".to_owned());
        let fix = |reason: Option<&NoCgroup>| control_check(Control::Cpu, &state, reason).fix;
        assert!(fix(None).is_some_and(|fix| fix.contains("Delegate=yes")));
        let bus = fix(Some(&NoCgroup::NoUserManager));
        assert!(bus.is_some_and(|fix| fix.contains("libpam-systemd")));
    }

    #[test]
    fn each_way_to_a_cgroup_and_each_lack_of_one_is_a_row() {
        let scope = CgroupOrigin::Scope { name: "n.scope".to_owned(), bus: Bus::Private };
        let run = RunCgroup { home: "/h".into(), run: "/h/r".into(), origin: scope };
        let rows = cgroup(&Ok(run));
        assert_eq!(states(&rows), [("cgroup v2", State::Ok), ("systemd", State::Ok)]);
        assert!(rows[1].detail.contains("n.scope") && rows[1].detail.contains("private socket"));
        let lacks = [
            (NoCgroup::Hybrid, [State::Missing, State::Note]),
            (NoCgroup::NoUserManager, [State::Ok, State::Missing]),
            (NoCgroup::NoAnswer { seconds: 5 }, [State::Ok, State::Missing]),
            (NoCgroup::NoControllers, [State::Missing, State::Note]),
        ];
        for (reason, expected) in lacks {
            let rows = cgroup(&Err(reason.clone()));
            assert_eq!([rows[0].state, rows[1].state], expected, "{reason}");
            let fixed = rows.iter().filter(|row| row.state == State::Missing);
            assert!(fixed.clone().all(|row| row.fix.is_some()), "{rows:?}");
        }
    }

    #[test]
    fn a_refusal_marks_what_failed_and_claims_nothing_of_the_rest() {
        let (what, fix) = ("turned off".to_owned(), "turn it on".to_owned());
        let cause = Cause::UserNamespacesOff;
        let refusal = Refusal { what, cause, fix, retry: Retry::AfterFix, at: None };
        let rows = unproven(&refusal);
        for (name, state) in states(&rows) {
            let expected = match name {
                "kernel" => State::Ok,
                "user namespaces" => State::Missing,
                _ => State::Note,
            };
            assert_eq!(state, expected, "{name}");
        }
    }

    #[test]
    fn every_cause_that_lies_in_the_machine_marks_one_prerequisite() {
        let causes = [
            Cause::KernelTooOld,
            Cause::UserNamespacesOff,
            Cause::NamespaceLimit,
            Cause::SecurityModule,
            Cause::Chroot,
            Cause::ContainerFilter,
            Cause::MaskedProc,
            Cause::Rootfs,
        ];
        for cause in causes {
            let (what, fix) = ("w".to_owned(), "f".to_owned());
            let refusal = Refusal { what, cause, fix, retry: Retry::AfterFix, at: None };
            let mut checks = Vec::new();
            let answers = refused(NATIVE, &refusal, &mut checks);
            let missing: Vec<&Check> =
                checks.iter().filter(|check| check.state == State::Missing).collect();
            assert_eq!((missing.len(), missing[0].name.as_str()), (2, NATIVE), "{cause:?}");
            assert!(Language::ALL.iter().all(|language| answers.of[language].is_err()));
        }
    }

    #[test]
    fn an_older_kernel_counts_less() {
        let release = |text: &str| usage(numbers(text));
        assert_eq!(release("6.1.0-18-amd64").state, State::Ok);
        assert_eq!(release("no number").state, State::Ok);
        for (text, lacks) in [("5.19.0", "count pids_peak"), ("5.9-rc1", "mem_peak")] {
            let check = release(text);
            assert!(check.state == State::Note && check.detail.contains(lacks), "{check:?}");
        }
    }

    #[tokio::test]
    async fn the_probe_waits_for_the_end_of_its_helper() {
        let folder = std::env::temp_dir().join(format!("doctor-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let ready = Event::Ready(Box::new(Applied {
            isolation: Isolation::native(vec![], vec![], vec![], None),
            controls: vec![],
            interpreters: Interpreters::default(),
            cgroup: Err(protocol::NoCgroup::NoUserManager),
            steps: vec![],
        }));
        let frames = [frame::encode_hello(&Hello::ours()), frame::encode_event(&ready).unwrap()];
        fs::write(folder.join("frames"), frames.concat()).unwrap();
        let (jail, place) = (folder.join("vestibule-jail"), folder.display());
        let script = format!(
            "#!/bin/sh\n/bin/cat {place}/frames\n/bin/cat >/dev/null\n/bin/sleep 0.2\n\
                 : >{place}/ended\n"
        );
        fs::write(&jail, script).unwrap();
        fs::set_permissions(&jail, fs::Permissions::from_mode(0o755)).unwrap();
        let variables = [("HOME", folder.as_path()), ("VESTIBULE_JAIL", &jail)];
        let config = Config::from_env(variables.map(|(name, path)| (name.into(), path.into())));
        let sandbox = crate::run::pipeline::sandbox(&config).unwrap();

        let (checks, answers) = look(&config, &sandbox).await;
        assert_eq!(checks[0].name, "helper", "{checks:?}");
        let native = &answers.unwrap()[0];
        assert!(native.of.values().all(Result::is_err), "no interpreter was found");
        assert!(folder.join("ended").exists(), "the helper was left behind");
        fs::remove_dir_all(folder).unwrap();
    }
}
