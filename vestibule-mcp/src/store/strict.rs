//! Whether nobody but the user and root can change what a folder's path leads to. Whoever can write to a
//! folder above it can put another one in its place.

use crate::escape::for_display;
use nix::unistd::{Gid, Group, Uid, User};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The bit by which only its owner can rename or remove an entry, as in `/tmp`.
const STICKY: u32 = 0o1000;

/// A folder that is not safe.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Unsafe {
    /// What is wrong, as one clause.
    pub what: String,
    /// What to do about it, likewise.
    pub fix: String,
}

/// Looks at every folder above `path`, by the name that is set and by the real one.
///
/// # Errors
/// The first that somebody else can change. One that cannot be looked at counts as such.
pub fn check(path: &Path) -> Result<(), Unsafe> {
    let real = path.canonicalize().map_err(|error| unclear(path, &error))?;
    let user = nix::unistd::getuid();
    let owners =
        Owners { user: user.as_raw(), unknown: &unknown, private: &|| private_group(user) };
    for above in path.ancestors().skip(1).chain(real.ancestors().skip(1)) {
        if above.as_os_str().is_empty() {
            continue;
        }
        let status = fs::symlink_metadata(above).map_err(|error| unclear(above, &error))?;
        owners.judge(above, &status)?;
    }
    // A link in the last place is as good as what it leads to.
    let status = fs::symlink_metadata(path).map_err(|error| unclear(path, &error))?;
    if status.is_symlink() { owners.judge(path, &status) } else { Ok(()) }
}

/// Who may own and change a folder. What has to be looked up is so only where it matters: a user database may
/// be slow, and this is done for each run.
struct Owners<'a> {
    user: u32,
    /// Whom the owners of a surrounding machine are shown as in a user namespace that does not know them all.
    unknown: &'a dyn Fn() -> Option<u32>,
    /// The user's own group, if nobody else is in it.
    private: &'a dyn Fn() -> Option<u32>,
}

impl Owners<'_> {
    fn judge(&self, folder: &Path, status: &Metadata) -> Result<(), Unsafe> {
        let owner = status.uid();
        if owner != 0 && owner != self.user && Some(owner) != (self.unknown)() {
            return Err(Unsafe {
                what: format!("{} belongs to another user", shown(folder)),
                fix: "set VESTIBULE_ROOTFS_DIR to a folder below those of your own".to_owned(),
            });
        }
        // A link's own mode means nothing.
        if status.is_symlink() || status.mode() & STICKY != 0 {
            return Ok(());
        }
        // Who can write through a group of one is the user.
        let by_group = status.mode() & 0o020 != 0 && (self.private)() != Some(status.gid());
        if status.mode() & 0o002 == 0 && !by_group {
            return Ok(());
        }
        Err(Unsafe {
            what: format!("{} can be written to by others", shown(folder)),
            fix: format!(
                "run `chmod go-w {}`, or set VESTIBULE_ROOTFS_DIR to a folder elsewhere",
                shown(folder)
            ),
        })
    }
}

/// The user's primary group, where it has the user's name and no other member, as distributions with a
/// umask of 002 make it.
fn private_group(user: Uid) -> Option<u32> {
    let user = User::from_uid(user).ok().flatten()?;
    let group = Group::from_gid(user.gid).ok().flatten()?;
    let alone = group.mem.iter().all(|member| *member == user.name);
    (group.name == user.name && alone && user.gid != Gid::from_raw(0)).then(|| user.gid.as_raw())
}

/// The number that stands for whoever has none here; `None` where everybody has one.
fn unknown() -> Option<u32> {
    let map = fs::read_to_string("/proc/self/uid_map").ok()?;
    let everybody = map.split_whitespace().eq(["0", "0", "4294967295"]);
    let number = fs::read_to_string("/proc/sys/kernel/overflowuid").ok()?;
    number.trim().parse().ok().filter(|_| !everybody)
}

fn unclear(path: &Path, error: &io::Error) -> Unsafe {
    Unsafe {
        what: format!("{} cannot be looked at ({error})", shown(path)),
        fix: "set VESTIBULE_ROOTFS_DIR to a folder below those of your own".to_owned(),
    }
}

fn shown(path: &Path) -> String {
    for_display(&path.to_string_lossy(), 300)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("strict-{name}-{}", std::process::id()));
        fs::create_dir_all(folder.join("a/store")).unwrap();
        folder
    }

    fn set(folder: &Path, mode: u32) {
        fs::set_permissions(folder, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_folder_above_that_others_can_write_to_is_named_unless_it_is_sticky() {
        let folder = folder("above");
        let (above, store) = (folder.join("a"), folder.join("a/store"));
        for (mode, good) in [(0o755, true), (0o777, false), (0o1777, true), (0o757, false)] {
            set(&above, mode);
            assert_eq!(check(&store).is_ok(), good, "{mode:o}");
        }
        set(&above, 0o777);
        let found = check(&store).unwrap_err();
        assert!(found.what.contains(&format!("{} can be written", above.display())), "{found:?}");
        assert!(found.fix.contains(&format!("chmod go-w {}", above.display())), "{found:?}");
        // By way of a link both the link's folder and the real one count.
        let link = folder.join("link");
        symlink(&store, &link).unwrap();
        assert!(check(&link).is_err());
        set(&above, 0o755);
        assert_eq!(check(&link), Ok(()));
        set(&folder, 0o777);
        assert!(check(&link).is_err());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_group_counts_as_the_user_where_nobody_else_is_in_it() {
        let folder = folder("group");
        let above = folder.join("a");
        set(&above, 0o775);
        let status = fs::metadata(&above).unwrap();
        let judge = |group: Option<u32>| {
            let owners = Owners { user: status.uid(), unknown: &|| None, private: &|| group };
            owners.judge(&above, &status)
        };
        assert!(judge(Some(status.gid())).is_ok());
        assert!(judge(Some(status.gid() + 1)).is_err());
        assert!(judge(None).is_err());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_folder_of_another_user_is_refused_and_of_nobody_known_not() {
        let folder = folder("owner");
        let status = fs::metadata(&folder).unwrap();
        let owner = status.uid();
        let judge = |user, unknown: Option<u32>| {
            let owners = Owners { user, unknown: &|| unknown, private: &|| None };
            owners.judge(&folder, &status).map_err(|error| error.what)
        };
        assert_eq!(judge(owner, None), Ok(()));
        assert_eq!(judge(owner + 1, Some(owner)), Ok(()));
        if owner != 0 {
            assert!(judge(owner + 1, None).unwrap_err().contains("belongs to another user"));
        }
        fs::remove_dir_all(folder).unwrap();
    }
}
