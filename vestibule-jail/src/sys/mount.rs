//! The mount API of Linux 5.2 (`fsopen`, `fsmount`, `open_tree`, `move_mount`) and of 5.12
//! (`mount_setattr`): mounts are descriptors, and are attached when they are complete.

use super::check;
use nix::NixPath;
use nix::errno::Errno;
use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

/// Attributes of a mount, as `MOUNT_ATTR_*`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Attributes(pub u64);

impl Attributes {
    /// No set-user-id programs, no devices.
    pub const PLAIN: Attributes = Attributes(libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV);
    /// As `PLAIN`, and no program can be executed.
    pub const DATA: Attributes = Attributes(Self::PLAIN.0 | libc::MOUNT_ATTR_NOEXEC);
    /// As `PLAIN`, and nothing can be written.
    pub const READ_ONLY: Attributes = Attributes(Self::PLAIN.0 | libc::MOUNT_ATTR_RDONLY);
    /// As `READ_ONLY`, but device files work.
    pub const DEVICES: Attributes =
        Attributes(libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC | libc::MOUNT_ATTR_RDONLY);

    /// Device files that are written to, and no program can be executed.
    pub const TERMINALS: Attributes = Attributes(libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC);

    /// The same as flags of `mount(2)`.
    pub fn as_mount_flags(self) -> libc::c_ulong {
        let table = [
            (libc::MOUNT_ATTR_RDONLY, libc::MS_RDONLY),
            (libc::MOUNT_ATTR_NOSUID, libc::MS_NOSUID),
            (libc::MOUNT_ATTR_NODEV, libc::MS_NODEV),
            (libc::MOUNT_ATTR_NOEXEC, libc::MS_NOEXEC),
        ];
        let set = table.iter().filter(|(attribute, _)| self.0 & attribute != 0);
        set.fold(0, |flags, (_, flag)| flags | flag)
    }
}

/// A detached mount of a new file system instance, with `options` as `key=value` pairs.
///
/// # Errors
/// The errno of `fsopen(2)`, `fsconfig(2)` or `fsmount(2)`. Linux 5.2.
pub fn new_filesystem(
    kind: &CStr,
    options: &[(&CStr, &CStr)],
    attributes: Attributes,
) -> nix::Result<OwnedFd> {
    const FSOPEN_CLOEXEC: libc::c_uint = 1;
    const FSMOUNT_CLOEXEC: libc::c_uint = 1;
    // SAFETY: `kind` is a valid C string for the whole call; a successful call returns a new
    // descriptor that nothing else owns.
    let context = unsafe {
        let fd = check(libc::syscall(libc::SYS_fsopen, kind.as_ptr(), FSOPEN_CLOEXEC))?;
        OwnedFd::from_raw_fd(fd as RawFd)
    };
    for (key, value) in options {
        configure(&context, libc::FSCONFIG_SET_STRING, key.as_ptr(), value.as_ptr())?;
    }
    configure(&context, libc::FSCONFIG_CMD_CREATE, ptr::null(), ptr::null())?;
    // SAFETY: all arguments are plain numbers; a successful call returns a new descriptor that
    // nothing else owns.
    unsafe {
        let fd = libc::syscall(
            libc::SYS_fsmount,
            context.as_raw_fd(),
            FSMOUNT_CLOEXEC,
            attributes.0 as libc::c_uint,
        );
        Ok(OwnedFd::from_raw_fd(check(fd)? as RawFd))
    }
}

fn configure(
    context: &OwnedFd,
    command: libc::c_uint,
    key: *const libc::c_char,
    value: *const libc::c_char,
) -> nix::Result<()> {
    // SAFETY: `key` and `value` are null or C strings of the caller that outlive the call.
    check(unsafe {
        libc::syscall(libc::SYS_fsconfig, context.as_raw_fd(), command, key, value, 0)
    })?;
    Ok(())
}

/// A detached clone of the mount at `path` below `folder` (of `folder` itself if `path` is empty),
/// with everything mounted below it if `recursive`.
///
/// # Errors
/// The errno of `open_tree(2)`. Linux 5.2.
pub fn clone_tree<P: ?Sized + NixPath>(
    folder: BorrowedFd<'_>,
    path: &P,
    recursive: bool,
) -> nix::Result<OwnedFd> {
    let mut flags = libc::OPEN_TREE_CLONE
        | libc::OPEN_TREE_CLOEXEC
        | libc::AT_EMPTY_PATH as libc::c_uint
        | libc::AT_NO_AUTOMOUNT as libc::c_uint
        | libc::AT_SYMLINK_NOFOLLOW as libc::c_uint;
    if recursive {
        flags |= libc::AT_RECURSIVE as libc::c_uint;
    }
    path.with_nix_path(|path| {
        // SAFETY: `path` is a C string that outlives the call; a successful call returns a new
        // descriptor that nothing else owns.
        unsafe {
            let fd = libc::syscall(libc::SYS_open_tree, folder.as_raw_fd(), path.as_ptr(), flags);
            Ok(OwnedFd::from_raw_fd(check(fd)? as RawFd))
        }
    })?
}

/// Attaches a detached mount at `path` below `folder`, or at `folder` itself if `path` is empty.
/// The last component of `path` is not followed if it is a symbolic link.
///
/// # Errors
/// The errno of `move_mount(2)`. Linux 5.2.
pub fn attach<P: ?Sized + NixPath>(
    mount: BorrowedFd<'_>,
    folder: BorrowedFd<'_>,
    path: &P,
) -> nix::Result<()> {
    const MOVE_MOUNT_F_EMPTY_PATH: libc::c_uint = 0x04;
    const MOVE_MOUNT_T_EMPTY_PATH: libc::c_uint = 0x40;
    path.with_nix_path(|path| {
        // SAFETY: both paths are C strings that outlive the call.
        check(unsafe {
            libc::syscall(
                libc::SYS_move_mount,
                mount.as_raw_fd(),
                c"".as_ptr(),
                folder.as_raw_fd(),
                path.as_ptr(),
                MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH,
            )
        })
    })??;
    Ok(())
}

/// Adds attributes to a mount, and to every mount below it if `recursive`.
///
/// # Errors
/// The errno of `mount_setattr(2)`; `ENOSYS` before Linux 5.12.
pub fn set_attributes(
    mount: BorrowedFd<'_>,
    attributes: Attributes,
    recursive: bool,
) -> nix::Result<()> {
    let mut change: libc::mount_attr =
        libc::mount_attr { attr_set: attributes.0, attr_clr: 0, propagation: 0, userns_fd: 0 };
    let mut flags = libc::AT_EMPTY_PATH as libc::c_uint;
    if recursive {
        flags |= libc::AT_RECURSIVE as libc::c_uint;
    }
    // SAFETY: `change` is a valid `mount_attr` of the size that is passed with it.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw mut change,
            size_of::<libc::mount_attr>(),
        )
    })?;
    Ok(())
}

/// Sets the flags of one mount anew with `mount(2)`, for kernels without `mount_setattr`.
///
/// # Errors
/// The errno of `mount(2)`.
pub fn remount_bind(path: &CStr, flags: libc::c_ulong) -> nix::Result<()> {
    let flags = flags | libc::MS_REMOUNT | libc::MS_BIND;
    // SAFETY: `path` is a C string that outlives the call; the other pointers may be null for a
    // remount of a bind.
    let done = unsafe { libc::mount(ptr::null(), path.as_ptr(), ptr::null(), flags, ptr::null()) };
    Errno::result(done).map(drop)
}
