//! A sandbox from the clone on, and its end.

use crate::cgroup::{KilledAt, Leaf};
use crate::sys::process;
use nix::errno::Errno;
use nix::unistd::Pid;
use protocol::{Cause, MemoryMib, Refusal, Retry};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A sandbox from the clone on: init, its cgroup, and the supervisor's ends of what it shares with it.
#[derive(Debug)]
pub struct Running {
    pub(super) sandbox: Caged,
    pub(super) control: OwnedFd,
    pub(super) stdout: OwnedFd,
    pub(super) stderr: OwnedFd,
}

/// What has to be ended: init, and with it everything in its PID namespace, and the cgroup.
#[derive(Debug)]
pub(super) struct Caged {
    pub(super) pid: Pid,
    pub(super) pidfd: OwnedFd,
    pub(super) cgroup: Option<Leaf>,
    pub(super) memory: MemoryMib,
}

impl Caged {
    /// Init's pidfd, which becomes readable when it ends.
    pub(super) fn init(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }

    /// Kills everything, and waits until nothing of it is left but the cgroup's counters.
    pub(super) fn kill(&self) {
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill();
        }
        // It may be gone already, which is as good.
        let _ = process::kill(self.pidfd.as_fd());
        while nix::sys::wait::waitpid(self.pid, None) == Err(Errno::EINTR) {}
    }

    /// Removes the cgroup of a sandbox that was killed.
    pub(super) fn clear(self) {
        let Some(cgroup) = self.cgroup else { return };
        let path = cgroup.folder().path().to_owned();
        if let Err(errno) = cgroup.remove() {
            // The server tries again; what stays is empty.
            eprintln!(
                "vestibule-jail: the cgroup {} is not removed yet: {}",
                path.display(),
                errno.desc()
            );
        }
    }

    /// Ends a sandbox that is not wanted any more.
    pub(super) fn end(self) {
        self.kill();
        self.clear();
    }

    /// Ends a sandbox that did not come to execute anything, and gives the reason: the one that was
    /// seen, or the memory limit if that is what stood behind it.
    pub(super) fn refuse(self, seen: Refusal) -> Refusal {
        self.kill();
        let refusal = self.too_little_memory(&seen).unwrap_or(seen);
        self.clear();
        refusal
    }

    fn too_little_memory(&self, seen: &Refusal) -> Option<Refusal> {
        let cgroup = self.cgroup.as_ref()?;
        let refused = seen.at.is_some_and(|at| at.errno == Errno::ENOMEM as i32);
        let at_limit = cgroup.killed() == Some(KilledAt::Own)
            || refused && cgroup.folder().keyed("memory.events", "max").is_ok_and(|max| max > 0);
        at_limit.then(|| Refusal {
            what: format!(
                "the memory limit of {} MiB is less than the sandbox itself needs to start",
                self.memory
            ),
            cause: Cause::Request,
            fix: "set VESTIBULE_MEM_MB (by hand: memory_mib) to 32 or more".to_owned(),
            retry: Retry::AfterRestart,
            at: seen.at,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::Home;
    use protocol::{CgroupOrigin, Step, StepError};
    use std::fs;

    /// A sandbox whose cgroup is a folder with these counters; it is never ended.
    fn caged(test: &str, events: &str) -> Caged {
        let folder = std::env::temp_dir().join(format!("vestibule-{test}-{}", std::process::id()));
        fs::create_dir(&folder).unwrap();
        let pid = nix::unistd::getpid();
        let home = Home { runs: folder.clone(), folder, origin: CgroupOrigin::Given, owner: pid };
        let limits = r#"{"memory_mib": 1, "cpu_percent": 75, "pids_max": 2, "tmpfs_mib": 1}"#;
        let leaf = Leaf::make(&home, &serde_json::from_str(limits).unwrap()).unwrap();
        fs::write(leaf.folder().path().join("memory.events"), events).unwrap();
        let pidfd = fs::File::open("/dev/null").unwrap().into();
        Caged { pid, pidfd, cgroup: Some(leaf), memory: MemoryMib::new(1).unwrap() }
    }

    fn refusal(errno: Errno) -> Refusal {
        let at = Some(StepError { step: Step::ReceivePlan, errno: errno as i32 });
        let (what, fix) = ("the sandbox could not be built".to_owned(), "w".to_owned());
        Refusal { what, cause: Cause::Other, fix, retry: Retry::AfterFix, at }
    }

    #[test]
    fn a_memory_limit_that_the_sandbox_does_not_fit_in_is_the_reason() {
        for (test, events, errno, expected) in [
            ("killed", "max 9\noom 1\noom_kill 1\n", Errno::ECHILD, true),
            ("refused", "max 9\noom 0\noom_kill 0\n", Errno::ENOMEM, true),
            ("other", "max 9\noom 0\noom_kill 0\n", Errno::EPERM, false),
            ("machine", "max 0\noom 0\noom_kill 0\n", Errno::ENOMEM, false),
        ] {
            let caged = caged(test, events);
            let reason = caged.too_little_memory(&refusal(errno)).map(|found| found.to_string());
            assert_eq!(reason.is_some(), expected, "{test}");
            if let Some(text) = reason {
                assert!(text.starts_with("the memory limit of 1 MiB is less"), "{text}");
                assert!(text.contains("VESTIBULE_MEM_MB"), "{text}");
            }
            let home = caged.cgroup.as_ref().and_then(|leaf| leaf.folder().path().parent());
            fs::remove_dir_all(home.unwrap()).unwrap();
        }
    }
}
