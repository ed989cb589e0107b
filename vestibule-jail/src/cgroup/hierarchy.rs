//! The hierarchy of cgroups, and this process's place in it.

use super::folder::Folder;
use crate::procfs;
use crate::sys;
use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};
use nix::unistd::{AccessFlags, access};
use protocol::NoCgroup;
use std::path::{Component, Path, PathBuf};

/// Where the hierarchy is mounted: systemd and the engines know no other place.
const ROOT: &str = "/sys/fs/cgroup";

/// Where a hybrid host mounts cgroup v2, which has no controllers then.
const HYBRID: &str = "/sys/fs/cgroup/unified";

/// The mark that systemd puts on a cgroup that it has delegated; a user's systemd 252 does not.
const DELEGATED: &str = "user.delegate";

/// Whether cgroup v2 is the only hierarchy.
///
/// # Errors
/// What there is instead.
pub fn is_mounted() -> Result<(), NoCgroup> {
    let is_v2 =
        |path: &str| statfs(path).is_ok_and(|found| found.filesystem_type() == CGROUP2_SUPER_MAGIC);
    if is_v2(ROOT) {
        Ok(())
    } else if is_v2(HYBRID) {
        Err(NoCgroup::Hybrid)
    } else {
        Err(NoCgroup::NoHierarchy)
    }
}

/// The folder of the cgroup that a process is in; `None` if it lies outside what is mounted here.
pub fn of(process: &str) -> Option<PathBuf> {
    let text = procfs::read(&Path::new("/proc").join(process).join("cgroup")).ok()?;
    folder(&text)
}

fn folder(text: &str) -> Option<PathBuf> {
    let path = Path::new(text.lines().find_map(|line| line.strip_prefix("0::/"))?);
    let inside = path.components().all(|part| matches!(part, Component::Normal(_)));
    inside.then(|| Path::new(ROOT).join(path))
}

/// The writable cgroup that this process runs in.
#[derive(Debug, PartialEq)]
pub struct Own {
    /// Its folder.
    pub folder: PathBuf,
    /// Whether it is the user's to divide; `None` where only systemd knows.
    pub delegated: Option<bool>,
}

/// The cgroup that this process runs in, if it is writable.
pub fn own() -> Option<Own> {
    let folder = of("self")?;
    let writable = ["", "cgroup.procs", "cgroup.subtree_control"];
    let ours = writable.iter().all(|name| access(&folder.join(name), AccessFlags::W_OK).is_ok());
    // The paths may mean another hierarchy than the one that is mounted here.
    let members = Folder::open(&folder).ok()?.read("cgroup.procs").ok()?;
    let here = members.lines().any(|line| line == nix::unistd::getpid().to_string());
    let marked = || sys::files::extended_attribute(&folder, DELEGATED).is_ok_and(|v| v == b"1");
    let delegated = if !belongs_to_user_manager(&folder) || marked() { Some(true) } else { None };
    (ours && here).then_some(Own { folder, delegated })
}

/// Whether the user's systemd has made a cgroup: all below it is writable for the user, and most of it
/// systemd's own to arrange. Elsewhere a writable cgroup is one that was handed over.
fn belongs_to_user_manager(folder: &Path) -> bool {
    let is_manager = |name: &str| name.starts_with("user@") && name.ends_with(".service");
    let mut above = folder.ancestors().skip(1);
    above.any(|folder| folder.file_name().and_then(|n| n.to_str()).is_some_and(is_manager))
}

/// Whether this process runs in a cgroup that lies directly below `home`.
pub fn runs_below(home: &Path) -> bool {
    of("self").is_some_and(|own| own.parent() == Some(home))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_that_of_version_two() {
        let text = "9:memory:/a\n0::/user.slice/user-1000.slice/session-1.scope\n";
        let found = folder(text).unwrap();
        assert_eq!(found, Path::new(ROOT).join("user.slice/user-1000.slice/session-1.scope"));
        assert_eq!(folder("0::/"), Some(PathBuf::from("/sys/fs/cgroup/")));
    }

    #[test]
    fn only_below_the_user_manager_a_writable_cgroup_may_be_systemds() {
        let of_manager = |path: &str| belongs_to_user_manager(&Path::new(ROOT).join(path));
        assert!(of_manager("user.slice/user-1000.slice/user@1000.service/app.slice/a.scope"));
        assert!(!of_manager("user.slice/user-1000.slice/user@1000.service"));
        assert!(!of_manager("system.slice/agent.service"));
        assert!(!of_manager("system.slice/user@home/x") && !of_manager(""));
    }

    #[test]
    fn what_lies_outside_or_is_no_line_of_version_two_is_not_taken() {
        for text in ["0::/../other.scope\n", "1:cpu:/a\n", "", "0::relative"] {
            assert_eq!(folder(text), None, "{text:?}");
        }
    }
}
