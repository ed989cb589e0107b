//! Whether nobody but the user and root can change what a folder's path leads to. Whoever can write to a
//! folder above it can put another one in its place.

mod group;

use crate::escape::{for_display, for_shell};
use nix::errno::Errno;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// How many links a path may go over; the kernel has the same limit.
const LINKS: u32 = 40;
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

/// Looks at every folder that `path` goes through, and at those that its links lead through.
///
/// # Errors
/// The first that somebody else can change. One that cannot be looked at counts as such.
pub fn check(path: &Path) -> Result<(), Unsafe> {
    let user = nix::unistd::getuid();
    let owners =
        Owners { user: user.as_raw(), unknown: &unknown, private: &|| group::private(user) };
    walk(path, &|place, status| owners.judge(place, status))
}

/// Shows `judge` each folder that a part of the path is looked up in, and each link, as the kernel meets them:
/// neither the path as it is set nor the real one has what lies between two links.
fn walk(path: &Path, judge: &dyn Fn(&Path, &Metadata) -> Result<(), Unsafe>) -> Result<(), Unsafe> {
    let look = |place: &Path| fs::symlink_metadata(place).map_err(|error| unclear(place, &error));
    let whole = std::path::absolute(path).map_err(|error| unclear(path, &error))?;
    // Without a link in it.
    let mut here = PathBuf::from("/");
    let mut left = reversed(&whole);
    let mut links = 0;
    while let Some(part) = left.pop() {
        match part.as_encoded_bytes() {
            b"/" => here = PathBuf::from("/"),
            b"." => {}
            b".." => drop(here.pop()),
            _ => {
                judge(&here, &look(&here)?)?;
                let next = here.join(&part);
                let status = look(&next)?;
                if !status.is_symlink() {
                    here = next;
                    continue;
                }
                judge(&next, &status)?;
                links += 1;
                if links > LINKS {
                    return Err(unclear(path, &Errno::ELOOP.into()));
                }
                let target = fs::read_link(&next).map_err(|error| unclear(&next, &error))?;
                left.extend(reversed(&target));
            }
        }
    }
    Ok(())
}

/// The parts of a path, with the first one last.
fn reversed(path: &Path) -> Vec<OsString> {
    path.components().rev().map(|part| part.as_os_str().to_owned()).collect()
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
        let by_group = status.mode() & 0o020 != 0
            && (has_list(folder) || (self.private)() != Some(status.gid()));
        if status.mode() & 0o002 == 0 && !by_group {
            return Ok(());
        }
        Err(Unsafe {
            what: format!("{} can be written to by others", shown(folder)),
            fix: format!(
                "run `chmod go-w {}`, or set VESTIBULE_ROOTFS_DIR to a folder elsewhere",
                for_shell(folder)
            ),
        })
    }
}

/// Whether more may write than the mode tells: with an access control list the bits of the group are the most
/// that anybody in the list has. What cannot be told counts as such.
fn has_list(folder: &Path) -> bool {
    let list = rustix::fs::lgetxattr(folder, "system.posix_acl_access", &mut [0_u8; 0]);
    !matches!(list, Err(rustix::io::Errno::NODATA | rustix::io::Errno::OPNOTSUPP))
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
    fn a_link_that_leads_over_another_is_judged_where_that_one_lies() {
        let folder = folder("hop");
        let (open, link) = (folder.join("open"), folder.join("link"));
        fs::create_dir(&open).unwrap();
        symlink("../a/store", open.join("hop")).unwrap();
        symlink("open/hop", &link).unwrap();
        set(&open, 0o777);
        for path in [link.clone(), link.join("../store")] {
            let found = check(&path).unwrap_err();
            assert!(found.what.contains(&format!("{} can be", open.display())), "{found:?}");
        }
        set(&open, 0o755);
        assert_eq!(check(&link), Ok(()));
        symlink("loop", folder.join("loop")).unwrap();
        let found = check(&folder.join("loop")).unwrap_err();
        assert!(found.what.contains("cannot be looked at"), "{found:?}");
        fs::remove_dir_all(folder).unwrap();
    }

    /// A list that lets user 4711 do everything: for owner, user, group, mask and others the tag, the rights and
    /// the number.
    fn list() -> Vec<u8> {
        let entries = [(1, 7, u32::MAX), (2, 7, 4711), (4, 5, u32::MAX), (16, 7, u32::MAX)];
        let mut list = 2_u32.to_le_bytes().to_vec();
        for (tag, rights, number) in entries.into_iter().chain([(32, 5, u32::MAX)]) {
            list.extend(u16::to_le_bytes(tag));
            list.extend(u16::to_le_bytes(rights));
            list.extend(number.to_le_bytes());
        }
        list
    }

    #[test]
    fn a_group_of_one_does_not_count_where_a_list_names_others() {
        let folder = folder("list");
        set(&folder, 0o775);
        let judge = || {
            let status = fs::metadata(&folder).unwrap();
            let private = || Some(status.gid());
            let owners = Owners { user: status.uid(), unknown: &|| None, private: &private };
            owners.judge(&folder, &status).is_ok()
        };
        assert!(judge());
        let name = "system.posix_acl_access";
        let flags = rustix::fs::XattrFlags::empty();
        match rustix::fs::setxattr(&folder, name, &list(), flags) {
            // There are no lists here then.
            Err(rustix::io::Errno::OPNOTSUPP) => {}
            made => {
                made.unwrap();
                assert!(!judge());
                set(&folder, 0o755);
                assert!(judge(), "nobody in the list may write");
            }
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_command_that_helps_can_be_run_as_it_is() {
        let folder = folder("with blanks");
        set(&folder, 0o777);
        let found = check(&folder.join("a")).unwrap_err();
        assert!(found.fix.contains(&format!("chmod go-w '{}'", folder.display())), "{found:?}");
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
