//! The calls that are judged by their arguments.

use super::{Action, Arch, Condition, Rule, Test, bits, int};

/// `CLONE_NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET`. `CLONE_NEWTIME` shares
/// its bit with the exit signal and clone(2) does not take it.
const NAMESPACE_FLAGS: u64 = 0x7e02_0000;

/// `S_ISUID | S_ISGID`.
const SET_ID_BITS: u64 = 0o6000;

/// `O_CREAT | __O_TMPFILE` (the part of `O_TMPFILE` that is not `O_DIRECTORY`), the same on both
/// architectures: without one of them the kernel ignores the mode of open and openat.
const CREATING_FLAGS: u64 = 0o100 | 0o20_000_000;

const RLIMIT_CORE: u64 = 4;

/// Every resource of getrlimit(2) but `RLIMIT_CORE`. `RLIM_NLIMITS` is 16 since Linux 2.6.25.
const RESOURCES_BUT_CORE: &[u64] = &[0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// `SECCOMP_FILTER_FLAG_NEW_LISTENER`.
const NEW_LISTENER: u64 = 1 << 3;

/// `_IOW(BTRFS_IOCTL_MAGIC, NR, struct btrfs_ioctl_vol_args)` without its number: calls that make,
/// snapshot and remove subvolumes and devices.
const BTRFS_VOLUME_IOCTLS: u64 = 0x5000_9400;
const IOCTL_FAMILY: u64 = 0xffff_ff00;

/// Takes a lease on a file: its owner can, through a descriptor that only reads.
const F_SETLEASE: u64 = 1024;
/// The same since Linux 6.19, on folders too.
const F_SETDELEG: u64 = 1040;

const PRIO_PROCESS: u64 = 0;
const PRIO_PGRP: u64 = 1;
/// The sandbox's init, whatever the host calls it.
const INIT: u64 = 1;

const INIT_KEPT_RUNNING: &str =
    "an init that is never scheduled could not be killed, and would keep the sandbox";

const fn no_set_id(mode: u32) -> Condition {
    bits(mode, SET_ID_BITS, &[0], "mode has no set-user-id or set-group-id bit")
}

const fn not_creating(flags: u32) -> Condition {
    bits(flags, CREATING_FLAGS, &[0], "flags have neither O_CREAT nor O_TMPFILE")
}

const FILE_MODES: &str =
    "new files and file modes; a set-user-id file in the workspace would be one on the host";
const SET_ID_REFUSED: &str = "a set-user-id file in the workspace would be one on the host";
const CORE_PRETENDED: &str =
    "the limit that keeps core dumps off stays; a program that lowers it itself goes on";

pub(super) const RULES: &[Rule] = &[
    Rule {
        names: &["clone"],
        arch: None,
        action: Action::Allow,
        when: &[bits(0, NAMESPACE_FLAGS, &[0], "flags ask for no new namespace")],
        why: "processes and threads",
    },
    Rule {
        names: &["clone"],
        arch: None,
        action: Action::Report,
        when: &[],
        why: "a new user namespace would bring capabilities, and with them more kernel code",
    },
    Rule {
        names: &["personality"],
        arch: None,
        action: Action::Allow,
        when: &[int(
            0,
            &[0, 0x8, 0x2_0000, 0x2_0008, 0xffff_ffff],
            "persona is PER_LINUX, PER_LINUX32, UNAME26, both, or 0xffffffff (query)",
        )],
        why: "the execution domains that Docker allows",
    },
    Rule {
        names: &["personality"],
        arch: None,
        action: Action::Refuse,
        when: &[],
        why: "others weaken address randomisation and memory protection",
    },
    // Files: see `SET_ID_BITS` and `CREATING_FLAGS`.
    Rule {
        names: &["fchmod"],
        arch: None,
        action: Action::Allow,
        when: &[no_set_id(1)],
        why: FILE_MODES,
    },
    Rule {
        names: &["chmod", "creat", "mknod"],
        arch: Some(Arch::X86_64),
        action: Action::Allow,
        when: &[no_set_id(1)],
        why: FILE_MODES,
    },
    Rule {
        names: &["fchmodat", "fchmodat2", "mknodat"],
        arch: None,
        action: Action::Allow,
        when: &[no_set_id(2)],
        why: FILE_MODES,
    },
    Rule {
        names: &["open"],
        arch: Some(Arch::X86_64),
        action: Action::Allow,
        when: &[not_creating(1)],
        why: "opening files",
    },
    Rule {
        names: &["open"],
        arch: Some(Arch::X86_64),
        action: Action::Allow,
        when: &[no_set_id(2)],
        why: FILE_MODES,
    },
    Rule {
        names: &["openat"],
        arch: None,
        action: Action::Allow,
        when: &[not_creating(2)],
        why: "opening files",
    },
    Rule {
        names: &["openat"],
        arch: None,
        action: Action::Allow,
        when: &[no_set_id(3)],
        why: FILE_MODES,
    },
    Rule {
        names: &["chmod", "creat", "mknod", "open"],
        arch: Some(Arch::X86_64),
        action: Action::Refuse,
        when: &[],
        why: SET_ID_REFUSED,
    },
    Rule {
        names: &["fchmod", "fchmodat", "fchmodat2", "mknodat", "openat"],
        arch: None,
        action: Action::Refuse,
        when: &[],
        why: SET_ID_REFUSED,
    },
    // Limits.
    Rule {
        names: &["setrlimit"],
        arch: None,
        action: Action::Allow,
        when: &[int(0, RESOURCES_BUT_CORE, "resource is known and not RLIMIT_CORE")],
        why: "lowering limits",
    },
    Rule {
        names: &["setrlimit"],
        arch: None,
        action: Action::Pretend,
        when: &[int(0, &[RLIMIT_CORE], "resource is RLIMIT_CORE")],
        why: CORE_PRETENDED,
    },
    Rule {
        names: &["prlimit64"],
        arch: None,
        action: Action::Allow,
        when: &[int(1, RESOURCES_BUT_CORE, "resource is known and not RLIMIT_CORE")],
        why: "reading and lowering limits",
    },
    Rule {
        names: &["prlimit64"],
        arch: None,
        action: Action::Allow,
        when: &[
            int(1, &[RLIMIT_CORE], "resource is RLIMIT_CORE"),
            bits(2, u64::MAX, &[0], "no new limit is given"),
        ],
        why: "reading the limit of core dumps",
    },
    Rule {
        names: &["prlimit64"],
        arch: None,
        action: Action::Pretend,
        when: &[
            int(1, &[RLIMIT_CORE], "resource is RLIMIT_CORE"),
            Condition {
                arg: 2,
                mask: u64::MAX,
                test: Test::NotZero,
                meaning: "a new limit is given",
            },
        ],
        why: CORE_PRETENDED,
    },
    Rule {
        names: &["prlimit64", "setrlimit"],
        arch: None,
        action: Action::Refuse,
        when: &[],
        why: "no such resource",
    },
    // What would reach out of the filter, or hold the sandbox's end up.
    Rule {
        names: &["seccomp"],
        arch: None,
        action: Action::Allow,
        when: &[bits(1, NEW_LISTENER, &[0], "no listener is asked for")],
        why: "a program may filter itself further",
    },
    Rule {
        names: &["ioctl"],
        arch: None,
        action: Action::Allow,
        when: &[Condition {
            arg: 1,
            mask: IOCTL_FAMILY,
            test: Test::NoneOf(&[BTRFS_VOLUME_IOCTLS]),
            meaning: "request is none of btrfs's for subvolumes",
        }],
        why: "devices, terminals, files",
    },
    Rule {
        names: &["sched_setattr", "sched_setparam", "sched_setscheduler"],
        arch: None,
        action: Action::Allow,
        when: &[int(0, &[0], "the thread is the caller")],
        why: "a thread's own scheduling",
    },
    Rule {
        names: &["setpriority"],
        arch: None,
        action: Action::Allow,
        when: &[
            int(0, &[PRIO_PROCESS], "one process"),
            Condition {
                arg: 1,
                mask: 0xffff_ffff,
                test: Test::NoneOf(&[INIT]),
                meaning: "which is not init",
            },
        ],
        why: "niceness",
    },
    Rule {
        names: &["setpriority"],
        arch: None,
        action: Action::Allow,
        when: &[int(0, &[PRIO_PGRP], "a process group; init's has no number inside")],
        why: "niceness",
    },
    Rule {
        names: &["sched_setattr", "sched_setparam", "sched_setscheduler", "setpriority"],
        arch: None,
        action: Action::Refuse,
        when: &[],
        why: INIT_KEPT_RUNNING,
    },
    Rule {
        names: &["seccomp"],
        arch: None,
        action: Action::Refuse,
        when: &[],
        why: "a listener of the sandbox's own could let calls continue that are reported here",
    },
    Rule {
        names: &["ioctl"],
        arch: None,
        action: Action::Refuse,
        when: &[],
        why: "kernels before 6.8 snapshot the whole subvolume that the workspace lies in",
    },
    Rule {
        names: &["fcntl"],
        arch: None,
        action: Action::Allow,
        when: &[Condition {
            arg: 1,
            mask: 0xffff_ffff,
            test: Test::NoneOf(&[F_SETLEASE, F_SETDELEG]),
            meaning: "command takes no lease",
        }],
        why: "flags, locks and copies of descriptors",
    },
    Rule {
        names: &["fcntl"],
        arch: None,
        action: Action::Refuse,
        when: &[],
        why: "whoever opens a file under a lease waits for its holder, outside of the sandbox and in others too",
    },
];
