//! The folder of images as `setup` needs it: on this machine's own disk, the user's own, and held by one
//! `setup` at a time.

use super::error::SetupError;
use super::leftovers::{self, Unfinished};
use super::progress::Progress;
use crate::backend::locate::shown;
use crate::escape::for_shell;
use crate::store::{inventory, strict};
use crate::workspace::private;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::statfs::statfs;
use nix::sys::statvfs::statvfs;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Blobs on their way.
pub const DOWNLOADS: &str = ".downloads";
/// How long the sandbox of a `setup` that was killed may take to end: its helper is told at once, and a busy
/// machine needs seconds.
const DYING: Duration = Duration::from_secs(30);
/// How often its folder is tried meanwhile.
const AGAIN: Duration = Duration::from_millis(20);
/// What a `setup` at work holds.
const LOCK: &str = ".lock";

/// File systems where modes, owners, links or locks are not what an image needs, or that hang when a
/// network does, by their numbers in `statfs(2)`. FUSE is not among them: what is behind it cannot be told.
const REMOTE: [(u32, &str); 10] = [
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB"),
    (0x0102_1997, "9p, as Windows drives are under WSL"),
    (0x5346_414f, "AFS"),
    (0x7375_7245, "Coda"),
    (0x564c, "NCP"),
    (0x00c3_6400, "Ceph"),
    (0x0bd0_0bd0, "Lustre"),
];

/// The folder, held. Let go when it is dropped, or its process ends.
#[derive(Debug)]
pub struct Place {
    /// Its path, without symbolic links.
    pub folder: PathBuf,
    _lock: Flock<File>,
}

impl Place {
    /// Makes the folder where it is missing, for its owner alone, waits for another `setup` that is at
    /// work in it, and removes what killed ones have left.
    ///
    /// # Errors
    /// [`SetupError`] if it is not ours, not private or not on a disk of this machine.
    pub fn hold(path: &Path, progress: &mut Progress) -> Result<Place, SetupError> {
        private::builder()
            .recursive(true)
            .create(path)
            .map_err(|error| SetupError::of_file("made", path, &error))?;
        let folder =
            path.canonicalize().map_err(|error| SetupError::of_file("used", path, &error))?;
        check_owner(path, &folder)?;
        check_filesystem(&folder)?;
        let lock = lock(&folder, progress)?;
        let place = Place { folder, _lock: lock };
        place.clear()?;
        let downloads = place.downloads();
        if fs::symlink_metadata(&downloads).is_ok_and(|status| !status.is_dir()) {
            return Err(SetupError::new(
                format!("{} is no folder", shown(&downloads)),
                format!("remove it: `rm {}`", for_shell(&downloads)),
            ));
        }
        match private::builder().recursive(true).create(&downloads) {
            Ok(()) => Ok(place),
            Err(error) => Err(SetupError::of_file("made", &downloads, &error)),
        }
    }

    /// Where blobs on their way lie.
    pub fn downloads(&self) -> PathBuf {
        self.folder.join(DOWNLOADS)
    }

    /// Removes what was loaded: the images have it now. Whatever else is there stays.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn clear_downloads(&self) -> Result<(), SetupError> {
        let downloads = self.downloads();
        leftovers::remove_blobs(&downloads)
            .map_err(|error| SetupError::of_file("removed", &downloads, &error))
    }

    /// A new folder for what is not finished.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn unfinished(&self, what: Unfinished) -> Result<PathBuf, SetupError> {
        let path = self.folder.join(what.name(std::process::id()));
        match private::builder().create(&path) {
            Ok(()) => Ok(path),
            Err(error) => Err(SetupError::of_file("made", &path, &error)),
        }
    }

    /// Removes a folder of the store with all that is in it. It loses its name first, so that no half
    /// of it ever counts.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn remove(&self, path: &Path) -> Result<(), SetupError> {
        let doomed = match path.file_name().is_some_and(Unfinished::names) {
            true => path.to_owned(),
            false => {
                let doomed = self.unfinished(Unfinished::Old)?;
                let target = doomed.join("image");
                fs::rename(path, &target)
                    .map_err(|error| SetupError::of_file("moved away", path, &error))?;
                doomed
            }
        };
        remove_tree(&doomed).map_err(|error| SetupError::of_file("removed", &doomed, &error))
    }

    /// Bytes that an ordinary user can still write here.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn free(&self) -> Result<u64, SetupError> {
        let status = statvfs(&self.folder)
            .map_err(|errno| SetupError::of_file("measured", &self.folder, &errno.into()))?;
        Ok(status.blocks_available().saturating_mul(status.fragment_size()))
    }

    /// Removes what killed ones have left. They hold no lock any more; the compiler of one that was killed
    /// just now may still write, until its sandbox has ended.
    fn clear(&self) -> Result<(), SetupError> {
        let read = |error| SetupError::of_file("read", &self.folder, &error);
        for entry in fs::read_dir(&self.folder).map_err(read)? {
            let path = entry.map_err(read)?.path();
            if path.file_name().is_some_and(Unfinished::names) {
                until_nobody_writes(DYING, || remove_tree(&path))
                    .map_err(|error| abandoned(&path, &error))?;
            }
        }
        Ok(())
    }
}

/// Removes a tree whose folders may be closed, and deeper in each other than a path or the limit of open
/// files reaches, as sandboxed code can leave them.
pub fn remove_tree(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    Ok(inventory::remove(File::open(parent)?.as_fd(), name)?)
}

/// Removes again while others fill what is being removed, for `patience` at most.
fn until_nobody_writes(
    patience: Duration,
    mut remove: impl FnMut() -> io::Result<()>,
) -> io::Result<()> {
    let end = Instant::now() + patience;
    loop {
        match remove() {
            Err(error)
                if error.kind() == io::ErrorKind::DirectoryNotEmpty && Instant::now() < end =>
            {
                std::thread::sleep(AGAIN);
            }
            done => return done,
        }
    }
}

fn abandoned(path: &Path, error: &io::Error) -> SetupError {
    let mut failed = SetupError::of_file("removed", path, error);
    if error.kind() == io::ErrorKind::DirectoryNotEmpty {
        failed.fix =
            format!("end what writes there (`fuser -v {}`) and try again", for_shell(path));
    }
    failed
}

fn check_owner(path: &Path, folder: &Path) -> Result<(), SetupError> {
    let status =
        fs::metadata(folder).map_err(|error| SetupError::of_file("looked at", folder, &error))?;
    if status.uid() != nix::unistd::getuid().as_raw() {
        return Err(SetupError::new(
            format!("{} belongs to another user", shown(folder)),
            "set VESTIBULE_ROOTFS_DIR to a folder of your own",
        ));
    }
    if status.mode() & 0o022 != 0 {
        return Err(SetupError::new(
            format!("{} can be written to by others, who could exchange the images", shown(folder)),
            format!("run `chmod go-w {}`", for_shell(folder)),
        ));
    }
    strict::check(path).map_err(|found| {
        SetupError::new(format!("{}, who could exchange the images", found.what), found.fix)
    })
}

fn check_filesystem(folder: &Path) -> Result<(), SetupError> {
    let kind = statfs(folder)
        .map_err(|errno| SetupError::of_file("looked at", folder, &errno.into()))?
        .filesystem_type();
    // The kernel's own type for it is as wide as a register; the numbers have 32 bits.
    match REMOTE.iter().find(|(remote, _)| *remote == kind.0 as u32) {
        None => Ok(()),
        Some((_, name)) => Err(SetupError::new(
            format!("{} is on a network or Windows drive ({name})", shown(folder)),
            "set VESTIBULE_ROOTFS_DIR to a folder on a disk of this machine",
        )),
    }
}

fn lock(folder: &Path, progress: &mut Progress) -> Result<Flock<File>, SetupError> {
    let path = folder.join(LOCK);
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    let open = options.custom_flags(nix::libc::O_NOFOLLOW).open(&path);
    let file = open.map_err(|error| SetupError::of_file("opened", &path, &error))?;
    let waiting = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => return Ok(lock),
        Err((file, Errno::EWOULDBLOCK)) => file,
        Err((_, errno)) => return Err(SetupError::of_file("locked", &path, &errno.into())),
    };
    progress.say(&format!("another setup is at work in {}: waiting for it", shown(folder)));
    Flock::lock(waiting, FlockArg::LockExclusive)
        .map_err(|(_, errno)| SetupError::of_file("locked", &path, &errno.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("place-{name}-{}", std::process::id()))
    }

    fn quiet() -> Progress {
        Progress::new(std::io::sink(), false)
    }

    #[test]
    fn the_folder_is_made_for_its_owner_and_cleared_of_what_was_left() {
        let folder = folder("made");
        drop(Place::hold(&folder, &mut quiet()).unwrap());
        let mode = fs::metadata(&folder).unwrap().mode();
        assert_eq!(mode & 0o777, 0o700);
        for left in [".tmp-image-1/a/b", "sha256-x/rootfs"] {
            fs::create_dir_all(folder.join(left)).unwrap();
        }
        let closed = fs::Permissions::from_mode(0o0);
        fs::set_permissions(folder.join(".tmp-image-1/a/b"), closed.clone()).unwrap();
        fs::set_permissions(folder.join(".tmp-image-1/a"), closed).unwrap();
        let place = Place::hold(&folder, &mut quiet()).unwrap();
        let mut names: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, [DOWNLOADS, ".lock", "sha256-x"]);
        place.remove(&folder.join("sha256-x")).unwrap();
        assert!(!folder.join("sha256-x").exists());
        assert!(place.free().unwrap() > 0);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_setup_did_not_make_stays() {
        let folder = folder("foreign");
        let place = Place::hold(&folder, &mut quiet()).unwrap();
        let kept = [".tmp-notes", ".downloads/thesis.pdf"];
        for name in kept {
            fs::write(folder.join(name), "mine").unwrap();
        }
        place.clear_downloads().unwrap();
        drop(place);
        drop(Place::hold(&folder, &mut quiet()).unwrap());
        for name in kept {
            assert!(folder.join(name).exists(), "{name}");
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_was_left_goes_however_deep_it_is() {
        let folder = folder("deep");
        drop(Place::hold(&folder, &mut quiet()).unwrap());
        let left = folder.join(".tmp-bytecode-1");
        fs::create_dir(&left).unwrap();
        // Paths end at 4096 bytes, and folders do not.
        let mut inner: std::os::fd::OwnedFd = File::open(&left).unwrap().into();
        let name = "d".repeat(200);
        for _ in 0..1500 {
            let mode = nix::sys::stat::Mode::S_IRWXU;
            nix::sys::stat::mkdirat(&inner, name.as_str(), mode).unwrap();
            inner = inventory::cursor::open_folder(&inner, name.as_ref()).unwrap();
        }
        drop(Place::hold(&folder, &mut quiet()).unwrap());
        assert!(!left.exists());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_the_compiler_of_a_killed_one_still_fills_goes_when_it_has_ended() {
        let (mut tries, full) = (0, || io::Error::from(io::ErrorKind::DirectoryNotEmpty));
        let dying = || {
            tries += 1;
            if tries < 4 { Err(full()) } else { Ok(()) }
        };
        until_nobody_writes(DYING, dying).unwrap();
        assert_eq!(tries, 4);
        let error = until_nobody_writes(Duration::ZERO, || Err(full())).unwrap_err();
        let error = abandoned(Path::new("/my store/.tmp-bytecode-1"), &error);
        assert!(error.fix.contains("`fuser -v '/my store/.tmp-bytecode-1'`"), "{error}");
        let mut tries = 0;
        let closed = || {
            tries += 1;
            Err(io::Error::from(io::ErrorKind::PermissionDenied))
        };
        until_nobody_writes(DYING, closed).unwrap_err();
        assert_eq!(tries, 1, "waiting does not help there");
    }

    #[test]
    fn one_setup_waits_for_the_other() {
        let folder = folder("two");
        let first = Place::hold(&folder, &mut quiet()).unwrap();
        let second = {
            let folder = folder.clone();
            std::thread::spawn(move || Place::hold(&folder, &mut quiet()).map(drop))
        };
        // It cannot be told from one that is slow; with the lock let go it has to come to its end.
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert!(!second.is_finished(), "both hold the folder");
        drop(first);
        second.join().unwrap().unwrap();
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_refused() {
        let folder = folder("open to others");
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o770)).unwrap();
        let error = Place::hold(&folder, &mut quiet()).unwrap_err();
        assert!(error.fix.contains(&format!("chmod go-w '{}'", shown(&folder))), "{error}");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        let error = Place::hold(&folder.join("store"), &mut quiet()).unwrap_err();
        assert!(error.what.contains(&format!("{} can be written to", shown(&folder))), "{error}");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::symlink("/tmp", folder.join(DOWNLOADS)).unwrap();
        let error = Place::hold(&folder, &mut quiet()).unwrap_err();
        assert!(error.what.contains("is no folder"), "{error}");
        let downloads = folder.join(DOWNLOADS);
        assert!(error.fix.contains(&format!("`rm '{}'`", shown(&downloads))), "{error}");
        fs::write(folder.join("file"), "").unwrap();
        let error = Place::hold(&folder.join("file"), &mut quiet()).unwrap_err();
        assert!(error.what.contains("cannot be made"), "{error}");
        fs::remove_dir_all(folder).unwrap();
    }
}
