//! The isolation level: what a result claims, and the one place where it is put into words.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How well a run was isolated, strongest first.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub enum Level {
    /// Own namespaces, syscall filter, and every limit, all read back.
    Native,
    /// A container with every limit, all read back.
    Container,
    /// As `Native`, but some limit is missing or only stood in for.
    NativeDegraded,
    /// As `Container`, but some limit is missing.
    ContainerDegraded,
    /// Not isolated, or nothing was executed.
    None,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Native => "native",
            Level::Container => "container",
            Level::NativeDegraded => "native-degraded",
            Level::ContainerDegraded => "container-degraded",
            Level::None => "none",
        })
    }
}

/// A resource that a run is limited in.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub enum Limit {
    /// CPU time.
    Cpu,
    /// Memory.
    Memory,
    /// Processes and threads.
    Pids,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Limit::Cpu => "cpu",
            Limit::Memory => "memory",
            Limit::Pids => "pids",
        })
    }
}

/// A per-process limit that stands in for one of the whole sandbox.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub enum StandIn {
    /// `RLIMIT_NPROC` for the pids limit: per user namespace since Linux 5.14.
    Pids,
    /// `RLIMIT_DATA` for the memory limit: each process's private memory; shared memory escapes it.
    Data,
}

impl fmt::Display for StandIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StandIn::Pids => "pids",
            StandIn::Data => "data",
        })
    }
}

/// Why a limit that was in force is not claimed any more.
pub(crate) const LOST: &str = "changed or taken away during the run";

/// What protected one run. Its [`Display`](fmt::Display) is the `isolation:` line of a result.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Isolation {
    /// The level.
    pub level: Level,
    /// Limits of the whole sandbox that are not in force.
    pub not_applied: Vec<Limit>,
    /// Per-process limits in force in their place.
    pub stand_ins: Vec<StandIn>,
    /// Why something is missing, or why nothing was executed.
    pub reasons: Vec<String>,
    /// The root file system, where it is not a pinned image.
    pub rootfs: Option<String>,
}

impl Isolation {
    /// The native level that follows from what is missing.
    pub fn native(
        not_applied: Vec<Limit>,
        stand_ins: Vec<StandIn>,
        reasons: Vec<String>,
        rootfs: Option<String>,
    ) -> Isolation {
        let full = not_applied.is_empty() && stand_ins.is_empty();
        let level = if full { Level::Native } else { Level::NativeDegraded };
        Isolation { level, not_applied, stand_ins, reasons, rootfs }
    }

    /// The level of a container that follows from what is missing.
    pub fn container(not_applied: Vec<Limit>, reasons: Vec<String>) -> Isolation {
        let full = not_applied.is_empty();
        let level = if full { Level::Container } else { Level::ContainerDegraded };
        Isolation { level, not_applied, stand_ins: Vec::new(), reasons, rootfs: None }
    }

    /// Takes back what was claimed of limits that did not hold until the run's end.
    pub fn take_back(&mut self, lost: &[Limit]) {
        let lost: Vec<Limit> =
            lost.iter().copied().filter(|limit| !self.not_applied.contains(limit)).collect();
        if lost.is_empty() {
            return;
        }
        self.reasons.push(format!("{LOST}: {}", list(&lost)));
        self.not_applied.extend(lost);
        self.not_applied.sort();
        self.level = match self.level {
            Level::Native | Level::NativeDegraded => Level::NativeDegraded,
            Level::Container | Level::ContainerDegraded => Level::ContainerDegraded,
            Level::None => Level::None,
        };
    }

    /// No isolation at all: the code ran as the user, on the machine itself.
    pub fn none() -> Isolation {
        Isolation {
            level: Level::None,
            not_applied: Vec::new(),
            stand_ins: Vec::new(),
            reasons: Vec::new(),
            rootfs: None,
        }
    }

    /// Nothing was executed, and why.
    pub fn nothing_executed(reason: &str) -> Isolation {
        let reasons = vec![format!("nothing was executed: {reason}")];
        Isolation { reasons, ..Isolation::none() }
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if !self.not_applied.is_empty() {
            parts.push(format!("limits not applied: {}", list(&self.not_applied)));
        }
        if !self.stand_ins.is_empty() {
            parts.push(format!("per-process stand-ins: {}", list(&self.stand_ins)));
        }
        parts.extend(self.reasons.iter().cloned());
        parts.extend(self.rootfs.iter().map(|rootfs| format!("rootfs: {rootfs}")));
        write!(f, "{}", self.level)?;
        if parts.is_empty() { Ok(()) } else { write!(f, " ({})", parts.join("; ")) }
    }
}

fn list<T: fmt::Display>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_names_what_is_missing_once_and_in_order() {
        let isolation = Isolation::native(
            vec![Limit::Cpu, Limit::Memory],
            vec![StandIn::Pids],
            vec!["no systemd user bus".into()],
            Some("this machine's /usr, read-only".into()),
        );
        assert_eq!(
            isolation.to_string(),
            "native-degraded (limits not applied: cpu, memory; per-process stand-ins: pids; \
             no systemd user bus; rootfs: this machine's /usr, read-only)"
        );
    }

    #[test]
    fn what_did_not_hold_until_the_end_is_taken_back() {
        let mut isolation = Isolation::native(vec![], vec![], vec![], None);
        isolation.take_back(&[]);
        assert_eq!(isolation.to_string(), "native");
        isolation.take_back(&[Limit::Pids, Limit::Memory]);
        let text = "native-degraded (limits not applied: memory, pids; changed or taken away during \
                    the run: pids, memory)";
        assert_eq!(isolation.to_string(), text);
        isolation.take_back(&[Limit::Memory]);
        assert_eq!(isolation.to_string(), text);
        let mut container = Isolation { level: Level::Container, ..Isolation::none() };
        container.take_back(&[Limit::Cpu]);
        assert_eq!(container.level, Level::ContainerDegraded);
    }

    #[test]
    fn nothing_missing_is_native() {
        assert_eq!(Isolation::native(vec![], vec![], vec![], None).to_string(), "native");
    }

    #[test]
    fn what_never_started_says_so() {
        assert_eq!(
            Isolation::nothing_executed("the helper died").to_string(),
            "none (nothing was executed: the helper died)"
        );
    }
}
