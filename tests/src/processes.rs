//! Processes as seen from outside, through `/proc`.

use std::fs;
use std::path::Path;

/// A living process.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Process {
    /// Its id in our own PID namespace.
    pub pid: i32,
    /// Its parent's id.
    pub parent: i32,
    /// Its real uid.
    pub uid: u32,
    /// The kernel's short name for it.
    pub name: String,
    /// How many PID namespaces deep it lives below ours.
    pub depth: usize,
    /// When it was started, in clock ticks since boot: tells two users of one id apart.
    pub started: u64,
    /// Whether it is stopped, by a signal or a tracer.
    pub stopped: bool,
    /// The resident set in KiB.
    pub rss_kib: u64,
}

impl Process {
    /// Reads one process. `None` if it is gone or a zombie: `/proc/PID/status` is right for a
    /// process that is not dumpable too, unlike the owner of `/proc/PID`.
    pub fn read(pid: i32) -> Option<Process> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.map(str::trim)
        };
        let state = field("State")?.chars().next()?;
        if matches!(state, 'Z' | 'X') {
            return None;
        }
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let first_number = |text: &str| text.split_whitespace().next()?.parse().ok();
        Some(Process {
            pid,
            parent: field("PPid")?.parse().ok()?,
            uid: field("Uid")?.split_whitespace().next()?.parse().ok()?,
            name: field("Name")?.to_owned(),
            depth: field("NSpid")?.split_whitespace().count() - 1,
            started: stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?,
            stopped: matches!(state, 'T' | 't'),
            rss_kib: field("VmRSS").and_then(first_number).unwrap_or(0),
        })
    }

    /// Whether this very process is still there.
    pub fn lives(&self) -> bool {
        Process::read(self.pid).is_some_and(|now| now.started == self.started)
    }
}

/// Every living process.
pub fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(Process::read).collect()
}

/// The children, their children and so on, in no special order.
pub fn descendants(pid: i32) -> Vec<Process> {
    let all = all();
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![pid];
    while let Some(parent) = parents.pop() {
        for child in all.iter().filter(|process| process.parent == parent) {
            parents.push(child.pid);
            found.push(child.clone());
        }
    }
    found
}

/// How many descriptors a process holds.
pub fn descriptors(pid: i32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}

/// Mounts of our own namespace whose line names the path.
pub fn mounts_naming(path: &Path) -> Vec<String> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let name = path.display().to_string();
    table.lines().filter(|line| line.contains(&name)).map(str::to_owned).collect()
}
