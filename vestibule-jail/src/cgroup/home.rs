//! A delegated cgroup made ready for runs: our processes in a leaf of their own, the controllers on.

use super::folder::Folder;
use super::run;
use nix::errno::Errno;
use nix::sys::stat::Mode;
use nix::unistd::{Pid, mkdir};
use protocol::{NoCgroup, RunsName};
use std::path::{Path, PathBuf};

/// The leaf for the server and its supervisors, which must not count as the guest's.
const SUPERVISORS: &str = "mcp-sandbox-supervisors";

/// What a run is limited by.
const CONTROLLERS: [&str; 3] = ["memory", "cpu", "pids"];

/// Moves `ours` to a leaf of `path` and turns the controllers on for its other leaves: the kernel
/// gives controllers to the children of a cgroup without processes only. Clears away what servers
/// that are dead have left.
///
/// # Errors
/// What stands in the way; all is as it was then.
pub fn prepare(path: &Path, ours: &[Pid]) -> Result<(), NoCgroup> {
    let home = Folder::open(path).map_err(|errno| unusable("open", path, errno))?;
    let offered = home.read("cgroup.controllers").unwrap_or_default();
    if !CONTROLLERS.iter().any(|name| offers(&offered, name)) {
        return Err(NoCgroup::NoControllers);
    }
    let leaf = path.join(SUPERVISORS);
    match mkdir(&leaf, Mode::from_bits_truncate(0o755)) {
        Ok(()) | Err(Errno::EEXIST) => {}
        Err(errno) => return Err(unusable("mkdir", &leaf, errno)),
    }
    let moved = Folder::open(&leaf).and_then(|leaf| move_to(&leaf, ours));
    let done = moved.map_err(|errno| unusable("cgroup.procs", &leaf, errno));
    let done = done.and_then(|()| {
        turn_on(&home, &offered).map_err(|errno| match errno {
            Errno::EBUSY => NoCgroup::Unusable("it holds processes of others".to_owned()),
            errno => unusable("cgroup.subtree_control", path, errno),
        })
    });
    if done.is_err() {
        // Neither can be helped if it fails: an empty leaf stays, or our processes in it.
        let _ = move_to(&home, ours);
        let _ =
            nix::unistd::unlinkat(home.fd(), SUPERVISORS, nix::unistd::UnlinkatFlags::RemoveDir);
        return done;
    }
    run::sweep(path);
    Ok(())
}

/// The cgroup for all runs of a server below `home`, made where it is not there yet, with what they may
/// have of memory together. Each has its own limit in it.
///
/// # Errors
/// What stands in the way.
pub fn for_runs(home: &Path, owner: Pid, memory_mib: u64) -> Result<PathBuf, NoCgroup> {
    let started = run::start_time(owner).unwrap_or(0);
    let name = RunsName { owner: owner.as_raw().cast_unsigned(), started }.to_name();
    let path = home.join(name);
    match mkdir(&path, Mode::from_bits_truncate(0o755)) {
        Ok(()) | Err(Errno::EEXIST) => {}
        Err(errno) => return Err(unusable("mkdir", &path, errno)),
    }
    let runs = Folder::open(&path).map_err(|errno| unusable("open", &path, errno))?;
    limit_together(&runs, memory_mib).map_err(|errno| unusable("memory.max", &path, errno))?;
    keep_on(&path);
    Ok(path)
}

/// Sets what all runs may have together, unless it is set: it goes with a controller that is turned off.
fn limit_together(runs: &Folder, memory_mib: u64) -> nix::Result<()> {
    let bytes = memory_mib.saturating_mul(1 << 20);
    for (name, value) in [("memory.max", bytes.to_string()), ("memory.swap.max", "0".to_owned())] {
        if runs.read(name).is_ok_and(|now| now == value) {
            continue;
        }
        match runs.write(name, &value) {
            // Without the controller, the run's own limit is missing too, and named. A kernel that does
            // not count swap has no file for it.
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Turns controllers on that are not, or that somebody has turned off since. Failing shows in the run's
/// limits.
pub fn keep_on(path: &Path) {
    let Ok(home) = Folder::open(path) else { return };
    let on = home.read("cgroup.subtree_control").unwrap_or_default();
    if CONTROLLERS.iter().all(|name| offers(&on, name)) {
        return;
    }
    let offered = home.read("cgroup.controllers").unwrap_or_default();
    let _ = turn_on(&home, &offered);
}

fn offers(controllers: &str, name: &str) -> bool {
    controllers.split_whitespace().any(|offered| offered == name)
}

fn move_to(folder: &Folder, processes: &[Pid]) -> nix::Result<()> {
    for process in processes {
        match folder.write("cgroup.procs", &process.to_string()) {
            // It has ended meanwhile.
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Turns on what is offered of the controllers, each by itself: one that vanishes must not take the
/// others with it.
fn turn_on(home: &Folder, offered: &str) -> nix::Result<()> {
    for name in CONTROLLERS.iter().filter(|name| offers(offered, name)) {
        match home.write("cgroup.subtree_control", &format!("+{name}")) {
            // It was there a moment ago. The run's own limits tell what is missing.
            Ok(()) | Err(Errno::ENOENT | Errno::EINVAL) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn unusable(what: &str, path: &Path, errno: Errno) -> NoCgroup {
    NoCgroup::Unusable(format!("{what} {}: {}", path.display(), errno.desc()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_runs_may_have_is_set_once_and_again_after_it_was_lost() {
        let home = std::env::temp_dir().join(format!("vestibule-home-{}", std::process::id()));
        std::fs::create_dir(&home).unwrap();
        let owner = nix::unistd::getpid();
        // In a plain folder, the files of a cgroup are there only if somebody has made them.
        let runs = for_runs(&home, owner, 3).unwrap();
        assert_eq!(runs.parent(), Some(home.as_path()));
        for before in ["max", "3145728"] {
            std::fs::write(runs.join("memory.max"), before).unwrap();
            assert_eq!(for_runs(&home, owner, 3), Ok(runs.clone()));
            assert_eq!(std::fs::read_to_string(runs.join("memory.max")).unwrap(), "3145728");
        }
        std::fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn a_controller_is_offered_by_its_whole_name() {
        assert!(offers("cpuset cpu io memory pids", "cpu"));
        assert!(!offers("cpuset io", "cpu"));
        assert!(!offers("", "memory"));
    }
}
