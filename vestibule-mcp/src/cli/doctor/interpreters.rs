//! The interpreter of each language in the native sandbox, whose files an image may have or this machine.

use super::Check;
use super::images::shortened;
use super::languages::{Answer, Refused, Works};
use crate::backend::Failure;
use crate::backend::native::{Chosen, Native};
use crate::run::admission::Slot;
use protocol::{Applied, Hello, Language, Refusal, Rootfs};

/// What became of a sandbox of each root file system.
pub type Probed = Vec<(Rootfs, Result<(Applied, Hello), Refusal>)>;

/// Builds one sandbox of each root file system that a language runs in.
pub async fn probe_each(
    native: &Native,
    chosen: &[(Language, Result<Chosen<'_>, Refusal>)],
    slot: &Slot,
) -> Probed {
    let mut probed = Probed::new();
    for (_, chosen) in chosen {
        let Ok(Chosen { sandbox, .. }) = chosen else { continue };
        if probed.iter().any(|(rootfs, _)| *rootfs == sandbox.rootfs) {
            continue;
        }
        let found = match native.probe(sandbox, slot.clone()).await {
            Ok((prepared, hello)) => Ok((prepared.applied().clone(), hello)),
            Err(Failure::Refused(refusal) | Failure::Broken(refusal)) => Err(refusal),
        };
        probed.push((sandbox.rootfs.clone(), found));
    }
    probed
}

/// The row of a language, and what follows from it.
pub fn answer(
    native: &Native,
    language: Language,
    chosen: Result<Chosen<'_>, Refusal>,
    probed: &Probed,
    checks: &mut Vec<Check>,
) -> Answer {
    let name = format!("native {language}");
    let found = chosen.and_then(|chosen| {
        let (_, found) = probed
            .iter()
            .find(|(rootfs, _)| *rootfs == chosen.sandbox.rootfs)
            .expect("every root file system was probed");
        let (applied, _) = found.as_ref().map_err(Refusal::clone)?;
        let path = native.interpreter(&chosen, language, applied)?;
        let of = chosen.image.map_or_else(String::new, |image| {
            format!(" of the image {}", shortened(image.as_str()))
        });
        Ok((format!("{}{of}", path.display()), applied.isolation.clone()))
    });
    checks.push(Check::of(&name, &found, |(detail, _)| detail.clone()));
    match found {
        Ok((_, isolation)) => Ok(Works { backend: "native", isolation }),
        Err(refusal) => Err(Refused { check: name, refusal }),
    }
}
