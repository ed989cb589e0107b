//! The folder of unpacked images, `VESTIBULE_ROOTFS_DIR`, as `setup` leaves it and runs use it:
//!
//! ```text
//! .lock                held by the one `setup` that is at work
//! .downloads/          blobs on their way, kept for a setup that goes on after a break
//! .tmp-…/              an image that is being unpacked; nothing there counts
//! sha256-HEX/          an image, whole, under the digest that its setting names
//!     image.json       what it is: `Record`
//!     files            every file of it, with its digest: `inventory`
//!     rootfs/          the tree, as the image has it
//!     bytecode/        python's modules, compiled
//!     bytecode.files   what they are known by: `bytecode`
//! ```

pub mod bytecode;
pub mod digest;
pub mod inventory;
pub mod record;
pub mod strict;

use crate::config::ImageReference;
use crate::escape::for_display;
use bytecode::Bytecode;
use digest::Digest;
use protocol::{Cause, Refusal, Retry};
pub use record::{Layer, Record, UnreadableRecord};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// An image's tree, in its folder.
pub const ROOT: &str = "rootfs";
/// What the image is, in its folder.
pub const RECORD: &str = "image.json";
/// The list of its files, in its folder.
pub const FILES: &str = "files";

/// The folder, and what was learnt about it.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    bytecode: Bytecode,
}

/// An image that a sandbox can be made of.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Found {
    /// Its root folder, without symbolic links.
    pub root: PathBuf,
    /// The variables that it sets, but for those that are the sandbox's own.
    pub environment: Vec<(String, String)>,
    /// The folder of python's compiled modules, where there is one. It is to be checked before it is used.
    pub bytecode: Option<PathBuf>,
}

impl Store {
    /// The store of this folder. Touches nothing.
    pub fn new(folder: &Path) -> Store {
        Store { folder: folder.to_owned(), bytecode: Bytecode::default() }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of an image, whether it is there or not.
    pub fn place(&self, image: &ImageReference) -> PathBuf {
        self.folder.join(name(image))
    }

    /// Whoever can write to the folder could have code run in files of theirs.
    fn check_owner(&self) -> Result<(), Refusal> {
        let status = fs::metadata(&self.folder)
            .map_err(|error| unusable(&self.folder, &error.to_string()))?;
        let own = [0, nix::unistd::getuid().as_raw()].contains(&status.uid());
        if !own || status.mode() & 0o022 != 0 {
            return Err(Refusal {
                fix: "make the folder of images yours and writable for you alone (`chmod go-w`), or set \
                      VESTIBULE_ROOTFS_DIR to one that is"
                    .to_owned(),
                retry: Retry::AfterFixOrRestart,
                ..unusable(&self.folder, "others can write to that folder")
            });
        }
        strict::check(&self.folder).map_err(|found| Refusal {
            fix: found.fix,
            retry: Retry::AfterFixOrRestart,
            ..unusable(&self.folder, &format!("{}, who could exchange it", found.what))
        })
    }

    /// Takes the compiled modules of an image out of use, which were found changed.
    pub fn leave_bytecode_out(&self, tree: &Path, why: &io::Error) {
        if let Some(image) = tree.parent() {
            self.bytecode.leave_out(image, why);
        }
    }

    /// Finds an image. An image that is there is whole: it was given its name last.
    ///
    /// # Errors
    /// A refusal if it is there and cannot be used.
    pub fn find(&self, image: &ImageReference) -> Result<Option<Found>, Refusal> {
        let place = self.place(image);
        let record = match Record::read(&place.join(RECORD)) {
            Ok(record) => record,
            Err(UnreadableRecord::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(None);
            }
            Err(why) => return Err(unusable(&place, &why.to_string())),
        };
        self.check_owner()?;
        let real = place.canonicalize().map_err(|error| unusable(&place, &error.to_string()))?;
        Ok(Some(Found {
            root: real.join(ROOT),
            environment: record.environment(),
            bytecode: self.bytecode.find(&real),
        }))
    }
}

/// The digest that a reference names.
pub fn pin(image: &ImageReference) -> Option<Digest> {
    image.as_str().split_once('@').and_then(|(_, digest)| Digest::parse(digest))
}

/// The name of an image's folder: its pin's, or one made of a reference without a pin.
fn name(image: &ImageReference) -> String {
    match pin(image) {
        Some(digest) => digest.file_name(),
        None => format!("unpinned-{}", Digest::of(image.as_str().as_bytes()).hex()),
    }
}

fn unusable(place: &Path, why: &str) -> Refusal {
    let place = for_display(&place.to_string_lossy(), 300);
    Refusal {
        what: format!("the image in {place} cannot be used: {}", for_display(why, 300)),
        cause: Cause::Rootfs,
        fix: "run `vestibule-mcp setup`, which makes it whole again".to_owned(),
        retry: Retry::AfterFix,
        at: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_found_by_its_pin_and_none_is_no_error() {
        let folder = std::env::temp_dir().join(format!("store-{}", std::process::id()));
        let store = Store::new(&folder);
        let pinned = ImageReference::parse(&format!("a/b@sha256:{}", "1".repeat(64))).unwrap();
        let tagged = ImageReference::parse("a/b:1").unwrap();
        assert_eq!(store.find(&pinned), Ok(None));
        assert!(store.place(&pinned).ends_with(format!("sha256-{}", "1".repeat(64))));
        assert_ne!(store.place(&tagged), store.place(&ImageReference::parse("a/b:2").unwrap()));

        fs::create_dir_all(store.place(&pinned).join(ROOT)).unwrap();
        assert_eq!(store.find(&pinned), Ok(None), "without a record it does not count");
        fs::write(store.place(&pinned).join(RECORD), "{").unwrap();
        let refusal = store.find(&pinned).unwrap_err().to_string();
        assert!(refusal.contains("vestibule-mcp setup"), "{refusal}");
        let record = Record { environment: vec!["PATH=/bin".to_owned()], ..Record::example() };
        record.write(&store.place(&pinned).join(RECORD)).unwrap();
        let found = store.find(&pinned).unwrap().unwrap();
        assert_eq!(found.environment, [("PATH".to_owned(), "/bin".to_owned())]);
        assert!(found.root.is_absolute() && found.root.ends_with("rootfs"));
        assert_eq!(found.bytecode, None);
        fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        let refusal = store.find(&pinned).unwrap_err().to_string();
        assert!(refusal.contains("others can write to that folder"), "{refusal}");
        let open = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
        fs::set_permissions(&folder, open(0o700)).unwrap();
        let below = Store::new(&folder.join("below"));
        fs::create_dir(below.folder()).unwrap();
        fs::rename(store.place(&pinned), below.place(&pinned)).unwrap();
        assert!(below.find(&pinned).unwrap().is_some());
        fs::set_permissions(&folder, open(0o777)).unwrap();
        let refusal = below.find(&pinned).unwrap_err().to_string();
        assert!(refusal.contains(&format!("chmod go-w {}", folder.display())), "{refusal}");
        fs::remove_dir_all(folder).unwrap();
    }
}
