//! Stopping a process at a moment that no sleep could hit.

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

/// Lets a stopped process go on until it has made a child, and holds both there. The child has not
/// executed a single instruction of its own. Everything here must happen on one thread.
///
/// # Errors
/// The errno if this machine does not let us trace.
pub fn hold_at_birth(parent: Pid) -> Result<Pid, Errno> {
    let births = Options::PTRACE_O_TRACEFORK | Options::PTRACE_O_TRACEVFORK;
    ptrace::seize(parent, births | Options::PTRACE_O_TRACECLONE)?;
    kill(parent, Signal::SIGCONT)?;
    loop {
        match waitpid(parent, Some(WaitPidFlag::__WALL))? {
            WaitStatus::PtraceEvent(_, Signal::SIGTRAP, event)
                if event != nix::libc::PTRACE_EVENT_STOP =>
            {
                let child = i32::try_from(ptrace::getevent(parent)?).map_err(|_| Errno::ERANGE)?;
                let child = Pid::from_raw(child);
                waitpid(child, Some(WaitPidFlag::__WALL))?;
                return Ok(child);
            }
            WaitStatus::Stopped(_, signal) => ptrace::cont(parent, signal)?,
            WaitStatus::PtraceEvent(..) => ptrace::cont(parent, None)?,
            _ => return Err(Errno::ECHILD),
        }
    }
}

/// Kills a process that is held, and takes it, so that its own parent can.
///
/// # Errors
/// The errno if it is not ours to kill.
pub fn kill_held(process: Pid) -> Result<(), Errno> {
    kill(process, Signal::SIGKILL)?;
    waitpid(process, Some(WaitPidFlag::__WALL)).map(drop)
}

/// Stops a process that is held and lets go of it: it stays stopped, as after SIGSTOP by anyone.
///
/// # Errors
/// ESRCH if somebody has killed it meanwhile.
pub fn leave_stopped(process: Pid) -> Result<(), Errno> {
    kill(process, Signal::SIGSTOP)?;
    ptrace::cont(process, None)?;
    match waitpid(process, Some(WaitPidFlag::__WALL))? {
        WaitStatus::Stopped(_, signal) => ptrace::detach(process, signal),
        _ => Err(Errno::ESRCH),
    }
}
