//! `setup` where the native sandbox can work: images of our own.

use crate::backend::Failure;
use crate::backend::native::Native;
use crate::cli::say;
use crate::config::Config;
use crate::run::admission::Admission;
use crate::setup::error::SetupError;
use crate::setup::place::Place;
use crate::setup::progress::Progress;
use crate::setup::registry::Environment;
use crate::setup::{self, From, compile};
use crate::store::{Store, bytecode};
use protocol::{Cause, Refusal, Sandbox};
use std::path::PathBuf;

/// Whether a sandbox can be built here, of this machine's own files for the time being.
///
/// # Errors
/// Why not.
pub async fn possible(config: &Config, sandbox: &Sandbox) -> Result<(), Refusal> {
    let admission = Admission::new(1);
    let slot = admission.slot().await?;
    let probed = Native::new(config).probe(sandbox, slot).await.map(drop);
    admission.all_free().await;
    match probed {
        // A machine without /usr is what images are for.
        Err(Failure::Refused(refusal)) if refusal.cause == Cause::Rootfs => Ok(()),
        Err(Failure::Refused(refusal) | Failure::Broken(refusal)) => Err(refusal),
        Ok(()) => Ok(()),
    }
}

/// Puts the images into the store, and compiles python's modules.
///
/// # Errors
/// [`SetupError`] if an image is not there. Modules that are not compiled are no error: they cost speed.
pub async fn images(config: &Config, files: &[PathBuf]) -> Result<(), SetupError> {
    let mut progress = Progress::stderr();
    let environment = Environment::from_env(std::env::vars_os());
    let from = From { files, mirror: config.registry_mirror.as_deref(), environment: &environment };
    let place = Place::hold(&config.rootfs_dir, &mut progress)?;
    // Nothing else is to be done meanwhile, so it may as well keep the thread.
    let there = setup::images(config, &place, &from, &mut progress);
    // Python may be there where another image is not.
    compile_python(config, &place).await;
    there
}

async fn compile_python(config: &Config, place: &Place) {
    let store = Store::new(&place.folder);
    let Ok(Some(found)) = store.find(&config.image_python) else { return };
    let folder = store.place(&config.image_python);
    if bytecode::check(&folder).is_ok() {
        return;
    }
    say("compiling python's modules");
    match compile::compile(place, &folder, &found, &Native::new(config)).await {
        Ok(files) => say(format_args!("python's modules are compiled: {files} files")),
        Err(why) => say(format_args!(
            "note: python's modules are not compiled ({why}): scripts run all the same, and import \
             more slowly"
        )),
    }
}
