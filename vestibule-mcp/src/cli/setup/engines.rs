//! `setup` where the native sandbox cannot work or is not wanted: Docker or Podman pulls the images.

use super::{Arguments, Stopped, no_signals, refuse_files};
use crate::backend::container::{Container, NotPulled};
use crate::backend::select::merge;
use crate::cli::{say, told};
use crate::config::Config;
use crate::signals::Signals;
use protocol::{Cause, Refusal};

/// Has the first engine that can pull the images. `native` is why there is no native sandbox, if it was
/// wanted. Returns the signals, which it had to take over.
///
/// # Errors
/// If no engine can be used, or a signal came. An image that was not pulled is no error yet: the probe that
/// follows says what can be done without it.
pub async fn pull(
    config: &Config,
    arguments: &Arguments,
    native: Option<Refusal>,
) -> Result<Signals, Stopped> {
    if let Some(refusal) = &native {
        say(format_args!("no native sandbox here: {}", told(refusal)));
    }
    refuse_files(arguments, "the images are a container engine's to keep", &load(config))?;
    if config.registry_mirror.is_some() {
        say(
            "note: VESTIBULE_REGISTRY_MIRROR is not used: an engine has a setting of its own for mirrors",
        );
    }
    let mut signals = Signals::new().map_err(no_signals)?;
    let mut refusals: Vec<_> = native.into_iter().map(|refusal| ("native", refusal)).collect();
    let mut answered = false;
    for engine in Container::allowed(config) {
        match engine.pull_images(&mut signals).await {
            Ok(()) => return Ok(signals),
            Err(NotPulled::Stopped(signal)) => return Err(Stopped::Signal(signal)),
            Err(NotPulled::Refused(refusal)) => {
                say(format_args!("{}: {}", engine.name(), told(&refusal)));
                answered |= refusal.cause == Cause::Image;
                refusals.push((engine.name(), refusal));
            }
        }
    }
    if answered {
        return Ok(signals);
    }
    // Asking all of them again for each language would take a minute where one hangs.
    Err(merge("code", refusals).into())
}

/// How an archive gets into an engine. A digest does not go with it: what was loaded has its tag alone.
fn load(config: &Config) -> String {
    let commands: Vec<String> = Container::allowed(config)
        .iter()
        .map(|engine| format!("`{} load -i PATH`", engine.name()))
        .collect();
    format!(
        "run {}, set VESTIBULE_IMAGE_PYTHON and VESTIBULE_IMAGE_NODE to the names that it prints, and run \
         setup without --from",
        commands.join(" or ")
    )
}
