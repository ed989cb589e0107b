//! One throwaway container per run, through the command line of Docker or Podman.

mod cli;
mod engine;
mod find;
mod launch;
mod probe;
pub mod profile;
mod reaper;
mod record;
mod refusal;
mod removal;
mod run;
mod seccomp;
mod streams;
mod watch;

use super::{Failure, Finish, scratch};
use crate::config::{Config, RuntimeChoice, SCRIPTS};
use crate::engine::Progress;
use crate::run::admission::Slot;
use crate::run::output::Output;
use engine::Engine;
pub use engine::Kind;
use launch::Launch;
use probe::{Proven, Seen};
use protocol::{Isolation, Language, OutputBytes, Refusal, Sandbox, Script, TimeoutSeconds};
use reaper::Reaper;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio_util::sync::CancellationToken;

/// How long a probe may take, in seconds, and how much it may print, in bytes.
const PROBE: (u64, u64) = (20, 256 * 1024);

/// The backend of one engine.
pub struct Container {
    shared: Arc<Shared>,
}

/// What the runs of one engine share.
struct Shared {
    kind: Kind,
    home: Option<PathBuf>,
    python: String,
    node: String,
    /// The folder for scripts: below the home folder, since engines in a virtual machine see that one.
    scratch: PathBuf,
    /// Held while an engine is asked or an image probed, so that calls at the same time do it once.
    asking: tokio::sync::Mutex<()>,
    known: Mutex<Known>,
    reaper: Arc<tokio::sync::Mutex<Reaper>>,
}

/// What was learnt, until a run fails.
#[derive(Default)]
struct Known {
    engine: Option<Arc<Engine>>,
    proven: HashMap<String, Proven>,
}

/// An image that was probed.
pub struct Prepared {
    shared: Arc<Shared>,
    engine: Arc<Engine>,
    image: String,
    isolation: Isolation,
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
        kinds.iter().map(|kind| Container::new(*kind, config)).collect()
    }

    fn new(kind: Kind, config: &Config) -> Container {
        let scratch = match &config.home {
            Some(home) => home.join(".vestibule").join(SCRIPTS),
            None => std::env::temp_dir(),
        };
        let shared = Shared {
            kind,
            home: config.home.clone(),
            python: config.image_python.as_str().to_owned(),
            node: config.image_node.as_str().to_owned(),
            scratch,
            asking: tokio::sync::Mutex::default(),
            known: Mutex::default(),
            reaper: Arc::default(),
        };
        Container { shared: Arc::new(shared) }
    }

    /// Its name in results and settings.
    pub fn name(&self) -> &'static str {
        self.shared.kind.name()
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
        let turn = shared.asking.lock().await;
        let known = shared.lock().engine.clone();
        let engine = match known {
            Some(engine) => engine,
            None => {
                shared.check_use(image)?;
                let engine = Arc::new(Engine::ask(shared.kind).await?);
                shared.lock().engine = Some(engine.clone());
                engine
            }
        };
        let known = shared.lock().proven.get(image).cloned();
        let proven = match known {
            Some(proven) => proven,
            None => {
                // A run within a call's own future would make every call's as large as two.
                let probe = Box::pin(shared.probe(&engine, image, sandbox, slot.clone()));
                let proven = probe.await;
                let proven = proven.inspect_err(|_| shared.forget())?;
                shared.lock().proven.insert(image.to_owned(), proven.clone());
                proven
            }
        };
        drop(turn);
        proven.check_language(image, language)?;
        shared.reap(&engine);
        Ok(Prepared {
            shared: shared.clone(),
            image: image.to_owned(),
            isolation: proven.isolation,
            sandbox: sandbox.clone(),
            engine,
            slot,
        })
    }
}

impl Shared {
    fn image(&self, language: Language) -> &str {
        match language {
            Language::Python | Language::Bash => &self.python,
            Language::Node => &self.node,
        }
    }

    /// Refuses a Podman that has no image, without waking it.
    fn check_use(&self, image: &str) -> Result<(), Refusal> {
        match (self.kind, find::program(self.kind)) {
            (Kind::Podman, Some(program)) if find::podman_is_unused(self.home.as_deref()) => {
                Err(refusal::image_missing(self.kind, &program, image))
            }
            _ => Ok(()),
        }
    }

    /// The maps are whole after every operation, so a panic elsewhere cannot have broken them.
    fn lock(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was learnt may no longer hold.
    fn forget(&self) {
        *self.lock() = Known::default();
    }

    /// Runs the probe's script in a container like any other, and judges what it prints.
    async fn probe(
        &self,
        engine: &Arc<Engine>,
        image: &str,
        sandbox: &Sandbox,
        slot: Slot,
    ) -> Result<Proven, Refusal> {
        engine.check_image(image).await?;
        let trip = RoundTrip::new(&sandbox.workspace)
            .map_err(|error| refusal::no_scratch(&sandbox.workspace, &error))?;
        let failed = |error| refusal::probe_failed(&engine.facts, error);
        let timeout_seconds = TimeoutSeconds::new(PROBE.0).map_err(failed)?;
        let output_bytes = OutputBytes::new(PROBE.1).map_err(failed)?;
        let script = Script {
            language: Language::Bash,
            code: probe::script(&trip.token, &trip.answer),
            timeout_seconds,
            output_bytes,
        };
        let mut output =
            Output::new(output_bytes, tokio::sync::watch::Sender::new(Progress::Queued), None);
        let launch = Launch { engine, image, sandbox, scratch: &self.scratch, slot };
        let finish = launch.run(&script, &mut output, &CancellationToken::new()).await;
        let seen = Seen::parse(&output.stdout.text().0);
        match finish {
            Finish::Finished(_) if seen.is_whole() => {
                seen.judge(&engine.facts, sandbox, &trip.token)
            }
            Finish::Finished(outcome) => {
                let words = refusal::words(&output.stderr.text().0);
                Err(refusal::probe_failed(&engine.facts, format!("{:?} ({words})", outcome.ending)))
            }
            Finish::NotStarted(refusal) => Err(refusal),
            Finish::Lost(what) => Err(refusal::probe_failed(&engine.facts, what)),
            Finish::Stopped => Err(refusal::probe_failed(&engine.facts, "it was stopped")),
        }
    }

    /// Looks for what dead servers have left, now and then and beside the run.
    fn reap(&self, engine: &Arc<Engine>) {
        let (reaper, engine, scratch) = (self.reaper.clone(), engine.clone(), self.scratch.clone());
        tokio::spawn(async move {
            // Whoever holds it is looking already.
            if let Ok(mut reaper) = reaper.try_lock()
                && reaper.is_due()
            {
                reaper.reap(&engine.cli, &scratch).await;
            }
        });
    }
}

/// Two files in the workspace: one of ours that the probe reads, and one that it writes.
struct RoundTrip {
    workspace: PathBuf,
    token: String,
    answer: String,
}

impl RoundTrip {
    fn new(workspace: &Path) -> std::io::Result<RoundTrip> {
        let token = scratch::unique(".vestibule-probe");
        let answer = format!("{token}-answer");
        std::fs::write(workspace.join(&token), format!("{token}\n"))?;
        Ok(RoundTrip { workspace: workspace.to_owned(), token, answer })
    }
}

impl Drop for RoundTrip {
    fn drop(&mut self) {
        for name in [&self.token, &self.answer] {
            // The answer is there only if the workspace is the one that was meant, and writable.
            let _ = std::fs::remove_file(self.workspace.join(name));
        }
    }
}

impl Prepared {
    /// What the engine says it is, for a person.
    pub fn engine(&self) -> String {
        let facts = &self.engine.facts;
        let rootless = if facts.rootless { ", rootless" } else { "" };
        let program = self.engine.cli.program.display();
        format!("{} {}{rootless} ({program})", facts.kind.title(), facts.version)
    }

    /// What protects the run.
    pub fn isolation(&self) -> &Isolation {
        &self.isolation
    }

    /// The engine's name.
    pub fn backend(&self) -> &'static str {
        self.shared.kind.name()
    }

    /// Runs the code. What was learnt of the engine is forgotten if it did not do its part.
    pub async fn execute(
        self,
        script: Script,
        output: &mut Output<'_>,
        stop: &CancellationToken,
    ) -> Finish {
        let Prepared { shared, engine, image, sandbox, slot, .. } = self;
        let launch = Launch {
            engine: &engine,
            image: &image,
            sandbox: &sandbox,
            scratch: &shared.scratch,
            slot,
        };
        let finish = launch.run(&script, output, stop).await;
        if matches!(finish, Finish::NotStarted(_) | Finish::Lost(_)) {
            shared.forget();
        }
        finish
    }
}
