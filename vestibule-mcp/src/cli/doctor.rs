//! `vestibule-mcp doctor`: what this machine can do, and the fix for what it cannot.

use crate::backend::Backend;
use crate::backend::select::Selector;
use crate::config::Config;
use crate::run::{pipeline, privileges};
use protocol::{Isolation, Refusal, Sandbox};
use serde::Serialize;
use std::fmt;

/// The arguments of `doctor`.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// How a prerequisite stands.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// As it should be.
    Ok,
    /// Something weaker or worth knowing; code runs all the same.
    Note,
    /// Not there.
    Missing,
}

/// One prerequisite.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
struct Check {
    name: String,
    state: State,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

/// Everything that was found.
#[derive(Debug, Serialize)]
struct Diagnosis {
    version: &'static str,
    protocol: u32,
    /// Whether `run_code` would run something.
    ready: bool,
    /// What would protect it.
    isolation: Option<String>,
    checks: Vec<Check>,
}

impl Check {
    fn new(name: &str, state: State, detail: impl Into<String>) -> Check {
        Check { name: name.to_owned(), state, detail: detail.into(), fix: None }
    }

    fn missing(name: &str, refusal: &Refusal) -> Check {
        let at = refusal.at.map(|at| format!(" ({at})")).unwrap_or_default();
        let detail = format!("{}{at}", refusal.what);
        Check { fix: Some(refusal.fix.clone()), ..Check::new(name, State::Missing, detail) }
    }

    /// The check of something that is refused or is as `detail` says.
    fn of<T>(name: &str, result: &Result<T, Refusal>, detail: impl Fn(&T) -> String) -> Check {
        match result {
            Ok(value) => Check::new(name, State::Ok, detail(value)),
            Err(refusal) => Check::missing(name, refusal),
        }
    }
}

/// Looks at everything, prints it, and returns the exit code: 0 if `run_code` would work, else 1.
pub async fn run(config: Config, arguments: Arguments) -> i32 {
    let diagnosis = diagnose(&config).await;
    if arguments.json {
        // The types hold nothing that JSON could not.
        println!("{}", serde_json::to_string_pretty(&diagnosis).unwrap_or_default());
    } else {
        print!("{diagnosis}");
    }
    i32::from(!diagnosis.ready)
}

async fn diagnose(config: &Config) -> Diagnosis {
    let user = privileges::check();
    let settings = config.usable();
    // Nothing is made or started on behalf of a user whose calls are all refused.
    let allowed = user.clone().and(settings);
    let sandbox = allowed.clone().and_then(|()| pipeline::sandbox(config));
    let mut checks = vec![Check::of("user", &user, |()| "an ordinary user".to_owned())];
    checks.extend(settings_checks(config));
    if allowed.is_ok() {
        checks.push(Check::of("workspace", &sandbox, |s| s.workspace.display().to_string()));
    }
    let mut isolation = None;
    if let Ok(sandbox) = &sandbox {
        let (more, found) = backend_checks(config, sandbox).await;
        checks.extend(more);
        isolation = found;
    }
    Diagnosis {
        version: env!("CARGO_PKG_VERSION"),
        protocol: protocol::PROTOCOL_VERSION,
        ready: isolation.is_some(),
        isolation: isolation.map(|isolation| isolation.to_string()),
        checks,
    }
}

fn settings_checks(config: &Config) -> Vec<Check> {
    let mut checks: Vec<Check> = Vec::new();
    for problem in &config.problems {
        checks.push(Check {
            fix: Some(format!("set it to {}, or remove it", problem.expected)),
            ..Check::new("settings", State::Missing, problem.to_string())
        });
    }
    for name in &config.unknown {
        let detail = format!("{name} is no setting of this version and does nothing");
        let fix = Some("compare its name with docs/CONFIGURATION.md, or remove it".to_owned());
        checks.push(Check { fix, ..Check::new("settings", State::Note, detail) });
    }
    for image in [&config.image_python, &config.image_node] {
        if !image.is_pinned() {
            let detail = format!("{} names no digest, so it may change", image.as_str());
            let fix = Some("add @sha256:… to it".to_owned());
            checks.push(Check { fix, ..Check::new("settings", State::Note, detail) });
        }
    }
    if checks.is_empty() {
        checks.push(Check::new("settings", State::Ok, "all valid"));
    }
    checks
}

/// Probes every backend that the settings allow; the strongest isolation that was found.
async fn backend_checks(config: &Config, sandbox: &Sandbox) -> (Vec<Check>, Option<Isolation>) {
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
            Backend::Naive(_) => {
                let detail = "no isolation at all: code runs as you, on this machine";
                checks.push(Check::new("naive", State::Note, detail));
                Some(Isolation::none())
            }
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

#[cfg(target_os = "linux")]
mod native {
    use super::{Check, State};
    use crate::backend::Failure;
    use crate::backend::native::Native;
    use crate::run::admission::Admission;
    use protocol::{Applied, Control, ControlState, Isolation, Language, Sandbox};

    /// Builds a sandbox, reports what is in force, and hangs up.
    pub async fn probe(
        native: &Native,
        sandbox: &Sandbox,
        checks: &mut Vec<Check>,
    ) -> Option<Isolation> {
        // One slot of its own: the doctor shares nothing with a server.
        let slot = Admission::new(1).slot().await.ok()?;
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
        checks.extend(applied.controls.iter().map(|(control, state)| match state {
            ControlState::InForce => Check::new(control.name(), State::Ok, "in force"),
            ControlState::StandIn(what) => Check::new(control.name(), State::Note, what.as_str()),
            ControlState::Missing(why) => Check {
                fix: Some(remedy(*control).to_owned()),
                ..Check::new(control.name(), State::Missing, why.as_str())
            },
        }));
        checks.extend(Language::ALL.map(|language| interpreter(applied, language)));
        Some(applied.isolation.clone())
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

    fn interpreter(applied: &Applied, language: Language) -> Check {
        let path = applied.interpreters.path(language);
        Check::of(language.name(), &path, |path| path.display().to_string())
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "vestibule-mcp {} (protocol {})\n", self.version, self.protocol)?;
        for check in &self.checks {
            let state = match check.state {
                State::Ok => "ok",
                State::Note => "note",
                State::Missing => "missing",
            };
            writeln!(f, "{state:<8} {:<26} {}", check.name, check.detail)?;
            if let Some(fix) = &check.fix {
                writeln!(f, "{:<35} fix: {fix}", "")?;
            }
        }
        match &self.isolation {
            Some(isolation) => writeln!(f, "\nready: isolation {isolation}"),
            None => {
                writeln!(f, "\nnot ready: every call of run_code is refused until that is fixed")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(variables: &[(&str, &str)]) -> Config {
        let all = [("HOME", "/home/ada")].iter().chain(variables);
        Config::from_env(all.map(|(name, value)| (name.into(), value.into())))
    }

    #[test]
    fn every_setting_in_doubt_is_listed_with_its_fix() {
        let config = config(&[
            ("VESTIBULE_MEM_MB", "lots"),
            ("VESTIBULE_MEMORY", "1"),
            ("VESTIBULE_IMAGE_NODE", "node:22"),
        ]);
        let checks = settings_checks(&config);
        let states: Vec<State> = checks.iter().map(|check| check.state).collect();
        assert_eq!(states, [State::Missing, State::Note, State::Note]);
        assert!(checks.iter().all(|check| check.fix.is_some()), "{checks:?}");
        assert_eq!(settings_checks(&super::tests::config(&[]))[0].state, State::Ok);
    }

    #[tokio::test]
    async fn an_invalid_setting_is_no_crash_but_a_diagnosis() {
        let diagnosis = diagnose(&config(&[("VESTIBULE_MEM_MB", "lots")])).await;
        assert!(!diagnosis.ready);
        let text = diagnosis.to_string();
        assert!(
            text.contains("missing  settings") && text.contains("fix: set it to a whole"),
            "{text}"
        );
        assert!(text.contains("not ready"), "{text}");
        assert_eq!(serde_json::to_value(&diagnosis).unwrap()["ready"], false);
    }
}
