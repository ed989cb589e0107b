//! The syscall filter: loading it, and answering the calls that it reports.

use super::check;
use crate::filter::Instruction;
use nix::errno::Errno;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// `ENOTSUPP`, an errno of the kernel's own that libc has no name for: the kernel translates every filter
/// and has reached `net.core.bpf_jit_limit`.
const NO_ROOM: i32 = 524;

/// Loads a filter for the calling process and what it starts, and returns the descriptor on which
/// reported calls arrive. Needs `no_new_privs`. Linux 5.0.
///
/// `SPEC_ALLOW` keeps the kernels before 5.16 from turning a slow CPU mitigation on for every
/// filtered process; later ones ignore it. `WAIT_KILLABLE_RECV` (5.19) lets no signal interrupt a
/// reported call half-way; older kernels refuse it and are asked again without.
///
/// # Errors
/// The errno of `seccomp(SECCOMP_SET_MODE_FILTER)`; `ENOMEM` for a program the kernel finds too long,
/// `ENOBUFS` if the machine's room for translated filters is used up.
pub fn load(program: &[Instruction]) -> nix::Result<OwnedFd> {
    let base = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    let killable = libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;
    match load_with(program, base | killable) {
        Err(Errno::EINVAL) => load_with(program, base),
        loaded => loaded,
    }
}

const _: () = assert!(size_of::<Instruction>() == size_of::<libc::sock_filter>());

fn load_with(program: &[Instruction], flags: libc::c_ulong) -> nix::Result<OwnedFd> {
    let program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| Errno::E2BIG)?,
        filter: program.as_ptr().cast_mut().cast(),
    };
    // SAFETY: `program` points to `len` instructions, laid out as `struct sock_filter`, that outlive
    // the call and are only read; a successful call returns a new descriptor that nothing else owns.
    unsafe {
        let fd = libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const program,
        );
        if fd < 0 && std::io::Error::last_os_error().raw_os_error() == Some(NO_ROOM) {
            return Err(Errno::ENOBUFS);
        }
        Ok(OwnedFd::from_raw_fd(check(fd)? as RawFd))
    }
}

/// A reported call that waits for its answer.
pub struct Notification {
    /// The kernel's number for this report.
    pub id: u64,
    /// The number of the syscall.
    pub syscall: i32,
}

/// Takes the next reported call; `None` if its caller died meanwhile.
///
/// # Errors
/// The errno of `ioctl(SECCOMP_IOCTL_NOTIF_RECV)`.
pub fn receive(listener: BorrowedFd<'_>) -> nix::Result<Option<Notification>> {
    // SAFETY: plain data for which all zeroes is valid, and which the kernel wants zeroed.
    let mut request: libc::seccomp_notif = unsafe { std::mem::zeroed() };
    let code = nix::request_code_readwrite!(b'!', 0, size_of::<libc::seccomp_notif>());
    // SAFETY: `request` is valid and outlives the call.
    let done = unsafe { libc::ioctl(listener.as_raw_fd(), code as _, &raw mut request) };
    match Errno::result(done) {
        Ok(_) => Ok(Some(Notification { id: request.id, syscall: request.data.nr })),
        Err(Errno::ENOENT | Errno::EINTR) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Answers a reported call with an error. A caller that died meanwhile is no failure.
///
/// # Errors
/// The errno of `ioctl(SECCOMP_IOCTL_NOTIF_SEND)`.
pub fn refuse(listener: BorrowedFd<'_>, id: u64, errno: Errno) -> nix::Result<()> {
    let mut response = libc::seccomp_notif_resp { id, val: 0, error: -(errno as i32), flags: 0 };
    let code = nix::request_code_readwrite!(b'!', 1, size_of::<libc::seccomp_notif_resp>());
    // SAFETY: `response` is valid and outlives the call.
    let done = unsafe { libc::ioctl(listener.as_raw_fd(), code as _, &raw mut response) };
    match Errno::result(done) {
        Ok(_) | Err(Errno::ENOENT) => Ok(()),
        Err(errno) => Err(errno),
    }
}
