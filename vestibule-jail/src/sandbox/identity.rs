//! Who init is: descriptors, ids, names, privileges, and whose death it follows.

use crate::plan::errno;
use crate::sys;
use caps::CapSet;
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use nix::sys::stat::Mode;
use nix::unistd::{dup2_stderr, dup2_stdin, dup2_stdout};
use std::os::fd::BorrowedFd;

/// Closes everything but `keep`, leaves the folder that the supervisor is in, and points the three standard descriptors nowhere: they are the
/// protocol's. Asks for SIGKILL at the supervisor's death already, in case this process is stopped
/// or hangs before [`die_with_supervisor`].
pub fn close_descriptors(keep: &[BorrowedFd<'_>]) -> nix::Result<()> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    sys::descriptors::close_all_but(keep)?;
    // A pivot moves the processes that are in the old root, and no other.
    nix::unistd::chdir("/")?;
    let null = open("/dev/null", OFlag::O_RDWR | OFlag::O_CLOEXEC, Mode::empty())?;
    dup2_stdin(&null)?;
    dup2_stdout(&null)?;
    dup2_stderr(&null)
}

/// Maps the user's own uid and gid to themselves. An ordinary user may map no more, and the kernel
/// wants `setgroups` denied before the gid map is written.
pub fn map_ids(uid: u32, gid: u32) -> nix::Result<()> {
    let write = |name: &str, text: String| {
        std::fs::write(format!("/proc/self/{name}"), text).map_err(|error| errno(&error))
    };
    write("setgroups", "deny".to_owned())?;
    write("uid_map", format!("{uid} {uid} 1"))?;
    write("gid_map", format!("{gid} {gid} 1"))
}

/// Enters a cgroup namespace whose root is the cgroup that this process is in. Linux 4.6.
pub fn enter_cgroup_namespace() -> nix::Result<()> {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWCGROUP)
}

/// Enters a network namespace that has nothing but a loopback interface, which is down. Linux 3.8 for
/// an ordinary user.
pub fn enter_network_namespace() -> nix::Result<()> {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET)
}

/// Makes the sandbox the first choice of the machine's out-of-memory killer.
pub fn raise_oom_score() -> nix::Result<()> {
    std::fs::write("/proc/self/oom_score_adj", "1000").map_err(|error| errno(&error))
}

/// Names the host and clears the domain name that the machine may have.
pub fn name_host() -> nix::Result<()> {
    nix::unistd::sethostname(protocol::environment::HOST_NAME)?;
    sys::process::clear_domain_name()
}

/// Empties every capability set. The bounding set goes first, since that needs a capability.
pub fn drop_capabilities() -> nix::Result<()> {
    sys::process::lock_securebits()?;
    sys::process::drop_bounding_set()?;
    for set in [CapSet::Ambient, CapSet::Inheritable, CapSet::Effective, CapSet::Permitted] {
        caps::clear(None, set).map_err(|_| Errno::last())?;
    }
    Ok(())
}

/// Asks for SIGKILL at the supervisor's death, and looks whether it has died before that was in
/// force. `getppid` tells nothing here: in a new PID namespace it is 0 either way.
pub fn die_with_supervisor(control: BorrowedFd<'_>) -> nix::Result<()> {
    nix::sys::prctl::set_pdeathsig(Signal::SIGKILL)?;
    let mut fds = [PollFd::new(control, PollFlags::empty())];
    poll(&mut fds, PollTimeout::ZERO)?;
    let [fd] = fds;
    match fd.revents() {
        Some(events) if events.contains(PollFlags::POLLHUP) => Err(Errno::ESRCH),
        _ => Ok(()),
    }
}
