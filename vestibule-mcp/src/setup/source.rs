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

    /// Who is to be asked where its bytes are wrong.
    fn origin(&self) -> Origin;
}

/// What a place is, for a person whom it has let down.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Origin {
    /// A registry, perhaps through a mirror or a proxy.
    Network,
    /// A file or a folder of this name, escaped for display.
    File(String),
}

impl Origin {
    /// What is the matter where the bytes are not what their digest says, as the end of a sentence.
    pub fn suspicion(&self) -> String {
        match self {
            Origin::Network => "it was tampered with or broken on the way".to_owned(),
            Origin::File(name) => format!("{name} is damaged, or was tampered with"),
        }
    }

    /// What to do about that, as one clause without a full stop.
    pub fn fix(&self) -> String {
        match self {
            Origin::Network => {
                "try again, and if it stays so, ask whoever runs the registry, mirror or proxy"
                    .to_owned()
            }
            Origin::File(name) => {
                format!("copy {name} again from where it was made, or make it anew")
            }
        }
    }

    /// Bytes that end too early.
    pub fn broken(&self, why: &str) -> SourceError {
        match self {
            Origin::Network => SourceError {
                what: format!("the transfer broke off ({why})"),
                fix: "check the network, and run it again: what has come already is kept"
                    .to_owned(),
                again: Again::Soon,
            },
            Origin::File(name) => SourceError {
                what: format!("{name} cannot be read to its end ({why})"),
                fix: self.fix(),
                again: Again::Never,
            },
        }
    }
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
