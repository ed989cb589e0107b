//! Where an engine's program lies.

use super::cli::Cli;
use super::engine::Kind;
use std::path::{Path, PathBuf};

/// Where installers put the programs; a client that is started from a desktop has a short `PATH`.
const ELSEWHERE: &[&str] = if cfg!(windows) {
    &[r"C:\Program Files\Docker\Docker\resources\bin", r"C:\Program Files\RedHat\Podman"]
} else {
    &[
        "/usr/local/bin",
        "/usr/bin",
        "/opt/homebrew/bin",
        "/opt/podman/bin",
        "/Applications/Docker.app/Contents/Resources/bin",
    ]
};

/// The size below which a program may be a script, in bytes.
const SCRIPT: u64 = 4096;

/// The engine's program, by the server's own `PATH` and then where installers put it.
pub fn program(kind: Kind) -> Option<PathBuf> {
    let name = if cfg!(windows) { format!("{}.exe", kind.name()) } else { kind.name().to_owned() };
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .chain(ELSEWHERE.iter().map(PathBuf::from))
        .map(|folder| folder.join(&name))
        .find(|program| program.is_file())
}

/// Its command line, without advice, and with the folder that an engine of an ordinary user lies in: MCP clients leave
/// `XDG_RUNTIME_DIR` out.
pub fn cli(program: PathBuf) -> Cli {
    // Advice of the client's beside an answer would be taken for a part of it.
    let mut environment = vec![("DOCKER_CLI_HINTS", PathBuf::from("false"))];
    if std::env::var_os("XDG_RUNTIME_DIR").is_none()
        && let Some(folder) = runtime_folder()
    {
        environment.push(("XDG_RUNTIME_DIR", folder));
    }
    Cli { program, environment }
}

#[cfg(unix)]
fn runtime_folder() -> Option<PathBuf> {
    let uid = nix::unistd::getuid().as_raw();
    let folder = PathBuf::from(format!("/run/user/{uid}"));
    let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(&folder).ok()?);
    (owner == uid).then_some(folder)
}

#[cfg(not(unix))]
fn runtime_folder() -> Option<PathBuf> {
    None
}

/// Whether an ordinary user's Podman on this machine has never been used, and so has no image. Only
/// looked at: asking Podman would make folders in the home and leave a process behind.
pub fn podman_is_unused(home: Option<&Path>) -> bool {
    let set = |name: &str| std::env::var_os(name).is_some();
    let elsewhere = [
        "CONTAINER_HOST",
        "CONTAINER_CONNECTION",
        "CONTAINERS_CONF",
        "CONTAINERS_STORAGE_CONF",
        "XDG_DATA_HOME",
        "XDG_CONFIG_HOME",
    ];
    let Some(home) = home.filter(|_| cfg!(target_os = "linux") && !elsewhere.into_iter().any(set))
    else {
        return false;
    };
    let folders = [".local/share/containers", ".config/containers"];
    let system = std::fs::read_to_string("/etc/containers/storage.conf").unwrap_or_default();
    let shared = system.lines().map(str::trim_start).any(|line| {
        line.starts_with("rootless_storage_path") || line.starts_with("additionalimagestores")
    });
    !shared && folders.iter().all(|folder| !home.join(folder).exists())
}

/// Whether a program is Podman whatever it is called, as far as its file tells: a link to it, or a script
/// that starts it, as distributions have them for those who type `docker`.
pub fn is_podman(program: &Path) -> bool {
    let real = program.canonicalize().unwrap_or_default();
    let named = real.file_name().is_some_and(|name| name.to_string_lossy().starts_with("podman"));
    let is_small = std::fs::metadata(&real).is_ok_and(|metadata| metadata.len() < SCRIPT);
    named || is_small && std::fs::read_to_string(&real).is_ok_and(|text| text.contains("podman"))
}

/// Whether the program is the snap's: it sees neither hidden folders of a home nor other temporary
/// folders than its own.
pub fn is_snap(program: &Path) -> bool {
    let real = program.canonicalize().unwrap_or_default();
    [program, &real].iter().any(|path| path.starts_with("/snap") || path.ends_with("usr/bin/snap"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_without_any_containers_has_never_used_podman() {
        let none = Path::new("/nonexistent/home");
        let folder = std::env::temp_dir().join(format!("vestibule-home-{}", std::process::id()));
        std::fs::create_dir_all(folder.join(".config/containers")).unwrap();
        assert!(!podman_is_unused(Some(&folder)));
        std::fs::remove_dir_all(&folder).unwrap();
        // A developer's own settings may point elsewhere, and then it has to be asked.
        assert_eq!(podman_is_unused(Some(none)), podman_is_unused(Some(&folder)));
        assert!(!podman_is_unused(None));
    }

    #[cfg(unix)]
    #[test]
    fn podman_is_told_by_its_file_under_any_name() {
        let folder = std::env::temp_dir().join(format!("vestibule-find-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let (podman, link, script) = (folder.join("podman"), folder.join("a"), folder.join("b"));
        std::fs::write(&podman, vec![0; 9999]).unwrap();
        std::os::unix::fs::symlink(&podman, &link).unwrap();
        std::fs::write(&script, "#!/bin/sh\nexec /usr/bin/podman \"$@\"\n").unwrap();
        assert!(is_podman(&podman) && is_podman(&link) && is_podman(&script));
        std::fs::write(&script, "#!/bin/sh\nexec /usr/bin/docker \"$@\"\n").unwrap();
        assert!(!is_podman(&script) && !is_podman(&folder.join("none")));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_snap_is_told_by_its_path() {
        assert!(is_snap(Path::new("/snap/bin/docker")));
        assert!(!is_snap(Path::new("/usr/bin/docker")));
    }
}
