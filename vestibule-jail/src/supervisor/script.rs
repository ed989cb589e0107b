//! Writing the script into the sandbox.

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::write;
use protocol::Script;
use std::os::fd::BorrowedFd;

/// Writes the code below `folder`, the supervisor's writable clone of `/sandbox`.
pub fn write_script(folder: BorrowedFd<'_>, script: &Script) -> nix::Result<()> {
    let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
    let mode = Mode::from_bits_truncate(0o444);
    let file = openat(folder, script.language.script(), flags, mode)?;
    let mut rest = script.code.as_bytes();
    while !rest.is_empty() {
        let written = write(&file, rest)?;
        rest = rest.get(written..).filter(|_| written > 0).ok_or(Errno::ENOSPC)?;
    }
    Ok(())
}
