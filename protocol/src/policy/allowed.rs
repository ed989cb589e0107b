//! The calls that are allowed whatever their arguments.

use super::{Action, Arch, Rule};

const fn allow(names: &'static [&'static str], why: &'static str) -> Rule {
    Rule { names, arch: None, action: Action::Allow, when: &[], why }
}

const fn allow_x86(names: &'static [&'static str], why: &'static str) -> Rule {
    Rule { names, arch: Some(Arch::X86_64), action: Action::Allow, when: &[], why }
}

#[rustfmt::skip] // one call per line would make five pages out of one
pub(super) const RULES: &[Rule] = &[
    // Files.
    allow(
        &["close", "close_range", "dup", "dup3", "flock", "pipe2"],
        "descriptors, pipes and file locks",
    ),
    allow_x86(&["dup2", "pipe"], "older forms of descriptor calls"),
    allow(
        &[
            "copy_file_range", "lseek", "pread64", "preadv", "preadv2", "pwrite64", "pwritev",
            "pwritev2", "read", "readahead", "readv", "sendfile", "splice", "tee", "vmsplice",
            "write", "writev",
        ],
        "reading, writing and copying data",
    ),
    allow(
        &[
            "cachestat", "fadvise64", "fallocate", "fdatasync", "fsync", "ftruncate", "sync",
            "sync_file_range", "syncfs", "truncate",
        ],
        "file size, page cache and write-back",
    ),
    allow(
        &[
            "faccessat", "faccessat2", "fstat", "fstatfs", "listmount", "name_to_handle_at",
            "newfstatat", "readlinkat", "statfs", "statmount", "statx",
        ],
        "what a path, a file or a mount is",
    ),
    allow_x86(&["access", "lstat", "readlink", "stat"], "older forms of path queries"),
    allow(
        &[
            "chdir", "fchdir", "getcwd", "getdents64", "linkat", "mkdirat", "renameat",
            "renameat2", "symlinkat", "unlinkat",
        ],
        "folders, links and names",
    ),
    allow_x86(
        &["getdents", "link", "mkdir", "rename", "rmdir", "symlink", "unlink"],
        "older forms of folder calls",
    ),
    allow(
        &["fchown", "fchownat", "umask", "utimensat"],
        "owner, default mode and times of files",
    ),
    allow_x86(
        &["chown", "futimesat", "lchown", "utime", "utimes"],
        "older forms of owner and time calls",
    ),
    allow(
        &[
            "fgetxattr", "flistxattr", "fremovexattr", "fsetxattr", "getxattr", "getxattrat",
            "lgetxattr", "listxattr", "listxattrat", "llistxattr", "lremovexattr", "lsetxattr",
            "removexattr", "removexattrat", "setxattr", "setxattrat",
        ],
        "extended attributes",
    ),
    allow(
        &["fanotify_mark", "inotify_add_watch", "inotify_init1", "inotify_rm_watch"],
        "watching files for changes (fanotify_mark needs a group, and fanotify_init is refused)",
    ),
    allow_x86(&["inotify_init"], "older form of inotify_init1"),
    // Waiting and asynchronous I/O.
    allow(
        &[
            "epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "eventfd2", "ppoll",
            "pselect6", "signalfd4",
        ],
        "waiting for events",
    ),
    allow_x86(
        &[
            "epoll_create", "epoll_ctl_old", "epoll_wait", "epoll_wait_old", "eventfd", "poll",
            "select", "signalfd",
        ],
        "older forms of event calls",
    ),
    allow(
        &[
            "io_cancel", "io_destroy", "io_getevents", "io_pgetevents", "io_setup", "io_submit",
        ],
        "Linux AIO",
    ),
    // Memory.
    allow(
        &[
            "brk", "madvise", "memfd_create", "memfd_secret", "mincore", "mlock", "mlock2",
            "mlockall", "mmap", "mprotect", "mremap", "mseal", "msync", "munlock", "munlockall",
            "munmap", "pkey_alloc", "pkey_free", "pkey_mprotect", "process_mrelease",
            "remap_file_pages",
        ],
        "mappings and memory protection",
    ),
    allow(&["map_shadow_stack"], "shadow stacks of control-flow protection"),
    // Processes, threads and their identity.
    allow(
        &["execve", "execveat", "exit", "exit_group", "wait4", "waitid"],
        "starting programs, ending, waiting for children",
    ),
    allow_x86(&["fork", "vfork"], "older forms of clone, without its flags"),
    allow(
        &[
            "futex", "futex_requeue", "futex_wait", "futex_waitv", "futex_wake",
            "get_robust_list", "membarrier", "rseq", "set_robust_list", "set_tid_address",
        ],
        "threads and locks",
    ),
    allow(
        &[
            "getegid", "geteuid", "getgid", "getgroups", "getpgid", "getpid", "getppid",
            "getresgid", "getresuid", "getsid", "gettid", "getuid",
        ],
        "reading ids",
    ),
    allow_x86(&["getpgrp"], "older form of getpgid"),
    allow(
        &[
            "setfsgid", "setfsuid", "setgid", "setgroups", "setpgid", "setregid", "setresgid",
            "setresuid", "setreuid", "setsid", "setuid",
        ],
        "changing ids; without capabilities the kernel accepts only what the process already has",
    ),
    allow(
        &["capget", "capset", "landlock_add_rule", "landlock_create_ruleset",
          "landlock_restrict_self", "prctl"],
        "giving up rights, and other per-process switches",
    ),
    allow(
        &[
            "getcpu", "getpriority", "ioprio_get", "ioprio_set", "sched_get_priority_max",
            "sched_get_priority_min", "sched_getaffinity", "sched_getattr", "sched_getparam",
            "sched_getscheduler", "sched_rr_get_interval", "sched_setaffinity", "sched_yield",
        ],
        "scheduling and priority",
    ),
    allow(
        &["getrandom", "getrlimit", "getrusage", "sysinfo", "uname"],
        "random numbers, limits, usage, and what the system is",
    ),
    allow(
        &["process_vm_readv", "process_vm_writev", "ptrace"],
        "debuggers inside the sandbox; the kernel checks ids, dumpability and Yama",
    ),
    allow_x86(
        &["arch_prctl", "get_thread_area", "modify_ldt", "set_thread_area", "uretprobe"],
        "segment registers, and the return trampoline of user-space probes",
    ),
    // Signals.
    allow(
        &[
            "kill", "pidfd_open", "pidfd_send_signal", "restart_syscall", "rt_sigaction",
            "rt_sigpending", "rt_sigprocmask", "rt_sigqueueinfo", "rt_sigreturn",
            "rt_sigsuspend", "rt_sigtimedwait", "rt_tgsigqueueinfo", "sigaltstack", "tgkill",
            "tkill",
        ],
        "signals and process descriptors",
    ),
    allow_x86(&["alarm", "pause"], "older forms of timer and signal calls"),
    // Time.
    allow(
        &[
            "adjtimex", "clock_adjtime", "clock_getres", "clock_gettime", "clock_nanosleep",
            "getitimer", "gettimeofday", "nanosleep", "setitimer", "timer_create",
            "timer_delete", "timer_getoverrun", "timer_gettime", "timer_settime",
            "timerfd_create", "timerfd_gettime", "timerfd_settime", "times",
        ],
        "clocks and timers; adjusting a clock needs a capability, reading its state does not",
    ),
    allow_x86(&["time"], "older form of clock_gettime"),
    // Inter-process communication and network.
    allow(
        &[
            "mq_getsetattr", "mq_notify", "mq_open", "mq_timedreceive", "mq_timedsend",
            "mq_unlink", "msgctl", "msgget", "msgrcv", "msgsnd", "semctl", "semget", "semop",
            "semtimedop", "shmat", "shmctl", "shmdt", "shmget",
        ],
        "message queues, semaphores and shared memory of the sandbox's own IPC namespace",
    ),
    allow(
        &[
            "accept", "accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt",
            "listen", "recvfrom", "recvmmsg", "recvmsg", "sendmmsg", "sendmsg", "sendto",
            "shutdown",
        ],
        "using a socket; which ones can be made is decided at socket and socketpair",
    ),
];
