//! `vestibule-mcp doctor`: what this machine can do, and the fix for what it cannot.

mod audit;
mod backends;
mod container;
#[cfg(target_os = "linux")]
mod native;

use crate::config::Config;
use crate::run::{pipeline, privileges};
use protocol::Refusal;
use serde::Serialize;
use std::fmt;
use std::io::{self, Write};

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

/// Looks at everything, prints it, and returns the exit code: 0 if `run_code` would work and this
/// could be said, else 1.
pub async fn run(config: Config, arguments: Arguments) -> i32 {
    let diagnosis = diagnose(&config).await;
    // A reader who has gone, or a full disk, is no fault of ours to report.
    let printed = print(&diagnosis, arguments.json, &mut io::stdout().lock());
    i32::from(!diagnosis.ready || printed.is_err())
}

fn print(diagnosis: &Diagnosis, json: bool, out: &mut impl Write) -> io::Result<()> {
    if json {
        writeln!(out, "{}", serde_json::to_string_pretty(diagnosis)?)?;
    } else {
        write!(out, "{diagnosis}")?;
    }
    out.flush()
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
        checks.push(audit::check(config));
    }
    let mut isolation = None;
    if let Ok(sandbox) = &sandbox {
        let (more, found) = backends::checks(config, sandbox).await;
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
            fix: Some(problem.fix()),
            ..Check::new("settings", State::Missing, problem.to_string())
        });
    }
    for (doubt, fix) in config.doubts() {
        checks.push(Check { fix: Some(fix), ..Check::new("settings", State::Note, doubt) });
    }
    if checks.is_empty() {
        checks.push(Check::new("settings", State::Ok, "all valid"));
    }
    checks
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
    async fn a_full_disk_or_a_closed_pipe_is_an_error_and_no_panic() {
        let diagnosis = diagnose(&config(&[("VESTIBULE_MEM_MB", "lots")])).await;
        for json in [false, true] {
            assert!(print(&diagnosis, json, &mut [0; 8].as_mut_slice()).is_err());
            let mut whole = Vec::new();
            print(&diagnosis, json, &mut whole).unwrap();
            assert!(whole.ends_with(b"\n"));
        }
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
