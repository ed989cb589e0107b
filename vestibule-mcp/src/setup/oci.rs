//! The documents of an image: index, manifest and configuration, of the OCI image specification 1.1 and
//! of Docker's schema 2, which differ in names of media types alone.

use crate::store::digest::Digest;
use serde::{Deserialize, Deserializer};
use std::collections::HashMap;
use std::fmt;

/// Everything that a registry may be asked for as a manifest.
pub const MANIFEST_TYPES: [&str; 4] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];

/// A blob by its digest and size.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// What it is.
    #[serde(default)]
    pub media_type: String,
    /// Its name by its content.
    #[serde(deserialize_with = "digest")]
    pub digest: Digest,
    /// Its size in bytes.
    pub size: u64,
    /// Where else it may be had; only layers that must not be handed on have this.
    #[serde(default)]
    pub urls: Vec<String>,
    /// The machine that it is for, in an index.
    #[serde(default)]
    pub platform: Option<Platform>,
    /// Notes for tools.
    #[serde(default)]
    pub annotations: HashMap<String, String>,
}

/// A kind of machine.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
pub struct Platform {
    /// As Go names it: `linux`.
    #[serde(default)]
    pub os: String,
    /// As Go names it: `amd64`, `arm64`.
    #[serde(default)]
    pub architecture: String,
    /// Which of them: `v8`.
    #[serde(default)]
    pub variant: Option<String>,
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.os, self.architecture)?;
        self.variant.iter().try_for_each(|variant| write!(f, "/{variant}"))
    }
}

/// One document, as the field that it has tells.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Document {
    /// Several images, one for each kind of machine.
    Index(Vec<Descriptor>),
    /// One image.
    Manifest(Box<Manifest>),
}

/// Several images.
#[derive(Deserialize)]
struct Index {
    manifests: Vec<Descriptor>,
}

/// One image.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
pub struct Manifest {
    /// Its configuration.
    pub config: Descriptor,
    /// Its layers, the lowest first.
    pub layers: Vec<Descriptor>,
}

/// What an image says of itself.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
pub struct Configuration {
    /// The machine it is for.
    #[serde(flatten)]
    pub platform: Platform,
    /// When it was made.
    #[serde(default)]
    pub created: Option<String>,
    /// How it wants to be run.
    #[serde(default)]
    pub config: Option<Execution>,
    /// What its layers decode to.
    pub rootfs: Layers,
}

/// How an image wants to be run; the rest of it is not used.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
pub struct Execution {
    /// `NAME=value`.
    #[serde(default, rename = "Env")]
    pub environment: Option<Vec<String>>,
}

/// The layers' digests before compression.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq)]
pub struct Layers {
    /// In the manifest's order.
    #[serde(deserialize_with = "digests")]
    pub diff_ids: Vec<Digest>,
}

/// Why a document cannot be used.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum DocumentError {
    /// It is no JSON of that shape.
    #[error("it cannot be read ({0})")]
    Shape(String),
    /// It is of Docker's first schema.
    #[error("it is of Docker's manifest schema 1, which names no digests of layers")]
    Schema1,
    /// It is an index and a manifest at once.
    #[error("it is an index and a manifest at once")]
    Both,
    /// It is something else.
    #[error("it is neither an index nor a manifest")]
    Neither,
    /// Nothing in the index is for this machine.
    #[error("it has nothing for {wanted}, only for {there}")]
    Platform {
        /// This machine.
        wanted: Platform,
        /// What there is, separated by commas.
        there: String,
    },
}

impl DocumentError {
    /// Where its shape is wrong. With `--from`, it may be any file that a link has led to.
    pub fn shape(error: &serde_json::Error) -> DocumentError {
        DocumentError::Shape(crate::escape::place_in_json(error))
    }
}

impl Platform {
    /// This machine.
    pub fn here() -> Platform {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => "amd64",
            "aarch64" => "arm64",
            other => other,
        };
        Platform { os: "linux".to_owned(), architecture: architecture.to_owned(), variant: None }
    }

    /// Whether an image for `self` runs on `machine`.
    pub fn fits(&self, machine: &Platform) -> bool {
        let variant = self.variant.as_deref();
        // Which variants of amd64 a processor has is its own matter; the plain one always runs.
        let plain = match machine.architecture.as_str() {
            "arm64" => matches!(variant, None | Some("" | "v8")),
            _ => matches!(variant, None | Some("" | "v1")),
        };
        self.os == machine.os && self.architecture == machine.architecture && plain
    }
}

impl Document {
    /// Reads a document, by its fields and not by what a registry calls it.
    ///
    /// # Errors
    /// [`DocumentError`].
    pub fn parse(bytes: &[u8]) -> Result<Document, DocumentError> {
        let shape = |error: serde_json::Error| DocumentError::shape(&error);
        let value: serde_json::Value = serde_json::from_slice(bytes).map_err(shape)?;
        let has = |field: &str| value.get(field).is_some();
        match (has("manifests"), has("config") || has("layers")) {
            (true, true) => Err(DocumentError::Both),
            (true, false) => {
                // From the bytes once more: a value does not know the line that it was in.
                let index: Index = serde_json::from_slice(bytes).map_err(shape)?;
                Ok(Document::Index(index.manifests))
            }
            (false, true) => {
                let manifest = serde_json::from_slice(bytes).map_err(shape)?;
                Ok(Document::Manifest(Box::new(manifest)))
            }
            (false, false) if has("fsLayers") => Err(DocumentError::Schema1),
            (false, false) => Err(DocumentError::Neither),
        }
    }
}

/// The image in an index that is for `machine`; attestations beside the images are none.
///
/// # Errors
/// [`DocumentError::Platform`] names what there is.
pub fn choose<'a>(
    index: &'a [Descriptor],
    machine: &Platform,
) -> Result<&'a Descriptor, DocumentError> {
    let for_machine = |entry: &&Descriptor| {
        entry.platform.as_ref().is_some_and(|platform| platform.fits(machine))
    };
    index.iter().find(for_machine).ok_or_else(|| {
        let known = index.iter().filter_map(|entry| entry.platform.as_ref());
        let real = known.filter(|platform| platform.os != "unknown").map(Platform::to_string);
        let there = crate::escape::for_display(&real.collect::<Vec<_>>().join(", "), 300);
        let there = if there.is_empty() { "no machine at all".to_owned() } else { there };
        DocumentError::Platform { wanted: machine.clone(), there }
    })
}

fn digest<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Digest, D::Error> {
    let text = String::deserialize(deserializer)?;
    parsed(&text)
}

fn digests<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Digest>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    texts.iter().map(|text| parsed(text)).collect()
}

fn parsed<E: serde::de::Error>(text: &str) -> Result<Digest, E> {
    Digest::parse(text).ok_or_else(|| E::custom("no digest by sha256 or sha512"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn descriptor(platform: &str) -> Value {
        let mut parts = platform.split('/');
        let mut next = || parts.next();
        let (os, architecture, variant) = (next(), next(), next());
        json!({
            "mediaType": MANIFEST_TYPES[1],
            "digest": Digest::of(platform.as_bytes()).to_string(),
            "size": 7,
            "platform": {"os": os, "architecture": architecture, "variant": variant},
        })
    }

    fn index(platforms: &[&str]) -> Vec<Descriptor> {
        let entries: Vec<Value> = platforms.iter().map(|platform| descriptor(platform)).collect();
        let text = json!({"schemaVersion": 2, "manifests": entries}).to_string();
        match Document::parse(text.as_bytes()) {
            Ok(Document::Index(entries)) => entries,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn of_an_index_the_image_for_this_machine_is_taken() {
        let machine = |architecture: &str| Platform {
            os: "linux".to_owned(),
            architecture: architecture.to_owned(),
            variant: None,
        };
        let entries = index(&[
            "unknown/unknown",
            "linux/arm/v7",
            "linux/amd64/v3",
            "linux/amd64",
            "linux/arm64/v8",
            "windows/amd64",
        ]);
        let chosen = |architecture: &str| {
            let chosen = choose(&entries, &machine(architecture)).unwrap();
            chosen.platform.as_ref().unwrap().to_string()
        };
        assert_eq!([chosen("amd64"), chosen("arm64")], ["linux/amd64", "linux/arm64/v8"]);
        let error = choose(&entries, &machine("riscv64")).unwrap_err().to_string();
        assert!(error.contains("linux/riscv64, only for linux/arm/v7, linux/amd64/v3"), "{error}");
        assert!(!error.contains("unknown"), "{error}");
        let nothing = choose(&[], &machine("amd64")).unwrap_err().to_string();
        assert!(nothing.contains("no machine at all"), "{nothing}");
    }

    #[test]
    fn what_a_document_is_shows_in_its_fields_alone() {
        let error = |value: Value| Document::parse(value.to_string().as_bytes()).unwrap_err();
        assert_eq!(error(json!({"schemaVersion": 1, "fsLayers": []})), DocumentError::Schema1);
        assert_eq!(error(json!({"manifests": [], "layers": []})), DocumentError::Both);
        assert_eq!(error(json!({})), DocumentError::Neither);
        let bad = descriptor("linux/amd64").to_string().replace("sha256:", "sha1:");
        let bad: Value = serde_json::from_str(&bad).unwrap();
        let wrong = |value: Value| error(value).to_string();
        let text = wrong(json!({"config": bad, "layers": []}));
        assert!(text.starts_with("it cannot be read (line 1, column "), "{text}");
        for secret in
            [json!({"manifests": "hunter2"}), json!({"config": "hunter2"}), json!("hunter2")]
        {
            let text = wrong(secret);
            assert!(!text.contains("hunter2"), "{text}");
        }
        assert!(matches!(Document::parse(b"\xff").unwrap_err(), DocumentError::Shape(_)));
    }

    #[test]
    fn a_configuration_may_leave_out_what_is_not_needed() {
        let diff = Digest::of(b"").to_string();
        let least = json!({"os": "linux", "architecture": "amd64", "rootfs": {"diff_ids": [diff]}});
        let read: Configuration = serde_json::from_value(least).unwrap();
        assert_eq!((read.config, read.platform.variant), (None, None));
        assert_eq!(read.rootfs.diff_ids, [Digest::of(b"")]);
        let empty = json!({"os": "linux", "architecture": "amd64", "config": {"Env": null},
            "rootfs": {"type": "layers", "diff_ids": []}});
        let read: Configuration = serde_json::from_value(empty).unwrap();
        assert_eq!(read.config, Some(Execution { environment: None }));
    }
}
