//! The kernel calls that need `unsafe`, each behind a safe function with one meaning. The only
//! folder of this project where `unsafe` is allowed; everything above it is plain Rust.
#![allow(unsafe_code)]

pub mod descriptors;
pub mod files;
pub mod landlock;
pub mod mount;
pub mod network;
pub mod process;
pub mod seccomp;
pub mod socket;
pub mod start;

use nix::errno::Errno;

/// Turns the return value of a raw call into a result.
fn check(returned: libc::c_long) -> nix::Result<libc::c_long> {
    if returned < 0 { Err(Errno::last()) } else { Ok(returned) }
}
