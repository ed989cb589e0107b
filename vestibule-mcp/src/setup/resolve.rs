//! What an image is made of: from the digest of its setting, step by step, to its layers.

use super::error::SetupError;
use super::fetch::{FetchError, Wanted};
use super::oci::{Configuration, Descriptor, Document, DocumentError, Manifest, Platform, choose};
use crate::config::ImageReference;
use crate::escape::for_display;
use crate::store::digest::Digest;
use crate::store::pin;
use std::collections::HashMap;

/// How many indexes may stand before a manifest.
const INDEXES: usize = 3;
/// How many layers an image may have; Docker itself takes 127.
pub const LAYERS: usize = 512;

/// An image, known but for its bytes.
#[derive(Debug)]
pub struct Resolved {
    /// The digest of its manifest.
    pub digest: Digest,
    /// Its manifest.
    pub manifest: Manifest,
}

impl Resolved {
    /// Bytes that are to be loaded: what a manifest names more than once comes once, and the limits of an
    /// image are counted from it.
    pub fn size(&self) -> u64 {
        let Manifest { config, layers } = &self.manifest;
        once(layers.iter().chain([config]))
            .iter()
            .fold(0, |sum, part| sum.saturating_add(part.size))
    }

    /// The layers that are to be loaded, each once.
    pub fn layers(&self) -> Vec<&Descriptor> {
        once(&self.manifest.layers)
    }
}

/// Each part by its digest, in the order of their first names. Of several sizes one at most is right, and
/// the largest is counted: whoever says a smaller one as well gains nothing.
fn once<'a>(parts: impl IntoIterator<Item = &'a Descriptor>) -> Vec<&'a Descriptor> {
    let (mut found, mut places) = (Vec::<&Descriptor>::new(), HashMap::new());
    for part in parts {
        let place = *places.entry(&part.digest).or_insert(found.len());
        match found.get_mut(place) {
            Some(known) if known.size < part.size => *known = part,
            Some(_) => {}
            None => found.push(part),
        }
    }
    found
}

/// Finds the manifest of this machine's image, whether the setting names an index or the manifest itself.
///
/// # Errors
/// [`SetupError`].
pub fn resolve(
    image: &ImageReference,
    mut document: impl FnMut(Wanted<'_>) -> Result<Vec<u8>, FetchError>,
) -> Result<Resolved, SetupError> {
    let pin = pin(image);
    let mut entry: Option<Descriptor> = None;
    for _ in 0..=INDEXES {
        let wanted = match (&entry, &pin) {
            (Some(entry), _) => Wanted::Manifest(entry),
            (None, Some(pin)) => Wanted::Pinned(pin),
            (None, None) => Wanted::Tagged,
        };
        let bytes = document(wanted)?;
        let read = Document::parse(&bytes).map_err(|error| unusable(image, &error))?;
        match read {
            Document::Index(entries) => {
                let chosen = choose(&entries, &Platform::here());
                entry = Some(chosen.map_err(|error| unusable(image, &error))?.clone());
            }
            Document::Manifest(manifest) => {
                check(image, &manifest)?;
                let named = entry.map(|entry| entry.digest).or(pin);
                let digest = named.unwrap_or_else(|| Digest::of(&bytes));
                return Ok(Resolved { digest, manifest: *manifest });
            }
        }
    }
    Err(refuse(image, &format!("has more than {INDEXES} indexes in one another")))
}

/// Loads an image's configuration, and checks it against the manifest and this machine.
///
/// # Errors
/// [`SetupError`].
pub fn configuration(
    image: &ImageReference,
    resolved: &Resolved,
    mut document: impl FnMut(Wanted<'_>) -> Result<Vec<u8>, FetchError>,
) -> Result<Configuration, SetupError> {
    let bytes = document(Wanted::Configuration(&resolved.manifest.config))?;
    let configuration: Configuration = serde_json::from_slice(&bytes)
        .map_err(|error| unusable(image, &DocumentError::shape(&error)))?;
    let (layers, diff_ids) = (resolved.manifest.layers.len(), &configuration.rootfs.diff_ids);
    if layers != diff_ids.len() {
        let count = diff_ids.len();
        return Err(refuse(image, &format!("has {layers} layers and the digests of {count}")));
    }
    let here = Platform::here();
    if !configuration.platform.fits(&here) {
        let there = for_display(&configuration.platform.to_string(), 100);
        return Err(refuse(image, &format!("is for {there}, and this machine is {here}")));
    }
    Ok(configuration)
}

fn check(image: &ImageReference, manifest: &Manifest) -> Result<(), SetupError> {
    if manifest.layers.len() > LAYERS {
        let count = manifest.layers.len();
        return Err(refuse(image, &format!("has {count} layers, and {LAYERS} is the most")));
    }
    if manifest.layers.iter().any(|layer| !layer.urls.is_empty()) {
        return Err(refuse(image, "has layers that must be had from elsewhere (`urls`)"));
    }
    Ok(())
}

fn unusable(image: &ImageReference, error: &DocumentError) -> SetupError {
    refuse(image, &format!("cannot be used: {error}"))
}

/// An image that is not to be had, and why: a clause that goes on from its name.
pub fn refuse(image: &ImageReference, why: &str) -> SetupError {
    let name = for_display(image.as_str(), 400);
    SetupError::new(
        format!("the image {name} {why}"),
        "set VESTIBULE_IMAGE_PYTHON or VESTIBULE_IMAGE_NODE to another image",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::registry::fake::descriptor;

    #[test]
    fn what_is_named_often_is_loaded_and_counted_once() {
        let sized = |text: &[u8], size| Descriptor { size, ..descriptor(text) };
        let of = |layers| {
            let manifest = Manifest { config: sized(b"config", 10), layers };
            Resolved { digest: Digest::of(b""), manifest }
        };
        let sizes = |resolved: &Resolved| -> Vec<u64> {
            resolved.layers().iter().map(|layer| layer.size).collect()
        };
        let (one, two) = (sized(b"one", 100), sized(b"two", 1000));
        let resolved = of([vec![one.clone(); 99], vec![two, one.clone()]].concat());
        assert_eq!((resolved.size(), sizes(&resolved)), (1110, vec![100, 1000]));
        // The size is what its sender says, and none of them makes the others less.
        let resolved = of(vec![one, sized(b"one", 5), sized(b"one", 200), sized(b"config", 7)]);
        assert_eq!((resolved.size(), sizes(&resolved)), (210, vec![200, 7]));
        let resolved = of(vec![sized(b"one", u64::MAX), sized(b"two", 1)]);
        assert_eq!(resolved.size(), u64::MAX);
    }

    #[test]
    fn a_configuration_that_is_none_is_not_quoted() {
        let digest = Digest::of(b"").to_string();
        let resolved = Resolved {
            digest: Digest::of(b""),
            manifest: Manifest { config: descriptor(b""), layers: Vec::new() },
        };
        let image = ImageReference::parse("python").unwrap();
        for text in [
            r#""hunter2""#.to_owned(),
            r#"{"os": "linux", "architecture": "hunter2", "rootfs": "hunter2"}"#.to_owned(),
            r#"{"rootfs": {"diff_ids": ["hunter2"]}}"#.to_owned(),
            format!(
                r#"{{"rootfs": {{"diff_ids": ["{digest}"]}}, "config": {{"Env": "hunter2"}}}}"#
            ),
        ] {
            let read = configuration(&image, &resolved, |_| Ok(text.clone().into_bytes()));
            let what = read.unwrap_err().what;
            assert!(what.contains("line 1, column ") && !what.contains("hunter2"), "{what}");
        }
    }
}
