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

/// The type of a socket without `SOCK_NONBLOCK` and `SOCK_CLOEXEC`; the kernel's `SOCK_TYPE_MASK`.
const SOCKET_TYPE: u64 = 0xf;

const AF_UNIX: u64 = 1;
const AF_INET: u64 = 2;
const AF_INET6: u64 = 10;
const AF_NETLINK: u64 = 16;
const SOL_SOCKET: u64 = 1;
/// The same on both architectures, as `SOL_SOCKET` is.
const SO_ATTACH_FILTER: u64 = 26;
const SO_ATTACH_REUSEPORT_CBPF: u64 = 51;
const SOCK_STREAM: u64 = 1;
const SOCK_DGRAM: u64 = 2;
const SOCK_RAW: u64 = 3;
const SOCK_SEQPACKET: u64 = 5;
const IPPROTO_TCP: u64 = 6;
const IPPROTO_UDP: u64 = 17;
const NETLINK_ROUTE: u64 = 0;
const RLIMIT_CORE: u64 = 4;

/// Every resource of getrlimit(2) but `RLIMIT_CORE`. `RLIM_NLIMITS` is 16 since Linux 2.6.25.
const RESOURCES_BUT_CORE: &[u64] = &[0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// `SECCOMP_FILTER_FLAG_NEW_LISTENER`.
const NEW_LISTENER: u64 = 1 << 3;

/// `_IOW(BTRFS_IOCTL_MAGIC, NR, struct btrfs_ioctl_vol_args)` without its number: calls that make,
/// snapshot and remove subvolumes and devices.
const BTRFS_VOLUME_IOCTLS: u64 = 0x5000_9400;
const IOCTL_FAMILY: u64 = 0xffff_ff00;

const PRIO_PROCESS: u64 = 0;
const PRIO_PGRP: u64 = 1;
/// The sandbox's init, whatever the host calls it.
const INIT: u64 = 1;

const SOCKET_FILTERS: &str = "the kernel does not count a socket filter as the run's memory, and has room \
     for so many translated ones on the whole machine; not reported, since libraries try it";

const INIT_KEPT_RUNNING: &str =
    "an init that is never scheduled could not be killed, and would keep the sandbox";

const FAMILY_INET: Condition = int(0, &[AF_INET, AF_INET6], "family is AF_INET or AF_INET6");

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
const SOCKET_REFUSED: &str =
    "any other socket reaches kernel code that the sandbox's programs don't need";

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
    // Sockets.
    Rule {
        names: &["socket"],
        arch: None,
        action: Action::Allow,
        when: &[
            int(0, &[AF_UNIX], "family is AF_UNIX"),
            bits(
                1,
                SOCKET_TYPE,
                &[SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET],
                "type is SOCK_STREAM, SOCK_DGRAM or SOCK_SEQPACKET",
            ),
        ],
        why: "local sockets (the kernel accepts no protocol but the default)",
    },
    Rule {
        names: &["socket"],
        arch: None,
        action: Action::Allow,
        when: &[
            FAMILY_INET,
            bits(1, SOCKET_TYPE, &[SOCK_STREAM], "type is SOCK_STREAM"),
            int(2, &[0, IPPROTO_TCP], "protocol is the default or TCP"),
        ],
        why: "TCP on the sandbox's loopback",
    },
    Rule {
        names: &["socket"],
        arch: None,
        action: Action::Allow,
        when: &[
            FAMILY_INET,
            bits(1, SOCKET_TYPE, &[SOCK_DGRAM], "type is SOCK_DGRAM"),
            int(2, &[0, IPPROTO_UDP], "protocol is the default or UDP"),
        ],
        why: "UDP on the sandbox's loopback",
    },
    Rule {
        names: &["socket"],
        arch: None,
        action: Action::Allow,
        when: &[
            int(0, &[AF_NETLINK], "family is AF_NETLINK"),
            bits(1, SOCKET_TYPE, &[SOCK_RAW, SOCK_DGRAM], "type is SOCK_RAW or SOCK_DGRAM"),
            int(2, &[NETLINK_ROUTE], "protocol is NETLINK_ROUTE"),
        ],
        why: "libc reads the network interfaces through it",
    },
    Rule {
        names: &["socketpair"],
        arch: None,
        action: Action::Allow,
        when: &[int(0, &[AF_UNIX], "family is AF_UNIX")],
        why: "pairs of connected local sockets",
    },
    Rule {
        names: &["setsockopt"],
        arch: None,
        action: Action::Allow,
        when: &[Condition {
            arg: 1,
            mask: 0xffff_ffff,
            test: Test::NoneOf(&[SOL_SOCKET]),
            meaning: "level is a protocol's",
        }],
        why: "options of a protocol",
    },
    Rule {
        names: &["setsockopt"],
        arch: None,
        action: Action::Allow,
        when: &[
            int(1, &[SOL_SOCKET], "level is the socket itself"),
            Condition {
                arg: 2,
                mask: 0xffff_ffff,
                test: Test::NoneOf(&[SO_ATTACH_FILTER, SO_ATTACH_REUSEPORT_CBPF]),
                meaning: "option attaches no filter",
            },
        ],
        why: "options of a socket; other filters need a program of bpf, which is refused",
    },
    Rule {
        names: &["setsockopt"],
        arch: None,
        action: Action::Refuse,
        when: &[],
        why: SOCKET_FILTERS,
    },
    Rule {
        names: &["socket", "socketpair"],
        arch: None,
        action: Action::Report,
        when: &[],
        why: SOCKET_REFUSED,
    },
];
