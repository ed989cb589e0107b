//! A `/proc` of the sandbox's own, with the machine's part of it covered.

use super::mounter::{Mounter, open_source};
use crate::sys::mount::{self, Attributes};
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{Mode, SFlag, fstat};
use nix::unistd::write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// What Docker covers: files with the null device, folders with an empty one.
const MASKED: &[&str] = &[
    "acpi",
    "asound",
    "interrupts",
    "kcore",
    "keys",
    "latency_stats",
    "sched_debug",
    "scsi",
    "timer_list",
    "timer_stats",
];

/// What Docker makes read-only.
const READ_ONLY: &[&str] = &["bus", "fs", "irq", "sys", "sysrq-trigger"];

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
    for name in MASKED {
        let target = Path::new("proc").join(name);
        let Some(place) = look_up(world, &target)? else { continue };
        if is_folder(&place)? {
            world.cover_with_nothing(place.as_fd(), &target)?;
        } else {
            world.cover(null.as_fd(), place.as_fd(), &target, Attributes::DEVICES)?;
        }
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

fn is_folder(place: &OwnedFd) -> nix::Result<bool> {
    let kind = SFlag::from_bits_truncate(fstat(place)?.st_mode) & SFlag::S_IFMT;
    Ok(kind == SFlag::S_IFDIR)
}
