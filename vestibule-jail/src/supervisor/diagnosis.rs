//! From a failed step to its cause and fix, told apart by evidence from `/proc`.

use crate::{mountinfo, procfs, status};
use nix::errno::Errno;
use protocol::{Cause, Refusal, Retry, Step, StepError};
use std::path::Path;

/// The namespaces that have a limit, by the name in texts and the setting that holds it.
const LIMITS: &[(&str, &str)] = &[
    ("user", "user.max_user_namespaces"),
    ("PID", "user.max_pid_namespaces"),
    ("mount", "user.max_mnt_namespaces"),
    ("network", "user.max_net_namespaces"),
    ("UTS", "user.max_uts_namespaces"),
    ("IPC", "user.max_ipc_namespaces"),
    ("cgroup", "user.max_cgroup_namespaces"),
];

/// What `/proc` says about the machine and about this process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// `kernel.unprivileged_userns_clone`, Debian's and Arch's switch.
    pub userns_clone: Option<String>,
    /// The first of the settings `user.max_…_namespaces` that is 0, and what it turns off.
    pub turned_off: Option<(&'static str, &'static str)>,
    /// Whether this kernel has Ubuntu's AppArmor restriction, readable or not.
    pub apparmor_switch: bool,
    /// The AppArmor label of this process.
    pub apparmor_label: Option<String>,
    /// Whether this process has a syscall filter already.
    pub filtered: bool,
    /// Whether something is mounted over parts of `/proc`.
    pub proc_masked: bool,
}

impl Evidence {
    /// Looks at this machine.
    pub fn gather() -> Evidence {
        Evidence::below(Path::new("/proc"))
    }

    fn below(proc: &Path) -> Evidence {
        let text = |name: &str| procfs::read(&proc.join(name)).ok();
        let word = |name: &str| text(name).map(|text| text.trim_matches(['\0', '\n']).to_owned());
        let is_off = |(_, setting): &(&str, &str)| {
            word(&format!("sys/{}", setting.replace('.', "/"))).as_deref() == Some("0")
        };
        let status = status::read(&proc.join("self/status"));
        let mounts = text("self/mountinfo").unwrap_or_default();
        let covers = |mount: &mountinfo::Mount<'_>| {
            mount.point.starts_with("/proc") && mount.point != Path::new("/proc")
        };
        Evidence {
            userns_clone: word("sys/kernel/unprivileged_userns_clone"),
            turned_off: LIMITS.iter().copied().find(is_off),
            apparmor_switch: proc.join("sys/kernel/apparmor_restrict_unprivileged_userns").exists(),
            apparmor_label: word("self/attr/apparmor/current")
                .or_else(|| word("self/attr/current")),
            filtered: status.is_ok_and(|status| status.seccomp != 0),
            // autofs on binfmt_misc is no mask: the kernel allows mounts on empty folders.
            proc_masked: mountinfo::parse(&mounts).any(|mount| {
                covers(&mount) && mount.filesystem != "autofs" && mount.filesystem != "binfmt_misc"
            }),
        }
    }

    fn confined(&self) -> bool {
        self.apparmor_label.as_deref().is_some_and(|label| !label.starts_with("unconfined"))
    }
}

/// The refusal for a step that failed on this machine.
pub fn explain_here(error: StepError) -> Refusal {
    explain(error, &Evidence::gather())
}

/// The refusal for a failed step, given the evidence.
pub fn explain(error: StepError, evidence: &Evidence) -> Refusal {
    let errno = Errno::from_raw(error.errno);
    let (cause, what, fix) = match (error.step, errno) {
        (Step::Clone, errno) if errno != Errno::EMFILE => clone_failed(errno, evidence),
        (Step::NetworkNamespace, errno) => network_failed(errno, evidence),
        (
            Step::MapIds | Step::HostName | Step::Loopback | Step::PrivateMounts | Step::MountRoot,
            Errno::EPERM | Errno::EACCES,
        ) => no_power_inside(evidence),
        (Step::MountProc, Errno::EPERM) => masked_proc(evidence),
        (Step::MountWorkspace, Errno::ESTALE) => (
            Cause::WorkspaceNotAllowed,
            "the workspace folder was exchanged while the sandbox was built".to_owned(),
            "keep other programs from renaming it",
        ),
        (Step::MountRootfs, Errno::ESTALE) => (
            Cause::Rootfs,
            "the image folder was exchanged while the sandbox was built".to_owned(),
            "keep other programs from renaming it",
        ),
        (Step::MountRootfs | Step::FillEtc, Errno::ENOSPC) => (
            Cause::Rootfs,
            "the image has too many entries at its top (about 200 are the most)".to_owned(),
            "use an image with an ordinary root folder",
        ),
        (
            Step::Exec,
            Errno::ENOENT | Errno::ENOEXEC | Errno::EACCES | Errno::ELIBBAD | Errno::ESTALE,
        ) => cannot_execute(errno),
        (_, Errno::ETOOMANYREFS) => (
            Cause::Other,
            "this user's programs have too many descriptors on their way through sockets"
                .to_owned(),
            "end the program that holds them, or wait for its end",
        ),
        (Step::LoadFilter, Errno::EBUSY) => (
            Cause::ContainerFilter,
            "a surrounding filter has a listener already, and the kernel allows one only"
                .to_owned(),
            "start it outside that container or sandbox",
        ),
        (Step::LoadFilter, Errno::ENOBUFS) => (
            Cause::Other,
            "the machine's room for translated filters (net.core.bpf_jit_limit) is used up"
                .to_owned(),
            "end the programs that hold filters, or raise it as root",
        ),
        (_, Errno::ENOSYS) => (
            Cause::ContainerFilter,
            "the kernel, or a surrounding container's syscall filter, lacks a call".to_owned(),
            "use a kernel of 5.9 or later, outside a container that filters syscalls",
        ),
        (_, errno) => out_of_means(errno),
    };
    Refusal { what, cause, fix: fix.to_owned(), retry: Retry::AfterFix, at: Some(error) }
}

/// What any step may run out of.
fn out_of_means(errno: Errno) -> Explained {
    let (what, fix) = match errno {
        Errno::EMFILE | Errno::ENFILE => (
            "there are too few file descriptors left for a sandbox",
            "raise the limit on open files (ulimit -n) to 64 or more",
        ),
        Errno::EAGAIN | Errno::ENOMEM => (
            "there is too little memory, or there are too few processes left, for a sandbox",
            "free memory or processes, or raise their limits (ulimit), then try again",
        ),
        Errno::ETIMEDOUT => (
            "the sandbox was not built within 30 s",
            "look for a file system that hangs below /usr or the workspace, then try again",
        ),
        Errno::ECHILD => (
            "a process of the sandbox was ended while it was built",
            "try again, and look for what ends processes here: the out-of-memory killer, or a low \
             limit on CPU time or file size (ulimit)",
        ),
        _ => (
            "the sandbox could not be built",
            "run `vestibule-jail --check --explain` and report what it prints",
        ),
    };
    (Cause::Other, what.to_owned(), fix)
}

type Explained = (Cause, String, &'static str);

fn clone_failed(errno: Errno, evidence: &Evidence) -> Explained {
    match errno {
        Errno::ENOSYS => (
            Cause::ContainerFilter,
            "a surrounding container's syscall filter forbids clone3".to_owned(),
            "start it outside that container, or allow user namespaces in it",
        ),
        Errno::ENOSPC | Errno::EUSERS => limit_reached("user", evidence),
        Errno::EPERM if evidence.userns_clone.as_deref() == Some("0") => (
            Cause::UserNamespacesOff,
            "unprivileged user namespaces are turned off (kernel.unprivileged_userns_clone is 0)"
                .to_owned(),
            "turn them on as root: sysctl -w kernel.unprivileged_userns_clone=1",
        ),
        Errno::EPERM if evidence.filtered => (
            Cause::ContainerFilter,
            "a surrounding container's syscall filter forbids user namespaces".to_owned(),
            "start it outside that container, or allow user namespaces in it",
        ),
        // One call makes the user namespace and, with the power it gives, the others.
        Errno::EPERM if evidence.confined() => no_power_inside(evidence),
        Errno::EACCES => (
            Cause::SecurityModule,
            "a security module (AppArmor, SELinux) denies user namespaces".to_owned(),
            "allow `userns` in the profile that confines it",
        ),
        Errno::EPERM => (
            Cause::Chroot,
            "the kernel allows no user namespace here, as in a chroot".to_owned(),
            "start it outside the chroot, and check that user namespaces are allowed",
        ),
        Errno::EDEADLK => {
            (Cause::Other, "the jail has more than one thread".to_owned(), "report this as a bug")
        }
        _ => no_namespaces(),
    }
}

fn network_failed(errno: Errno, evidence: &Evidence) -> Explained {
    match errno {
        Errno::ENOSPC | Errno::EUSERS => limit_reached("network", evidence),
        Errno::EPERM if evidence.filtered => (
            Cause::ContainerFilter,
            "a surrounding container's syscall filter forbids network namespaces".to_owned(),
            "start it outside that container, or allow network namespaces in it",
        ),
        Errno::EPERM | Errno::EACCES => no_power_inside(evidence),
        Errno::EINVAL => (
            Cause::Other,
            "this kernel was built without network namespaces".to_owned(),
            "use a kernel of a distribution (CONFIG_NET_NS)",
        ),
        _ => no_namespaces(),
    }
}

fn no_namespaces() -> Explained {
    (
        Cause::Other,
        "the namespaces could not be made".to_owned(),
        "free memory or processes, then try again",
    )
}

/// A limit on namespaces: the one that turns them off, else the likeliest.
fn limit_reached(likely: &str, evidence: &Evidence) -> Explained {
    let what = match evidence.turned_off {
        Some((name, setting)) => format!("{name} namespaces are turned off ({setting} is 0)"),
        None => format!("the limit on {likely} namespaces is reached"),
    };
    let fix = match (evidence.turned_off, likely) {
        (None, "user") | (Some(("user", _)), _) => {
            "raise it as root: sysctl -w user.max_user_namespaces=15000"
        }
        (None, _) => "raise it as root: sysctl -w user.max_net_namespaces=15000",
        (Some(_), _) => "raise that setting as root, with sysctl -w, to 15000",
    };
    (Cause::NamespaceLimit, what, fix)
}

fn cannot_execute(errno: Errno) -> Explained {
    let what = format!("the interpreter could not be executed: {}", errno.desc());
    let fix = match errno {
        Errno::ENOENT => {
            "check that it is a program, not a script, and that the library loader it names is there"
        }
        Errno::ENOEXEC | Errno::ELIBBAD => "use an interpreter for this machine's architecture",
        Errno::ESTALE => "keep other programs from changing the image",
        _ => "check that the interpreter can be executed by anyone",
    };
    (Cause::Rootfs, what, fix)
}

/// The namespaces were made, but their owner has no power in them: Ubuntu's restriction.
fn no_power_inside(evidence: &Evidence) -> Explained {
    let fix = if evidence.apparmor_switch {
        "install a profile that allows `userns` for vestibule-jail, or as root: \
         sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
    } else {
        "allow capabilities in user namespaces for vestibule-jail in the security module's policy"
    };
    let module = if evidence.apparmor_switch || evidence.confined() {
        "AppArmor"
    } else {
        "a security module"
    };
    (
        Cause::SecurityModule,
        format!("{module} lets user namespaces be made but gives no capabilities in them"),
        fix,
    )
}

fn masked_proc(evidence: &Evidence) -> Explained {
    let what = if evidence.proc_masked {
        "parts of /proc are covered here, as in a container, so the kernel allows no fresh one"
    } else {
        "the kernel allows no fresh /proc here"
    };
    (
        Cause::MaskedProc,
        what.to_owned(),
        "start it outside the container, or give the container an unmasked /proc",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(step: Step, errno: Errno, evidence: &Evidence) -> Cause {
        let refusal = explain(StepError { step, errno: errno as i32 }, evidence);
        assert!(!refusal.fix.is_empty() && !refusal.what.ends_with('.'), "{refusal:?}");
        refusal.cause
    }

    #[test]
    fn refused_namespaces_are_told_apart_by_evidence() {
        let none = Evidence::default();
        let debian = Evidence { userns_clone: Some("0".into()), ..Evidence::default() };
        let container = Evidence { filtered: true, ..Evidence::default() };
        assert_eq!(cause(Step::Clone, Errno::EPERM, &debian), Cause::UserNamespacesOff);
        assert_eq!(cause(Step::Clone, Errno::EPERM, &container), Cause::ContainerFilter);
        assert_eq!(cause(Step::Clone, Errno::EPERM, &none), Cause::Chroot);
        let confined = Evidence {
            apparmor_label: Some("like_ubuntu (enforce)".into()),
            ..Evidence::default()
        };
        assert_eq!(cause(Step::Clone, Errno::EPERM, &confined), Cause::SecurityModule);
        assert_eq!(cause(Step::Clone, Errno::ENOSYS, &none), Cause::ContainerFilter);
        assert_eq!(cause(Step::Clone, Errno::ENOSPC, &none), Cause::NamespaceLimit);
        assert_eq!(cause(Step::Clone, Errno::EACCES, &none), Cause::SecurityModule);
        let network = Step::NetworkNamespace;
        assert_eq!(cause(network, Errno::EPERM, &container), Cause::ContainerFilter);
        assert_eq!(cause(network, Errno::EPERM, &confined), Cause::SecurityModule);
        assert_eq!(cause(network, Errno::EINVAL, &none), Cause::Other);
        assert_eq!(cause(network, Errno::ENOMEM, &none), Cause::Other);
        for (step, errno, words) in [
            (Step::StartBuilder, Errno::EAGAIN, "too few processes"),
            (Step::StartGuest, Errno::ENOMEM, "too little memory"),
            (Step::Loopback, Errno::ENOMEM, "too little memory"),
            (Step::Clone, Errno::EMFILE, "ulimit -n"),
            (Step::VerifyMounts, Errno::ETIMEDOUT, "within 30 s"),
        ] {
            let refusal = explain(StepError { step, errno: errno as i32 }, &none);
            assert!(refusal.to_string().contains(words), "{refusal}");
        }
        let ended =
            explain(StepError { step: Step::AwaitBuilder, errno: Errno::ECHILD as i32 }, &none);
        assert!(ended.to_string().contains("was ended while it was built"), "{ended}");
    }

    #[test]
    fn a_limit_on_namespaces_is_named_with_its_setting() {
        let off = |setting| Evidence { turned_off: Some(setting), ..Evidence::default() };
        for (step, evidence, words) in [
            (Step::Clone, Evidence::default(), "user.max_user_namespaces=15000"),
            (Step::Clone, off(LIMITS[0]), "user.max_user_namespaces is 0"),
            (Step::Clone, off(LIMITS[5]), "IPC namespaces are turned off (user.max_ipc_namesp"),
            (Step::NetworkNamespace, Evidence::default(), "user.max_net_namespaces=15000"),
            (Step::NetworkNamespace, off(LIMITS[3]), "user.max_net_namespaces is 0"),
        ] {
            let refusal = explain(StepError { step, errno: Errno::ENOSPC as i32 }, &evidence);
            assert_eq!(refusal.cause, Cause::NamespaceLimit);
            assert!(refusal.to_string().contains(words), "{refusal}");
        }
    }

    #[test]
    fn a_clone_without_power_is_a_security_module() {
        let ubuntu = Evidence { apparmor_switch: true, ..Evidence::default() };
        for (step, errno) in [
            (Step::MapIds, Errno::EPERM),
            (Step::MapIds, Errno::EACCES),
            (Step::MountRoot, Errno::EACCES),
        ] {
            assert_eq!(cause(step, errno, &ubuntu), Cause::SecurityModule);
        }
        let refusal = explain(StepError { step: Step::MapIds, errno: 1 }, &ubuntu);
        assert!(refusal.fix.contains("apparmor_restrict_unprivileged_userns"), "{refusal}");
    }

    #[test]
    fn a_masked_proc_is_named() {
        let masked = Evidence { proc_masked: true, ..Evidence::default() };
        assert_eq!(cause(Step::MountProc, Errno::EPERM, &masked), Cause::MaskedProc);
    }

    #[test]
    fn evidence_is_read_from_a_proc_folder() {
        let folder = std::env::temp_dir().join(format!("evidence-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("sys/kernel")).unwrap();
        std::fs::create_dir_all(folder.join("self/attr")).unwrap();
        std::fs::create_dir_all(folder.join("sys/user")).unwrap();
        std::fs::write(folder.join("sys/kernel/unprivileged_userns_clone"), "0\n").unwrap();
        std::fs::write(folder.join("sys/user/max_user_namespaces"), "7\n").unwrap();
        std::fs::write(folder.join("sys/user/max_net_namespaces"), "0\n").unwrap();
        std::fs::write(folder.join("sys/kernel/apparmor_restrict_unprivileged_userns"), "")
            .unwrap();
        std::fs::write(folder.join("self/attr/current"), "docker-default (enforce)\n").unwrap();
        std::fs::write(folder.join("self/status"), "Seccomp:\t2\n").unwrap();
        std::fs::write(folder.join("self/mountinfo"), "1 1 0:1 / /proc/kcore rw - tmpfs t rw\n")
            .unwrap();
        let evidence = Evidence::below(&folder);
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(evidence.filtered && evidence.proc_masked && evidence.confined());
        assert!(evidence.apparmor_switch);
        assert_eq!(evidence.turned_off, Some(("network", "user.max_net_namespaces")));
        assert_eq!(evidence.userns_clone.as_deref(), Some("0"));
    }
}
