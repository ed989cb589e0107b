//! The workspace folder: made on first use, refused where sharing it would give too much away.

use crate::backend::locate::shown;
use crate::config::Config;
use crate::workspace::private;
use protocol::{Cause, Refusal, Retry};
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The workspace's real path, without symbolic links. Makes the folder if it is missing.
///
/// # Errors
/// A refusal if it cannot be made, or is nothing that a sandbox may be given.
pub fn folder(config: &Config) -> Result<PathBuf, Refusal> {
    let path = config.workspace.as_path();
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            make(path)?;
            fs::symlink_metadata(path)
        }
        found => found,
    };
    let metadata = metadata.map_err(|error| {
        refuse(path, &format!("cannot be looked at ({error})"), Cause::WorkspaceNotAllowed)
    })?;
    check_kind(path, &metadata)?;
    let real = path.canonicalize().map_err(|error| {
        refuse(path, &format!("cannot be resolved ({error})"), Cause::WorkspaceMissing)
    })?;
    check_place(path, &real, config)?;
    Ok(real)
}

/// Makes the folder and those above it that are missing, for their owner alone.
fn make(path: &Path) -> Result<(), Refusal> {
    private::builder().recursive(true).create(path).map_err(|error| {
        refuse(
            path,
            &format!("does not exist and cannot be made ({error})"),
            Cause::WorkspaceMissing,
        )
    })
}

fn check_kind(path: &Path, metadata: &Metadata) -> Result<(), Refusal> {
    let not_allowed = |why| Err(refuse(path, why, Cause::WorkspaceNotAllowed));
    if metadata.file_type().is_symlink() {
        return not_allowed("is a symbolic link, which could be turned to another folder");
    }
    if !metadata.is_dir() {
        return not_allowed("is not a folder");
    }
    #[cfg(unix)]
    if std::os::unix::fs::MetadataExt::uid(metadata) != nix::unistd::getuid().as_raw() {
        return not_allowed("belongs to another user");
    }
    Ok(())
}

/// Refuses folders in which more lies than a sandbox may have.
fn check_place(path: &Path, real: &Path, config: &Config) -> Result<(), Refusal> {
    let not_allowed = |why: &str| Err(refuse(path, why, Cause::WorkspaceNotAllowed));
    if real.parent().is_none() {
        return not_allowed("is the root of the file system");
    }
    if let Some(home) = &config.home {
        if real == existing(home) {
            return not_allowed("is your home folder");
        }
        if existing(&home.join(".vestibule")).starts_with(real) {
            return not_allowed("is or holds ~/.vestibule, and with it the audit log");
        }
    }
    for other in engines(config) {
        let other = existing(&other);
        if other.starts_with(real) || real.starts_with(&other) {
            return not_allowed(&format!(
                "and {} lie in one another: what a container engine does is set there",
                shown(&other)
            ));
        }
    }
    for (setting, other) in
        [("VESTIBULE_AUDIT_DIR", &config.audit_dir), ("VESTIBULE_ROOTFS_DIR", &config.rootfs_dir)]
    {
        let other = existing(other);
        if other.starts_with(real) || real.starts_with(&other) {
            return not_allowed(&format!("and the folder of {setting} lie in one another"));
        }
    }
    Ok(())
}

/// The folders of container engines' settings and images, which would have the engines run what code wrote.
fn engines(config: &Config) -> Vec<PathBuf> {
    let below = |folder: &str| config.home.as_ref().map(|home| home.join(folder));
    let folders = [".docker", ".config/containers", ".local/share/containers", ".config/docker"];
    let named = std::env::var_os("DOCKER_CONFIG").map(PathBuf::from);
    folders.into_iter().filter_map(below).chain(named.filter(|path| path.is_absolute())).collect()
}

/// The real path of the part that exists, with the rest behind it.
fn existing(path: &Path) -> PathBuf {
    for ancestor in path.ancestors() {
        if let Ok(real) = ancestor.canonicalize() {
            let rest = path.strip_prefix(ancestor).unwrap_or(Path::new(""));
            // Joining an empty rest would add a slash.
            return if rest.as_os_str().is_empty() { real } else { real.join(rest) };
        }
    }
    path.to_owned()
}

fn refuse(path: &Path, why: &str, cause: Cause) -> Refusal {
    Refusal {
        what: format!("the workspace {} {why}", shown(path)),
        cause,
        fix:
            "make it a folder of your own that nothing else uses, or set VESTIBULE_WORKSPACE to one"
                .to_owned(),
        retry: Retry::AfterFixOrRestart,
        at: None,
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// A home folder of the test's own.
    struct Home(PathBuf);

    impl Home {
        fn new(name: &str) -> Home {
            let path = std::env::temp_dir().join(format!("prepare-{name}-{}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Home(path.canonicalize().unwrap())
        }

        /// The workspace of these settings, or why there is none.
        fn folder(&self, variables: &[(&str, &Path)]) -> Result<PathBuf, String> {
            let home = [("HOME", self.0.as_path())];
            let all = home.iter().chain(variables);
            let config = Config::from_env(all.map(|(name, value)| (name.into(), value.into())));
            config.usable().and_then(|()| folder(&config)).map_err(|refusal| refusal.to_string())
        }

        /// The same with the other folders far away.
        fn workspace(&self, path: &Path) -> Result<PathBuf, String> {
            self.folder(&[
                ("VESTIBULE_WORKSPACE", path),
                ("VESTIBULE_AUDIT_DIR", Path::new("/nonexistent/audit")),
                ("VESTIBULE_ROOTFS_DIR", Path::new("/nonexistent/rootfs")),
            ])
        }
    }

    impl Drop for Home {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_default_is_made_for_its_owner_alone() {
        let home = Home::new("default");
        let made = home.folder(&[]).unwrap();
        assert_eq!(made, home.0.join(".vestibule/workspace"));
        for folder in [made.as_path(), made.parent().unwrap()] {
            assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o7777, 0o700);
        }
        assert_eq!(home.folder(&[]), Ok(made));
    }

    #[test]
    fn a_path_without_symbolic_links_comes_out() {
        let home = Home::new("resolved");
        fs::create_dir(home.0.join("real")).unwrap();
        symlink("real", home.0.join("link")).unwrap();
        assert_eq!(home.workspace(&home.0.join("link/w")), Ok(home.0.join("real/w")));
    }

    #[test]
    fn what_holds_too_much_or_is_no_folder_of_ours_is_refused() {
        let home = Home::new("refused");
        fs::write(home.0.join("file"), "").unwrap();
        fs::create_dir(home.0.join("real")).unwrap();
        fs::create_dir(home.0.join(".vestibule")).unwrap();
        symlink("real", home.0.join("link")).unwrap();
        // Another way to the home folder, which only the file system can tell.
        symlink(home.0.parent().unwrap(), home.0.join("real/up")).unwrap();
        let home_again = home.0.join("real/up").join(home.0.file_name().unwrap());
        let cases: [(&Path, &str); 8] = [
            (Path::new("/"), "neither /, nor your home folder"),
            (&foreign(&home), "belongs to another user"),
            (&home.0, "neither /, nor your home folder"),
            (&home_again, "is your home folder"),
            (&home_again.join(".vestibule"), "holds ~/.vestibule"),
            (&home.0.join("link"), "is a symbolic link"),
            (&home.0.join("file"), "is not a folder"),
            (&home.0.join("file/below"), "cannot be looked at"),
        ];
        for (path, why) in cases {
            let text = home.workspace(path).unwrap_err();
            assert!(text.contains(why) && text.contains("VESTIBULE_WORKSPACE"), "{path:?}: {text}");
            let both = text.contains("restart") && text.contains("no restart is needed");
            assert!(!both, "{path:?}: {text}");
        }
    }

    /// A folder that belongs to another user.
    fn foreign(home: &Home) -> PathBuf {
        if !nix::unistd::getuid().is_root() {
            return PathBuf::from("/usr");
        }
        let path = home.0.join("foreign");
        fs::create_dir(&path).unwrap();
        nix::unistd::chown(&path, Some(nix::unistd::Uid::from_raw(1)), None).unwrap();
        path
    }

    #[test]
    fn a_symbolic_link_does_not_hide_that_folders_lie_in_one_another() {
        let home = Home::new("nested");
        fs::create_dir(home.0.join("w")).unwrap();
        symlink("w", home.0.join("elsewhere")).unwrap();
        let (w, audit) = (home.0.join("w"), home.0.join("elsewhere/audit"));
        let settings: [(&str, &Path); 2] =
            [("VESTIBULE_WORKSPACE", &w), ("VESTIBULE_AUDIT_DIR", &audit)];
        let text = home.folder(&settings).unwrap_err();
        assert!(text.contains("VESTIBULE_AUDIT_DIR"), "{text}");
    }
}
