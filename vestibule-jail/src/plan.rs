//! What a sandbox's root file system is made of, found out before anything is built. Names
//! only: the sandboxed side carries it out as it stands.

use protocol::{Interpreters, Limits, Rootfs};
use std::ffi::OsString;
use std::path::PathBuf;

/// Everything that init and the guest need to know.
#[derive(Debug)]
pub struct Plan {
    /// The root file system.
    pub root: RootPlan,
    /// The workspace.
    pub workspace: Workspace,
    /// The caps.
    pub limits: Limits,
    /// Which of them the guest sets for itself, since no cgroup does.
    pub stand_ins: StandIns,
    /// The guest's environment, as `NAME=value`.
    pub environment: Vec<String>,
    /// The user's ids, mapped to themselves.
    pub uid: u32,
    /// The user's gid.
    pub gid: u32,
    /// The Landlock ABI of the kernel.
    pub landlock_abi: u32,
    /// The supervisor's namespaces, none of which may be the sandbox's.
    pub outside: Vec<OsString>,
}

/// The workspace folder. A path and an identity instead of a descriptor: a mount can only be cloned
/// in the mount namespace that it was opened in.
#[derive(Clone, Debug)]
pub struct Workspace {
    /// The folder's path, without symbolic links.
    pub path: PathBuf,
    /// Its device and inode as checked.
    pub identity: (u64, u64),
    /// Whether `/workspace` refuses writes.
    pub read_only: bool,
}

/// The resource limits that stand in for a missing cgroup.
#[derive(Clone, Copy, Debug, Default)]
pub struct StandIns {
    /// `RLIMIT_NPROC`, which counts per user namespace since Linux 5.14.
    pub pids: bool,
    /// `RLIMIT_DATA`.
    pub data: bool,
}

/// The root file system of a sandbox.
#[derive(Debug)]
pub struct RootPlan {
    /// Where it comes from.
    pub source: Rootfs,
    /// The path of its root folder, without symbolic links.
    pub base: PathBuf,
    /// What stands at its top.
    pub top: Vec<Entry>,
    /// What of `/etc` is taken over, by its name below `/etc`.
    pub etc: Vec<Entry>,
    /// Folders that are covered with an empty one, absolute inside.
    pub masks: Vec<PathBuf>,
    /// The interpreters.
    pub interpreters: Interpreters,
}

/// A name in the root file system and how it gets into the sandbox.
#[derive(Debug, PartialEq)]
pub struct Entry {
    /// The path, relative to where the entry belongs.
    pub name: PathBuf,
    /// What it is.
    pub kind: EntryKind,
}

/// How an entry gets into the sandbox.
#[derive(Debug, PartialEq)]
pub enum EntryKind {
    /// A symbolic link with this target, made anew.
    Link(PathBuf),
    /// A folder, cloned with everything mounted below it.
    Folder,
    /// A file, cloned.
    File,
}
