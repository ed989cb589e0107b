//! Tests with folders that look like cgroups.

use super::*;
use crate::backend::scratch;
use protocol::{CpuPercent, MemoryMib, PidsMax, TmpfsMib};

const ID: &str = "0123456789abcdef";

fn limits() -> Limits {
    Limits {
        memory_mib: MemoryMib::new(256).unwrap(),
        cpu_percent: CpuPercent::new(75).unwrap(),
        pids_max: PidsMax::new(128).unwrap(),
        tmpfs_mib: TmpfsMib::new(64).unwrap(),
    }
}

/// A folder that is removed with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        let path = std::env::temp_dir().join(scratch::unique("vestibule-cgroup"));
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.join(name), text).unwrap();
    }

    fn files(&self) -> Files {
        Files::open(&self.0, limits()).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_containers_cgroup_is_found_and_its_monitors_is_not() {
    let folder = Folder::new();
    let right = folder.0.join("user.slice").join(format!("libpod-{ID}.scope"));
    fs::create_dir_all(right.join("container")).unwrap();
    fs::create_dir_all(folder.0.join("user.slice").join(format!("libpod-conmon-{ID}.scope")))
        .unwrap();
    // Without the mark of cgroup v2 it is not looked for.
    assert_eq!(search(&folder.0, ID), None);
    folder.write("cgroup.controllers", "cpu memory pids\n");
    assert_eq!(search(&folder.0, ID), Some(right));
    assert_eq!(search(&folder.0, "fedcba9876543210"), None);
}

#[test]
fn a_search_that_took_longer_than_its_run_says_nothing() {
    let known = |cgroups: &Cgroups| cgroups.place.lock().unwrap().clone();
    let cgroups = Cgroups::default();
    let nobody = "no container has this id";
    assert_eq!(cgroups.find(nobody, &AtomicBool::new(true)), None);
    assert!(matches!(known(&cgroups), Place::Unknown));
    assert_eq!(cgroups.find(nobody, &AtomicBool::new(false)), None);
    assert!(matches!(known(&cgroups), Place::Nowhere(_)));
    cgroups.forget();
    assert!(matches!(known(&cgroups), Place::Unknown));
}

#[test]
fn what_the_kernel_counted_is_read() {
    let folder = Folder::new();
    folder.write("cgroup.events", "populated 0\nfrozen 0\n");
    folder.write("cpu.stat", "usage_usec 14000\nuser_usec 1\nnr_periods 41\nnr_throttled 40\n");
    folder.write("memory.peak", "9437184\n");
    folder.write("memory.events", "low 0\noom 1\noom_kill 2\noom_group_kill 0\n");
    folder.write("pids.peak", "2\n");
    folder.write("pids.events", "max 3\n");
    let counters = folder.files().read(Refusals::default()).unwrap();
    assert_eq!(counters.cpu_us, Measured::Value(14000));
    assert_eq!(counters.mem_peak_bytes, Measured::Value(9_437_184));
    assert_eq!(counters.pids_peak, Measured::Value(2));
    let hits = [LimitHit::Cpu { throttled: 40, periods: 41 }, LimitHit::Pids(128)];
    assert_eq!(counters.limits_hit, hits);
    assert!(counters.killed);
    folder.write("cgroup.events", "");
    assert_eq!(folder.files().read(Refusals::default()), None);
}

#[test]
fn what_a_limit_of_the_cgroup_below_did_counts_too() {
    let folder = Folder::new();
    fs::create_dir(folder.0.join("container")).unwrap();
    folder.write("cgroup.events", "populated 0\n");
    folder.write("cpu.stat", "usage_usec 14000\nnr_periods 0\nnr_throttled 0\n");
    folder.write("pids.events", "max 0\n");
    folder.write("container/cpu.stat", "usage_usec 13000\nnr_periods 9\nnr_throttled 8\n");
    folder.write("container/pids.events", "max 3\n");
    let counters = folder.files().read(Refusals::default()).unwrap();
    assert_eq!(counters.cpu_us, Measured::Value(14000));
    let hits = [LimitHit::Cpu { throttled: 8, periods: 9 }, LimitHit::Pids(128)];
    assert_eq!(counters.limits_hit, hits);
}

#[test]
fn what_an_older_kernel_does_not_count_is_named() {
    let folder = Folder::new();
    folder.write("cgroup.events", "populated 1\n");
    folder.write("cpu.stat", "usage_usec 1\nnr_periods 3\nnr_throttled 0\n");
    let counters = folder.files().read(Refusals::default()).unwrap();
    assert_eq!(counters.cpu_us, Measured::Value(1));
    assert_eq!(counters.mem_peak_bytes, Measured::Missing("Linux 5.19+ needed".to_owned()));
    assert_eq!(counters.pids_peak, Measured::Missing("Linux 6.1+ needed".to_owned()));
    assert!(counters.limits_hit.is_empty() && !counters.killed);
}

#[test]
fn a_watch_ends_with_the_container_or_when_nobody_wants_it() {
    let folder = Folder::new();
    folder.write("cgroup.events", "populated 0\n");
    assert!(folder.files().wait(&AtomicBool::new(false), &mut Refusals::default()));
    folder.write("cgroup.events", "populated 1\n");
    assert!(!folder.files().wait(&AtomicBool::new(true), &mut Refusals::default()));
    folder.write("cgroup.events", "nonsense\n");
    assert!(!folder.files().wait(&AtomicBool::new(false), &mut Refusals::default()));
}

#[test]
fn what_was_seen_counts_where_the_cgroup_below_is_gone_at_the_end() {
    let folder = Folder::new();
    fs::create_dir(folder.0.join("container")).unwrap();
    folder.write("cgroup.events", "populated 0\n");
    folder.write("container/cpu.stat", "usage_usec 13000\nnr_periods 9\nnr_throttled 8\n");
    folder.write("container/memory.events", "oom_kill 1\n");
    folder.write("container/pids.events", "max 3\n");
    let (files, mut seen) = (folder.files(), Refusals::default());
    assert!(files.wait(&AtomicBool::new(false), &mut seen));
    for name in ["cpu.stat", "memory.events", "pids.events"] {
        folder.write(&format!("container/{name}"), "");
    }
    let counters = files.read(seen).unwrap();
    let hits = [LimitHit::Cpu { throttled: 8, periods: 9 }, LimitHit::Pids(128)];
    assert_eq!((&counters.limits_hit[..], counters.killed), (&hits[..], true));
}
