//! What is known of an engine and its images: found out once, kept until a run fails.

use super::engine::{Engine, Kind};
use super::launch::Launch;
use super::place::RoundTrip;
use super::probe::{self, Proven, Seen};
use super::reaper::Reaper;
use super::refusal;
use super::usage::Cgroups;
use crate::backend::Finish;
use crate::config::{Config, SCRIPTS};
use crate::engine::Progress;
use crate::run::admission::Slot;
use crate::run::output::Output;
use protocol::{Cause, Language, OutputBytes, Refusal, Sandbox, Script, TimeoutSeconds};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long a probe may take, in seconds, and how much it may print, in bytes.
const PROBE: (u64, u64) = (20, 256 * 1024);

/// What the runs of one engine share.
pub struct Shared {
    /// The engine that is wanted.
    pub kind: Kind,
    home: Option<PathBuf>,
    python: String,
    node: String,
    /// The folder for scripts: below the home folder, since engines in a virtual machine see that one.
    pub scratch: PathBuf,
    /// Where its containers have their cgroups.
    pub cgroups: Arc<Cgroups>,
    /// Held while an engine is asked or an image probed, so that calls at the same time do it once.
    asking: tokio::sync::Mutex<()>,
    known: Mutex<Known>,
    reaper: tokio::sync::Mutex<Reaper>,
}

/// What was learnt, until a run fails.
#[derive(Default)]
struct Known {
    engine: Option<Arc<Engine>>,
    /// The engine that answered last, whatever came of it.
    answered: Option<Arc<Engine>>,
    proven: HashMap<String, Arc<Proven>>,
    failed: Option<Failed>,
}

/// The last failure: calls that waited for it have it in common.
struct Failed {
    at: Instant,
    /// The image that it concerns, or all.
    image: Option<String>,
    refusal: Refusal,
}

impl Shared {
    /// Nothing is known yet.
    pub fn new(kind: Kind, config: &Config) -> Shared {
        let scratch = match &config.home {
            Some(home) => home.join(".vestibule").join(SCRIPTS),
            None => std::env::temp_dir(),
        };
        Shared {
            kind,
            home: config.home.clone(),
            python: config.image_python.as_str().to_owned(),
            node: config.image_node.as_str().to_owned(),
            scratch,
            cgroups: Arc::default(),
            asking: tokio::sync::Mutex::default(),
            known: Mutex::default(),
            reaper: tokio::sync::Mutex::default(),
        }
    }

    /// The image that a language runs in.
    pub fn image(&self, language: Language) -> &str {
        match language {
            Language::Python | Language::Bash => &self.python,
            Language::Node => &self.node,
        }
    }

    /// What is known of an image.
    pub fn recall(&self, image: &str) -> Option<(Arc<Engine>, Arc<Proven>)> {
        let known = self.lock();
        Some((known.engine.clone()?, known.proven.get(image)?.clone()))
    }

    /// Asks the engine and probes an image, one call at a time: the others have what it found.
    ///
    /// # Errors
    /// A refusal with the missing piece and its fix.
    pub async fn learn(
        &self,
        image: &str,
        sandbox: &Sandbox,
        slot: Slot,
    ) -> Result<(Arc<Engine>, Arc<Proven>), Refusal> {
        let arrived = Instant::now();
        let _turn = self.asking.lock().await;
        if let Some(known) = self.recall(image) {
            return Ok(known);
        }
        let concerns = |failed: &&Failed| {
            failed.at >= arrived && failed.image.as_deref().is_none_or(|other| other == image)
        };
        if let Some(failed) = self.lock().failed.as_ref().filter(concerns) {
            return Err(failed.refusal.clone());
        }
        let known = self.lock().engine.clone();
        let engine = match known {
            Some(engine) => engine,
            None => {
                let asked = Engine::ask(self.kind, self.home.as_deref(), image).await;
                let engine = Arc::new(asked.inspect_err(|refusal| self.failed(None, refusal))?);
                let mut known = self.lock();
                known.engine = Some(engine.clone());
                known.answered = Some(engine.clone());
                engine
            }
        };
        let proven = self.probe(&engine, image, sandbox, slot).await;
        let proven = Arc::new(proven.inspect_err(|refusal| self.failed(Some(image), refusal))?);
        self.lock().proven.insert(image.to_owned(), proven.clone());
        Ok((engine, proven))
    }

    fn failed(&self, image: Option<&str>, refusal: &Refusal) {
        let failed = Failed {
            at: Instant::now(),
            image: image.map(str::to_owned),
            refusal: refusal.clone(),
        };
        let mut known = self.lock();
        let answered = known.answered.take();
        *known = Known { failed: Some(failed), answered, ..Known::default() };
    }

    /// The engine that answered last, for a person to know what was asked.
    pub fn answered(&self) -> Option<Arc<Engine>> {
        self.lock().answered.clone()
    }

    /// The maps are whole after every operation, so a panic elsewhere cannot have broken them.
    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was learnt may no longer hold.
    pub fn forget(&self) {
        self.cgroups.forget();
        *self.lock() = Known::default();
    }

    /// Probes an image. An engine on a machine of its own is probed once more, with a round trip through
    /// the workspace; off Linux every engine is one.
    async fn probe(
        &self,
        engine: &Arc<Engine>,
        name: &str,
        sandbox: &Sandbox,
        slot: Slot,
    ) -> Result<Proven, Refusal> {
        let image = engine.image(name).await?;
        let launch = |slot| Launch {
            engine,
            name,
            image: &image,
            walls: "",
            sandbox,
            scratch: &self.scratch,
            cgroups: &self.cgroups,
            slot,
        };
        if cfg!(target_os = "linux") {
            let seen = look(launch(slot.clone()), None).await?;
            if let Some(proven) = seen.judge(&engine.facts, sandbox, image.clone(), None)? {
                return Ok(proven);
            }
        }
        let trip = RoundTrip::new(&sandbox.workspace)
            .map_err(|error| refusal::no_scratch(&sandbox.workspace, &error))?;
        let seen = look(launch(slot), Some((&trip.token, &trip.answer))).await?;
        let proven = seen.judge(&engine.facts, sandbox, image.clone(), Some(&trip.token))?;
        proven.ok_or_else(|| refusal::probe_failed(&engine.facts, "the workspace was not read"))
    }

    /// Looks for what dead servers have left and for names that mean other images now, now and then and
    /// beside the run.
    pub fn look_around(self: &Arc<Self>, engine: &Arc<Engine>) {
        let (shared, engine) = (self.clone(), engine.clone());
        tokio::spawn(async move {
            // Whoever holds it is looking already.
            if let Ok(mut reaper) = shared.reaper.try_lock()
                && reaper.is_due()
            {
                reaper.reap(&engine.cli, &shared.scratch).await;
                shared.look_up_names(&engine).await;
            }
        });
    }

    async fn look_up_names(&self, engine: &Engine) {
        let pinned = |name: &String| name.contains("@sha256:");
        let names: Vec<_> =
            self.lock().proven.keys().filter(|name| !pinned(name)).cloned().collect();
        for name in names {
            let looked_up = engine.image(&name).await;
            let mut known = self.lock();
            let stays = known.proven.get(&name).is_none_or(|proven| match &looked_up {
                Ok(image) => proven.image.id == image.id,
                // Gone, or nothing is known now.
                Err(refusal) => refusal.cause != Cause::Image,
            });
            if !stays {
                known.proven.remove(&name);
            }
        }
    }
}

/// Runs the probe's script in a container like any other.
async fn look(launch: Launch<'_>, trip: Option<(&str, &str)>) -> Result<Seen, Refusal> {
    let facts = launch.engine.facts.clone();
    let failed = |error| refusal::probe_failed(&facts, error);
    let output_bytes = OutputBytes::new(PROBE.1).map_err(failed)?;
    let script = Script {
        language: Language::Bash,
        code: probe::script(trip),
        timeout_seconds: TimeoutSeconds::new(PROBE.0).map_err(failed)?,
        output_bytes,
    };
    let progress = tokio::sync::watch::Sender::new(Progress::Queued);
    let mut output = Output::new(output_bytes, progress, None);
    let finish = launch.run(&script, &mut output, &CancellationToken::new()).await;
    let seen = Seen::parse(&output.stdout.text().0);
    match finish {
        Finish::Finished(_) if seen.is_whole() => Ok(seen),
        Finish::Finished(outcome) => {
            let words = refusal::words(&output.stderr.text().0);
            Err(refusal::probe_failed(&facts, format!("{:?} ({words})", outcome.ending)))
        }
        Finish::NotStarted(refusal) => Err(refusal),
        Finish::Lost(what) => Err(refusal::probe_failed(&facts, what)),
        Finish::Stopped => Err(refusal::probe_failed(&facts, "it was stopped")),
    }
}
