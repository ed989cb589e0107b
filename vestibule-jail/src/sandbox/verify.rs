//! Reading back what was built: nothing is claimed that was not seen. Capabilities and
//! `no_new_privs` are read back by the guest, which has them from init.

use crate::mountinfo;
use crate::plan::Plan;
use nix::errno::Errno;
use std::ffi::OsString;
use std::path::Path;

/// Mounts that may be writable: the guest's own places. `/workspace` is one unless it is read-only.
const WRITABLE: &[&str] = &["/tmp", "/dev/shm", "/dev/pts", "/proc"];

/// The namespaces whose identity is compared.
const NAMESPACES: &[&str] = &["user", "pid", "mnt", "net", "uts", "ipc", "cgroup"];

/// Checks the namespaces and the mount table, which nothing has changed since it was read.
///
/// # Errors
/// Errno 0 (`UnknownErrno`) where something is not as it must be.
pub fn sandbox(plan: &Plan, mounts: &str) -> nix::Result<()> {
    let fresh = namespaces()?.iter().zip(&plan.outside).all(|(inside, outside)| inside != outside);
    if fresh && mounts_hold(mounts, plan) { Ok(()) } else { Err(Errno::UnknownErrno) }
}

/// The identities of the calling process's namespaces.
///
/// # Errors
/// The errno of `readlink(2)`.
pub fn namespaces() -> nix::Result<Vec<OsString>> {
    let read = |name: &&str| nix::fcntl::readlink(format!("/proc/self/ns/{name}").as_str());
    NAMESPACES.iter().map(read).collect()
}

/// One root, ours; nothing writable but the guest's places; nosuid everywhere.
fn mounts_hold(table: &str, plan: &Plan) -> bool {
    let mut roots = 0;
    for mount in mountinfo::parse(table) {
        if mount.point == Path::new("/") {
            roots += 1;
            if mount.filesystem != "tmpfs" {
                return false;
            }
        }
        let own_place = WRITABLE.iter().any(|place| mount.point == Path::new(place))
            || (mount.point.starts_with("/workspace") && !plan.workspace.read_only);
        if !mount.has("nosuid") || !(mount.has("ro") || own_place) {
            return false;
        }
    }
    roots == 1
}
