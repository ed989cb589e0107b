//! A minimal `/dev`.

use super::mounter::{BYTES_PER_INODE, Mounter, open_source};
use crate::sys::mount::{self, Attributes};
use std::os::fd::AsFd;
use std::path::Path;

/// The machine's devices that a program needs and anyone may use.
const DEVICES: &[&str] = &["null", "zero", "full", "random", "urandom"];

const LINKS: &[(&str, &str)] = &[
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];

/// The size of `/dev/shm`, 64 MiB as in Docker.
const SHM_BYTES: u64 = 64 << 20;

/// Builds `/dev`, a folder of the root tmpfs and read-only as that; `/dev/shm` and terminals of the
/// sandbox's own stay writable.
pub fn mount(world: &mut Mounter) -> nix::Result<()> {
    let dev = Path::new("dev");
    world.folder(dev)?;
    let devices = open_source(Path::new("/dev"))?;
    for name in DEVICES {
        let target = dev.join(name);
        world.place(&target)?;
        world.clone(devices.as_fd(), Path::new(name), &target, Attributes::DEVICES, false)?;
    }
    for (name, target) in LINKS {
        world.link(&dev.join(name), Path::new(target))?;
    }
    mount_terminals(world, dev)?;
    let shm = dev.join("shm");
    world.folder(&shm)?;
    world.tmpfs(&shm, SHM_BYTES, SHM_BYTES / BYTES_PER_INODE, Attributes::DATA)
}

/// A private devpts, where the kernel allows one; a sandbox without terminals works as well.
fn mount_terminals(world: &mut Mounter, dev: &Path) -> nix::Result<()> {
    let pts = dev.join("pts");
    world.folder(&pts)?;
    // The buffers of terminals are the kernel's memory, which no cgroup counts.
    let options = [(c"ptmxmode", c"666"), (c"mode", c"620"), (c"max", c"64")];
    match mount::new_filesystem(c"devpts", &options, Attributes::TERMINALS) {
        Ok(mounted) => {
            world.attach(mounted.as_fd(), &pts)?;
            world.link(&dev.join("ptmx"), Path::new("pts/ptmx"))
        }
        Err(_) => Ok(()),
    }
}
