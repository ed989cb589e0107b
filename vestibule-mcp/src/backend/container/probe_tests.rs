//! Tests of what a probe's print is taken for.

use super::super::engine::Kind;
use super::*;
use protocol::{CgroupSource, CpuPercent, MemoryMib, PidsMax, Rootfs, TmpfsMib};

const TOKEN: &str = "token";

/// What Docker gives on a host with cgroup v2.
const GOOD: &str = "\
status Uid: 1000 1000 1000 1000
status CapInh: 0000000000000000
status CapPrm: 0000000000000000
status CapEff: 0000000000000000
status CapBnd: 0000000000000000
status CapAmb: 0000000000000000
status NoNewPrivs: 1
status Seccomp: 2
route lo
mount / ro,relatime overlay overlay rw,lowerdir=/a
mount /dev rw,nosuid tmpfs tmpfs rw,size=65536k,mode=755
mount /dev/shm rw,nosuid tmpfs shm rw,size=65536k
mount /tmp rw,nosuid tmpfs tmpfs rw,size=65536k,nr_inodes=16384
mount /run rw,nosuid tmpfs tmpfs rw,size=1024k
mount /var/tmp rw,nosuid tmpfs tmpfs rw,size=1024k
writable /dev/shm
writable /tmp
cgroup memory.max 268435456
cgroup memory.swap.max 0
cgroup cpu.max 75000 100000
cgroup pids.max 128
swap /dev/sda2
program bash
program python3
read token
wrote
done
";

fn sandbox(read_only: bool) -> Sandbox {
    Sandbox {
        rootfs: Rootfs::Host,
        workspace: "/w".into(),
        workspace_read_only: read_only,
        limits: Limits {
            memory_mib: MemoryMib::new(256).unwrap(),
            cpu_percent: CpuPercent::new(75).unwrap(),
            pids_max: PidsMax::new(128).unwrap(),
            tmpfs_mib: TmpfsMib::new(64).unwrap(),
        },
        environment: vec![],
        cgroup: CgroupSource::default(),
    }
}

fn facts(rootless: bool) -> Facts {
    Facts { kind: Kind::Docker, rootless, ..Facts::default() }
}

fn missing(text: &str) -> Vec<String> {
    Seen::parse(text).missing(&facts(false), &sandbox(false), TOKEN)
}

fn level(text: &str) -> String {
    Seen::parse(text).isolation(&facts(false), &sandbox(false).limits).to_string()
}

#[test]
fn a_whole_container_is_a_container() {
    assert_eq!(missing(GOOD), Vec::<String>::new());
    assert_eq!(level(GOOD), "container");
    let proven = Seen::parse(GOOD).judge(&facts(false), &sandbox(false), TOKEN).unwrap();
    assert!(proven.check_language("image", Language::Python).is_ok());
    assert!(proven.check_language("image", Language::Node).is_err());
}

#[test]
fn every_hard_control_is_missed_when_it_is_not_there() {
    let cases = [
        ("route lo", "route eth0", "network"),
        ("CapBnd: 0000000000000000", "CapBnd: 00000000a80425fb", "capability"),
        ("status CapAmb: 0000000000000000\n", "", "capability"),
        ("NoNewPrivs: 1", "NoNewPrivs: 0", "no_new_privs"),
        ("Seccomp: 2", "Seccomp: 0", "syscall policy"),
        ("swap /dev/sda2", "set-id", "syscall policy"),
        ("swap /dev/sda2", "root-writable /etc", "read-only root"),
        ("Uid: 1000", "Uid: 0", "ordinary user"),
        ("read token", "read ", "workspace that was mounted"),
        ("wrote\n", "", "can be written"),
        (
            "mount /run rw,nosuid tmpfs tmpfs rw,size=1024k",
            "mount /run rw tmpfs tmpfs rw",
            "a cap on /run",
        ),
        ("writable /tmp", "writable /data", "volume"),
    ];
    for (from, to, what) in cases {
        assert!(GOOD.contains(from), "{from}");
        let found = missing(&GOOD.replace(from, to));
        assert!(found.iter().any(|text| text.contains(what)), "{to}: {found:?}");
    }
}

#[test]
fn root_inside_is_nobody_special_under_a_rootless_engine() {
    let text = GOOD.replace("Uid: 1000", "Uid: 0");
    assert!(Seen::parse(&text).missing(&facts(true), &sandbox(false), TOKEN).is_empty());
}

#[test]
fn a_read_only_workspace_must_refuse_writes() {
    let seen = |text: &str| Seen::parse(text).missing(&facts(false), &sandbox(true), TOKEN);
    assert_eq!(seen(GOOD).len(), 1);
    assert!(seen(&GOOD.replace("wrote\n", "")).is_empty());
}

#[test]
fn a_limit_that_is_not_in_force_is_named() {
    let off = |from: &str, to: &str| {
        let line = level(&GOOD.replace(from, to));
        assert!(line.starts_with("container-degraded (limits not applied: "), "{line}");
        line.split_once(": ").unwrap().1.split_once(';').unwrap().0.to_owned()
    };
    assert_eq!(off("memory.max 268435456", "memory.max max"), "memory");
    assert_eq!(off("memory.max 268435456", "memory.max 268435457"), "memory");
    assert_eq!(off("memory.swap.max 0", "memory.swap.max max"), "memory");
    assert_eq!(off("cgroup memory.swap.max 0\n", ""), "memory");
    assert_eq!(off("pids.max 128", "pids.max max"), "pids");
    assert_eq!(off("cpu.max 75000 100000", "cpu.max max 100000"), "cpu");
    assert_eq!(off("cpu.max 75000 100000", "cpu.max 150000 100000"), "cpu");
}

#[test]
fn the_files_of_the_first_version_of_cgroups_are_read_too() {
    let first = GOOD
        .replace("memory.max 268435456", "memory/memory.limit_in_bytes 268435456")
        .replace("memory.swap.max 0", "memory/memory.memsw.limit_in_bytes 268435456")
        .replace(
            "cpu.max 75000 100000",
            "cpu/cpu.cfs_quota_us 75000\ncgroup cpu/cpu.cfs_period_us 100000",
        )
        .replace("pids.max 128", "pids/pids.max 128");
    assert_eq!(level(&first), "container");
    let unlimited = first.replace("cfs_quota_us 75000", "cfs_quota_us -1");
    assert!(level(&unlimited).contains("limits not applied: cpu;"));
    // Where swap is not counted and there is some, memory has no cap.
    let uncounted = first.replace("cgroup memory/memory.memsw.limit_in_bytes 268435456\n", "");
    assert!(level(&uncounted).contains("limits not applied: memory;"));
    assert_eq!(level(&uncounted.replace("swap /dev/sda2\n", "")), "container");
}

#[test]
fn what_a_container_prints_beside_is_not_read() {
    let seen = Seen::parse("status\nmount\ncgroup\nnonsense\n\nread\n");
    assert!(!seen.is_whole());
    assert!(!seen.missing(&facts(false), &sandbox(false), TOKEN).is_empty());
}
