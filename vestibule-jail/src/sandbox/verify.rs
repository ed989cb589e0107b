//! Reading back what was built: nothing is claimed that was not seen. Capabilities and
//! `no_new_privs` are read back by the guest, which has them from init; the supervisor compares what
//! init sees with what it must be.

use crate::control::{Root, Seen};
use crate::mountinfo::{self, Mount};
use crate::plan::Plan;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open};
use nix::sys::stat::{Mode, fstatat, stat};
use std::path::{Path, PathBuf};

/// Mounts that may be writable: the guest's own places. `/workspace` is one unless it is read-only.
const WRITABLE: &[&str] = &["/tmp", "/dev/shm", "/dev/pts", "/proc"];

/// Mounts that hold data alone: no devices, and no program can be executed.
const NO_PROGRAMS: &[&str] = &["/dev/shm", "/proc"];

/// The namespaces whose identity is compared.
const NAMESPACES: [&str; Seen::NAMESPACES] = ["user", "pid", "mnt", "net", "uts", "ipc", "cgroup"];

/// Checks the mount table, which nothing has changed since it was read.
///
/// # Errors
/// Errno 0 (`UnknownErrno`) where something is not as it must be.
pub fn mounts(plan: &Plan, table: &str, masked: &[PathBuf]) -> nix::Result<()> {
    let mounts: Vec<Mount<'_>> = mountinfo::parse(table).collect();
    let covered = |place: &PathBuf| mounts.iter().any(|mount| mount.point == *place);
    let masks = masked.iter().chain(&plan.root.masks).all(covered);
    if masks && mounts_hold(&mounts, plan) { Ok(()) } else { Err(Errno::UnknownErrno) }
}

/// The identities of the calling process's namespaces.
///
/// # Errors
/// The errno of `open(2)` or `fstatat(2)`.
pub fn namespaces() -> nix::Result<[u64; Seen::NAMESPACES]> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let folder = open("/proc/self/ns", flags, Mode::empty())?;
    let mut found = [0; Seen::NAMESPACES];
    for (place, name) in found.iter_mut().zip(NAMESPACES) {
        *place = fstatat(&folder, name, AtFlags::empty())?.st_ino;
    }
    Ok(found)
}

/// The root folder of the calling process.
///
/// # Errors
/// The errno of `stat(2)`.
pub fn root() -> nix::Result<Root> {
    let status = stat("/")?;
    Ok(Root { device: status.st_dev, inode: status.st_ino })
}

/// What init is in.
///
/// # Errors
/// As for [`namespaces`] and [`root`].
pub fn look_around() -> nix::Result<Seen> {
    Ok(Seen { namespaces: namespaces()?, root: root()? })
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
