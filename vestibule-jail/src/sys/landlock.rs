//! Landlock: three calls that restrict what a process can write to. Linux 5.13; ABI 2, without
//! which no file could be renamed across folders, came with 5.19.

use super::check;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

const CREATE_RULESET_VERSION: u32 = 1;
const RULE_PATH_BENEATH: u32 = 1;

const WRITE_FILE: u64 = 1 << 1;
/// From `REMOVE_DIR` (bit 4) to `MAKE_SYM` (bit 12): all that changes a folder's entries.
const CHANGE_FOLDER: u64 = 0x1ff0;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;

#[repr(C)]
struct Ruleset {
    handled_access_fs: u64,
}

#[repr(C, packed)]
struct PathBeneath {
    allowed_access: u64,
    parent_fd: i32,
}

/// The kernel's Landlock ABI version; 0 where it has none or it is off.
pub fn abi() -> u32 {
    // SAFETY: with this flag the call takes a null pointer and size 0, and returns a number.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<Ruleset>(),
            0,
            CREATE_RULESET_VERSION,
        )
    };
    check(version).map_or(0, |version| version as u32)
}

/// Restricts every write of the calling process, and of what it starts, to the files below
/// `folders`. Needs `no_new_privs` and ABI 2.
///
/// # Errors
/// The errno of `landlock_create_ruleset(2)`, `landlock_add_rule(2)` or
/// `landlock_restrict_self(2)`.
pub fn restrict_writes(folders: &[BorrowedFd<'_>]) -> nix::Result<()> {
    let mut access = WRITE_FILE | CHANGE_FOLDER | REFER;
    if abi() >= 3 {
        access |= TRUNCATE;
    }
    let ruleset = Ruleset { handled_access_fs: access };
    // SAFETY: `ruleset` is valid and of the size passed with it; a successful call returns a new
    // descriptor that nothing else owns.
    let ruleset = unsafe {
        let fd = libc::syscall(
            libc::SYS_landlock_create_ruleset,
            &raw const ruleset,
            size_of::<Ruleset>(),
            0,
        );
        OwnedFd::from_raw_fd(check(fd)? as RawFd)
    };
    for folder in folders {
        let rule = PathBeneath { allowed_access: access, parent_fd: folder.as_raw_fd() };
        // SAFETY: `rule` is a valid rule of the type passed with it and outlives the call.
        check(unsafe {
            libc::syscall(
                libc::SYS_landlock_add_rule,
                ruleset.as_raw_fd(),
                RULE_PATH_BENEATH,
                &raw const rule,
                0,
            )
        })?;
    }
    // SAFETY: only numbers are passed.
    check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_restricted_thread_writes_where_it_may_and_nowhere_else() {
        if abi() < 2 {
            eprintln!("skipped: this kernel has no Landlock ABI 2");
            return;
        }
        let base = std::env::temp_dir().join(format!("landlock-{}", std::process::id()));
        let (may, may_not) = (base.join("may"), base.join("may-not"));
        std::fs::create_dir_all(&may).unwrap();
        std::fs::create_dir_all(&may_not).unwrap();
        std::fs::write(may_not.join("there"), "kept").unwrap();
        let (inside, outside) = (may.clone(), may_not.clone());
        // The restriction holds for the thread that asks for it and for what that starts.
        let restricted = std::thread::spawn(move || {
            nix::sys::prctl::set_no_new_privs().unwrap();
            let folder = std::fs::File::open(&inside).unwrap();
            restrict_writes(&[folder.as_fd()]).unwrap();
            std::fs::write(inside.join("new"), "x").unwrap();
            std::fs::rename(inside.join("new"), inside.join("other")).unwrap();
            let denied = |done: std::io::Result<()>| {
                assert_eq!(done.unwrap_err().kind(), std::io::ErrorKind::PermissionDenied);
            };
            denied(std::fs::write(outside.join("new"), "x"));
            denied(std::fs::write(outside.join("there"), "changed"));
            denied(std::fs::remove_file(outside.join("there")));
            denied(std::fs::create_dir(outside.join("folder")));
            assert_eq!(std::fs::read_to_string(outside.join("there")).unwrap(), "kept");
        });
        let done = restricted.join();
        std::fs::remove_dir_all(&base).unwrap();
        assert!(done.is_ok());
    }
}
