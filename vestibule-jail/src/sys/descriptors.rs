//! Descriptors in bulk.

use super::check;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

/// Closes every descriptor from 3 on that is not in `keep`.
///
/// # Errors
/// The errno of `close_range(2)`. Linux 5.9.
///
/// The caller must not use any other descriptor afterwards: this is meant for the first step of a
/// process that was cloned from one which owns them.
pub fn close_all_but(keep: &[BorrowedFd<'_>]) -> nix::Result<()> {
    let mut kept: Vec<RawFd> = keep.iter().map(AsRawFd::as_raw_fd).collect();
    kept.sort_unstable();
    let mut next = 3;
    for fd in kept {
        if fd > next {
            close_range(next as u32, (fd - 1) as u32)?;
        }
        next = next.max(fd + 1);
    }
    close_range(next as u32, u32::MAX)
}

/// Marks every descriptor from 3 on close-on-exec; before Linux 5.11, which brought the flag, closes
/// those that an exec must not pass on, except `last`, which is close-on-exec already.
///
/// # Errors
/// The errno of `close_range(2)`.
pub fn close_on_exec(last: BorrowedFd<'_>) -> nix::Result<()> {
    // SAFETY: only flags of descriptors change.
    let marked = check(unsafe {
        libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC)
    });
    match marked {
        Ok(_) => Ok(()),
        Err(nix::errno::Errno::EINVAL) => close_all_but(&[last]),
        Err(errno) => Err(errno),
    }
}

fn close_range(first: u32, last: u32) -> nix::Result<()> {
    // SAFETY: see `close_all_but`: descriptors of the process are closed whose owners are not used
    // again.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) })?;
    Ok(())
}
