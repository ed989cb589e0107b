//! Pulling images through an engine, for `setup`: the one time that a network is used for them.

use super::Container;
use super::engine::Engine;
use super::refusal;
#[cfg(unix)]
use crate::backend::kill;
use crate::cli::say;
use crate::signals::Signals;
use protocol::{Language, Refusal};
use std::io;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Child;

/// How long a client that was asked to end may take: it may have half an image to clear away.
const TO_END: Duration = Duration::from_secs(3);

/// Why an engine does not have the images.
pub enum NotPulled {
    /// It does not answer, or does not get one.
    Refused(Refusal),
    /// The signal of this name came.
    Stopped(&'static str),
}

impl From<Refusal> for NotPulled {
    fn from(refusal: Refusal) -> NotPulled {
        NotPulled::Refused(refusal)
    }
}

impl Container {
    /// Has the engine pull the images that it does not have, each of them whatever becomes of another. What its
    /// client says goes to standard error.
    ///
    /// # Errors
    /// [`NotPulled`]; images that were pulled stay.
    pub async fn pull_images(&self, signals: &mut Signals) -> Result<(), NotPulled> {
        let mut images =
            [Language::Python, Language::Node].map(|language| self.shared.image(language));
        images.sort_unstable();
        let looked = async {
            // Also a Podman that was never used: a person asks for it now.
            let engine = Engine::ask(self.shared.kind, None, images[0]).await?;
            let mut missing = Vec::new();
            for (index, image) in images.iter().enumerate() {
                let again = index > 0 && images[index - 1] == *image;
                if !again && engine.lacks(image).await? {
                    missing.push(*image);
                }
            }
            Ok::<_, Refusal>((engine, missing))
        };
        let (engine, missing) = tokio::select! {
            looked = looked => looked?,
            signal = signals.next() => return Err(NotPulled::Stopped(signal)),
        };
        if missing.is_empty() {
            say(format_args!("{}: the images are here", engine.facts.kind.name()));
        }
        let mut refused = None;
        for image in missing {
            say(format_args!("{}: pulling {image}", engine.facts.kind.name()));
            match pull(&engine, image, signals).await {
                Ok(()) => {}
                Err(NotPulled::Refused(refusal)) => refused = Some(both(refused, refusal)),
                Err(stopped @ NotPulled::Stopped(_)) => return Err(stopped),
            }
        }
        refused.map_or(Ok(()), |refusal| Err(refusal.into()))
    }
}

/// One refusal of those of two images.
fn both(before: Option<Refusal>, refusal: Refusal) -> Refusal {
    let Some(before) = before else { return refusal };
    Refusal {
        what: format!("{}; {}", before.what, refusal.what),
        fix: format!("{}; {}", before.fix, refusal.fix),
        ..refusal
    }
}

/// Has one image pulled. Its client is in a process group of its own, like all of them: it may be a script, or
/// start others, and all of them end when we are told to.
async fn pull(engine: &Engine, image: &str, signals: &mut Signals) -> Result<(), NotPulled> {
    let kind = engine.facts.kind;
    let mut command = engine.cli.command(["pull", image]);
    command.stdout(Stdio::from(io::stderr())).stderr(Stdio::inherit()).kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| refusal::cannot_start(kind, &error))?;
    let ended = tokio::select! {
        ended = child.wait() => ended,
        signal = signals.next() => {
            end(&mut child).await;
            return Err(NotPulled::Stopped(signal));
        }
    };
    match ended {
        Ok(status) if status.success() => Ok(()),
        _ => Err(refusal::not_pulled(kind, &engine.cli.program, image).into()),
    }
}

/// Asks a client to end, with all that it has started, and makes it.
async fn end(child: &mut Child) {
    #[cfg(unix)]
    if let Some(leader) = child.id() {
        kill::ask_group(leader);
        #[cfg(target_os = "linux")]
        let ended = tokio::time::timeout(TO_END, kill::group_after(leader)).await;
        #[cfg(not(target_os = "linux"))]
        let ended = tokio::time::timeout(TO_END, child.wait()).await;
        if !matches!(ended, Ok(Ok(_))) {
            kill::group(leader);
        }
    }
    // An error means that it has ended.
    let _ = child.start_kill();
    let _ = tokio::time::timeout(TO_END, child.wait()).await;
}
