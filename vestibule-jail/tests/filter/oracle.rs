//! What the filter should do, written a second time: by call name and in the kernel's argument
//! types, with no use of the policy's data.

use super::docker;
use protocol::policy::Arch;

/// What the program returns to the kernel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Verdict {
    Allow,
    Notify,
    Errno(u32),
}

pub const EPERM: Verdict = Verdict::Errno(1);
pub const ENOSYS: Verdict = Verdict::Errno(38);
const NO_EFFECT: Verdict = Verdict::Errno(0);

impl Verdict {
    /// Decodes a `SECCOMP_RET_*` value.
    pub fn decode(result: u32) -> Self {
        match (result & 0xffff_0000, result & 0xffff) {
            (0x7fff_0000, 0) => Verdict::Allow,
            (0x7fc0_0000, 0) => Verdict::Notify,
            (0x0005_0000, errno) => Verdict::Errno(errno),
            _ => panic!("{result:#x} is none of ALLOW, USER_NOTIF and ERRNO"),
        }
    }

    fn allow_if(allowed: bool, otherwise: Verdict) -> Self {
        if allowed { Verdict::Allow } else { otherwise }
    }
}

/// Refused whatever the arguments, and listed in the run's result.
pub const REPORTED: &str = "
    acct add_key bpf chroot clock_settime delete_module fanotify_init finit_module fsconfig fsmount
    fsopen fspick init_module ioperm iopl kexec_file_load kexec_load keyctl mount mount_setattr
    move_mount open_by_handle_at open_tree perf_event_open pivot_root quotactl quotactl_fd reboot
    request_key setdomainname sethostname setns settimeofday swapoff swapon syslog umount2 unshare
    userfaultfd
";

/// Reported for some arguments.
pub const REPORTED_BY_ARGUMENT: [&str; 3] = ["clone", "socket", "socketpair"];

/// What should happen to a call of the native ABI. `name` is `None` for a number without a name.
pub fn verdict(arch: Arch, name: Option<&str>, args: [u64; 6]) -> Verdict {
    let Some(name) = name else { return ENOSYS };
    let int = |arg: usize| args[arg] as u32 as i32;
    let mode = |arg: usize| args[arg] as u16;
    match name {
        "clone3" | "openat2" => ENOSYS,
        "clone" => Verdict::allow_if(!asks_for_a_namespace(args[0]), Verdict::Notify),
        "socket" => Verdict::allow_if(is_ordinary_socket(int(0), int(1), int(2)), Verdict::Notify),
        "socketpair" => Verdict::allow_if(int(0) == 1, Verdict::Notify),
        "personality" => {
            let known = matches!(args[0] as u32, 0 | 8 | 0x20000 | 0x20008 | 0xffff_ffff);
            Verdict::allow_if(known, EPERM)
        }
        "chmod" | "fchmod" | "creat" | "mknod" => Verdict::allow_if(!sets_id(mode(1)), EPERM),
        "fchmodat" | "fchmodat2" | "mknodat" => Verdict::allow_if(!sets_id(mode(2)), EPERM),
        "open" => Verdict::allow_if(!creates(int(1)) || !sets_id(mode(2)), EPERM),
        "openat" => Verdict::allow_if(!creates(int(2)) || !sets_id(mode(3)), EPERM),
        "seccomp" => Verdict::allow_if(args[1] as u32 & 8 == 0, EPERM),
        "ioctl" => Verdict::allow_if(args[1] as u32 >> 8 != 0x50_0094, EPERM),
        "sched_setattr" | "sched_setparam" | "sched_setscheduler" => {
            Verdict::allow_if(int(0) == 0, EPERM)
        }
        "setpriority" => Verdict::allow_if(int(0) == 1 || int(0) == 0 && int(1) != 1, EPERM),
        "setsockopt" => Verdict::allow_if(int(1) != 1 || int(2) != 26 && int(2) != 51, EPERM),
        "setrlimit" => limit(int(0), true),
        "prlimit64" => limit(int(1), args[2] != 0),
        name if REPORTED.split_whitespace().any(|reported| reported == name) => Verdict::Notify,
        name => Verdict::allow_if(docker::allowed(arch).contains(name), EPERM),
    }
}

/// Linux names a namespace flag `CLONE_NEW*`.
fn asks_for_a_namespace(flags: u64) -> bool {
    const NEWNS: u32 = 0x0002_0000;
    const NEWCGROUP: u32 = 0x0200_0000;
    const NEWUTS: u32 = 0x0400_0000;
    const NEWIPC: u32 = 0x0800_0000;
    const NEWUSER: u32 = 0x1000_0000;
    const NEWPID: u32 = 0x2000_0000;
    const NEWNET: u32 = 0x4000_0000;
    flags as u32 & (NEWNS | NEWCGROUP | NEWUTS | NEWIPC | NEWUSER | NEWPID | NEWNET) != 0
}

fn is_ordinary_socket(family: i32, socket_type: i32, protocol: i32) -> bool {
    const STREAM: i32 = 1;
    const DATAGRAM: i32 = 2;
    const RAW: i32 = 3;
    const SEQUENCED: i32 = 5;
    match (family, socket_type & 0xf) {
        (1, STREAM | DATAGRAM | SEQUENCED) => true,
        (2 | 10, STREAM) => protocol == 0 || protocol == 6,
        (2 | 10, DATAGRAM) => protocol == 0 || protocol == 17,
        (16, DATAGRAM | RAW) => protocol == 0,
        _ => false,
    }
}

fn sets_id(mode: u16) -> bool {
    mode & 0o4000 != 0 || mode & 0o2000 != 0
}

fn creates(flags: i32) -> bool {
    const O_CREAT: i32 = 0o100;
    const O_TMPFILE_ALONE: i32 = 0o20000000;
    flags & O_CREAT != 0 || flags & O_TMPFILE_ALONE != 0
}

fn limit(resource: i32, sets: bool) -> Verdict {
    match resource {
        4 if sets => NO_EFFECT,
        0..16 => Verdict::Allow,
        _ => EPERM,
    }
}
