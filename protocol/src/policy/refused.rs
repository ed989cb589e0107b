//! The calls that are refused whatever their arguments, and that are worth a line of their own:
//! because the run's result lists them, or because the error number matters. What no rule names
//! is refused too (see [`super::UNLISTED`]).

use super::{Action, Arch, Rule};

const fn report(names: &'static [&'static str], why: &'static str) -> Rule {
    Rule { names, arch: None, action: Action::Report, when: &[], why }
}

#[rustfmt::skip] // as in `allowed`
pub(super) const RULES: &[Rule] = &[
    report(
        &[
            "chroot", "fsconfig", "fsmount", "fsopen", "fspick", "mount", "mount_setattr",
            "move_mount", "open_tree", "pivot_root", "umount2",
        ],
        "would change what the sandbox's file tree is made of",
    ),
    report(&["setns", "unshare"], "would enter or make a namespace"),
    report(&["open_by_handle_at"], "would open files past the path checks, even outside"),
    report(
        &["bpf", "perf_event_open", "userfaultfd"],
        "kernel interfaces that local privilege escalations have often used",
    ),
    report(&["add_key", "keyctl", "request_key"], "kernel keyrings are not part of a namespace"),
    report(
        &[
            "delete_module", "finit_module", "init_module", "kexec_file_load", "kexec_load",
            "reboot",
        ],
        "would change or stop the host's kernel",
    ),
    report(
        &["acct", "quotactl", "quotactl_fd", "swapoff", "swapon", "syslog"],
        "administration of the host",
    ),
    report(&["clock_settime", "settimeofday"], "would set the host's clock"),
    report(&["setdomainname", "sethostname"], "the sandbox's host name is fixed"),
    report(&["fanotify_init"], "would watch whole file systems"),
    Rule {
        names: &["ioperm", "iopl"],
        arch: Some(Arch::X86_64),
        action: Action::Report,
        when: &[],
        why: "would reach the host's I/O ports",
    },
    Rule {
        names: &["io_uring_enter", "io_uring_register", "io_uring_setup"],
        arch: None,
        action: Action::Refuse,
        when: &[],
        why: "its requests pass no filter; not reported, since node tries it at every start",
    },
    Rule {
        names: &["clone3"],
        arch: None,
        action: Action::Unknown,
        when: &[],
        why: "its flags are in memory, where no filter can see them; libc falls back to clone",
    },
    Rule {
        names: &["openat2"],
        arch: None,
        action: Action::Unknown,
        when: &[],
        why: "its mode is in memory, where no filter can see it; programs fall back to openat",
    },
];
