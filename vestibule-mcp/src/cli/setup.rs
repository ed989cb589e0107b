//! `vestibule-mcp setup`: fetches what this machine can use, once, and ends with the probe of a first call.

mod engines;
#[cfg(target_os = "linux")]
mod native;
mod trial;

use super::{say, told};
use crate::backend::select::{NotPrepared, Selector};
use crate::config::{BackendChoice, Config, RootfsChoice};
use crate::escape::for_display;
use crate::run::admission::Admission;
use crate::run::{pipeline, privileges};
use crate::signals::Signals;
use protocol::{Cause, Language, Refusal, Retry, Sandbox};
use std::fmt::Display;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

/// How long what was begun may take to be cleared away after a signal.
const TO_TIDY: Duration = Duration::from_secs(5);

/// The arguments of `setup`.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Take the images from an OCI layout folder or an archive (docker save, skopeo) instead of a
    /// registry; can be given several times
    #[arg(long, value_name = "PATH")]
    from: Vec<PathBuf>,
}

/// Why there is nothing to run code in.
enum Stopped {
    /// As a call would be told.
    Blocked(Refusal),
    /// The signal of this name came.
    Signal(&'static str),
    /// An image is not there.
    #[cfg(target_os = "linux")]
    Setup(crate::setup::error::SetupError),
}

impl From<Refusal> for Stopped {
    fn from(refusal: Refusal) -> Stopped {
        Stopped::Blocked(refusal)
    }
}

/// Fetches and probes; returns the exit code: 0 if every language can run, else 1.
pub async fn run(config: Config, arguments: Arguments) -> i32 {
    let ready = async {
        let (sandbox, signals) = prepare(&config, &arguments).await?;
        // Only now, or by an engine's pull: while images are unpacked nobody looks at signals, and so
        // they must end the process by themselves.
        let signals = signals.map_or_else(Signals::new, Ok).map_err(no_signals)?;
        conclude(&config, &sandbox, signals).await
    };
    match ready.await {
        Ok(levels) => {
            let levels = levels.join(" and ");
            print(format_args!("ready in this terminal's environment: isolation {levels}"));
            return 0;
        }
        Err(Stopped::Blocked(refusal)) => {
            print(format_args!("Blocked: {}", told(&refusal)));
        }
        Err(Stopped::Signal(name)) => {
            print(format_args!("setup: it was stopped by {name}. Fix: run it again."));
        }
        #[cfg(target_os = "linux")]
        Err(Stopped::Setup(error)) => print(format_args!("setup: {error}")),
    }
    1
}

/// Writes a line of the result. Where nobody reads it, the exit code says the rest.
fn print(line: impl Display) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// Has everything there that a run needs, as far as it can be had. Whoever has taken over the signals hands
/// them on.
async fn prepare(
    config: &Config,
    arguments: &Arguments,
) -> Result<(Sandbox, Option<Signals>), Stopped> {
    privileges::check()?;
    config.usable()?;
    introduce(config, arguments);
    let sandbox = pipeline::sandbox(config)?;
    let no_image = |setting: &str| {
        say(format_args!("{setting}: there is nothing to fetch"));
        refuse_files(arguments, &format!("{setting}, so that no image is used"), "remove --from")
    };
    let mut signals = None;
    match config.backend {
        BackendChoice::Naive => no_image("VESTIBULE_BACKEND is naive")?,
        BackendChoice::Container => signals = Some(engines::pull(config, arguments, None).await?),
        #[cfg(target_os = "linux")]
        BackendChoice::Auto | BackendChoice::Native => {
            match native::possible(config, &sandbox).await {
                Ok(()) if config.rootfs == RootfsChoice::Host => {
                    no_image("VESTIBULE_ROOTFS is host")?;
                }
                Ok(()) => native::images(config, &arguments.from).await.map_err(Stopped::Setup)?,
                Err(refusal) if config.backend == BackendChoice::Auto => {
                    signals = Some(engines::pull(config, arguments, Some(refusal)).await?);
                }
                Err(refusal) => return Err(refusal.into()),
            }
        }
        #[cfg(not(target_os = "linux"))]
        BackendChoice::Auto => signals = Some(engines::pull(config, arguments, None).await?),
        #[cfg(not(target_os = "linux"))]
        BackendChoice::Native => drop(Selector::new(config).backends()?),
    }
    Ok((sandbox, signals))
}

/// Refuses files that nothing would be taken from: who names one expects it to be used.
fn refuse_files(arguments: &Arguments, why: &str, fix: &str) -> Result<(), Refusal> {
    if arguments.from.is_empty() {
        return Ok(());
    }
    Err(refusal(Cause::Request, format!("--from is of no use here: {why}"), fix))
}

fn no_signals(error: io::Error) -> Refusal {
    let what = format!("the system refuses a handler for signals ({error})");
    refusal(Cause::Other, what, "free processes, memory and open files")
}

fn refusal(cause: Cause, what: String, fix: &str) -> Refusal {
    Refusal { what, cause, fix: fix.to_owned(), retry: Retry::Now, at: None }
}

/// Says which settings count: those of a client's own `env` do not reach a shell.
fn introduce(config: &Config, arguments: &Arguments) {
    let shown = |text: &str| for_display(text, 300);
    say(format_args!(
        "vestibule-mcp {} setup, with this terminal's settings:",
        env!("CARGO_PKG_VERSION")
    ));
    let no_image = match config.backend {
        BackendChoice::Naive => Some("VESTIBULE_BACKEND is naive"),
        BackendChoice::Native if config.rootfs == RootfsChoice::Host => {
            Some("VESTIBULE_ROOTFS is host")
        }
        _ => None,
    };
    let from = match (arguments.from.as_slice(), &config.registry_mirror) {
        _ if let Some(setting) = no_image => format!("nowhere: {setting}"),
        ([], _) if config.backend == BackendChoice::Container => {
            "where the engine pulls them from".to_owned()
        }
        ([], None) => "the images' own registries".to_owned(),
        ([], Some(mirror)) => shown(mirror),
        (files, _) => {
            let names: Vec<String> =
                files.iter().map(|path| shown(&path.to_string_lossy())).collect();
            names.join(", ")
        }
    };
    let rows = [
        ("VESTIBULE_BACKEND", config.backend.name().to_owned()),
        ("VESTIBULE_ROOTFS", config.rootfs.name().to_owned()),
        ("VESTIBULE_ROOTFS_DIR", shown(&config.rootfs_dir.to_string_lossy())),
        ("VESTIBULE_IMAGE_PYTHON", shown(config.image_python.as_str())),
        ("VESTIBULE_IMAGE_NODE", shown(config.image_node.as_str())),
        ("VESTIBULE_WORKSPACE", shown(&config.workspace.to_string_lossy())),
        ("images come from", from),
    ];
    for (name, value) in rows {
        say(format_args!("  {name:<23} {value}"));
    }
    for (doubt, fix) in config.doubts() {
        say(format_args!("note: {doubt}. Fix: {fix}"));
    }
}

/// Tries each language as a call would, and returns what protects them.
async fn conclude(
    config: &Config,
    sandbox: &Sandbox,
    mut signals: Signals,
) -> Result<Vec<String>, Stopped> {
    let admission = Admission::new(1);
    let signal = tokio::select! {
        levels = probe(config, sandbox, &admission) => return Ok(levels?),
        signal = signals.next() => signal,
    };
    // What was dropped is being removed, which an engine may take long for.
    let _ = tokio::time::timeout(TO_TIDY, admission.all_free()).await;
    Err(Stopped::Signal(signal))
}

async fn probe(
    config: &Config,
    sandbox: &Sandbox,
    admission: &Admission,
) -> Result<Vec<String>, Refusal> {
    let selector = Selector::new(config);
    let mut levels: Vec<String> = Vec::new();
    let mut blocked = None;
    for language in Language::ALL {
        match try_out(config, &selector, sandbox, admission, language).await {
            Ok(level) => {
                say(format_args!("{language}: {level}"));
                if !levels.contains(&level) {
                    levels.push(level);
                }
            }
            Err(refusal) => {
                say(format_args!("{language}: Blocked: {}", told(&refusal)));
                blocked.get_or_insert(refusal);
            }
        }
        admission.all_free().await;
    }
    blocked.map_or(Ok(levels), Err)
}

/// Prepares a run as a call would. A container's probe has looked for the interpreter inside; a sandbox of our own
/// stands whatever its interpreter is, so that something is run in it.
async fn try_out(
    config: &Config,
    selector: &Selector,
    sandbox: &Sandbox,
    admission: &Admission,
    language: Language,
) -> Result<String, Refusal> {
    let slot = admission.slot().await?;
    let prepared = selector.prepare(sandbox, language, &slot).await;
    drop(slot);
    let prepared = prepared.map_err(|failure| match failure {
        NotPrepared::Blocked(refusal) | NotPrepared::Broke { refusal, .. } => refusal,
    })?;
    let level = prepared.isolation().to_string();
    if prepared.backend() == "native" {
        trial::run(config, language, prepared).await?;
    }
    Ok(level)
}
