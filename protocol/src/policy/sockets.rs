//! The calls about sockets, judged by their arguments.

use super::{Action, Condition, Rule, Test, bits, int};

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

const SOCKET_FILTERS: &str = "the kernel does not count a socket filter as the run's memory, and has room \
     for so many translated ones on the whole machine; not reported, since libraries try it";

const FAMILY_INET: Condition = int(0, &[AF_INET, AF_INET6], "family is AF_INET or AF_INET6");

const SOCKET_REFUSED: &str =
    "any other socket reaches kernel code that the sandbox's programs don't need";

pub(super) const RULES: &[Rule] = &[
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
