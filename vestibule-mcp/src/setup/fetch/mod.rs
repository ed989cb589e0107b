//! Takes documents and blobs out of a source: tries again, resumes, and hands out nothing whose size
//! and digest have not been checked.

mod blob;
mod part;
#[cfg(test)]
mod tests;

pub use blob::blob;

use super::error::FILE_LIMIT;
use super::oci::Descriptor;
use super::progress::Progress;
use super::source::{Again, DOCUMENT_MAX, Origin, Source, SourceError};
use crate::escape;
use crate::store::digest::Digest;
use std::io::{self, Read};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// How many bytes of a blob must come for the pauses to start over, and within [`SLOW`] for the connection to
/// be kept: one that brings a byte each time would be tried for ever.
const ENOUGH: u64 = 64 * 1024;
const SLOW: Duration = Duration::from_secs(60);

/// What is waited before each further attempt. Attempts that get further start over with them.
const PAUSES: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
];

/// The longest that is waited because a server asks for it.
const LONGEST: Duration = Duration::from_secs(60);

/// How often and with which pauses something is tried again.
#[derive(Clone, Copy)]
pub struct Retry<'a> {
    /// The pauses; there is one attempt more than there are of them.
    pub pauses: &'a [Duration],
    /// How a pause is made.
    pub wait: &'a dyn Fn(Duration),
    /// In how long a document must be there, and [`ENOUGH`] of a blob must come.
    pub slow: Duration,
}

impl Default for Retry<'_> {
    fn default() -> Self {
        Retry { pauses: &PAUSES, wait: &thread::sleep, slow: SLOW }
    }
}

/// Why something was not fetched.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The source did not give it.
    #[error("{0}")]
    Source(SourceError),
    /// It is not what was asked for.
    #[error("what came as {expected} is {got}: {}", origin.suspicion())]
    Digest {
        /// Where it came from.
        origin: Origin,
        /// What was asked for.
        expected: Digest,
        /// What came.
        got: Digest,
    },
    /// It has another size than its descriptor says.
    #[error("what came as {digest} is {difference} than its {size} bytes: {}", origin.suspicion())]
    Size {
        /// Where it came from.
        origin: Origin,
        /// What was asked for.
        digest: Digest,
        /// How many bytes it has.
        size: u64,
        /// `shorter` or `longer`.
        difference: &'static str,
    },
    /// A document is larger than any that is read.
    #[error("{digest} has {size} bytes, and a document may have {DOCUMENT_MAX}")]
    Large {
        /// What was asked for.
        digest: Digest,
        /// Its size in bytes.
        size: u64,
    },
    /// The disk is full.
    #[error("there is no space left in {folder}")]
    Full {
        /// The folder, escaped for display.
        folder: String,
    },
    /// A file cannot be made, read or written.
    #[error("{path} cannot be used ({error})")]
    File {
        /// Its path, escaped for display.
        path: String,
        /// What the system says.
        error: io::Error,
    },
}

impl FetchError {
    /// What to do about it, as one clause without a full stop.
    pub fn fix(&self) -> String {
        match self {
            FetchError::Source(error) => error.fix.clone(),
            FetchError::Digest { origin, .. } | FetchError::Size { origin, .. } => origin.fix(),
            FetchError::Large { .. } => {
                "check the image's name: this is no image that can be used".to_owned()
            }
            FetchError::Full { .. } => {
                "free some space there, or set VESTIBULE_ROOTFS_DIR to a folder on another disk; what \
                 has come already is kept"
                    .to_owned()
            }
            FetchError::File { error, .. } if error.kind() == io::ErrorKind::FileTooLarge => {
                format!("{FILE_LIMIT}; what has come already is kept")
            }
            FetchError::File { .. } => {
                "make sure that the folder is yours and can be written, and remove the file if it is \
                 no plain file"
                    .to_owned()
            }
        }
    }

    fn file(path: &Path, error: io::Error) -> FetchError {
        let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        if full.contains(&error.kind()) {
            FetchError::Full { folder: shown(path.parent().unwrap_or(path)) }
        } else {
            FetchError::File { path: shown(path), error }
        }
    }
}

/// A document, by what is known of it.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// The index or manifest that the reference's tag names just now: nothing pins it.
    Tagged,
    /// The index or manifest that a reference pins.
    Pinned(&'a Digest),
    /// A manifest that an index names.
    Manifest(&'a Descriptor),
    /// A configuration that a manifest names.
    Configuration(&'a Descriptor),
}

/// Fetches a document into memory. But for [`Wanted::Tagged`] it is what its digest names.
///
/// # Errors
/// [`FetchError`].
pub fn document(
    source: &dyn Source,
    wanted: Wanted,
    retry: &Retry,
    progress: &mut Progress,
) -> Result<Vec<u8>, FetchError> {
    let (digest, size) = match wanted {
        Wanted::Tagged => (None, None),
        Wanted::Pinned(digest) => (Some(digest), None),
        Wanted::Manifest(descriptor) | Wanted::Configuration(descriptor) => {
            (Some(&descriptor.digest), Some(descriptor.size))
        }
    };
    if let (Some(digest), Some(size)) = (digest, size)
        && size > DOCUMENT_MAX
    {
        return Err(FetchError::Large { digest: digest.clone(), size });
    }
    let bytes = again(retry, progress, |_| {
        let bytes = match wanted {
            Wanted::Tagged | Wanted::Pinned(_) | Wanted::Manifest(_) => source.manifest(digest),
            Wanted::Configuration(descriptor) => small_blob(source, descriptor, retry.slow),
        };
        bytes.map_err(|error| (FetchError::Source(error), false))
    })?;
    let Some(digest) = digest else { return Ok(bytes) };
    if let Some(size) = size
        && bytes.len() as u64 != size
    {
        let difference = if (bytes.len() as u64) < size { "shorter" } else { "longer" };
        let (origin, digest) = (source.origin(), digest.clone());
        return Err(FetchError::Size { origin, digest, size, difference });
    }
    if !digest.names(&bytes) {
        let mut hasher = digest.hasher();
        hasher.update(&bytes);
        let (origin, expected) = (source.origin(), digest.clone());
        return Err(FetchError::Digest { origin, expected, got: hasher.finish() });
    }
    Ok(bytes)
}

/// A blob's bytes, one more than it should have at most where that has come as well; how the body ends is not
/// waited for. All of them must come within `limit`: the time that a body may take is meant for large ones.
fn small_blob(
    source: &dyn Source,
    blob: &Descriptor,
    limit: Duration,
) -> Result<Vec<u8>, SourceError> {
    let broken = |why: &str| Err(source.origin().broken(why));
    let (mut bytes, start) = (Vec::new(), Instant::now());
    let mut body = source.blob(blob, 0)?.bytes.take(blob.size + 1);
    let mut buffer = vec![0; part::CHUNK];
    while (bytes.len() as u64) < blob.size {
        match body.read(&mut buffer) {
            Ok(0) => return broken("it ended too early"),
            Ok(count) => bytes.extend_from_slice(buffer.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return broken(&super::registry::body_error(&error)),
        }
        if start.elapsed() > limit {
            return broken(&format!("not all of it came within {} s", limit.as_secs()));
        }
    }
    Ok(bytes)
}

/// Tries until it works, makes no sense any more, or the pauses are used up. An attempt that fails says
/// whether it got further than those before it.
fn again<T>(
    retry: &Retry,
    progress: &mut Progress,
    mut attempt: impl FnMut(&mut Progress) -> Result<T, (FetchError, bool)>,
) -> Result<T, FetchError> {
    let mut pauses = retry.pauses.iter();
    loop {
        let (error, got_further) = match attempt(progress) {
            Ok(done) => return Ok(done),
            Err(failed) => failed,
        };
        let FetchError::Source(SourceError { what, again, .. }) = &error else { return Err(error) };
        if got_further {
            pauses = retry.pauses.iter();
        }
        let pause = match (again, pauses.next()) {
            (Again::Never, _) | (_, None) => return Err(error),
            (Again::Soon, Some(pause)) => *pause,
            (Again::After(asked), Some(_)) if *asked <= LONGEST => *asked,
            (Again::After(_), Some(_)) => return Err(error),
        };
        progress.say(&format!("{what}; trying again in {} s", pause.as_secs()));
        (retry.wait)(pause);
    }
}

fn shown(path: &Path) -> String {
    escape::for_display(&path.to_string_lossy(), 300)
}
