//! What the backends can do: each one that the settings allow is tried.

use super::{Check, State};
use crate::backend::Backend;
use crate::backend::naive::Naive;
use crate::backend::select::Selector;
use crate::config::Config;
use protocol::{Isolation, Language, Refusal, Sandbox};
use std::path::Path;

/// Probes every backend that the settings allow; the strongest isolation that was found.
pub async fn checks(config: &Config, sandbox: &Sandbox) -> (Vec<Check>, Option<Isolation>) {
    let selector = Selector::new(config);
    let backends = match selector.backends() {
        Ok(backends) => backends,
        Err(refusal) => return (vec![Check::missing("backend", &refusal)], None),
    };
    let mut checks = Vec::new();
    let mut best: Option<Isolation> = None;
    for backend in backends {
        let found = match backend {
            #[cfg(target_os = "linux")]
            Backend::Native(native) => native::probe(native, sandbox, &mut checks).await,
            Backend::Naive(backend) => naive(backend, &mut checks),
        };
        let stronger =
            |found: &Isolation| best.as_ref().is_none_or(|best| found.level < best.level);
        if let Some(found) = found.filter(stronger) {
            best = Some(found);
        }
    }
    let _ = sandbox;
    (checks, best)
}

fn naive(backend: &Naive, checks: &mut Vec<Check>) -> Option<Isolation> {
    let detail = "no isolation at all: code runs as you, on this machine";
    checks.push(Check::new("naive", State::Note, detail));
    interpreters(checks, |language| backend.interpreter(language)).then(Isolation::none)
}

/// A check for every language; whether any of them can run.
fn interpreters<P: AsRef<Path>>(
    checks: &mut Vec<Check>,
    find: impl Fn(Language) -> Result<P, Refusal>,
) -> bool {
    let found = Language::ALL.map(|language| {
        let path = find(language);
        let shown = |path: &P| path.as_ref().display().to_string();
        checks.push(Check::of(language.name(), &path, shown));
        path.is_ok()
    });
    found.contains(&true)
}

#[cfg(target_os = "linux")]
mod native {
    use super::{Check, State, interpreters};
    use crate::backend::Failure;
    use crate::backend::native::Native;
    use crate::run::admission::{Admission, Slot};
    use protocol::{Control, ControlState, Isolation, Sandbox};
    use std::time::Duration;

    /// How long the end waits for the helper to be gone; longer than it takes to kill one that does
    /// not clean up by itself.
    const END: Duration = Duration::from_secs(3);

    /// Builds a sandbox, reports what is in force, hangs up, and waits until the helper has ended:
    /// left behind, it would be nobody's to wait for.
    pub async fn probe(
        native: &Native,
        sandbox: &Sandbox,
        checks: &mut Vec<Check>,
    ) -> Option<Isolation> {
        // One slot of its own: the doctor shares nothing with a server.
        let admission = Admission::new(1);
        let slot = admission.slot().await.ok()?;
        let found = look(native, sandbox, slot, checks).await;
        if tokio::time::timeout(END, admission.all_free()).await.is_err() {
            tracing::warn!("the helper of the probe has not ended within {} s", END.as_secs());
        }
        found
    }

    async fn look(
        native: &Native,
        sandbox: &Sandbox,
        slot: Slot,
        checks: &mut Vec<Check>,
    ) -> Option<Isolation> {
        let (prepared, jail, hello) = match native.probe(sandbox, slot).await {
            Ok(probed) => probed,
            Err(Failure::Refused(refusal) | Failure::Broken(refusal)) => {
                checks.push(Check::missing("native", &refusal));
                return None;
            }
        };
        let detail =
            format!("{} (version {}, protocol {})", jail.display(), hello.version, hello.protocol);
        checks.push(Check::new("helper", State::Ok, detail));
        let applied = prepared.applied();
        checks.push(Check::new("native", State::Ok, applied.isolation.to_string()));
        checks.extend(applied.controls.iter().map(|(control, state)| check(*control, state)));
        interpreters(checks, |language| applied.interpreters.path(language))
            .then(|| applied.isolation.clone())
    }

    pub(super) fn check(control: Control, state: &ControlState) -> Check {
        match state {
            ControlState::InForce => Check::new(control.name(), State::Ok, "in force"),
            ControlState::StandIn(what) => Check::new(control.name(), State::Note, what.as_str()),
            ControlState::Missing(why) => Check {
                fix: Some(remedy(control).to_owned()),
                ..Check::new(control.name(), State::Missing, why.as_str())
            },
        }
    }

    /// What brings a control that the sandbox can do without.
    fn remedy(control: Control) -> &'static str {
        match control {
            Control::Memory | Control::Cpu | Control::Pids => {
                "none in this version, which makes no cgroup: code runs as native-degraded"
            }
            Control::Landlock => "a kernel from 5.19 on, with Landlock turned on at boot",
            _ => "a newer kernel, or a surrounding container that allows it",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::Interpreters;
    use std::path::PathBuf;

    #[test]
    fn one_interpreter_makes_ready_and_none_does_not() {
        let mut checks = Vec::new();
        let nothing = Interpreters::default();
        assert!(!interpreters(&mut checks, |language| nothing.path(language)));
        let missing = |check: &Check| check.state == State::Missing && check.fix.is_some();
        assert!(checks.len() == Language::ALL.len() && checks.iter().all(missing), "{checks:?}");
        let only_bash = |language| match language {
            Language::Bash => Ok(PathBuf::from("/bin/bash")),
            other => nothing.path(other).map(Path::to_owned),
        };
        assert!(interpreters(&mut Vec::new(), only_bash));
    }

    #[cfg(target_os = "linux")]
    mod on_linux {
        use super::super::*;
        use protocol::{Applied, Control, ControlState, Event, Hello, Interpreters, frame};
        use std::fs;
        use std::os::unix::fs::PermissionsExt;

        #[test]
        fn what_stands_in_for_a_limit_is_a_note_that_names_it() {
            let state = ControlState::StandIn("RLIMIT_DATA, per process".to_owned());
            let check = native::check(Control::Memory, &state);
            assert_eq!(
                (check.state, check.detail.as_str()),
                (State::Note, "RLIMIT_DATA, per process")
            );
            assert_eq!(check.name, "memory limit");
            let state = ControlState::Missing("no cgroup".to_owned());
            let check = native::check(Control::Cpu, &state);
            assert!(check.state == State::Missing && check.fix.is_some(), "{check:?}");
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
            let frames =
                [frame::encode_hello(&Hello::ours()), frame::encode_event(&ready).unwrap()];
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

            let (checks, isolation) = checks(&config, &sandbox).await;
            assert_eq!(checks[0].name, "helper", "{checks:?}");
            assert_eq!(isolation, None, "no interpreter was found");
            assert!(folder.join("ended").exists(), "the helper was left behind");
            fs::remove_dir_all(folder).unwrap();
        }
    }
}
