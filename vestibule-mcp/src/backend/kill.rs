//! Ending processes that we have started and not yet waited for.

use nix::sys::signal::{Signal, killpg};
#[cfg(target_os = "linux")]
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
#[cfg(target_os = "linux")]
use tokio::signal::unix::{SignalKind, signal};

/// Kills every process of the group that `leader` leads. The leader must be a child of ours that has
/// not been waited for, so that its number is still its own.
pub fn group(leader: u32) {
    if let Some(leader) = i32::try_from(leader).ok().filter(|leader| *leader > 1) {
        // It may have ended just now, which is what we want.
        let _ = killpg(Pid::from_raw(leader), Signal::SIGKILL);
    }
}

/// The same with SIGTERM, for those that have something to tidy up.
pub fn ask_group(leader: u32) {
    if let Some(leader) = i32::try_from(leader).ok().filter(|leader| *leader > 1) {
        let _ = killpg(Pid::from_raw(leader), Signal::SIGTERM);
    }
}

/// Waits until `leader`, a child of ours, has ended, and kills then what is left of its group. The
/// child is left for its owner to wait for, who must do so after this and not before: until then its
/// number, which is the group's, cannot be another's.
///
/// # Errors
/// Why the child cannot be watched: nothing was killed then.
#[cfg(target_os = "linux")]
pub async fn group_after(leader: u32) -> std::io::Result<()> {
    let number = i32::try_from(leader).map_err(|_| std::io::ErrorKind::InvalidInput)?;
    let mut child_ended = signal(SignalKind::child())?;
    let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    while waitid(Id::Pid(Pid::from_raw(number)), look)? == WaitStatus::StillAlive {
        child_ended.recv().await;
    }
    group(leader);
    Ok(())
}

/// Kills every process of this user whose environment holds `mark`, an entry that no other process
/// has. Whoever wants to stay behind can clear its environment: this tidies up, it confines nobody.
#[cfg(target_os = "linux")]
pub fn marked(mark: &[u8]) {
    // Twice: what was started while the first round went through is found by the second.
    for _ in 0..2 {
        for process in marked_processes(mark) {
            let _ = nix::sys::signal::kill(process, Signal::SIGKILL);
        }
    }
}

#[cfg(target_os = "linux")]
fn marked_processes(mark: &[u8]) -> Vec<Pid> {
    let Ok(folder) = std::fs::read_dir("/proc") else { return Vec::new() };
    let numbers = folder.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let holds = |pid: &i32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|entry| entry == mark)
    };
    numbers.filter(holds).map(Pid::from_raw).collect()
}
