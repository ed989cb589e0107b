//! Where the policy differs from Docker's profile.

/// A difference from the profile that the policy is otherwise equal to.
#[derive(Clone, Copy, Debug)]
pub struct Deviation {
    /// The system calls concerned; empty if it is not about single calls.
    pub names: &'static [&'static str],
    /// What the other profile does.
    pub docker: &'static str,
    /// What this policy does.
    pub here: &'static str,
    /// The reason.
    pub why: &'static str,
}

/// Every difference from Docker's profile.
pub const DEVIATIONS: &[Deviation] = &[
    Deviation {
        names: &[],
        docker: "x32, i386 and 32-bit ARM calls are filtered like native ones",
        here: "they fail with ENOSYS",
        why: "each ABI is one more way into the kernel (i386 socketcall hides the socket family in \
              memory), and no interpreter that is run here needs one",
    },
    Deviation {
        names: &[],
        docker: "calls that the profile does not list fail with EPERM",
        here: "those that libseccomp can't name fail with ENOSYS",
        why: "libc and programs fall back to an older call only on ENOSYS",
    },
    Deviation {
        names: &["socket"],
        docker: "every family but AF_ALG and AF_VSOCK",
        here: "AF_UNIX, AF_INET, AF_INET6 and AF_NETLINK, with the ordinary types and protocols",
        why: "rarely used protocol families are where kernel bugs are found; without a network \
              there is no use for them",
    },
    Deviation {
        names: &["socketpair"],
        docker: "every family",
        here: "AF_UNIX only",
        why: "as for socket",
    },
    Deviation {
        names: &[
            "chmod",
            "creat",
            "fchmod",
            "fchmodat",
            "fchmodat2",
            "mknod",
            "mknodat",
            "open",
            "openat",
        ],
        docker: "any mode",
        here: "a mode with the set-user-id or set-group-id bit fails with EPERM, for open and \
               openat only where the call can create a file",
        why: "files in the workspace belong to the user who runs the server: a set-user-id file \
              there runs as that user for anyone on the host",
    },
    Deviation {
        names: &["openat2"],
        docker: "allowed",
        here: "fails with ENOSYS",
        why: "its mode is in memory, where a filter can't see it; callers fall back to openat",
    },
    Deviation {
        names: &["seccomp"],
        docker: "any flags",
        here: "SECCOMP_FILTER_FLAG_NEW_LISTENER fails with EPERM",
        why: "once our listener is closed, one of the sandbox's own could let reported calls go on",
    },
    Deviation {
        names: &["ioctl"],
        docker: "any request",
        here: "btrfs's requests for subvolumes and devices (0x500094xx) fail with EPERM",
        why: "kernels before 6.8 let the owner of any folder snapshot the subvolume that it lies in, \
              and with it files that the sandbox does not show",
    },
    Deviation {
        names: &["fcntl"],
        docker: "any command",
        here: "F_SETLEASE and F_SETDELEG fail with EPERM",
        why: "images and the workspace belong to the user who runs the server: under a lease of one \
              run, every other run and every program that opens the file waits, 45 s each time",
    },
    Deviation {
        names: &["setsockopt"],
        docker: "any option",
        here: "SO_ATTACH_FILTER and SO_ATTACH_REUSEPORT_CBPF fail with EPERM",
        why: "what socket filters take is not counted as the run's memory, and once the machine's \
              room for translated filters is full, no sandbox can be started",
    },
    Deviation {
        names: &["sched_setattr", "sched_setparam", "sched_setscheduler", "setpriority"],
        docker: "any process",
        here: "scheduling for the caller only, niceness for any process but init and for process \
               groups; else EPERM",
        why: "SIGKILL takes effect when its target is scheduled: an idle init behind busy processes \
              would outlive the run",
    },
    Deviation {
        names: &["prlimit64", "setrlimit"],
        docker: "any resource",
        here: "setting RLIMIT_CORE returns 0 and does nothing (prlimit64 then leaves the old limit \
               unwritten); resources that Linux doesn't have fail with EPERM instead of EINVAL",
        why: "RLIMIT_CORE is 1 in the sandbox, which also stops core dumps to a pipe handler of \
              the host; 0 would not",
    },
];
