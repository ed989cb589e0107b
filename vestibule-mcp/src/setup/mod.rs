//! `setup`: pulls the pinned images over the OCI distribution API, unpacks them, and compiles python's
//! bytecode. Linux alone; elsewhere a container engine pulls.
//!
//! One image goes this way: `source` (a `registry`, or `from_file`) → `resolve` (`oci`) → `fetch` →
//! `decode` → `unpack` → `store::inventory` → its name in the store (`install`) → `compile`.

pub mod compile;
pub mod decode;
pub mod error;
pub mod fetch;
pub mod from_file;
pub mod install;
pub mod leftovers;
pub mod oci;
pub mod place;
pub mod progress;
pub mod registry;
pub mod resolve;
pub mod source;
pub mod unpack;

use crate::config::{Config, ImageReference};
use crate::store::{Record, Store};
use error::SetupError;
use fetch::Retry;
use from_file::{FromFile, Meant};
use install::{State, USUAL_RATIO, Work, inspect, short};
use place::Place;
use progress::Progress;
use registry::{Environment, Registry};
use resolve::Resolved;
use source::Source;
use std::path::PathBuf;
use unpack::Summary;

/// Where images come from.
pub struct From<'a> {
    /// Files and folders, tried in this order; none means the images' own registries.
    pub files: &'a [PathBuf],
    /// The mirror that is asked instead of the images' own registries.
    pub mirror: Option<&'a str>,
    /// What the environment says of proxies, certificates and passwords.
    pub environment: &'a Environment,
}

/// An image that is to be loaded.
struct Pending<'a> {
    image: &'a ImageReference,
    source: Box<dyn Source>,
    resolved: Resolved,
}

/// The images that the settings name, each once.
pub fn wanted(config: &Config) -> Vec<&ImageReference> {
    let mut images = vec![&config.image_python, &config.image_node];
    images.dedup();
    images
}

/// Puts the images that the settings name into the store, as far as they are not there whole, each of them
/// whatever becomes of the others. What is there is checked and takes no network.
///
/// # Errors
/// The first [`SetupError`]; `progress` tells of what else went wrong. Images that are finished stay.
pub fn images(
    config: &Config,
    place: &Place,
    from: &From<'_>,
    progress: &mut Progress,
) -> Result<(), SetupError> {
    let store = Store::new(&place.folder);
    let missing = missing(config, &store, progress);
    let alone = from.files.len() == 1 && missing.len() == 1;
    let meant = if alone { Meant::Only } else { Meant::Unclear };
    let (mut pending, mut failed) = (Vec::new(), Failed(None));
    for image in missing {
        match find(image, place, &store, from, meant, failed.retry(), progress) {
            Ok(found) => pending.push(found),
            Err(error) => failed.add(image, error, progress),
        }
    }
    announce(place, &store, &pending, progress)?;
    for Pending { image, source, resolved } in &pending {
        let source = source.as_ref();
        let work = Work { place, store: &store, source, image, retry: failed.retry() };
        match work.install(resolved, progress) {
            Ok((record, summary)) => {
                progress.say(&format!("{} is here: {}", short(image), told(&record, &summary)));
            }
            Err(error) => failed.add(image, error, progress),
        }
    }
    // What has come of an image that failed is gone on with the next time.
    failed.0.map_or_else(|| place.clear_downloads(), Err)
}

/// What went wrong first.
struct Failed(Option<SetupError>);

impl Failed {
    /// Whatever was waited for once is not waited for again: most often both images fail for one reason.
    fn retry(&self) -> Retry<'static> {
        let usual = Retry::default();
        if self.0.is_none() { usual } else { Retry { pauses: &[], ..usual } }
    }

    fn add(&mut self, image: &ImageReference, error: SetupError, progress: &mut Progress) {
        match &self.0 {
            None => self.0 = Some(error),
            Some(first) if *first == error => {}
            Some(_) => progress.say(&format!("{}: {error}", short(image))),
        }
    }
}

/// The images that are not there, or not as they were unpacked.
fn missing<'a>(
    config: &'a Config,
    store: &Store,
    progress: &mut Progress,
) -> Vec<&'a ImageReference> {
    let mut is_missing = |image: &&ImageReference| {
        let name = short(image);
        let (missing, found) = match inspect(store, image) {
            State::Missing => return true,
            State::Whole(record) => {
                (false, format!("{name} is here: {} entries checked", record.entries))
            }
            State::Damaged(why) => {
                (true, format!("{name} is here and damaged ({why}): it is made anew"))
            }
        };
        progress.say(&found);
        missing
    };
    wanted(config).into_iter().filter(|image| is_missing(image)).collect()
}

/// Finds out what an image is made of, at the first source that has it.
fn find<'a>(
    image: &'a ImageReference,
    place: &Place,
    store: &Store,
    from: &From<'_>,
    meant: Meant,
    retry: Retry<'_>,
    progress: &mut Progress,
) -> Result<Pending<'a>, SetupError> {
    let resolve = |source: Box<dyn Source>, progress: &mut Progress| {
        let work = Work { place, store, source: source.as_ref(), image, retry };
        let resolved = work.resolve(progress)?;
        Ok(Pending { image, source, resolved })
    };
    if image.is_id() {
        let why =
            "is the id of an image that a container engine has, and setup needs a name for it";
        return Err(resolve::refuse(image, why));
    }
    let mut refused: Option<SetupError> = None;
    for file in from.files {
        let opened = FromFile::open(file, image, meant).map_err(SetupError::from);
        match opened.and_then(|source| resolve(Box::new(source), progress)) {
            Ok(found) => {
                let file = crate::backend::locate::shown(file);
                progress.say(&format!("{} is taken from {file}", short(image)));
                return Ok(found);
            }
            Err(error) => {
                let all = refused.take().map(|before| format!("{}; ", before.what));
                let what = all.unwrap_or_default() + &error.what;
                refused = Some(SetupError { what, ..error });
            }
        }
    }
    match refused {
        Some(error) => Err(error),
        None => {
            let registry = Registry::new(image, from.mirror, from.environment)?;
            resolve(Box::new(registry), progress)
        }
    }
}

/// Says how much is to come, and makes sure that there is room for it.
fn announce(
    place: &Place,
    store: &Store,
    pending: &[Pending<'_>],
    progress: &mut Progress,
) -> Result<(), SetupError> {
    let (mut load, mut unpacked) = (0_u64, 0_u64);
    for Pending { image, source, resolved } in pending {
        let source = source.as_ref();
        let work = Work { place, store, source, image, retry: Retry::default() };
        let missing = work.missing(resolved);
        let size = resolved.size().saturating_mul(USUAL_RATIO);
        progress.say(&format!(
            "{}: {} MB to load, about {} MB unpacked",
            short(image),
            megabytes(missing),
            megabytes(size)
        ));
        load = load.saturating_add(missing);
        unpacked = unpacked.saturating_add(size);
    }
    let (needed, free) = (load.saturating_add(unpacked), place.free()?);
    if needed <= free {
        return Ok(());
    }
    Err(SetupError::new(
        format!(
            "{} has {} MB free, and about {} MB are needed",
            crate::backend::locate::shown(&place.folder),
            megabytes(free),
            megabytes(needed)
        ),
        "free space there, or set VESTIBULE_ROOTFS_DIR to a folder on another disk",
    ))
}

/// What is there, as a second `setup` counts it too, and what was left out on the way.
fn told(record: &Record, summary: &Summary) -> String {
    let mut text = format!("{} entries, {} MB", record.entries, megabytes(record.bytes));
    let left_out = summary.devices + summary.fifos;
    if left_out > 0 {
        text.push_str(&format!(", {left_out} devices and pipes left out"));
    }
    if summary.mode_bits > 0 {
        text.push_str(&format!(", set-user-id and such bits taken off {}", summary.mode_bits));
    }
    text
}

/// Rounded up, so that something is never shown as nothing.
fn megabytes(bytes: u64) -> u64 {
    bytes.div_ceil(1_000_000)
}
