//! The kernel steps of one run, in execution order. One table drives the names in errors, the
//! output of `--explain` and `docs/JAIL_STEPS.md`.

use serde::{Deserialize, Serialize};

/// Who takes a step.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Actor {
    /// The process that the server started, outside the sandbox.
    Supervisor,
    /// PID 1 of the sandbox.
    Init,
    /// A child of init that builds the file system meanwhile, and ends.
    Builder,
    /// The process that becomes the interpreter.
    Guest,
}

impl Actor {
    /// The name in texts.
    pub const fn name(self) -> &'static str {
        match self {
            Actor::Supervisor => "supervisor",
            Actor::Init => "init",
            Actor::Builder => "builder",
            Actor::Guest => "guest",
        }
    }
}

macro_rules! steps {
    ($($variant:ident $name:literal $actor:ident $kernel:literal: $what:literal;)*) => {
        /// A step of the build or the start of a run, in execution order.
        #[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
        pub enum Step {
            $(#[doc = $what] $variant,)*
        }

        impl Step {
            /// Every step, in execution order.
            pub const ALL: &'static [Step] = &[$(Step::$variant,)*];

            /// The step's name in errors and in `--explain`.
            pub const fn name(self) -> &'static str {
                match self { $(Step::$variant => $name,)* }
            }

            /// Who takes it.
            pub const fn actor(self) -> Actor {
                match self { $(Step::$variant => Actor::$actor,)* }
            }

            /// The kernel version that brought what the step needs.
            pub const fn kernel(self) -> &'static str {
                match self { $(Step::$variant => $kernel,)* }
            }

            /// What the step does and why, as one paragraph.
            pub const fn what(self) -> &'static str {
                match self { $(Step::$variant => $what,)* }
            }
        }
    };
}

steps! {
    CheckPrivileges "check-privileges" Supervisor "any":
        "Refuses a real, effective or saved uid 0 and any permitted capability: the jail must not be able to do more than the user who started it.";
    CheckKernel "check-kernel" Supervisor "5.9":
        "Refuses kernels before 5.9, which lack `close_range`.";
    MakePipes "make-pipes" Supervisor "any":
        "Makes the two output pipes, the pipe that the plan travels through, and the control socket between supervisor and sandbox.";
    FindCgroup "find-cgroup" Supervisor "5.7":
        "Looks for a cgroup that is delegated to the user: the one that the server named, the one the jail runs in, else a transient scope of the user's systemd. The supervisors get a leaf of their own in it. Failing is not fatal: the run is `native-degraded`.";
    MakeCgroup "make-cgroup" Supervisor "5.7":
        "Makes the run's own leaf of that cgroup, sets `memory.max`, `memory.swap.max`, `memory.oom.group`, `cpu.max` and `pids.max`, and reads them back.";
    Clone "clone" Supervisor "5.3":
        "One `clone3` for init with new user, PID, mount, UTS, IPC and cgroup namespaces, born in the run's cgroup (Linux 5.7), from a process of one thread. The network namespace follows in `network-namespace`.";
    OpenWorkspace "open-workspace" Supervisor "5.6":
        "Opens the workspace with `openat2` and no symbolic link anywhere in its path, and checks its owner and access, so that the folder that was checked is the folder that is mounted.";
    OpenRootfs "open-rootfs" Supervisor "5.6":
        "Opens the root file system that programs come from and looks for the interpreters in it.";
    SendPlan "send-plan" Supervisor "any":
        "Hands the builder what was found out since the clone: the two sides work at the same time until then.";
    CloseDescriptors "close-descriptors" Init "5.9":
        "Asks for SIGKILL at the supervisor's death for the time being, and closes every descriptor that is not init's own: an init that kept the protocol's pipe would hide the supervisor's death from the server.";
    MapIds "map-ids" Init "3.8":
        "Maps the user's own uid and gid to themselves and nothing else; `setgroups` is denied first, as the kernel demands.";
    CgroupNamespace "cgroup-namespace" Init "4.6":
        "Makes the run's own cgroup the root of what is seen of the hierarchy: the namespace that came with the clone has the supervisor's as its root.";
    OomScore "oom-score" Init "2.6.36":
        "Raises `oom_score_adj` to 1000: under memory pressure the machine ends the sandbox first.";
    NonDumpable "non-dumpable" Init "2.4":
        "Makes init non-dumpable, so that the guest can neither trace it nor reach its descriptors.";
    HostName "host-name" Init "2.6.19":
        "Names the host `vestibule`, and clears the domain name that the machine may have.";
    StartBuilder "start-builder" Init "any":
        "Starts the builder, a child that makes the file system of the sandbox while init makes its network and confines itself. Making a network namespace takes the kernel longer than all the other namespaces together.";
    PrivateMounts "private-mounts" Builder "2.6.15":
        "Makes every mount private, so that nothing done here is seen outside.";
    MountRoot "mount-root" Builder "5.6":
        "Mounts a tmpfs of our own over the old root, with a size and an inode cap: every mount point in it is made by us.";
    MountProc "mount-proc" Builder "5.2":
        "Mounts a fresh procfs of the new PID namespace. The kernel refuses it once the old root is gone, and where the old `/proc` has parts masked.";
    ForbidNesting "forbid-nesting" Builder "5.6":
        "Sets `max_user_namespaces` to 0 for everything below our own user namespace, before `/proc/sys` turns read-only. The second wall behind the syscall filter.";
    MaskProc "mask-proc" Builder "5.6":
        "Covers the sensitive files of `/proc` and makes the writable ones read-only, as Docker does.";
    MountDev "mount-dev" Builder "5.6":
        "A folder of the root tmpfs for `/dev`, with null, zero, full, random, urandom, the usual links, a private devpts where the kernel allows one, and `/dev/shm`.";
    MountTmp "mount-tmp" Builder "5.2":
        "A tmpfs for `/tmp` with a size and an inode cap, nosuid and nodev.";
    MakeSandbox "make-sandbox" Builder "5.2":
        "A folder of the root tmpfs for `/sandbox`. A writable clone of it that is attached nowhere goes to the supervisor, which writes the script; inside it is read-only as the root is.";
    ReceivePlan "receive-plan" Builder "any":
        "Waits for what the supervisor found out. Everything before this step is the same for every sandbox.";
    MountRootfs "mount-rootfs" Builder "5.6":
        "Clones the system folders below the new root, recursively, read-only, nosuid and nodev, and links or clones `/bin`, `/sbin` and `/lib*` as the root file system has them. Compiled python modules, where there are any, come to `/pycache` in the same way.";
    MaskRootfs "mask-rootfs" Builder "5.6":
        "Covers `/usr/src` and `/usr/local` (unless an interpreter's link leads there) with an empty folder.";
    FillEtc "fill-etc" Builder "5.6":
        "Writes the synthesized files of `/etc` and clones what programs need and anyone may read.";
    MountWorkspace "mount-workspace" Builder "5.6":
        "Clones the workspace to `/workspace`, nosuid and nodev, read-only if asked.";
    PivotRoot "pivot-root" Builder "2.3.41":
        "Makes the tmpfs the root of the mount namespace.";
    DetachOldRoot "detach-old-root" Builder "2.4.11":
        "Detaches the old root with everything below it.";
    ReadOnlyRoot "read-only-root" Builder "2.6.26":
        "Makes the root tmpfs read-only. On kernels before 5.12 all that was to be restricted is remounted here, mount by mount.";
    CoverRemote "cover-remote" Builder "5.6":
        "Reads the mount table and covers network file systems that came along below the system folders.";
    VerifyMounts "verify-mounts" Builder "any":
        "Looks back at what was built: one root, ours, and nothing writable or set-user-id but where it must be.";
    NetworkNamespace "network-namespace" Init "3.8":
        "Enters a new network namespace. `unshare` makes it here and not the clone, so that the builder is at work meanwhile.";
    Loopback "loopback" Init "2.6.24":
        "Brings `lo` up in the network namespace, which has nothing else.";
    JoinKeyring "join-keyring" Init "2.6.10":
        "Joins a new session keyring. Failing is not fatal: the filter refuses every keyring call.";
    DropCapabilities "drop-capabilities" Init "4.3":
        "Empties the bounding, ambient, inheritable, permitted and effective sets and locks them.";
    NoNewPrivileges "no-new-privileges" Init "3.5":
        "Sets `no_new_privs`: no exec can gain anything.";
    DieWithSupervisor "die-with-supervisor" Init "2.1.57":
        "Asks for SIGKILL at the supervisor's death, last, since a change of credentials clears it, and then looks once whether the supervisor is still there.";
    OrdinaryTask "ordinary-task" Init "any":
        "Leaves a real-time scheduling policy and an odd personality that whoever started the jail may have had: nothing inside comes before the supervisor, and addresses are random.";
    SetLimits "set-limits" Init "2.6.36":
        "Sets the resource limits, which the guest inherits: descriptors, file size, core dumps at 1 (0 does not stop a piped core handler), and the stand-ins where there is no cgroup. Reads them back.";
    LoadFilter "load-filter" Init "5.0":
        "Loads the syscall filter that was compiled at build time, for init and with it for the guest, which hands its notification descriptor to the supervisor.";
    AwaitBuilder "await-builder" Init "any":
        "Waits for the end of the builder. The pivot has moved init's root too, since both are in the same mount namespace.";
    VerifySandbox "verify-sandbox" Supervisor "any":
        "Compares what init has read back: seven namespaces that are not the supervisor's, and the root that the builder has checked.";
    WriteScript "write-script" Supervisor "any":
        "Writes the code to `/sandbox` through the clone that the builder handed over.";
    StartGuest "start-guest" Init "any":
        "Starts the guest at the supervisor's word, as `vfork` does, and from then on only reaps. Its time holds the guest's steps, up to the exec.";
    NewSession "new-session" Guest "any":
        "A session of its own without a controlling terminal.";
    SetStreams "set-streams" Guest "any":
        "Standard input at end of file; standard output and error are the two pipes. Umask 022, working folder `/workspace`.";
    Landlock "landlock" Guest "5.19":
        "Restricts writes to `/workspace`, `/tmp`, `/dev` and `/proc`. A second wall behind the mounts, where the kernel has Landlock ABI 2.";
    VerifyGuest "verify-guest" Guest "any":
        "Reads `/proc/self/status` back: five empty capability sets, `no_new_privs`, filter mode. The guest does not start unless all of it is true.";
    ResetSignals "reset-signals" Guest "any":
        "An empty mask, and the default disposition for each signal that is ignored: the jail itself ignores SIGPIPE and SIGXFSZ, whoever started the jail may have ignored others, and an exec'ed program would inherit that.";
    Exec "exec" Guest "5.9":
        "Marks every descriptor but 0 to 2 close-on-exec and executes the interpreter.";
}
