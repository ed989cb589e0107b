//! Reading files of `/proc`. The kernel makes their content anew for each open, so one large read
//! costs less than many small ones.

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use std::path::Path;

/// More than any of the files read here has, in bytes; what is longer takes further reads.
const USUAL: usize = 16 * 1024;

/// The content of a file, invalid bytes replaced.
///
/// # Errors
/// The errno of `open(2)` or `read(2)`.
pub fn read(path: &Path) -> nix::Result<String> {
    let file = open(path, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?;
    let mut bytes = Vec::new();
    let mut buffer = vec![0; USUAL];
    loop {
        match nix::unistd::read(&file, &mut buffer) {
            Ok(0) => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Ok(length) => bytes.extend_from_slice(buffer.get(..length).unwrap_or_default()),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}
