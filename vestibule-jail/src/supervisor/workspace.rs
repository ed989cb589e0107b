//! Checking the workspace: the folder that is checked is the folder that is mounted.

use crate::plan::Workspace;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, AtFlags, OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::fstat;
use nix::unistd::{AccessFlags, faccessat};
use protocol::{Cause, Refusal, Retry, Step, StepError};
use std::path::{Path, PathBuf};

/// Checks the workspace folder.
///
/// # Errors
/// A refusal if it is missing, reached through a symbolic link, not the user's own, a folder that
/// must not be shared, or not accessible.
pub fn check(path: &Path, read_only: bool, uid: u32) -> Result<Workspace, Refusal> {
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    let folder = openat2(AT_FDCWD, path, how).map_err(|errno| refuse(path, errno))?;
    let status = fstat(&folder).map_err(|errno| refuse(path, errno))?;
    if status.st_uid != uid {
        return Err(not_allowed(path, "it belongs to another user"));
    }
    if path == Path::new("/") {
        return Err(not_allowed(path, "it is the root folder"));
    }
    for home in homes(uid) {
        if home.starts_with(path) {
            return Err(not_allowed(path, "it is the home folder or holds it"));
        }
    }
    let write = if read_only { AccessFlags::R_OK } else { AccessFlags::R_OK | AccessFlags::W_OK };
    let access = write | AccessFlags::X_OK;
    // The name is looked up anew here, and by init, which compares the identity: a swap gains
    // nothing.
    faccessat(AT_FDCWD, path, access, AtFlags::AT_EACCESS).map_err(|errno| refuse(path, errno))?;
    Ok(Workspace { path: path.to_owned(), identity: (status.st_dev, status.st_ino), read_only })
}

/// The user's home folders: of the passwd entry and of the environment. `/etc/passwd` is read as a
/// file, since the name service would load code of other packages into this process.
fn homes(uid: u32) -> Vec<PathBuf> {
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let of_passwd = passwd.lines().filter_map(|line| {
        let mut fields = line.split(':').skip(2);
        let same = fields.next()?.parse() == Ok(uid);
        let home = fields.nth(2)?;
        same.then(|| PathBuf::from(home))
    });
    let of_environment = std::env::var_os("HOME").map(PathBuf::from);
    // A home that is reached through a link is the folder that the link leads to.
    let real = |home: PathBuf| home.canonicalize().unwrap_or(home);
    let usable = |home: &PathBuf| home.is_absolute() && home != Path::new("/");
    of_passwd.chain(of_environment).filter(usable).map(real).filter(usable).collect()
}

fn not_allowed(path: &Path, why: &str) -> Refusal {
    Refusal {
        what: format!("the workspace {path:?} must not be given to a sandbox: {why}"),
        cause: Cause::WorkspaceNotAllowed,
        fix: "choose a folder of your own that is used for nothing else".to_owned(),
        retry: Retry::AfterFixOrRestart,
        at: None,
    }
}

fn refuse(path: &Path, errno: Errno) -> Refusal {
    let (what, cause, fix) = match errno {
        Errno::ENOENT => (
            format!("the workspace {path:?} does not exist"),
            Cause::WorkspaceMissing,
            format!("make it: mkdir -p -m 700 {path:?}"),
        ),
        Errno::ELOOP => (
            format!("the workspace {path:?} is reached through a symbolic link"),
            Cause::WorkspaceNotAllowed,
            "name the folder itself, as `realpath` prints it".to_owned(),
        ),
        Errno::ENOTDIR => (
            format!("the workspace {path:?} is not a folder"),
            Cause::WorkspaceNotAllowed,
            "choose a folder".to_owned(),
        ),
        _ => (
            format!("the workspace {path:?} cannot be used"),
            Cause::WorkspaceNotWritable,
            format!("make it readable and writable for you: chmod u+rwx {path:?}"),
        ),
    };
    let at = Some(StepError { step: Step::OpenWorkspace, errno: errno as i32 });
    Refusal { what, cause, fix, retry: Retry::AfterFixOrRestart, at }
}
