//! The settings: what is wrong with them, and which are not as they would be by themselves.

use super::{Check, State};
use crate::cli::for_terminal;
use crate::config::{Changed, Config, Problem};
use serde::{Deserialize, Serialize};

/// A setting that is set to something else than its default.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Setting {
    /// The variable's name.
    pub name: String,
    /// What it is set to, for display.
    pub value: String,
    /// What it would be by itself; `None` for nothing.
    pub default: Option<String>,
    /// Whether it can be used.
    pub valid: bool,
}

/// What is wrong with the settings or does nothing; a row that all are valid if there is no such thing.
pub fn checks(config: &Config) -> Vec<Check> {
    let mut checks: Vec<Check> = Vec::new();
    for problem in &config.problems {
        checks.push(Check {
            fix: Some(for_terminal(&problem.fix())),
            ..Check::new("settings", State::Missing, problem.to_string())
        });
    }
    for (doubt, fix) in config.surplus() {
        checks.push(Check::note("settings", doubt, fix));
    }
    if checks.is_empty() {
        let detail = match config.changed.len() {
            0 => "all at their defaults".to_owned(),
            number => format!("all valid, {number} not at the default"),
        };
        checks.push(Check::new("settings", State::Ok, detail));
    }
    checks
}

/// The settings that differ from their default.
pub fn changed(config: &Config) -> Vec<Setting> {
    let valid = |name: &str| {
        !config.problems.iter().any(
            |problem| matches!(problem, Problem::Setting { name: other, .. } if *other == name),
        )
    };
    let setting = |Changed { setting, value }: &Changed| Setting {
        name: setting.name.to_owned(),
        value: value.clone(),
        default: (!setting.default.is_empty()).then(|| setting.default.to_owned()),
        valid: valid(setting.name),
    };
    config.changed.iter().map(setting).collect()
}
