//! Processes: the clone of init, the start of the guest, signals by pidfd, capability sets.

use super::check;
use nix::errno::Errno;
use nix::fcntl::AtFlags;
use nix::unistd::Pid;
use std::convert::Infallible;
use std::ffi::CString;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Which side of [`clone_init`] the caller is on.
pub enum Cloned {
    /// The supervisor: init's pid here, and a descriptor for it.
    Supervisor(Pid, OwnedFd),
    /// Init, PID 1 of the new namespaces.
    Init(SingleThread),
}

/// Known only to a process that was cloned from one of a single thread, and so has one itself.
pub struct SingleThread(());

/// The namespaces that come with the clone. The network namespace follows, since making it takes the
/// kernel longer than all of these together.
const NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWCGROUP;

/// `CLONE_INTO_CGROUP` of `linux/sched.h`; the constant of `libc` has the wrong sign.
const INTO_CGROUP: u64 = 0x2_0000_0000;

/// Clones the calling process into new namespaces of all kinds but one, and into the cgroup whose folder
/// is given, as `clone3(2)` with `CLONE_PIDFD` (Linux 5.3) and `CLONE_INTO_CGROUP` (Linux 5.7). Memory
/// is copied, as by `fork`.
///
/// # Errors
/// The errno of `clone3(2)`; otherwise as for [`single_thread`].
pub fn clone_init(cgroup: Option<BorrowedFd<'_>>) -> nix::Result<Cloned> {
    let alone = single_thread()?;
    let mut pidfd: RawFd = -1;
    let flags = NAMESPACES | libc::CLONE_PIDFD;
    // SAFETY: `clone_args` is plain data for which all zeroes is a valid value.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = flags as u64;
    if let Some(folder) = cgroup {
        args.flags |= INTO_CGROUP;
        args.cgroup = folder.as_raw_fd() as u64;
    }
    args.pidfd = (&raw mut pidfd) as u64;
    args.exit_signal = libc::SIGCHLD as u64;
    // SAFETY: without CLONE_VM the child runs on a copy of this stack; `args` is valid, and `pidfd`
    // outlives the call; there is a single thread, so no lock can be held by another one.
    match check(unsafe { libc::syscall(libc::SYS_clone3, &raw mut args, size_of_val(&args)) })? {
        0 => Ok(Cloned::Init(alone)),
        // SAFETY: the kernel has stored a new descriptor in `pidfd`.
        pid => Ok(Cloned::Supervisor(Pid::from_raw(pid as i32), unsafe {
            OwnedFd::from_raw_fd(pidfd)
        })),
    }
}

/// Makes sure that this process has a single thread.
///
/// # Errors
/// The errno of reading `/proc/self/task`; `EDEADLK` if there are more: a child would see no other, and
/// would wait for ever for a lock that another one held.
pub fn single_thread() -> nix::Result<SingleThread> {
    let tasks = std::fs::read_dir("/proc/self/task").map_err(|error| crate::plan::errno(&error))?;
    if tasks.count() == 1 { Ok(SingleThread(())) } else { Err(Errno::EDEADLK) }
}

/// Starts a child on a copy of this process, as `fork(2)` does. It ends after `life`, with exit code 0
/// if that returns true and 1 if not.
///
/// # Errors
/// The errno of `fork(2)`.
pub fn start_copy(_alone: &SingleThread, life: impl FnOnce() -> bool) -> nix::Result<Pid> {
    // SAFETY: there is a single thread, so no lock can be held by another one.
    match unsafe { nix::unistd::fork() }? {
        nix::unistd::ForkResult::Parent { child } => Ok(child),
        nix::unistd::ForkResult::Child => {
            let done = life();
            exit_now(if done { 0 } else { 1 })
        }
    }
}

/// The stack of a child that shares its parent's memory, in bytes.
const CHILD_STACK: usize = 256 * 1024;

/// The closed part at the lower end of that stack, in bytes: a page of the largest size.
const GUARD: usize = 64 * 1024;

/// Starts a child that shares the caller's memory until it executes another program, as `vfork(2)`
/// does; the caller waits until then, or until the child's end. Page tables and pages need not be
/// copied for a child that is about to drop them.
///
/// # Errors
/// The errno of `mmap(2)`, `mprotect(2)` or `clone(2)`.
pub fn start_sharing_memory<F: FnOnce() -> Infallible>(
    _alone: SingleThread,
    life: F,
) -> nix::Result<Pid> {
    extern "C" fn begin<F: FnOnce() -> Infallible>(life: *mut libc::c_void) -> libc::c_int {
        // SAFETY: `life` points to the `Option<F>` of the waiting caller, which nobody else uses.
        let life = unsafe { (*life.cast::<Option<F>>()).take() };
        match life.map(|life| life()) {
            Some(never) => match never {},
            None => 127,
        }
    }
    let mut life = Some(life);
    // SAFETY: a new private mapping; nothing of the process lies in it. Its lowest page stays closed:
    // a stack that grows too far must not reach what lies below.
    let stack = unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
        let stack = libc::mmap(std::ptr::null_mut(), CHILD_STACK, libc::PROT_NONE, flags, -1, 0);
        if stack == libc::MAP_FAILED {
            return Err(Errno::last());
        }
        let usable = libc::PROT_READ | libc::PROT_WRITE;
        Errno::result(libc::mprotect(stack.byte_add(GUARD), CHILD_STACK - GUARD, usable))?;
        stack
    };
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the child runs `begin` on the upper end of the mapping while this process, which has a
    // single thread, waits; it never returns into this frame, and `life` outlives it.
    let pid = Errno::result(unsafe {
        libc::clone(begin::<F>, stack.byte_add(CHILD_STACK), flags, (&raw mut life).cast())
    });
    // SAFETY: the child has left this memory; the mapping is ours and unused.
    unsafe { libc::munmap(stack, CHILD_STACK) };
    pid.map(Pid::from_raw)
}

/// Waits for any child and returns its raw status of `waitpid(2)`.
///
/// # Errors
/// The errno of `waitpid(2)`; `ECHILD` when there is none.
pub fn reap() -> nix::Result<(Pid, i32)> {
    let mut status = 0;
    // SAFETY: `status` outlives the call.
    let pid = Errno::result(unsafe { libc::waitpid(-1, &raw mut status, 0) })?;
    Ok((Pid::from_raw(pid), status))
}

/// Gives the calling process the ordinary scheduling policy in place of a real-time one, and the
/// ordinary personality. A lower policy than the ordinary one stays.
///
/// # Errors
/// The errno of `sched_setscheduler(2)` or `personality(2)`.
pub fn become_ordinary() -> nix::Result<()> {
    // SAFETY: only numbers, and a structure that outlives the call.
    unsafe {
        let policy = Errno::result(libc::sched_getscheduler(0))? & !libc::SCHED_RESET_ON_FORK;
        if [libc::SCHED_FIFO, libc::SCHED_RR].contains(&policy) {
            let parameters = libc::sched_param { sched_priority: 0 };
            Errno::result(libc::sched_setscheduler(0, libc::SCHED_OTHER, &raw const parameters))?;
        }
        /// `PER_LINUX`, without any flag.
        const ORDINARY: libc::c_ulong = 0;
        Errno::result(libc::personality(ORDINARY)).map(drop)
    }
}

/// Empties the NIS domain name of the calling process's UTS namespace.
///
/// # Errors
/// The errno of `setdomainname(2)`.
pub fn clear_domain_name() -> nix::Result<()> {
    // SAFETY: a name of length 0 is never read.
    Errno::result(unsafe { libc::setdomainname(c"".as_ptr(), 0) }).map(drop)
}

/// Ends the process at once, without running anything that the program registered for its exit.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` does not return and touches no memory.
    unsafe { libc::_exit(code) }
}

/// Sends SIGKILL to the process behind a pidfd. Linux 5.1.
///
/// # Errors
/// The errno of `pidfd_send_signal(2)`; `ESRCH` if it is gone.
pub fn kill(pidfd: BorrowedFd<'_>) -> nix::Result<()> {
    // SAFETY: only numbers and a null pointer, which the call takes for "no siginfo".
    check(unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            libc::SIGKILL,
            std::ptr::null::<libc::siginfo_t>(),
            0,
        )
    })?;
    Ok(())
}

/// The permitted capabilities of the calling process as a mask, those included that are newer than
/// this program.
///
/// # Errors
/// The errno of `capget(2)`.
pub fn permitted_capabilities() -> nix::Result<u64> {
    /// `_LINUX_CAPABILITY_VERSION_3`: two sets of 32.
    const VERSION: u32 = 0x2008_0522;
    let mut header = [VERSION, 0];
    // Effective, permitted and inheritable, of the lower and then of the upper half.
    let mut sets = [[0_u32; 3]; 2];
    // SAFETY: both arrays have the layout that this version of the call reads and writes.
    check(unsafe { libc::syscall(libc::SYS_capget, header.as_mut_ptr(), sets.as_mut_ptr()) })?;
    let [[_, low, _], [_, high, _]] = sets;
    Ok(u64::from(high) << 32 | u64::from(low))
}

/// Empties the bounding set, whatever number of capabilities the kernel knows.
///
/// # Errors
/// The errno of `prctl(PR_CAPBSET_DROP)`.
pub fn drop_bounding_set() -> nix::Result<()> {
    for capability in 0.. {
        // SAFETY: only numbers are passed.
        match Errno::result(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) }) {
            Ok(_) => {}
            Err(Errno::EINVAL) if capability > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Locks the secure bits so that no exec and no change of uid can bring a capability back.
///
/// # Errors
/// The errno of `prctl(PR_SET_SECUREBITS)`. Linux 4.3 for the ambient bits.
pub fn lock_securebits() -> nix::Result<()> {
    const BITS: libc::c_ulong = 0b1110_1111; // NOROOT, NO_SETUID_FIXUP, NO_CAP_AMBIENT_RAISE and all locks
    // SAFETY: only numbers are passed.
    Errno::result(unsafe { libc::prctl(libc::PR_SET_SECUREBITS, BITS, 0, 0, 0) }).map(drop)
}

/// Joins a new, anonymous session keyring.
///
/// # Errors
/// The errno of `keyctl(KEYCTL_JOIN_SESSION_KEYRING)`.
pub fn join_session_keyring() -> nix::Result<()> {
    // SAFETY: a null name asks for an anonymous keyring.
    check(unsafe {
        libc::syscall(
            libc::SYS_keyctl,
            libc::KEYCTL_JOIN_SESSION_KEYRING,
            std::ptr::null::<libc::c_char>(),
        )
    })?;
    Ok(())
}

/// Resets the disposition of one signal to its default, also of those that libc keeps for itself and
/// would refuse: whoever started this process may have left them ignored.
pub fn default_signal(signal: libc::c_int) {
    /// The kernel's `struct sigaction`: handler, flags, restorer, mask. All zeroes is the default.
    const DEFAULT: [u64; 4] = [0; 4];
    const MASK_BYTES: usize = 8;
    // SAFETY: `DEFAULT` is a valid `sigaction` that installs no handler; the old one is not asked
    // for. SIGKILL and SIGSTOP refuse, which is as good.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigaction,
            signal,
            DEFAULT.as_ptr(),
            std::ptr::null::<u64>(),
            MASK_BYTES,
        )
    };
}

/// Ignores the signals by which a terminal stops a program: a supervisor that is stopped keeps no
/// deadline, while the guest, which has no terminal, runs on.
pub fn ignore_terminal_stops() {
    for signal in [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU] {
        // SAFETY: no handler is installed.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// Executes a program. Returns only on failure.
pub fn execute(program: &CString, arguments: &[CString], environment: &[CString]) -> Errno {
    match nix::unistd::execve(program, arguments, environment) {
        Ok(never) => match never {},
        Err(errno) => errno,
    }
}

/// Executes the program behind a descriptor that is close-on-exec: a script is `ENOENT` then, since
/// the interpreter that its first line names could not open it. Returns only on failure.
pub fn execute_opened(
    program: BorrowedFd<'_>,
    arguments: &[CString],
    environment: &[CString],
) -> Errno {
    match nix::unistd::execveat(program, c"", arguments, environment, AtFlags::AT_EMPTY_PATH) {
        Ok(never) => match never {},
        Err(errno) => errno,
    }
}
