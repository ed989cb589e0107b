//! Where an image comes from: a registry, or a file.

use super::oci::Descriptor;
use crate::store::digest::Digest;
use std::io::Read;
use std::time::Duration;

/// The most bytes that a manifest, an index or a configuration may have.
pub const DOCUMENT_MAX: u64 = 4 << 20;

/// A place that has an image. What it hands out is unchecked: the caller compares sizes and digests.
pub trait Source {
    /// The bytes of a manifest or an index, [`DOCUMENT_MAX`] at most. Without a digest, that of the tag
    /// which the image's reference names.
    ///
    /// # Errors
    /// [`SourceError`].
    fn manifest(&self, digest: Option<&Digest>) -> Result<Vec<u8>, SourceError>;

    /// Opens a blob at `offset`. A place that cannot do that opens it at its beginning, and says so.
    ///
    /// # Errors
    /// [`SourceError`].
    fn blob(&self, blob: &Descriptor, offset: u64) -> Result<Opened, SourceError>;
}

/// A blob that is being read.
pub struct Opened {
    /// The offset of the first byte that comes.
    pub offset: u64,
    /// The bytes, unchecked and with no limit to how many come.
    pub bytes: Box<dyn Read>,
}

/// Why nothing came.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{what}")]
pub struct SourceError {
    /// What went wrong, as one clause without a full stop, without secrets and escaped for display.
    pub what: String,
    /// What to do about it, likewise.
    pub fix: String,
    /// Whether asking again may help.
    pub again: Again,
}

/// Whether asking again may help.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Again {
    /// No.
    Never,
    /// Yes, after the usual pause.
    Soon,
    /// Yes, after as long as the place asked for.
    After(Duration),
}
