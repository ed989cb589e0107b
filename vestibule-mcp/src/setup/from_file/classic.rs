//! What `docker save` wrote before Docker 25: a configuration and layers by file names of their own, and
//! no manifest that a registry's digest could name.

use super::{Files, Meant, misshapen};
use crate::setup::oci::MANIFEST_TYPES;
use crate::setup::resolve::LAYERS;
use crate::store::digest::{Algorithm, Digest, Hasher};
use serde::Deserialize;
use serde_json::json;
use std::cell::RefCell;
use std::collections::HashMap;
use std::io::{self, Read};

/// An archive's `manifest.json`.
pub struct Classic {
    images: Vec<Image>,
    /// The digests and sizes of parts by their names; known once a manifest was made of them.
    parts: RefCell<HashMap<String, (Digest, u64)>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct Image {
    config: String,
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

impl Classic {
    /// Reads an archive's `manifest.json`.
    ///
    /// # Errors
    /// Those of the file, and where it is of another shape.
    pub fn read(files: &Files) -> io::Result<Classic> {
        let text = match files.document("manifest.json") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(io::Error::other("it has neither index.json nor manifest.json"));
            }
            read => read?,
        };
        let images =
            serde_json::from_slice(&text).map_err(|error| misshapen("manifest.json", &error))?;
        Ok(Classic { images, parts: RefCell::default() })
    }

    /// The names of its images.
    pub fn names(&self) -> Vec<&str> {
        let tags = self.images.iter().filter_map(|image| image.repo_tags.as_ref());
        tags.flatten().map(String::as_str).collect()
    }

    /// The file of a part.
    pub fn name(&self, digest: &Digest) -> Option<String> {
        let parts = self.parts.borrow();
        parts.iter().find(|(_, (known, _))| known == digest).map(|(name, _)| name.clone())
    }

    /// The image that is meant.
    ///
    /// # Errors
    /// Why there is none, as the end of a sentence about the file.
    pub fn choose(&self, wanted: &str, meant: Meant) -> Result<&Image, String> {
        meant.choose(&self.images, |image| image.repo_tags.clone().unwrap_or_default(), wanted)
    }

    /// A manifest made of the configuration and layers as they are: what proves them is the
    /// configuration's list of the layers' digests.
    ///
    /// # Errors
    /// Those of the files.
    pub fn manifest(&self, files: &Files, image: &Image) -> io::Result<Vec<u8>> {
        // Each of them is read as a whole here, however often it is named.
        if image.layers.len() > LAYERS {
            let count = image.layers.len();
            return Err(io::Error::other(format!("it has {count} layers, {LAYERS} is the most")));
        }
        // Nothing is hashed that would not be read.
        files.document(&image.config)?;
        let config = self.part(files, &image.config, "application/vnd.oci.image.config.v1+json")?;
        let layer = |name: &String| {
            let mut magic = [0; 2];
            let gzip = files.open(name, 0)?.read_exact(&mut magic).is_ok() && magic == [0x1f, 0x8b];
            let kind = if gzip { "tar+gzip" } else { "tar" };
            self.part(files, name, &format!("application/vnd.oci.image.layer.v1.{kind}"))
        };
        let layers: io::Result<Vec<_>> = image.layers.iter().map(layer).collect();
        let manifest = json!({
            "schemaVersion": 2,
            "mediaType": MANIFEST_TYPES[1],
            "config": config,
            "layers": layers?,
        });
        Ok(manifest.to_string().into_bytes())
    }

    fn part(&self, files: &Files, name: &str, kind: &str) -> io::Result<serde_json::Value> {
        let known = self.parts.borrow().get(name).cloned();
        let (digest, size) = match known {
            Some(known) => known,
            None => {
                let mut hasher = Hasher::new(Algorithm::Sha256);
                let size = io::copy(&mut files.open(name, 0)?, &mut hasher)?;
                let found = (hasher.finish(), size);
                self.parts.borrow_mut().insert(name.to_owned(), found.clone());
                found
            }
        };
        Ok(json!({"mediaType": kind, "digest": digest.to_string(), "size": size}))
    }
}
