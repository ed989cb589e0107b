//! The start of the program: what the standard library's own would do, as far as the jail needs it.
//! That one also reads `/proc/self/maps` and makes a second stack, to put a stack overflow into words:
//! a tenth of a millisecond that every run would pay.

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::sys::stat::Mode;
use std::ffi::{CStr, OsStr, OsString};
use std::os::fd::{BorrowedFd, IntoRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Ignores SIGPIPE and SIGXFSZ, so that a closed pipe and a file at its limit of size (`ulimit -f`) are
/// errors of `write(2)`, and opens those of the three
/// standard descriptors that are closed: the next file to be opened would take their numbers.
///
/// # Errors
/// The errno of `fcntl(2)` or `open(2)`.
pub fn settle() -> nix::Result<()> {
    for signal in [libc::SIGPIPE, libc::SIGXFSZ] {
        // SAFETY: no handler is installed.
        Errno::result(unsafe { libc::signal(signal, libc::SIG_IGN) } as isize)?;
    }
    for number in 0..3 {
        // SAFETY: only asks whether the descriptor is open; nobody owns or closes it meanwhile.
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        if fcntl(descriptor, FcntlArg::F_GETFD) == Err(Errno::EBADF) {
            // The lowest free number is this one. It stays open for good, as a standard descriptor.
            let _ = open("/dev/null", OFlag::O_RDWR, Mode::empty())?.into_raw_fd();
        }
    }
    Ok(())
}

/// Takes the arguments of the program, its name first. Of what `/proc/PID/cmdline` shows, only the
/// program's name without its folder is left: init is a copy of this process, and shows it to the
/// guest.
///
/// # Safety
/// `count` and `values` must be those that `main` was called with, and nothing else may read them.
pub unsafe fn take_arguments(
    count: libc::c_int,
    values: *const *mut libc::c_char,
) -> Vec<OsString> {
    let take = |index| {
        // SAFETY: the kernel has placed `count` strings that end with a zero there, in memory of this
        // process that may be written to; the standard library copies them when it is asked, which
        // nobody does. `name` is no longer than the string that it replaces the start of.
        unsafe {
            let text = *values.add(index);
            let argument = OsStr::from_bytes(CStr::from_ptr(text).to_bytes()).to_owned();
            std::ptr::write_bytes(text, 0, argument.len());
            if let Some(name) = Path::new(&argument).file_name().filter(|_| index == 0) {
                std::ptr::copy_nonoverlapping(name.as_bytes().as_ptr().cast(), text, name.len());
            }
            argument
        }
    };
    (0..usize::try_from(count).unwrap_or(0)).map(take).collect()
}

/// Makes a function of the arguments, which returns the exit code, the entry of the program.
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        // SAFETY: the program has no other `main`, and this is what the C library calls.
        #[unsafe(no_mangle)]
        extern "C" fn main(count: libc::c_int, values: *const *mut libc::c_char) -> libc::c_int {
            // SAFETY: both are what this function was called with, and are used here only.
            let arguments = unsafe { $crate::sys::start::take_arguments(count, values) };
            // Also flushes what the standard library holds back for standard output.
            std::process::exit($main(arguments))
        }
    };
}
