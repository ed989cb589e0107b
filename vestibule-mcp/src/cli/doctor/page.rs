//! The page itself: what it holds, which is its JSON, and how it reads as text.

use super::images::Image;
use super::languages::Row;
use super::machine::{Machine, UNSET};
use super::settings::Setting;
use super::versions::Versions;
use super::{Check, State};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Where the third column starts: after a state of 8 and a name of 26 characters.
const INDENT: usize = 36;
/// The width that details are wrapped at, in columns. What is to be copied, a fix, stays in one line.
const WIDTH: usize = 100;
/// The longest default that is worth its place beside a value, in characters.
const SHORT: usize = 40;

/// The part of the page that a check stands in.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// What the machine is.
    Machine,
    /// The settings and the folders that they name.
    Settings,
    /// The images that code may run in.
    Images,
    /// What can run code.
    Backends,
}

/// Everything that was found. Its members are documented in docs/DOCTOR.md.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Page {
    /// The version of this program.
    pub version: String,
    /// The protocol that it speaks with its helper.
    pub protocol: u32,
    /// Whether `run_code` would run something.
    pub ready: bool,
    /// The strongest isolation that a language would have.
    pub isolation: Option<String>,
    /// Both programs.
    pub versions: Versions,
    /// Where they run.
    pub machine: Machine,
    /// The variables that matter beside the settings.
    pub environment: BTreeMap<String, String>,
    /// The settings that differ from their default.
    pub settings: Vec<Setting>,
    /// The names of variables that look like settings and are none.
    pub unknown_settings: Vec<String>,
    /// The images that code may run in.
    pub images: Vec<Image>,
    /// Every prerequisite, in the order of the page.
    pub checks: Vec<Check>,
    /// What a call would get.
    pub languages: Vec<Row>,
}

impl Page {
    /// Puts rows into a part of the page.
    pub fn add(&mut self, group: Group, checks: impl IntoIterator<Item = Check>) {
        self.checks.extend(checks.into_iter().map(|check| check.within(group)));
    }
}

impl fmt::Display for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "vestibule-mcp {} (protocol {})", self.version, self.protocol)?;
        writeln!(f, "\nversions")?;
        self.write_versions(f)?;
        writeln!(f, "\nmachine")?;
        self.write_machine(f)?;
        self.write_checks(f, Group::Machine)?;
        writeln!(f, "\nsettings")?;
        for setting in self.settings.iter().filter(|setting| setting.valid) {
            fact(f, &setting.name, &setting.shown())?;
        }
        self.write_checks(f, Group::Settings)?;
        writeln!(f, "\nimages")?;
        self.write_checks(f, Group::Images)?;
        if self.checks.iter().any(|check| check.group == Group::Backends) {
            writeln!(f, "\nbackends")?;
            self.write_checks(f, Group::Backends)?;
        }
        writeln!(f, "\nlanguages")?;
        for language in &self.languages {
            language.write(f)?;
        }
        self.write_end(f)
    }
}

impl Page {
    fn write_versions(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let server = &self.versions.server;
        let build = format!("{} ({}, {} build)", server.version, server.target, server.build);
        fact(f, "vestibule-mcp", &build)?;
        match &self.versions.helper {
            None => fact(f, "vestibule-jail", "not found"),
            Some(helper) => {
                let says = helper.says.as_deref().unwrap_or("of unknown version");
                fact(f, "vestibule-jail", &format!("{says}, at {}", helper.path))
            }
        }
    }

    fn write_machine(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let machine = &self.machine;
        let kernel = machine.kernel.as_deref().unwrap_or("kernel unknown");
        fact(f, "system", &format!("{}, {kernel}, {}", machine.system, machine.architecture))?;
        if !machine.surroundings.is_empty() {
            fact(f, "runs in", &machine.surroundings.join(", "))?;
        }
        let unknown = "unknown".to_owned();
        let init = machine.init.as_ref().unwrap_or(&unknown);
        let cgroups = machine.cgroups.as_ref().unwrap_or(&unknown);
        fact(f, "process 1, cgroups", &format!("{init}, {cgroups}"))?;
        let mut kernel: Vec<String> =
            machine.sysctls.iter().map(|(name, value)| format!("{name}={value}")).collect();
        kernel.extend(machine.security_modules.iter().map(|modules| format!("lsm={modules}")));
        if !kernel.is_empty() {
            fact(f, "kernel settings", &kernel.join(" "))?;
        }
        fact(f, "session", &self.session())
    }

    /// The variables that are set, then the names of those that are not.
    fn session(&self) -> String {
        let is_unset = |(_, value): &(&String, &String)| *value == UNSET;
        let set = self.environment.iter().filter(|variable| !is_unset(variable));
        let mut parts: Vec<String> = set.map(|(name, value)| format!("{name}: {value}")).collect();
        let unset: Vec<&str> =
            self.environment.iter().filter(is_unset).map(|(name, _)| name.as_str()).collect();
        if !unset.is_empty() {
            parts.push(format!("{UNSET}: {}", unset.join(", ")));
        }
        let there = if self.machine.runtime_folder { "there" } else { "not there" };
        parts.push(format!("/run/user/UID is {there}"));
        parts.join("; ")
    }

    fn write_checks(&self, f: &mut fmt::Formatter<'_>, group: Group) -> fmt::Result {
        for (index, check) in self.checks.iter().enumerate() {
            if check.group != group {
                continue;
            }
            // A refusal marks the row of its backend and that of its cause: once is enough to read it.
            let same = |other: &&Check| {
                check.fix.is_some() && (&other.detail, &other.fix) == (&check.detail, &check.fix)
            };
            match self.checks.iter().take(index).find(same) {
                Some(other) => {
                    row(f, check.state, &check.name, &format!("as {} says", other.name))?;
                    fix(f, &format!("that of {}", other.name))?;
                }
                None => {
                    row(f, check.state, &check.name, &check.detail)?;
                    check.fix.iter().try_for_each(|text| fix(f, text))?;
                }
            }
        }
        Ok(())
    }

    /// The last line: the strongest isolation, and the languages that have less.
    fn write_end(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(isolation) = &self.isolation else {
            return writeln!(
                f,
                "\nnot ready: every call of run_code is refused until that is fixed"
            );
        };
        write!(f, "\nready: isolation {isolation}")?;
        for row in &self.languages {
            match (&row.isolation, &row.level) {
                (Some(own), Some(level)) if own != isolation => {
                    write!(f, "; {}: {level}", row.language)?;
                }
                (None, _) => write!(f, "; {}: blocked", row.language)?,
                _ => {}
            }
        }
        writeln!(f)
    }
}

impl Setting {
    fn shown(&self) -> String {
        match &self.default {
            Some(default) if default.chars().count() <= SHORT => {
                format!("{} (default {default})", self.value)
            }
            Some(_) => self.value.clone(),
            None => format!("{} (default none)", self.value),
        }
    }
}

impl Row {
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(isolation) = &self.isolation {
            let through = match self.backend.as_deref() {
                Some(engine @ ("docker" | "podman")) => format!(", through {engine}"),
                _ => String::new(),
            };
            return row(f, self.state, &self.language, &format!("{isolation}{through}"));
        }
        let checks: Vec<&str> = self.reasons.iter().map(|reason| reason.check.as_str()).collect();
        let checks = checks.join(", ");
        row(f, self.state, &self.language, &format!("blocked: see {checks} above"))?;
        fix(f, if self.reasons.len() == 1 { "the one given there" } else { "any one given there" })
    }
}

fn fact(f: &mut fmt::Formatter<'_>, name: &str, value: &str) -> fmt::Result {
    writeln!(f, "{:<8} {name:<26} {}", "", wrapped(value))
}

fn row(f: &mut fmt::Formatter<'_>, state: State, name: &str, detail: &str) -> fmt::Result {
    let state = match state {
        State::Ok => "ok",
        State::Note => "note",
        State::Missing => "missing",
    };
    writeln!(f, "{state:<8} {name:<26} {}", wrapped(detail))
}

fn fix(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    writeln!(f, "{:INDENT$}fix: {text}", "")
}

/// A text broken between words, every further line below the first.
fn wrapped(text: &str) -> String {
    let mut shown = String::new();
    let mut column = INDENT;
    for (index, word) in text.split(' ').enumerate() {
        let width = word.chars().count();
        if index > 0 && column + 1 + width > WIDTH {
            shown.push('\n');
            shown.push_str(&" ".repeat(INDENT));
            column = INDENT;
        } else if index > 0 {
            shown.push(' ');
            column += 1;
        }
        shown.push_str(word);
        column += width;
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_broken_between_words_and_stays_aligned() {
        assert_eq!(wrapped("a b"), "a b");
        let text = ["word"; 40].join(" ");
        let shown = wrapped(&text);
        let mut lines = shown.lines();
        assert_eq!(lines.next().map(str::len), Some(64));
        for line in lines {
            assert!(line.starts_with(&" ".repeat(INDENT)) && line.len() <= WIDTH, "{line}");
        }
        assert_eq!(shown.split_whitespace().collect::<Vec<_>>().join(" "), text);
        let long = "x".repeat(200);
        assert_eq!(wrapped(&long), long, "a path or a digest is not broken");
    }
}
