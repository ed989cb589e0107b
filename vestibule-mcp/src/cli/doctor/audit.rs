//! The audit log's folder.

use super::{Check, State};
use crate::config::Config;
use crate::escape::{for_display, for_shell};
use std::fs;
use std::path::Path;

/// What the row is called.
const NAME: &str = "audit log";
/// How much of the folder's name is shown, in characters.
const SHOWN: usize = 200;

/// Whether records can be written, and read by nobody else. A run never fails for it.
pub fn check(config: &Config) -> Check {
    let folder = config.audit_dir.as_path();
    let shown = for_display(&folder.to_string_lossy(), SHOWN);
    let doubt = |detail: String, fix: String| Check::note(NAME, detail, fix);
    let metadata = match fs::metadata(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Check::new(NAME, State::Ok, format!("{shown}, made at the first call"));
        }
        found => found,
    };
    match metadata {
        Ok(metadata) if !metadata.is_dir() => doubt(
            format!("{shown} is no folder, so that calls are not recorded"),
            "remove it, or set VESTIBULE_AUDIT_DIR to a folder".to_owned(),
        ),
        Ok(metadata) if others_may_enter(&metadata) => doubt(
            format!("other users may enter {shown}"),
            format!("chmod 700 {}", for_shell(folder)),
        ),
        Ok(_) if !is_writable(folder) => doubt(
            format!("{shown} cannot be written, so that calls are not recorded"),
            "make it yours, or set VESTIBULE_AUDIT_DIR to a folder of yours".to_owned(),
        ),
        Ok(_) => Check::new(NAME, State::Ok, shown),
        Err(error) => doubt(
            format!("{shown} cannot be looked at ({error}), so that calls are not recorded"),
            "make it yours, or set VESTIBULE_AUDIT_DIR to a folder of yours".to_owned(),
        ),
    }
}

#[cfg(unix)]
fn others_may_enter(metadata: &fs::Metadata) -> bool {
    std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o077 != 0
}

/// On Windows a folder takes over the access list of the one above it.
#[cfg(not(unix))]
fn others_may_enter(_metadata: &fs::Metadata) -> bool {
    false
}

#[cfg(unix)]
fn is_writable(folder: &Path) -> bool {
    use nix::unistd::{AccessFlags, access};
    access(folder, AccessFlags::W_OK | AccessFlags::X_OK).is_ok()
}

#[cfg(not(unix))]
fn is_writable(_folder: &Path) -> bool {
    true
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_folder_that_others_may_enter_or_nobody_may_write_is_told() {
        let folder = std::env::temp_dir().join(format!("doctor audit-{}", std::process::id()));
        let state = || {
            let variables =
                [("HOME", "/nonexistent"), ("VESTIBULE_AUDIT_DIR", folder.to_str().unwrap())];
            let config =
                Config::from_env(variables.map(|(name, value)| (name.into(), value.into())));
            let check = check(&config);
            assert_eq!(check.fix.is_some(), check.state != State::Ok, "{check:?}");
            let command = check.fix.as_ref().and_then(|fix| fix.strip_prefix("chmod 700 "));
            let quoted = format!("'{}'", folder.display());
            assert!(command.is_none_or(|word| word == quoted), "{check:?}");
            check.state
        };
        assert_eq!(state(), State::Ok);
        fs::write(&folder, "").unwrap();
        assert_eq!(state(), State::Note);
        fs::remove_file(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
        for (mode, expected) in [(0o755, State::Note), (0o700, State::Ok)] {
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(state(), expected);
        }
        fs::remove_dir(&folder).unwrap();
    }
}
