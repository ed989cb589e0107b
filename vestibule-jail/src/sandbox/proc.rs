//! A `/proc` of the sandbox's own, with the machine's part of it covered.

use super::mounter::{Mounter, open_source};
use crate::sys::mount::{self, Attributes};
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// The files that Docker covers with the null device.
const MASKED_FILES: &[&str] =
    &["interrupts", "kcore", "keys", "latency_stats", "sched_debug", "timer_list", "timer_stats"];

/// The folders that Docker covers with an empty one.
const MASKED_FOLDERS: &[&str] = &["acpi", "asound", "scsi"];

/// What Docker makes read-only, and `pressure`, through which the whole machine can be watched for
/// stalls by whoever may write there.
const READ_ONLY: &[&str] = &["bus", "fs", "irq", "pressure", "sys", "sysrq-trigger"];

/// Mounts a procfs of the new PID namespace.
pub fn mount(world: &mut Mounter) -> nix::Result<()> {
    let target = Path::new("proc");
    world.folder(target)?;
    let mounted = mount::new_filesystem(c"proc", &[], Attributes::DATA)?;
    world.attach(mounted.as_fd(), target)
}

/// Allows no user namespace below ours.
pub fn forbid_nesting(world: &Mounter) -> nix::Result<()> {
    let proc = world.look_up(Path::new("proc"))?;
    let flags = OFlag::O_WRONLY | OFlag::O_CLOEXEC;
    let setting = openat(&proc, "sys/user/max_user_namespaces", flags, Mode::empty())?;
    write(&setting, b"0").map(drop)
}

/// Covers and locks what says too much or can be written to, and returns where. Not every kernel has
/// all of it.
pub fn mask(world: &mut Mounter) -> nix::Result<Vec<PathBuf>> {
    let null = open_source(Path::new("/dev/null"))?;
    let mut done = Vec::new();
    for name in MASKED_FILES {
        let target = Path::new("proc").join(name);
        let Some(place) = look_up(world, &target)? else { continue };
        world.cover(null.as_fd(), place.as_fd(), &target, Attributes::DEVICES)?;
        done.push(Path::new("/").join(target));
    }
    for name in MASKED_FOLDERS {
        let target = Path::new("proc").join(name);
        let Some(place) = look_up(world, &target)? else { continue };
        world.cover_with_nothing(place.as_fd(), &target)?;
        done.push(Path::new("/").join(target));
    }
    for name in READ_ONLY {
        let target = Path::new("proc").join(name);
        let Some(place) = look_up(world, &target)? else { continue };
        let attributes = Attributes(Attributes::READ_ONLY.0 | Attributes::DATA.0);
        world.cover(place.as_fd(), place.as_fd(), &target, attributes)?;
        done.push(Path::new("/").join(target));
    }
    Ok(done)
}

fn look_up(world: &Mounter, target: &Path) -> nix::Result<Option<OwnedFd>> {
    match world.look_up(target) {
        Err(Errno::ENOENT) => Ok(None),
        found => found.map(Some),
    }
}
