//! What a container really has: a script runs in one, and what it prints is judged.

use super::engine::Facts;
use super::refusal;
use protocol::{Isolation, Language, Limit, Limits, Refusal, Sandbox};
use std::collections::HashMap;

/// The script, without its variables.
const SCRIPT: &str = include_str!("probe.sh");

/// What a probe saw.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    status: HashMap<String, Vec<String>>,
    routes: Vec<String>,
    mounts: HashMap<String, Mount>,
    writable: Vec<String>,
    root_writable: Vec<String>,
    set_id: bool,
    cgroup: HashMap<String, String>,
    swap: bool,
    programs: Vec<String>,
    read: String,
    wrote: bool,
    done: bool,
}

#[derive(Clone, Debug)]
struct Mount {
    kind: String,
    options: String,
}

/// What a container was shown to have.
#[derive(Clone, Debug)]
pub struct Proven {
    /// The level of every run in such a container.
    pub isolation: Isolation,
    programs: Vec<String>,
}

/// The script for a round trip through these two files of the workspace.
pub fn script(file_in: &str, file_out: &str) -> String {
    format!("file_in={file_in} file_out={file_out}\n{SCRIPT}")
}

impl Seen {
    /// Reads what the script printed.
    pub fn parse(text: &str) -> Seen {
        let mut seen = Seen::default();
        for line in text.lines() {
            let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
            let mut words = rest.split(' ').map(str::to_owned);
            let mut word = || words.next().unwrap_or_default();
            match name {
                "status" => {
                    let key = word().trim_end_matches(':').to_owned();
                    seen.status.insert(key, words.collect());
                }
                "route" => seen.routes.push(rest.to_owned()),
                "mount" => {
                    let (place, _, kind, _, options) = (word(), word(), word(), word(), word());
                    // A later mount on the same place covers the earlier one.
                    seen.mounts.insert(place, Mount { kind, options });
                }
                "writable" => seen.writable.push(rest.to_owned()),
                "root-writable" => seen.root_writable.push(rest.to_owned()),
                "set-id" => seen.set_id = true,
                "cgroup" => {
                    let file = word();
                    seen.cgroup.insert(file, words.collect::<Vec<_>>().join(" "));
                }
                "swap" => seen.swap = true,
                "program" => seen.programs.push(rest.to_owned()),
                "read" => seen.read = rest.to_owned(),
                "wrote" => seen.wrote = true,
                "done" => seen.done = true,
                _ => {}
            }
        }
        seen
    }

    /// Whether the script ran to its end.
    pub fn is_whole(&self) -> bool {
        self.done
    }

    /// What must be in force and is not, in words.
    pub fn missing(&self, facts: &Facts, sandbox: &Sandbox, token: &str) -> Vec<String> {
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
        // Under a rootless engine root inside is the user outside.
        must(!matches!(first("Uid"), "" | "0") || facts.rootless, "an ordinary user");
        must(
            self.read == token,
            "the workspace that was mounted (is it shared with the engine's machine?)",
        );
        if sandbox.workspace_read_only {
            must(!self.wrote, "a workspace that refuses writes");
        } else {
            must(self.wrote, "a workspace that can be written");
        }
        for place in ["/tmp", "/run", "/var/tmp", "/dev/shm"] {
            must(self.is_capped(place), &format!("a cap on {place}"));
        }
        for place in self.writable.iter().filter(|place| !self.is_in_memory(place)) {
            must(false, &format!("a cap on {place} (does the image declare a volume there?)"));
        }
        missing
    }

    fn is_capped(&self, place: &str) -> bool {
        self.mounts.get(place).is_some_and(|mount| {
            mount.kind == "tmpfs" && mount.options.split(',').any(|part| part.starts_with("size="))
        })
    }

    fn is_in_memory(&self, place: &str) -> bool {
        let kind = self.mounts.get(place).map(|mount| mount.kind.as_str());
        matches!(kind, Some("tmpfs" | "mqueue" | "devpts"))
    }

    /// The level, from the limits that are in force.
    pub fn isolation(&self, facts: &Facts, limits: &Limits) -> Isolation {
        let mut not_applied = Vec::new();
        let mut reasons = Vec::new();
        if !self.cpu_is_capped(limits) {
            not_applied.push(Limit::Cpu);
        }
        if !self.memory_is_capped(limits) {
            not_applied.push(Limit::Memory);
        }
        let pids = self.number(&["pids.max", "pids/pids.max"]);
        if pids.is_none_or(|pids| pids > u64::from(limits.pids_max.get())) {
            not_applied.push(Limit::Pids);
        }
        if !not_applied.is_empty() {
            let (kind, rootless) =
                (facts.kind.title(), if facts.rootless { "rootless " } else { "" });
            reasons.push(format!("{rootless}{kind} was asked for them and did not apply them"));
        }
        Isolation::container(not_applied, reasons)
    }

    fn memory_is_capped(&self, limits: &Limits) -> bool {
        let cap = u64::from(limits.memory_mib.get()) * 1024 * 1024;
        let memory = self.number(&["memory.max", "memory/memory.limit_in_bytes"]);
        let no_swap = match (
            self.number(&["memory.swap.max"]),
            self.number(&["memory/memory.memsw.limit_in_bytes"]),
        ) {
            (Some(swap), _) => swap == 0,
            (None, Some(together)) => together <= cap,
            // A kernel that does not count swap; without any there is none to use.
            (None, None) => !self.swap,
        };
        memory.is_some_and(|memory| memory <= cap) && no_swap
    }

    fn cpu_is_capped(&self, limits: &Limits) -> bool {
        let (quota, period) = match self.cgroup.get("cpu.max").and_then(|text| text.split_once(' '))
        {
            Some((quota, period)) => (quota.parse().ok(), period.parse().ok()),
            None => {
                (self.number(&["cpu/cpu.cfs_quota_us"]), self.number(&["cpu/cpu.cfs_period_us"]))
            }
        };
        let (Some(quota), Some(period)): (Option<u64>, Option<u64>) = (quota, period) else {
            return false;
        };
        // Engines round the quota to whole microseconds.
        u128::from(quota) * 100 <= (u128::from(limits.cpu_percent.get()) + 1) * u128::from(period)
    }

    /// The number in the first of these files that is there; `max` and -1 are none.
    fn number(&self, files: &[&str]) -> Option<u64> {
        files.iter().find_map(|file| self.cgroup.get(*file))?.parse().ok()
    }

    /// What was proven, or what is missing.
    ///
    /// # Errors
    /// A refusal that names everything that is not in force.
    pub fn judge(self, facts: &Facts, sandbox: &Sandbox, token: &str) -> Result<Proven, Refusal> {
        let missing = self.missing(facts, sandbox, token);
        if !missing.is_empty() {
            return Err(refusal::not_in_force(facts.kind, &facts.version, &missing));
        }
        let isolation = self.isolation(facts, &sandbox.limits);
        Ok(Proven { isolation, programs: self.programs })
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
mod tests;
