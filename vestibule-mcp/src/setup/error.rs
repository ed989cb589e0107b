//! What stops `setup`: what went wrong, and what to do about it.

use std::io;
use std::path::Path;

/// What to do where a file may not become as large as it must.
pub const FILE_LIMIT: &str = "raise the limit of a file's size (`ulimit -f`) and try again";

/// Why an image is not there. Both parts are escaped for display.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{what}. Fix: {fix}.")]
pub struct SetupError {
    /// What went wrong, as one clause without a full stop.
    pub what: String,
    /// What to do about it, likewise.
    pub fix: String,
}

impl SetupError {
    /// An error of these words.
    pub fn new(what: impl Into<String>, fix: impl Into<String>) -> SetupError {
        SetupError { what: what.into(), fix: fix.into() }
    }

    /// A file or folder of the store that the system did not let us have.
    pub fn of_file(deed: &str, path: &Path, error: &io::Error) -> SetupError {
        let path = crate::backend::locate::shown(path);
        let fix = match error.kind() {
            io::ErrorKind::FileTooLarge => FILE_LIMIT,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "free space there, or set VESTIBULE_ROOTFS_DIR to a folder on another disk"
            }
            io::ErrorKind::PermissionDenied => {
                "make the folder yours, or set VESTIBULE_ROOTFS_DIR to one that is"
            }
            _ => "set VESTIBULE_ROOTFS_DIR to a folder of yours that can be written to",
        };
        SetupError::new(format!("{path} cannot be {deed} ({error})"), fix)
    }
}

macro_rules! of_parts {
    ($($error:ty),*) => {$(
        impl From<$error> for SetupError {
            fn from(error: $error) -> SetupError {
                SetupError { what: error.to_string(), fix: error.fix() }
            }
        }
    )*};
}

of_parts!(
    super::decode::DecodeError,
    super::fetch::FetchError,
    super::unpack::UnpackError,
    crate::store::inventory::InventoryError
);

impl From<super::source::SourceError> for SetupError {
    fn from(error: super::source::SourceError) -> SetupError {
        SetupError { what: error.what, fix: error.fix }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_of_files_is_told_from_a_disk_that_is_full() {
        let fix =
            |kind: io::ErrorKind| SetupError::of_file("written", Path::new("/x"), &kind.into()).fix;
        assert!(fix(io::ErrorKind::FileTooLarge).contains("`ulimit -f`"));
        assert!(fix(io::ErrorKind::StorageFull).contains("free space"));
    }
}
