//! Where `vestibule-jail` is. Never looked for on `PATH`: what isolates code must not be a matter of
//! who wrote the environment last.

use crate::config::ENVIRONMENT;
use crate::escape;
use protocol::{Cause, Refusal, Retry};
use std::path::{Path, PathBuf};

/// The helper's file name.
const PROGRAM: &str = if cfg!(windows) { "vestibule-jail.exe" } else { "vestibule-jail" };
/// The folder for helpers that a packager named when this program was built.
const LIBEXEC: Option<&str> = option_env!("VESTIBULE_LIBEXEC");

/// Finds the helper: the path that is set, else beside this program, else in the build's libexec
/// folder.
///
/// # Errors
/// A refusal that says where it was looked for.
pub fn helper(set: Option<&Path>) -> Result<PathBuf, Refusal> {
    let own = std::env::current_exe().ok();
    find(set, own.as_deref().and_then(Path::parent), LIBEXEC.map(Path::new))
}

fn find(
    set: Option<&Path>,
    beside: Option<&Path>,
    libexec: Option<&Path>,
) -> Result<PathBuf, Refusal> {
    if let Some(path) = set {
        return if path.is_file() { Ok(path.to_owned()) } else { Err(set_but_missing(path)) };
    }
    let folders = [beside, libexec];
    let places: Vec<PathBuf> =
        folders.into_iter().flatten().map(|folder| folder.join(PROGRAM)).collect();
    match places.iter().find(|path| path.is_file()) {
        Some(path) => Ok(path.clone()),
        None => Err(not_found(&places)),
    }
}

fn set_but_missing(path: &Path) -> Refusal {
    Refusal {
        what: format!("VESTIBULE_JAIL is {}, where no file is", shown(path)),
        cause: Cause::Other,
        fix: format!("set it to the path of vestibule-jail, or remove it {ENVIRONMENT}"),
        retry: Retry::AfterRestart,
        at: None,
    }
}

fn not_found(places: &[PathBuf]) -> Refusal {
    let places: Vec<String> = places.iter().map(|path| shown(path)).collect();
    Refusal {
        what: format!("the helper vestibule-jail is missing (looked for: {})", places.join(", ")),
        cause: Cause::Other,
        fix: "install vestibule-jail beside vestibule-mcp, or set VESTIBULE_JAIL to its path"
            .to_owned(),
        retry: Retry::AfterFixOrRestart,
        at: None,
    }
}

/// A path for use in a text.
pub fn shown(path: &Path) -> String {
    escape::for_display(&path.to_string_lossy(), 300)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_is_set_is_the_only_place() {
        let own = std::env::current_exe().unwrap();
        assert_eq!(find(Some(&own), None, None), Ok(own.clone()));
        let missing = find(Some(Path::new("/nonexistent/jail")), own.parent(), None).unwrap_err();
        assert!(missing.to_string().contains("VESTIBULE_JAIL is /nonexistent/jail"), "{missing}");
    }

    #[test]
    fn what_is_nowhere_is_refused_with_the_places() {
        let refusal = find(None, Some(Path::new("/a")), Some(Path::new("/b"))).unwrap_err();
        let text = refusal.to_string();
        assert!(text.contains("/a/vestibule-jail, /b/vestibule-jail") || cfg!(windows), "{text}");
        assert_eq!(refusal.retry, Retry::AfterFixOrRestart);
    }

    #[test]
    fn beside_the_server_comes_before_libexec() {
        let folder = std::env::temp_dir().join(format!("locate-{}", std::process::id()));
        let (beside, libexec) = (folder.join("bin"), folder.join("libexec"));
        for folder in [&beside, &libexec] {
            std::fs::create_dir_all(folder).unwrap();
            std::fs::write(folder.join(PROGRAM), "").unwrap();
        }
        assert_eq!(find(None, Some(&beside), Some(&libexec)), Ok(beside.join(PROGRAM)));
        std::fs::remove_file(beside.join(PROGRAM)).unwrap();
        assert_eq!(find(None, Some(&beside), Some(&libexec)), Ok(libexec.join(PROGRAM)));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
