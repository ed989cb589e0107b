//! `setup --from`: images from a file instead of a registry. The same checks follow as for one.
//!
//! Three forms are read: a folder in the OCI image layout, an archive of one (`skopeo copy … oci-archive:`,
//! `docker save` of Docker 25 and later), and what `docker save` of older versions writes.

mod archive;
mod classic;
mod meant;

use super::oci::Descriptor;
use super::source::{Again, DOCUMENT_MAX, Opened, Origin, Source, SourceError};
use crate::config::ImageReference;
use crate::escape::{for_display, place_in_json};
use crate::store::digest::Digest;
use archive::{Archive, plain};
use classic::Classic;
pub use meant::Meant;
use nix::libc;
use serde::Deserialize;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The annotations that name an image in a layout's index. The first one is whole; beside it the other is a tag,
/// which may be any image's name.
const NAMES: [&str; 2] = ["io.containerd.image.name", "org.opencontainers.image.ref.name"];

/// A file or a folder with images, for one image that is wanted.
pub struct FromFile {
    path: PathBuf,
    files: Files,
    classic: Option<Classic>,
    wanted: ImageReference,
    meant: Meant,
}

/// Files by name, in a folder or in an archive.
enum Files {
    Folder(PathBuf),
    Archive(Archive),
}

/// `index.json` of a layout.
#[derive(Deserialize)]
struct Index {
    manifests: Vec<Descriptor>,
}

impl FromFile {
    /// Opens a layout or an archive.
    ///
    /// # Errors
    /// [`SourceError`] if it is neither.
    pub fn open(
        path: &Path,
        wanted: &ImageReference,
        meant: Meant,
    ) -> Result<FromFile, SourceError> {
        let kind = std::fs::metadata(path).map_err(|error| unreadable(path, &error))?;
        let files = match kind.is_dir() {
            true => Files::Folder(path.to_owned()),
            false => Files::Archive(Archive::open(path).map_err(|error| no_archive(path, &error))?),
        };
        let classic = match files.has("index.json") {
            true => None,
            false => Some(Classic::read(&files).map_err(|error| no_images(path, &error))?),
        };
        Ok(FromFile { path: path.to_owned(), files, classic, wanted: wanted.clone(), meant })
    }

    /// The index entry of an image without a pin: the one of its name, or the only one.
    fn by_name(&self) -> Result<Digest, SourceError> {
        let index =
            self.files.document("index.json").map_err(|error| no_images(&self.path, &error))?;
        let index: Index = serde_json::from_slice(&index)
            .map_err(|error| no_images(&self.path, &misshapen("index.json", &error)))?;
        let names = |entry: &Descriptor| -> Vec<String> {
            NAMES.iter().find_map(|key| entry.annotations.get(*key).cloned()).into_iter().collect()
        };
        match self.meant.choose(&index.manifests, names, self.wanted.as_str()) {
            Ok(entry) => Ok(entry.digest.clone()),
            Err(why) => {
                let names: Vec<String> = index.manifests.iter().flat_map(names).collect();
                Err(self.lacks(&why, &names.iter().map(String::as_str).collect::<Vec<_>>()))
            }
        }
    }

    fn lacks(&self, how: &str, names: &[&str]) -> SourceError {
        let there = match names.is_empty() {
            true => String::new(),
            false => format!(" ({})", for_display(&names.join(", "), 300)),
        };
        SourceError {
            what: format!("{} {how}{there}: {} is wanted", shown(&self.path), self.wanted.as_str()),
            fix: "make the file with `skopeo copy --all docker://IMAGE@DIGEST oci-archive:FILE:IMAGE`, which \
                  keeps the digests and the name, give every file that there is, or set \
                  VESTIBULE_IMAGE_PYTHON and VESTIBULE_IMAGE_NODE to what they have"
                .to_owned(),
            again: Again::Never,
        }
    }
}

impl Source for FromFile {
    fn manifest(&self, digest: Option<&Digest>) -> Result<Vec<u8>, SourceError> {
        if let Some(classic) = &self.classic {
            return match digest {
                None => {
                    let lacks = |how: &str| self.lacks(how, &classic.names());
                    let image = classic.choose(self.wanted.as_str(), self.meant);
                    let image = image.map_err(|why| lacks(&why))?;
                    classic
                        .manifest(&self.files, image)
                        .map_err(|error| lacks(&format!("cannot be used ({})", said(&error))))
                }
                Some(_) => Err(self.lacks(
                    "was written by `docker save` of a version before 25, which leaves out the manifest \
                     that a digest names",
                    &[],
                )),
            };
        }
        let digest = match digest {
            Some(digest) => digest.clone(),
            None => self.by_name()?,
        };
        match self.files.document(&blob_name(&digest)) {
            Ok(bytes) if digest.names(&bytes) => Ok(bytes),
            Ok(_) => Err(self.lacks("is damaged: a manifest is not what its digest names", &[])),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(self.lacks(&format!("has no {}", digest.short()), &[]))
            }
            Err(error) => Err(unreadable(&self.path, &error)),
        }
    }

    fn origin(&self) -> Origin {
        Origin::File(shown(&self.path))
    }

    fn blob(&self, blob: &Descriptor, offset: u64) -> Result<Opened, SourceError> {
        let found = match &self.classic {
            Some(classic) => classic.name(&blob.digest),
            None => Some(blob_name(&blob.digest)),
        };
        let opened = found.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound));
        let opened =
            opened.and_then(|name| Ok((self.files.size(&name)?, self.files.open(&name, offset)?)));
        match opened {
            // A registry's answer may break off; what a file lacks does not come.
            Ok((size, _)) if size != blob.size => Err(self.lacks(
                &format!(
                    "is damaged: {} has {size} bytes in place of {}",
                    blob.digest.short(),
                    blob.size
                ),
                &[],
            )),
            Ok((_, bytes)) => Ok(Opened { offset, bytes }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(self.lacks(&format!("lacks the part {}", blob.digest.short()), &[]))
            }
            Err(error) => Err(unreadable(&self.path, &error)),
        }
    }
}

impl Files {
    fn has(&self, name: &str) -> bool {
        match self {
            Files::Folder(folder) => folder.join(name).is_file(),
            Files::Archive(archive) => archive.has(name),
        }
    }

    /// A file's size in bytes.
    fn size(&self, name: &str) -> io::Result<u64> {
        match self {
            Files::Folder(folder) => Ok(open_in(folder, name)?.metadata()?.len()),
            Files::Archive(archive) => archive.size(name),
        }
    }

    /// Opens a file at an offset.
    fn open(&self, name: &str, offset: u64) -> io::Result<Box<dyn Read>> {
        match self {
            Files::Folder(folder) => {
                let mut file = open_in(folder, name)?;
                file.seek(SeekFrom::Start(offset))?;
                Ok(Box::new(file))
            }
            Files::Archive(archive) => archive.open_at(name, offset),
        }
    }

    /// A small file, whole.
    fn document(&self, name: &str) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open(name, 0)?.take(DOCUMENT_MAX + 1).read_to_end(&mut bytes)?;
        match bytes.len() as u64 > DOCUMENT_MAX {
            true => Err(io::Error::other(format!("{name} has more than {DOCUMENT_MAX} bytes"))),
            false => Ok(bytes),
        }
    }
}

/// The digest's text holds nothing but hexadecimal digits.
fn blob_name(digest: &Digest) -> String {
    format!("blobs/{}/{}", digest.algorithm(), digest.hex())
}

/// Opens a file of a folder. A `manifest.json` has written some of the names.
fn open_in(folder: &Path, name: &str) -> io::Result<File> {
    let name = plain(Path::new(name)).ok_or_else(|| io::Error::other("a name in it leads out"))?;
    open_plain(&folder.join(name))
}

/// Opens a plain file. Nothing else is waited for or read without an end, such as a pipe or a device.
fn open_plain(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("it is no plain file")),
    }
}

fn misshapen(name: &str, error: &serde_json::Error) -> io::Error {
    io::Error::other(format!("{name} is not as it should be in {}", place_in_json(error)))
}

/// What the system or a library says of a file, which may quote it.
fn said(error: &io::Error) -> String {
    for_display(&error.to_string(), 300)
}

fn shown(path: &Path) -> String {
    for_display(&path.to_string_lossy(), 300)
}

fn unreadable(path: &Path, error: &io::Error) -> SourceError {
    SourceError {
        what: format!("{} cannot be read ({})", shown(path), said(error)),
        fix: "name an OCI layout folder, or an archive of images, that you may read".to_owned(),
        again: Again::Never,
    }
}

fn no_archive(path: &Path, error: &io::Error) -> SourceError {
    let fix = match error.kind() {
        io::ErrorKind::Unsupported => "decompress it first, with `gunzip` or `zstd -d`",
        _ => "name an OCI layout folder, or an archive that `docker save` or `skopeo` has written",
    };
    let what = format!("{} is no archive that can be read ({})", shown(path), said(error));
    SourceError { what, fix: fix.to_owned(), again: Again::Never }
}

fn no_images(path: &Path, error: &io::Error) -> SourceError {
    SourceError {
        what: format!("{} holds no images: {}", shown(path), said(error)),
        fix:
            "name an OCI layout folder (it has an index.json), or an archive that `docker save` or \
              `skopeo` has written"
                .to_owned(),
        again: Again::Never,
    }
}

#[cfg(test)]
mod tests;
