//! The cgroup of one run: made, limited, read, ended.

use super::Home;
use super::folder::Folder;
use super::limits::{self, LimitStates};
use crate::procfs;
use nix::errno::Errno;
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkdir};
use protocol::{Limit, LimitHit, Limits, Measured, RunCgroup, RunsName};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// How often a cgroup is tried to be removed, and the pause between two tries: the kernel lets go of
/// the last process a little after its parent has seen it end.
const REMOVALS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(2);

/// The cgroup of one run.
#[derive(Debug)]
pub struct Leaf {
    folder: Folder,
    limits: Limits,
    states: LimitStates,
}

/// What the kernel counted in a run's cgroup.
#[derive(Debug)]
pub struct Measurements {
    /// CPU time in microseconds.
    pub cpu_us: Measured<u64>,
    /// Peak memory in bytes.
    pub mem_peak_bytes: Measured<u64>,
    /// Peak number of processes and threads.
    pub pids_peak: Measured<u64>,
    /// The limits that were run into.
    pub limits_hit: Vec<LimitHit>,
    /// The limits that were in force at first and are not any more.
    pub limits_lost: Vec<Limit>,
    /// Whether the kernel killed a process for memory, and at whose limit.
    pub killed: Option<KilledAt>,
}

/// Whose memory limit the kernel killed a process at.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KilledAt {
    /// The run's own.
    Own,
    /// One above, or the machine's end.
    Outside,
}

impl Leaf {
    /// Makes a cgroup below `home` and limits it.
    ///
    /// # Errors
    /// The errno of making or opening the folder. A limit that cannot be set is no error.
    pub fn make(home: &Home, limits: &Limits) -> nix::Result<Leaf> {
        let path = home.runs.join(name(home.owner));
        let mode = Mode::from_bits_truncate(0o755);
        match mkdir(&path, mode) {
            // Of a dead supervisor that had this process id, and the same server.
            Err(Errno::EEXIST) => {
                end(&path)?;
                mkdir(&path, mode)?;
            }
            made => made?,
        }
        let folder = Folder::open(&path)?;
        let states = limits::set(&folder, limits);
        Ok(Leaf { folder, limits: *limits, states })
    }

    /// Its folder.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Which limits are in force.
    pub fn states(&self) -> &LimitStates {
        &self.states
    }

    /// Kills everything in it. Before Linux 5.14, which brought `cgroup.kill`, the end of init does.
    pub fn kill(&self) {
        let _ = self.folder.write("cgroup.kill", "1");
    }

    /// Reads what the run used, once nothing of it is left.
    pub fn measure(&self) -> Measurements {
        let stat = self.folder.read("cpu.stat").unwrap_or_default();
        let keyed = |name| super::folder::keyed(&stat, name);
        let mut limits_hit = Vec::new();
        if let (Some(throttled @ 1..), Some(periods)) = (keyed("nr_throttled"), keyed("nr_periods"))
        {
            limits_hit.push(LimitHit::Cpu { throttled, periods });
        }
        let pids_peak = self.folder.number("pids.peak");
        let refused = self.folder.keyed("pids.events", "max").is_ok_and(|refused| refused > 0);
        // What a limit above refuses is counted here too.
        let pids_max = self.limits.pids_max.get();
        if refused && !pids_peak.is_ok_and(|peak| peak < u64::from(pids_max)) {
            limits_hit.push(LimitHit::Pids(pids_max));
        }
        let cpu = keyed("usage_usec").ok_or(Errno::ENODATA);
        Measurements {
            cpu_us: measured(cpu, "cpu.stat cannot be read"),
            mem_peak_bytes: measured(
                self.folder.number("memory.peak"),
                self.why_not_counted(Limit::Memory, "memory.max", "Linux 5.19+ needed"),
            ),
            pids_peak: measured(
                pids_peak,
                self.why_not_counted(Limit::Pids, "pids.max", "Linux 6.1+ needed"),
            ),
            limits_hit,
            limits_lost: limits::lost(&self.folder, &self.limits, &self.states),
            killed: self.killed(),
        }
    }

    /// Why a counter is not there: no limit, one that went away, or an older kernel.
    fn why_not_counted<'a>(&'a self, limit: Limit, file: &str, older: &'a str) -> &'a str {
        match (self.states.missing(limit), self.folder.read(file)) {
            (Some(why), _) => why,
            (None, Err(_)) => "its controller was taken away during the run",
            (None, Ok(_)) => older,
        }
    }

    /// Whether the kernel has killed a process for memory. `oom` counts what reached this limit,
    /// `oom_kill` also what died at another one.
    pub fn killed(&self) -> Option<KilledAt> {
        let events = self.folder.read("memory.events").unwrap_or_default();
        let counted = |name| super::folder::keyed(&events, name).unwrap_or(0) > 0;
        counted("oom_kill").then(|| if counted("oom") { KilledAt::Own } else { KilledAt::Outside })
    }

    /// Removes it, once nothing of the run is left.
    ///
    /// # Errors
    /// The errno of `rmdir(2)` of the last try.
    pub fn remove(self) -> nix::Result<()> {
        let Leaf { folder, .. } = self;
        remove(folder.path())
    }
}

fn measured(value: nix::Result<u64>, why_not: &str) -> Measured<u64> {
    value.map_or_else(|_| Measured::Missing(why_not.to_owned()), Measured::Value)
}

/// The name of the cgroup of a run that `owner` answers for.
fn name(owner: Pid) -> String {
    let started = start_time(owner).unwrap_or(0);
    RunCgroup::name(owner.as_raw().cast_unsigned(), started, std::process::id())
}

/// When a process was started, in clock ticks since boot: the 22nd field of proc_pid_stat(5).
pub fn start_time(process: Pid) -> Option<u64> {
    let text = procfs::read(&Path::new("/proc").join(process.to_string()).join("stat")).ok()?;
    start_time_in(&text)
}

fn start_time_in(stat: &str) -> Option<u64> {
    // The second field is the program's name, in brackets, and may hold anything.
    let (_, after) = stat.rsplit_once(") ")?;
    after.split(' ').nth(19)?.parse().ok()
}

/// Removes what dead owners have left below `home`.
pub fn sweep(home: &Path) {
    let Ok(entries) = fs::read_dir(home) else { return };
    for entry in entries.flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let Some(name) = name.to_str().filter(|name| is_left_over(name)) else { continue };
        if RunsName::parse(name).is_some() {
            sweep(&path);
        }
        // Tried again by the next that comes along.
        let _ = end(&path);
    }
}

/// Whether a name is that of a run, or of all runs of a server, whose owner is dead.
fn is_left_over(name: &str) -> bool {
    let run = RunCgroup::parse_name(name).map(|name| (name.owner, name.started));
    let runs = || RunsName::parse(name).map(|name| (name.owner, name.started));
    run.or_else(runs).is_some_and(|(owner, started)| {
        start_time(Pid::from_raw(owner.cast_signed())) != Some(started)
    })
}

/// Kills what is in a cgroup and removes it.
fn end(path: &Path) -> nix::Result<()> {
    let _ = Folder::open(path).and_then(|folder| folder.write("cgroup.kill", "1"));
    remove(path)
}

fn remove(path: &Path) -> nix::Result<()> {
    let mut tries = 0;
    loop {
        match fs::remove_dir(path).map_err(|error| crate::plan::errno(&error)) {
            Err(Errno::EBUSY) if tries < REMOVALS => std::thread::sleep(PAUSE),
            Ok(()) | Err(Errno::ENOENT) => return Ok(()),
            Err(errno) => return Err(errno),
        }
        tries += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::limits::tests::{MEMORY, limited};
    use super::*;
    use std::path::PathBuf;

    #[test]
    fn a_start_time_is_read_past_any_name() {
        let fields: Vec<String> = (4..=30).map(|field| field.to_string()).collect();
        let stat = format!("12 (a) b) 7 (x) S {}", fields.join(" "));
        assert_eq!(start_time_in(&stat), Some(22));
        assert!(start_time(nix::unistd::getpid()).is_some_and(|time| time > 0));
    }

    #[test]
    fn only_runs_of_the_dead_are_left_over() {
        let own = nix::unistd::getpid();
        assert!(!is_left_over(&name(own)));
        let other_time = start_time(own).unwrap() + 1;
        let of = |owner, started| RunCgroup::name(owner, started, 77);
        assert!(is_left_over(&of(std::process::id(), other_time)), "a process id used again");
        assert!(is_left_over(&of(4_194_304, 5)), "no such process");
        assert!(!is_left_over("mcp-sandbox-supervisors"));
        let all_of = |owner, started| RunsName { owner, started }.to_name();
        assert!(!is_left_over(&all_of(std::process::id(), start_time(own).unwrap())));
        assert!(is_left_over(&all_of(4_194_304, 5)));
    }

    /// The leaf of such a folder: what a kernel lacks is left out of it.
    fn leaf(test: &str, files: &[(&str, &str)]) -> (PathBuf, Leaf) {
        let (place, folder, limits, states) = limited(test, files);
        (place, Leaf { folder, limits, states })
    }

    #[test]
    fn what_an_older_kernel_does_not_count_is_named_with_the_one_that_does() {
        let counters = [
            ("cpu.stat", "usage_usec 5000\nnr_periods 9\nnr_throttled 4\n"),
            ("pids.max", "128"),
            ("pids.events", "max 3"),
            ("memory.events", "max 7\noom 0\noom_kill 0\n"),
        ];
        let (place, leaf) = leaf("older", &[&MEMORY[..], &counters].concat());
        let measured = leaf.measure();
        assert_eq!(measured.cpu_us, Measured::Value(5000));
        let missing = |text: &str| Measured::Missing(text.to_owned());
        assert_eq!(measured.mem_peak_bytes, missing("Linux 5.19+ needed"));
        assert_eq!(measured.pids_peak, missing("Linux 6.1+ needed"));
        let hit = [LimitHit::Cpu { throttled: 4, periods: 9 }, LimitHit::Pids(128)];
        assert_eq!(measured.limits_hit, hit);
        assert_eq!(measured.killed, None);
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn a_limit_above_is_not_taken_for_the_own_and_a_lost_controller_not_for_an_old_kernel() {
        let files = [("pids.max", "128"), ("pids.events", "max 3"), ("pids.peak", "17")];
        let (place, leaf) = leaf("above", &[&MEMORY[..], &files].concat());
        assert_eq!(leaf.measure().limits_hit, []);
        fs::write(place.join("pids.peak"), "128").unwrap();
        fs::remove_file(place.join("memory.max")).unwrap();
        let measured = leaf.measure();
        assert_eq!(measured.limits_lost, [Limit::Memory]);
        assert_eq!(measured.limits_hit, [LimitHit::Pids(128)]);
        let why = "its controller was taken away during the run".to_owned();
        assert_eq!(measured.mem_peak_bytes, Measured::Missing(why));
        fs::remove_dir_all(place).unwrap();
    }

    #[test]
    fn a_kill_at_the_own_limit_is_told_from_one_outside() {
        for (events, expected) in [
            ("oom 1\noom_kill 1\n", Some(KilledAt::Own)),
            ("oom 0\noom_kill 1\n", Some(KilledAt::Outside)),
            ("oom 2\noom_kill 0\n", None),
            ("", None),
        ] {
            let (place, leaf) = leaf("killed", &[("memory.events", events)]);
            assert_eq!(leaf.killed(), expected, "{events:?}");
            fs::remove_dir_all(place).unwrap();
        }
    }
}
