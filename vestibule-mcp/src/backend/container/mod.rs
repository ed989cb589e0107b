//! One throwaway container per run, through the command line of Docker or Podman.

mod cli;
mod engine;
mod find;
pub mod heirs;
mod launch;
mod mounts;
mod place;
mod probe;
pub mod profile;
mod pull;
mod quotas;
mod reaper;
mod record;
mod refusal;
mod removal;
mod run;
mod seccomp;
mod shared;
mod streams;
mod usage;
mod watch;

use super::{Failure, Finish};
use crate::config::{Config, RuntimeChoice};
use crate::run::admission::Slot;
use crate::run::output::Output;
use engine::Engine;
pub use engine::Kind;
use launch::Launch;
use probe::Proven;
use protocol::{Isolation, Language, Refusal, Sandbox, Script};
pub use pull::NotPulled;
use shared::Shared;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The backend of one engine.
pub struct Container {
    shared: Arc<Shared>,
}

/// An image that was probed.
pub struct Prepared {
    shared: Arc<Shared>,
    engine: Arc<Engine>,
    image: String,
    proven: Arc<Proven>,
    sandbox: Sandbox,
    slot: Slot,
}

impl Container {
    /// The engines that the settings allow, in the order in which they are tried.
    pub fn allowed(config: &Config) -> Vec<Container> {
        let kinds: &[Kind] = match config.runtime {
            RuntimeChoice::Auto => &[Kind::Docker, Kind::Podman],
            RuntimeChoice::Docker => &[Kind::Docker],
            RuntimeChoice::Podman => &[Kind::Podman],
        };
        let container = |kind: &Kind| Container { shared: Arc::new(Shared::new(*kind, config)) };
        kinds.iter().map(container).collect()
    }

    /// Its name in results and settings.
    pub fn name(&self) -> &'static str {
        self.shared.kind.name()
    }

    /// The image that a language runs in.
    pub fn image(&self, language: Language) -> &str {
        self.shared.image(language)
    }

    /// What the engine says it is, for a person, if it has ever answered.
    pub fn engine(&self) -> Option<String> {
        self.shared.answered().map(|engine| engine.to_string())
    }

    /// Makes sure that the engine runs what a run needs: once, and again after a run that failed.
    ///
    /// # Errors
    /// [`Failure::Refused`] with the missing piece and its fix.
    pub async fn prepare(
        &self,
        sandbox: &Sandbox,
        language: Language,
        slot: Slot,
    ) -> Result<Prepared, Failure> {
        self.look(sandbox, language, slot).await.map_err(Failure::Refused)
    }

    async fn look(
        &self,
        sandbox: &Sandbox,
        language: Language,
        slot: Slot,
    ) -> Result<Prepared, Refusal> {
        let shared = &self.shared;
        let image = shared.image(language);
        let (engine, proven) = match shared.recall(image) {
            Some(known) => known,
            // A run within a call's own future would make every call's as large as two.
            None => Box::pin(shared.learn(image, sandbox, slot.clone())).await?,
        };
        proven.check_language(image, language)?;
        shared.look_around(&engine);
        let image = image.to_owned();
        Ok(Prepared {
            shared: shared.clone(),
            engine,
            image,
            proven,
            sandbox: sandbox.clone(),
            slot,
        })
    }
}

impl Prepared {
    /// What protects the run.
    pub fn isolation(&self) -> &Isolation {
        &self.proven.isolation
    }

    /// The image's name.
    pub fn image(&self) -> &str {
        &self.image
    }

    /// The engine's name: what it is, and not what its program is called.
    pub fn backend(&self) -> &'static str {
        self.engine.facts.kind.name()
    }

    /// Runs the code. What was learnt of the engine is forgotten if it did not do its part.
    pub async fn execute(
        self,
        script: Script,
        output: &mut Output<'_>,
        stop: &CancellationToken,
    ) -> Finish {
        let Prepared { shared, engine, image, proven, sandbox, slot } = self;
        let launch = Launch {
            engine: &engine,
            name: &image,
            image: &proven.image,
            walls: &proven.walls,
            sandbox: &sandbox,
            scratch: &shared.scratch,
            cgroups: &shared.cgroups,
            slot,
        };
        let finish = launch.run(&script, output, stop).await;
        if matches!(finish, Finish::NotStarted(_) | Finish::Lost(_)) {
            shared.forget();
        }
        finish
    }
}
