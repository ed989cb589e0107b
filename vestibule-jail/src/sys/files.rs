//! Attributes of files.

use nix::errno::Errno;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The value of an extended attribute, at most 64 bytes of it.
///
/// # Errors
/// The errno of `getxattr(2)`; `ENODATA` if there is none, `ERANGE` if it is longer.
pub fn extended_attribute(path: &Path, name: &str) -> nix::Result<Vec<u8>> {
    let path = CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::EINVAL)?;
    let name = CString::new(name).map_err(|_| Errno::EINVAL)?;
    let mut value = vec![0_u8; 64];
    // SAFETY: two strings that end in NUL, and a buffer of the length given.
    let length = Errno::result(unsafe {
        libc::getxattr(path.as_ptr(), name.as_ptr(), value.as_mut_ptr().cast(), value.len())
    })?;
    value.truncate(length.cast_unsigned());
    Ok(value)
}
