//! Tests of what a probe's print is taken for.

use super::super::engine::Kind;
use super::*;
use protocol::{CgroupSource, CpuPercent, MemoryMib, PidsMax, Rootfs, TmpfsMib};

const TOKEN: Option<&str> = Some("token");

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
uid-map 0 0 4294967295
route lo
mount / ro,relatime overlay
mount /dev rw,nosuid tmpfs tmpfs rw,size=65536k,mode=755
mount /proc/kcore rw tmpfs tmpfs rw,size=65536k
mount /workspace rw ext4
mount /sandbox ro ext4
mount /etc/hosts ro ext4
device null
device zero
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

pub(in super::super) fn sandbox(read_only: bool) -> Sandbox {
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
        bytecode: None,
        cgroup: CgroupSource::default(),
    }
}

fn facts(rootless: bool) -> Facts {
    Facts { kind: Kind::Docker, rootless, ..Facts::default() }
}

fn judge(text: &str, rootless: bool, read_only: bool) -> Result<Option<Proven>, Refusal> {
    Seen::parse(text).judge(&facts(rootless), &sandbox(read_only), Image::default(), TOKEN)
}

fn missing(text: &str) -> String {
    judge(text, false, false).map_or_else(|refusal| refusal.what, |_| String::new())
}

fn level(text: &str) -> String {
    Seen::parse(text).isolation(&facts(false), &sandbox(false).limits).to_string()
}

#[test]
fn a_whole_container_is_a_container() {
    assert_eq!(missing(GOOD), "");
    assert_eq!(level(GOOD), "container");
    let proven = judge(GOOD, false, false).unwrap().unwrap();
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
        ("swap /dev/sda2", "device core", "there is core"),
        ("swap /dev/sda2", "set-id", "syscall policy"),
        ("swap /dev/sda2", "root-writable /etc", "read-only root"),
        ("device zero", "device kvm", "the usual devices alone (there is kvm"),
        ("device zero", "variable A-B", "environment alone (there is A-B"),
        ("Uid: 1000", "Uid: 0", "ordinary user"),
        ("read token", "read ", "workspace that was mounted"),
        ("wrote\n", "", "can be written"),
        (
            "mount /run rw,nosuid tmpfs tmpfs rw,size=1024k",
            "mount /run rw tmpfs tmpfs rw",
            "a cap on /run",
        ),
        ("writable /tmp", "writable /data", "a cap on /data"),
        ("mount /sandbox ro ext4", "mount /data rw ext4", "there is /data: does the image"),
        ("mount /sandbox ro ext4", "mount /run/secrets ro ext4", "there is /run/secrets"),
    ];
    for (from, to, what) in cases {
        assert!(GOOD.contains(from), "{from}");
        let found = missing(&GOOD.replace(from, to));
        assert!(found.contains(what), "{to}: {found}");
    }
}

#[test]
fn root_inside_is_nobody_special_under_a_rootless_engine() {
    let text = GOOD.replace("Uid: 1000", "Uid: 0");
    assert!(judge(&text, true, false).is_err());
    let mapped = text.replace("uid-map 0 0 4294967295", "uid-map 0 1000 1\nuid-map 1 100000 65536");
    assert!(judge(&mapped, true, false).is_ok());
    assert!(judge(&mapped, false, false).is_err());
}

#[test]
fn a_read_only_workspace_must_refuse_writes() {
    assert!(judge(GOOD, false, true).is_err());
    let mounted = GOOD.replace("mount /workspace rw", "mount /workspace ro");
    assert!(judge(&mounted, false, true).is_err());
    assert!(judge(&mounted.replace("wrote\n", ""), false, true).is_ok());
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
fn a_limit_that_could_not_be_asked_for_is_told_so() {
    let facts = Facts { undelegated: vec![Limit::Cpu], ..facts(true) };
    let seen = Seen::parse(&GOOD.replace("cpu.max 75000", "cpu.max max"));
    assert_eq!(
        seen.isolation(&facts, &sandbox(false).limits).to_string(),
        "container-degraded (limits not applied: cpu; their controllers are not delegated to rootless \
         Docker)"
    );
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
    let text = "status\nmount\ncgroup\nnonsense\n\nread\n";
    assert!(!Seen::parse(text).is_whole());
    assert!(!missing(text).is_empty());
}

#[test]
fn the_walls_are_kept_as_they_were_printed_and_nothing_else() {
    let walls = judge(GOOD, false, false).unwrap().unwrap().walls;
    assert!(walls.starts_with("\nstatus Uid: 1000 1000 1000 1000\nstatus CapInh:"), "{walls}");
    assert!(walls.ends_with("\ncgroup pids.max 128\nswap /dev/sda2\n"), "{walls}");
    for other in ["writable", "read", "program"] {
        assert!(!walls.contains(&format!("\n{other} ")), "{walls}");
    }
}
