//! What a container really has: a script runs in one, and what it prints is judged.

use super::engine::{Facts, Image};
use super::mounts::Mounts;
use super::{place, quotas, refusal};
use protocol::{Isolation, Language, Limit, Limits, Refusal, Sandbox};
use std::collections::HashMap;

/// The script, without its variables. The walls come from the first program, as in every run.
const SCRIPT: &str = include_str!("probe.sh");
/// The devices that engines give to every container, and their links. Anything else is a way to the machine.
const DEVICES: [&str; 18] = [
    "console", "core@", "fd@", "full", "init", "mqueue", "null", "ptmx", "ptmx@", "pts", "random",
    "shm", "stderr@", "stdin@", "stdout@", "tty", "urandom", "zero",
];

/// What a probe saw.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    walls: Vec<String>,
    status: HashMap<String, Vec<String>>,
    routes: Vec<String>,
    mounts: Mounts,
    devices: Vec<String>,
    variables: Vec<String>,
    root_writable: Vec<String>,
    set_id: bool,
    uid_map: Vec<Vec<String>>,
    /// The files of its cgroup.
    pub cgroup: HashMap<String, String>,
    /// Whether the machine has swap.
    pub swap: bool,
    programs: Vec<String>,
    place: place::Seen,
    done: bool,
}

/// What a container was shown to have.
#[derive(Clone, Debug)]
pub struct Proven {
    /// The level of every run in such a container.
    pub isolation: Isolation,
    /// The image.
    pub image: Image,
    /// The walls, as a run's first program compares them.
    pub walls: String,
    programs: Vec<String>,
}

/// The script; `trip` are the two files for a round trip through the workspace.
pub fn script(trip: Option<(&str, &str)>) -> String {
    let (file_in, file_out) = trip.unwrap_or_default();
    format!("file_in={file_in} file_out={file_out}\n{SCRIPT}")
}

impl Seen {
    /// Reads what the script printed.
    pub fn parse(text: &str) -> Seen {
        let mut seen = Seen::default();
        for line in text.lines() {
            let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
            if seen.take_wall(name, rest) {
                seen.walls.push(line.to_owned());
            } else {
                seen.take(name, rest);
            }
        }
        seen
    }

    /// What `walls.sh` prints; whether it was that.
    fn take_wall(&mut self, name: &str, rest: &str) -> bool {
        let mut words = rest.split(' ').map(str::to_owned);
        let mut word = || words.next().unwrap_or_default();
        match name {
            "status" => {
                let key = word().trim_end_matches(':').to_owned();
                self.status.insert(key, words.collect());
            }
            "route" => self.routes.push(rest.to_owned()),
            "mount" => self.mounts.add(rest),
            "device" => self.devices.push(rest.to_owned()),
            "variable" => self.variables.push(rest.to_owned()),
            "swap" => self.swap = true,
            "uid-map" => self.uid_map.push(rest.split(' ').map(str::to_owned).collect()),
            "workspace-is" => {}
            "cgroup" => {
                let file = word();
                self.cgroup.insert(file, words.collect::<Vec<_>>().join(" "));
            }
            _ => return false,
        }
        true
    }

    fn take(&mut self, name: &str, rest: &str) {
        match name {
            "writable" => self.mounts.writable(rest),
            "root-writable" => self.root_writable.push(rest.to_owned()),
            "set-id" => self.set_id = true,
            "program" => self.programs.push(rest.to_owned()),
            "done" => self.done = true,
            _ => self.place.take(name, rest),
        }
    }

    /// Whether the script ran to its end.
    pub fn is_whole(&self) -> bool {
        self.done
    }

    /// What must be in force and is not, in words, but for the workspace.
    fn missing(&self, facts: &Facts, sandbox: &Sandbox) -> Vec<String> {
        let first = |name: &str| {
            self.status.get(name).and_then(|values| values.first()).map_or("", String::as_str)
        };
        let mut missing = Vec::new();
        let mut must = |holds: bool, what: &str| {
            if !holds {
                missing.push(what.to_owned());
            }
        };
        must(self.routes.iter().all(|name| name == "lo"), "a network of its own with no way out");
        let capabilities = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];
        let none = |set: &&str| !first(set).is_empty() && first(set).chars().all(|c| c == '0');
        must(capabilities.iter().all(none), "empty capability sets");
        must(first("NoNewPrivs") == "1", "no_new_privs");
        must(first("Seccomp") == "2" && !self.set_id, "Vestibule's syscall policy");
        must(self.root_writable.is_empty(), "a read-only root");
        // Under a rootless engine root inside is the user outside, as the map of user ids shows.
        let root_is_root = self.uid_map.iter().any(|line| line.get(1).is_none_or(|id| id == "0"));
        let root_is_us = facts.rootless && !self.uid_map.is_empty() && !root_is_root;
        must(!matches!(first("Uid"), "" | "0") || root_is_us, "an ordinary user");
        let surplus = |there: &[String], wanted: &[&str]| -> Vec<String> {
            there.iter().filter(|name| !wanted.contains(&name.as_str())).cloned().collect()
        };
        for (names, what) in [
            (surplus(&self.devices, &DEVICES), "the usual devices alone"),
            (surplus(&self.variables, &[]), "its own environment alone"),
        ] {
            let settings = "does the image or a setting of the engine's add it?";
            must(names.is_empty(), &format!("{what} (there is {}: {settings})", names.join(", ")));
        }
        missing.extend(self.mounts.missing(sandbox));
        missing
    }

    /// What was proven, or what is missing. `None` if that takes a round trip through the workspace:
    /// the engine runs on a machine of its own.
    ///
    /// # Errors
    /// A refusal that names everything that is not in force.
    pub fn judge(
        self,
        facts: &Facts,
        sandbox: &Sandbox,
        image: Image,
        token: Option<&str>,
    ) -> Result<Option<Proven>, Refusal> {
        let mut missing = self.missing(facts, sandbox);
        let place = self.place.missing(sandbox, self.mounts.workspace_is_read_only(), token);
        if place.is_none() && missing.is_empty() {
            return Ok(None);
        }
        missing.extend(place.unwrap_or_default());
        if !missing.is_empty() {
            return Err(refusal::not_in_force(facts.kind, &facts.version, &missing));
        }
        let isolation = self.isolation(facts, &sandbox.limits);
        let walls = format!("\n{}\n", self.walls.join("\n"));
        Ok(Some(Proven { isolation, image, walls, programs: self.programs }))
    }

    /// The level, from the limits that are in force.
    fn isolation(&self, facts: &Facts, limits: &Limits) -> Isolation {
        let not_applied = quotas::not_applied(self, limits);
        let mut reasons = Vec::new();
        if !not_applied.is_empty() {
            let (kind, rootless) =
                (facts.kind.title(), if facts.rootless { "rootless " } else { "" });
            let asked = |limit: &Limit| !facts.undelegated.contains(limit);
            if not_applied.iter().any(asked) {
                reasons.push(format!("{rootless}{kind} was asked for them and did not apply them"));
            } else {
                reasons.push(format!("their controllers are not delegated to {rootless}{kind}"));
            }
        }
        Isolation::container(not_applied, reasons)
    }
}

impl Proven {
    /// Makes sure that the image has a language's interpreter.
    ///
    /// # Errors
    /// A refusal if not.
    pub fn check_language(&self, image: &str, language: Language) -> Result<(), Refusal> {
        let there = self.programs.iter().any(|program| program == language.program());
        if there { Ok(()) } else { Err(refusal::no_interpreter(image, language)) }
    }
}

#[cfg(test)]
#[path = "probe_tests.rs"]
pub(super) mod tests;
