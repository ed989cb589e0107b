//! File systems that reach over a network or into a user's process: they came along with the system
//! folders, show what is not this machine's, and may hang.

use super::mounter::Mounter;
use crate::{mountinfo, procfs};
use nix::errno::Errno;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

const REMOTE: &[&str] = &[
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "9p",
    "afs",
    "ceph",
    "glusterfs",
    "lustre",
    "fuse",
    "fuseblk",
    "virtiofs",
    "vboxsf",
    "autofs",
];

/// Covers every such file system with an empty folder, and returns the mount table.
pub fn cover(world: &mut Mounter) -> nix::Result<String> {
    let table = read_table()?;
    let points = points(&table);
    for point in &points {
        match world.look_up(point) {
            Ok(place) => world.cover_with_nothing(place.as_fd(), point)?,
            // Covered already, with the folder that holds it.
            Err(Errno::ENOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    if points.is_empty() { Ok(table) } else { read_table() }
}

fn read_table() -> nix::Result<String> {
    procfs::read(Path::new("/proc/self/mountinfo"))
}

/// Where remote file systems are mounted below the system folders. `/usr` itself may be one, and the
/// workspace is its owner's choice.
fn points(table: &str) -> Vec<PathBuf> {
    mountinfo::parse(table)
        .filter(|mount| is_remote(mount.filesystem) && !mount.point.starts_with("/workspace"))
        .map(|mount| mount.point)
        .filter(|point| point.components().count() > 2)
        .collect()
}

fn is_remote(filesystem: &str) -> bool {
    let kind = filesystem.split('.').next().unwrap_or(filesystem);
    REMOTE.contains(&kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_file_systems_below_the_system_folders_are_found() {
        let table = "1 0 0:1 / / ro - tmpfs none ro\n\
                     2 1 0:2 / /usr ro - nfs4 server:/usr ro\n\
                     3 2 0:3 / /usr/share/pool ro - fuse.sshfs host:/x ro\n\
                     4 2 0:4 / /usr/lib/wsl ro - 9p drivers ro\n\
                     5 2 0:5 / /usr/lib/modules ro - ext4 /dev/x ro\n\
                     6 1 0:6 / /workspace/mine rw - nfs server:/mine rw\n";
        assert_eq!(points(table), [Path::new("/usr/share/pool"), Path::new("/usr/lib/wsl")]);
    }
}
