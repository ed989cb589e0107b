//! One image into the store: loaded, checked, unpacked beside its place, and given its name last.

use super::decode;
use super::error::SetupError;
use super::fetch::{self, Retry, Wanted};
use super::leftovers::{self, Unfinished};
use super::oci::Configuration;
use super::place::Place;
use super::progress::Progress;
use super::resolve::{self, Resolved};
use super::source::Source;
use super::unpack::{Budget, Summary, Unpacker};
use crate::config::ImageReference;
use crate::store::record::{self, UnwritableRecord};
use crate::store::{FILES, Layer, RECORD, ROOT, Record, Store, inventory};
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

/// How many bytes an image may have for each byte that is loaded, and beyond that. Images have some three
/// for one; a bomb has a thousand.
const RATIO: u64 = 32;
/// What every image may have.
const ALWAYS: u64 = 64 << 20;
/// Files, folders and links of an image; large ones have some 200,000.
const ENTRIES: u64 = 1_000_000;
/// Bytes of an image for each byte that is loaded, as a rule, to tell how much room is needed.
pub const USUAL_RATIO: u64 = 3;

/// An image in the store, as it was found.
#[derive(Debug)]
pub enum State {
    /// Every file of it is as it was unpacked.
    Whole(Record),
    /// It is not there.
    Missing,
    /// It was changed, and how.
    Damaged(String),
}

/// What one image's installation needs.
pub struct Work<'a> {
    /// The store's folder, held.
    pub place: &'a Place,
    /// The store.
    pub store: &'a Store,
    /// Where the image comes from.
    pub source: &'a dyn Source,
    /// The image.
    pub image: &'a ImageReference,
    /// How often what is refused is asked for again.
    pub retry: Retry<'a>,
}

/// Looks at an image in the store, file by file.
pub fn inspect(store: &Store, image: &ImageReference) -> State {
    let place = store.place(image);
    if !place.exists() {
        return State::Missing;
    }
    let record = match Record::read(&place.join(RECORD)) {
        Ok(record) => record,
        Err(error) => return State::Damaged(error.to_string()),
    };
    let checked =
        File::open(place.join(FILES)).map_err(|error| error.to_string()).and_then(|list| {
            let root = open_folder(&place.join(ROOT)).map_err(|error| error.to_string())?;
            inventory::check(root.as_fd(), BufReader::new(list)).map_err(|error| error.to_string())
        });
    match checked {
        Ok(_) => State::Whole(record),
        Err(why) => State::Damaged(why),
    }
}

impl Work<'_> {
    /// Finds out what the image is made of.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn resolve(&self, progress: &mut Progress) -> Result<Resolved, SetupError> {
        resolve::resolve(self.image, |wanted| self.document(wanted, progress))
    }

    fn document(
        &self,
        wanted: Wanted,
        progress: &mut Progress,
    ) -> Result<Vec<u8>, fetch::FetchError> {
        fetch::document(self.source, wanted, &self.retry, progress)
    }

    /// Bytes of the image that are not here yet.
    pub fn missing(&self, resolved: &Resolved) -> u64 {
        let downloads = self.place.downloads();
        let here = |layer: &super::oci::Descriptor| {
            let name = downloads.join(layer.digest.file_name());
            let part = downloads.join(leftovers::part_name(&layer.digest));
            let size = |path: &Path| fs::metadata(path).map(|status| status.len()).ok();
            size(&name).or_else(|| size(&part)).unwrap_or(0).min(layer.size)
        };
        let here = resolved.layers().into_iter().map(here).fold(0, u64::saturating_add);
        resolved.size().saturating_sub(here)
    }

    /// Loads, unpacks and names the image.
    ///
    /// # Errors
    /// [`SetupError`]; the store is as it was then, but for what was loaded.
    pub fn install(
        &self,
        resolved: &Resolved,
        progress: &mut Progress,
    ) -> Result<(Record, Summary), SetupError> {
        let configuration =
            resolve::configuration(self.image, resolved, |wanted| self.document(wanted, progress))?;
        self.load(resolved, progress)?;
        progress.say(&format!("unpacking {}", self.name()));
        let scratch = self.place.unfinished(Unfinished::Image)?;
        let unpacked = self.unpack(resolved, &configuration, &scratch, progress);
        if unpacked.is_err() {
            // The cause is what matters; what is left does not count and goes with the next setup.
            let _ = self.place.remove(&scratch);
        }
        let done = unpacked?;
        self.publish(&scratch)?;
        Ok(done)
    }

    /// The image's name for a person: without the digits of its digest.
    fn name(&self) -> String {
        crate::escape::for_display(&short(self.image), 200)
    }

    fn load(&self, resolved: &Resolved, progress: &mut Progress) -> Result<(), SetupError> {
        let layers = resolved.layers();
        let total = layers.iter().map(|layer| layer.size).fold(0, u64::saturating_add);
        progress.start(&format!("loading {}", self.name()), total);
        for layer in layers {
            self.layer(layer, progress)?;
        }
        progress.finish();
        Ok(())
    }

    fn layer(
        &self,
        layer: &super::oci::Descriptor,
        progress: &mut Progress,
    ) -> Result<File, SetupError> {
        let downloads = self.place.downloads();
        Ok(fetch::blob(self.source, layer, &downloads, &self.retry, progress)?)
    }

    fn unpack(
        &self,
        resolved: &Resolved,
        configuration: &Configuration,
        scratch: &Path,
        progress: &mut Progress,
    ) -> Result<(Record, Summary), SetupError> {
        let root = scratch.join(ROOT);
        let made = crate::workspace::private::builder().create(&root);
        made.map_err(|error| SetupError::of_file("made", &root, &error))?;
        let opened = open_folder(&root);
        let root = opened.map_err(|errno| SetupError::of_file("opened", &root, &errno.into()))?;
        let bytes = resolved.size().saturating_mul(RATIO).saturating_add(ALWAYS);
        let budget = Budget { bytes, entries: ENTRIES };
        let copy = root.try_clone();
        let copy = copy.map_err(|error| SetupError::of_file("opened", scratch, &error))?;
        let mut unpacker = Unpacker::new(copy, budget);
        let layers = resolved.manifest.layers.iter().zip(&configuration.rootfs.diff_ids);
        for (layer, diff_id) in layers {
            let file = self.layer(layer, progress)?;
            let decoded = decode::open(&layer.media_type, file)?;
            unpacker.layer(decoded, diff_id)?;
        }
        let summary = unpacker.summary();
        let record = self.describe(resolved, configuration, root, scratch)?;
        Ok((record, summary))
    }

    /// Writes the list of files and the record.
    fn describe(
        &self,
        resolved: &Resolved,
        configuration: &Configuration,
        root: OwnedFd,
        scratch: &Path,
    ) -> Result<Record, SetupError> {
        let path = scratch.join(FILES);
        let failed = |error: std::io::Error| SetupError::of_file("written", &path, &error);
        let mut list = BufWriter::new(File::create(&path).map_err(failed)?);
        let totals = inventory::write(root.as_fd(), &mut list)?;
        list.flush().map_err(failed)?;
        let layers = resolved.manifest.layers.iter().zip(&configuration.rootfs.diff_ids);
        let layers = layers.map(|(layer, diff_id)| Layer {
            digest: layer.digest.to_string(),
            diff_id: diff_id.to_string(),
            size: layer.size,
        });
        let environment =
            configuration.config.as_ref().and_then(|config| config.environment.as_deref());
        let now = chrono::Utc::now();
        let record = Record {
            format: record::FORMAT,
            reference: self.image.as_str().to_owned(),
            manifest: resolved.digest.to_string(),
            config: resolved.manifest.config.digest.to_string(),
            layers: layers.collect(),
            platform: configuration.platform.to_string(),
            created: record::created(configuration.created.as_ref()),
            unpacked: now.to_rfc3339_opts(chrono::SecondsFormat::Secs, true),
            environment: record::variables(environment.unwrap_or_default()),
            bytes: totals.bytes,
            entries: totals.folders + totals.files + totals.links,
        };
        let path = scratch.join(RECORD);
        record.write(&path).map_err(|error| match error {
            UnwritableRecord::Io(error) => SetupError::of_file("written", &path, &error),
            UnwritableRecord::Long(size) => resolve::refuse(
                self.image,
                &format!(
                    "has variables and layers of {size} bytes, and {} is the most",
                    record::MAX
                ),
            ),
        })?;
        Ok(record)
    }

    /// Gives the image its name, once all of it is on the disk: after a power cut, too, what has its name
    /// is whole.
    fn publish(&self, scratch: &Path) -> Result<(), SetupError> {
        let target = self.store.place(self.image);
        let target = self.place.folder.join(target.file_name().unwrap_or_default());
        if target.exists() {
            self.place.remove(&target)?;
        }
        let failed =
            |errno: std::io::Error| SetupError::of_file("put in its place", &target, &errno);
        let folder = File::open(&self.place.folder).map_err(failed)?;
        nix::unistd::syncfs(&folder).map_err(|errno| failed(errno.into()))?;
        fs::rename(scratch, &target).map_err(failed)?;
        folder.sync_all().map_err(failed)
    }
}

/// An image's reference with the first digits of its digest.
pub fn short(image: &ImageReference) -> String {
    match (image.as_str().split_once('@'), crate::store::pin(image)) {
        (Some((name, _)), Some(digest)) => format!("{name}@{}", digest.short()),
        _ => image.as_str().to_owned(),
    }
}

fn open_folder(path: &Path) -> nix::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    open(path, flags, Mode::empty())
}
