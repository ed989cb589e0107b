//! Reading back what was built: nothing is claimed that was not seen. Capabilities and
//! `no_new_privs` are read back by the guest, which has them from init.

use crate::mountinfo::{self, Mount};
use crate::plan::Plan;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open, readlinkat};
use nix::sys::stat::Mode;
use std::path::{Path, PathBuf};

/// Mounts that may be writable: the guest's own places. `/workspace` is one unless it is read-only.
const WRITABLE: &[&str] = &["/tmp", "/dev/shm", "/dev/pts", "/proc"];

/// Mounts that hold data alone: no devices, and no program can be executed.
const NO_PROGRAMS: &[&str] = &["/dev/shm", "/proc"];

/// The namespaces whose identity is compared.
const NAMESPACES: &[&str] = &["user", "pid", "mnt", "net", "uts", "ipc", "cgroup"];

/// Checks the namespaces and the mount table, which nothing has changed since it was read.
///
/// # Errors
/// Errno 0 (`UnknownErrno`) where something is not as it must be.
pub fn sandbox(plan: &Plan, mounts: &str, masked: &[PathBuf]) -> nix::Result<()> {
    let fresh = namespaces()?.iter().zip(&plan.outside).all(|(inside, outside)| inside != outside);
    let mounts: Vec<Mount<'_>> = mountinfo::parse(mounts).collect();
    let covered = |place: &PathBuf| mounts.iter().any(|mount| mount.point == *place);
    let masks = masked.iter().chain(&plan.root.masks).all(covered);
    if fresh && masks && mounts_hold(&mounts, plan) { Ok(()) } else { Err(Errno::UnknownErrno) }
}

/// The identities of the calling process's namespaces.
///
/// # Errors
/// The errno of `open(2)` or `readlinkat(2)`.
pub fn namespaces() -> nix::Result<Vec<String>> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let folder = open("/proc/self/ns", flags, Mode::empty())?;
    let read = |name: &&str| {
        let identity = readlinkat(&folder, *name)?;
        Ok(identity.to_string_lossy().into_owned())
    };
    NAMESPACES.iter().map(read).collect()
}

/// One root, ours; nothing writable but the guest's places; nothing set-user-id anywhere, and devices
/// below `/dev` and in front of files of `/proc` only.
fn mounts_hold(mounts: &[Mount<'_>], plan: &Plan) -> bool {
    let root = Path::new("/");
    let one_root = mounts.iter().filter(|mount| mount.point == root).count() == 1;
    let holds = |mount: &Mount<'_>| {
        let own_place = WRITABLE.iter().any(|place| mount.point == Path::new(place))
            || (mount.point.starts_with("/workspace") && !plan.workspace.read_only);
        let no_programs = NO_PROGRAMS.iter().any(|place| mount.point == Path::new(place));
        let devices =
            !no_programs && (mount.point.starts_with("/dev") || mount.point.starts_with("/proc"));
        (mount.point != root || mount.filesystem == "tmpfs")
            && mount.has("nosuid")
            && (mount.has("nodev") || devices)
            && (mount.has("noexec") || !no_programs)
            && (mount.has("ro") || own_place)
    };
    one_root && mounts.iter().all(holds)
}
