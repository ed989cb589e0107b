//! What can run code: one small interface, and the backends behind it.
//!
//! A run has two phases. [`Backend::prepare`] builds everything that does not need the code and says
//! what is really in force; [`Prepared::execute`] runs the code in it. Preparing is also the probe:
//! there is no other way to learn what a machine can do than doing it.

pub mod choice;
pub mod container;
mod counter;
#[cfg(unix)]
mod kill;
pub mod locate;
pub mod naive;
#[cfg(target_os = "linux")]
pub mod native;
mod pipes;
mod scratch;
pub mod select;

use crate::run::admission::Slot;
use crate::run::output::Output;
use protocol::{Isolation, Language, Outcome, Refusal, Sandbox, Script};
use tokio_util::sync::CancellationToken;

/// A way to run code.
pub enum Backend {
    /// The sandbox that `vestibule-jail` builds.
    #[cfg(target_os = "linux")]
    Native(native::Native),
    /// A container of Docker's or Podman's.
    Container(container::Container),
    /// No sandbox.
    Naive(naive::Naive),
}

/// Everything of a run but its code.
pub enum Prepared {
    /// A sandbox that stands and waits.
    #[cfg(target_os = "linux")]
    Native(Box<native::Prepared>),
    /// An image that was probed.
    Container(Box<container::Prepared>),
    /// Nothing but an interpreter.
    Naive(naive::Prepared),
}

/// Why nothing could be prepared.
#[derive(Clone, Debug, PartialEq)]
pub enum Failure {
    /// The backend says no, and why.
    Refused(Refusal),
    /// The backend itself broke: its helper died, hung or broke the protocol.
    Broken(Refusal),
}

/// How the second phase ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Finish {
    /// With a full report.
    Finished(Outcome),
    /// Before anything was executed.
    NotStarted(Refusal),
    /// Under way, without a report: what happened to its helper.
    Lost(String),
    /// Under way, because it was told to stop.
    Stopped,
}

impl Backend {
    /// Its name in results and settings.
    pub fn name(&self) -> &'static str {
        match self {
            #[cfg(target_os = "linux")]
            Backend::Native(_) => "native",
            Backend::Container(container) => container.name(),
            Backend::Naive(_) => "naive",
        }
    }

    /// Builds everything for a run in `language` but its code. Bounded in time. `slot` is kept until
    /// nothing of the run is left.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn prepare(
        &self,
        sandbox: &Sandbox,
        language: Language,
        slot: Slot,
    ) -> Result<Prepared, Failure> {
        match self {
            #[cfg(target_os = "linux")]
            Backend::Native(native) => {
                let prepared = native.prepare(sandbox, language, slot).await?;
                Ok(Prepared::Native(Box::new(prepared)))
            }
            Backend::Container(container) => {
                let prepared = container.prepare(sandbox, language, slot).await?;
                Ok(Prepared::Container(Box::new(prepared)))
            }
            Backend::Naive(naive) => naive.prepare(sandbox, language, slot).map(Prepared::Naive),
        }
    }
}

impl Prepared {
    /// What protects the run.
    pub fn isolation(&self) -> &Isolation {
        match self {
            #[cfg(target_os = "linux")]
            Prepared::Native(prepared) => prepared.isolation(),
            Prepared::Container(prepared) => prepared.isolation(),
            Prepared::Naive(prepared) => prepared.isolation(),
        }
    }

    /// The name of the backend that prepared it.
    pub fn backend(&self) -> &'static str {
        match self {
            #[cfg(target_os = "linux")]
            Prepared::Native(_) => "native",
            Prepared::Container(prepared) => prepared.backend(),
            Prepared::Naive(_) => "naive",
        }
    }

    /// What it sees as its root file system: an image, or parts of this machine's.
    pub fn rootfs(&self) -> Option<String> {
        match self {
            #[cfg(target_os = "linux")]
            Prepared::Native(prepared) => prepared.rootfs().map(str::to_owned),
            Prepared::Container(prepared) => Some(prepared.image().to_owned()),
            Prepared::Naive(_) => None,
        }
    }

    /// Runs the code. Ends at the script's timeout, or at once when `stop` is cancelled.
    pub async fn execute(
        self,
        script: Script,
        output: &mut Output<'_>,
        stop: &CancellationToken,
    ) -> Finish {
        match self {
            #[cfg(target_os = "linux")]
            Prepared::Native(prepared) => prepared.execute(script, output, stop).await,
            Prepared::Container(prepared) => prepared.execute(script, output, stop).await,
            Prepared::Naive(prepared) => prepared.execute(script, output, stop).await,
        }
    }
}
