//! What the supervisor hands to the sandbox: [`Settings`], known before the clone, and a [`Plan`], found
//! out while init and builder begin. Names only: the sandboxed side carries it out as it stands.

use nix::errno::Errno;
use protocol::{Limits, Rootfs};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// What init and the guest know from the clone on.
#[derive(Debug)]
pub struct Settings {
    /// The caps.
    pub limits: Limits,
    /// Which of them are set as resource limits, since no cgroup does.
    pub stand_ins: StandIns,
    /// Whether init is born in a cgroup of the run's own.
    pub own_cgroup: bool,
    /// The guest's environment, as `NAME=value`.
    pub environment: Vec<String>,
    /// The user's ids, mapped to themselves.
    pub uid: u32,
    /// The user's gid.
    pub gid: u32,
    /// The Landlock ABI of the kernel.
    pub landlock_abi: u32,
}

/// What is found out about the machine's files, and travels to the builder through a pipe.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
pub struct Plan {
    /// The root file system.
    pub root: RootPlan,
    /// The workspace.
    pub workspace: Workspace,
}

impl Plan {
    /// Writes the plan to the builder's pipe and closes it.
    ///
    /// # Errors
    /// The errno of `write(2)`; `EPIPE` if the builder is gone, `EILSEQ` for a path that is not UTF-8.
    pub fn send(&self, pipe: OwnedFd) -> nix::Result<()> {
        let text = serde_json::to_vec(self).map_err(|_| Errno::EILSEQ)?;
        File::from(pipe).write_all(&text).map_err(|error| errno(&error))
    }

    /// Waits for the plan.
    ///
    /// # Errors
    /// The errno of `read(2)`; `ECANCELED` if the supervisor closed the pipe without a plan.
    pub fn receive(pipe: OwnedFd) -> nix::Result<Plan> {
        let mut text = Vec::new();
        File::from(pipe).read_to_end(&mut text).map_err(|error| errno(&error))?;
        serde_json::from_slice(&text).map_err(|_| Errno::ECANCELED)
    }
}

/// Turns an error of the standard library back into the errno that it carries.
pub fn errno(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

/// The workspace folder. A path and an identity instead of a descriptor: a mount can only be cloned
/// in the mount namespace that it was opened in.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
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

/// Top folders of an image that the sandbox makes itself or that hold nothing a program needs.
pub const NOT_FROM_IMAGE: &[&str] = &[
    "proc",
    "sys",
    "dev",
    "run",
    "tmp",
    "etc",
    "boot",
    "mnt",
    "media",
    "workspace",
    "sandbox",
    "pycache",
];

/// The root file system of a sandbox.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
pub struct RootPlan {
    /// Where it comes from.
    pub source: Rootfs,
    /// The path of its root folder, without symbolic links.
    pub base: PathBuf,
    /// Its device and inode as looked at.
    pub identity: (u64, u64),
    /// What stands at its top.
    pub top: Vec<Entry>,
    /// What of `/etc` is taken over, by its name below `/etc`.
    pub etc: Vec<Entry>,
    /// Folders that are covered with an empty one, absolute inside.
    pub masks: Vec<PathBuf>,
    /// Compiled python modules, shown at [`BYTECODE`](protocol::environment::BYTECODE).
    pub bytecode: Option<PathBuf>,
}

/// A name in the root file system and how it gets into the sandbox.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
pub struct Entry {
    /// The path, relative to where the entry belongs.
    pub name: PathBuf,
    /// What it is.
    pub kind: EntryKind,
}

/// How an entry gets into the sandbox.
#[derive(Debug, Deserialize, PartialEq, Serialize)]
pub enum EntryKind {
    /// A symbolic link with this target, made anew.
    Link(PathBuf),
    /// A folder, cloned with everything mounted below it.
    Folder,
    /// A file, cloned.
    File,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;

    fn pipe() -> (OwnedFd, OwnedFd) {
        let (read, write) = std::io::pipe().unwrap();
        (read.into(), write.into())
    }

    fn plan(entries: usize) -> Plan {
        let link = EntryKind::Link(PathBuf::from("usr/bin"));
        let entry =
            |number| Entry { name: PathBuf::from(format!("bin{number}")), kind: EntryKind::File };
        let mut top = vec![Entry { name: PathBuf::from("bin \"quoted\"\n"), kind: link }];
        top.extend((0..entries).map(entry));
        Plan {
            root: RootPlan {
                source: Rootfs::Image(PathBuf::from("/images/one")),
                base: PathBuf::from("/images/one"),
                identity: (1, 2),
                top,
                etc: vec![Entry { name: PathBuf::from("ssl/certs"), kind: EntryKind::Folder }],
                masks: vec![PathBuf::from("/usr/src")],
                bytecode: Some(PathBuf::from("/images/pyc")),
            },
            workspace: Workspace {
                path: PathBuf::from("/home/a b/ws"),
                identity: (u64::MAX, 1 << 60),
                read_only: true,
            },
        }
    }

    #[test]
    fn a_plan_arrives_as_it_was_sent_however_large() {
        for entries in [0, 20_000] {
            let (read, write) = pipe();
            let sender = std::thread::spawn(move || plan(entries).send(write));
            assert_eq!(Plan::receive(read), Ok(plan(entries)));
            assert_eq!(sender.join().unwrap(), Ok(()));
        }
    }

    #[test]
    fn without_a_plan_there_is_nothing_to_build() {
        let (read, write) = pipe();
        drop(write);
        assert_eq!(Plan::receive(read), Err(Errno::ECANCELED));
        let (read, write) = pipe();
        drop(read);
        assert_eq!(plan(0).send(write), Err(Errno::EPIPE));
    }
}
