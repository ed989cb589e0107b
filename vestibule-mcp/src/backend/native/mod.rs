//! The native sandbox: a client of `vestibule-jail`.

mod cgroup;
mod greeting;
mod rootfs;
mod session;

use super::locate;
use super::{Failure, Finish};
use crate::config::Config;
use crate::escape;
use crate::run::admission::Slot;
use crate::run::output::Output;
use cgroup::Cgroups;
use protocol::frame::{self, FrameError, ToServer};
use protocol::{
    Applied, Cause, Event, Hello, Isolation, Language, Refusal, Request, Retry, Sandbox, Script,
};
pub use rootfs::Chosen;
use rootfs::Images;
use session::Session;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long the helper may take to build a sandbox. Some milliseconds are usual; a machine that is
/// out of memory or disk bandwidth takes longer.
const PREPARE: Duration = Duration::from_secs(15);
/// How long after the timeout of a run the helper's report may take.
const GRACE: Duration = Duration::from_secs(10);
/// What the helper is called where its path is not known.
const PROGRAM: &str = "vestibule-jail";
/// How many characters of a helper's reason are passed on.
const REASON: usize = 1000;

/// The backend.
pub struct Native {
    jail: Option<PathBuf>,
    environment: Vec<(&'static str, OsString)>,
    cgroups: Arc<Cgroups>,
    images: Images,
}

/// A sandbox that stands.
pub struct Prepared {
    session: Session,
    applied: Applied,
    image: Option<String>,
}

impl Native {
    /// The backend of these settings.
    pub fn new(config: &Config) -> Native {
        let one = u64::from(config.limits().memory_mib.get());
        let together = one.saturating_mul(u64::from(config.max_concurrent));
        Native {
            jail: config.jail.clone(),
            environment: config.bus_environment.clone(),
            cgroups: Arc::new(Cgroups::new(together)),
            images: Images::new(config),
        }
    }

    /// Builds a sandbox in which `language` can run.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn prepare(
        &self,
        sandbox: &Sandbox,
        language: Language,
        slot: Slot,
    ) -> Result<Prepared, Failure> {
        let mut chosen = self.choose(sandbox, language).map_err(Failure::Refused)?;
        let building = self.probe(&chosen.sandbox, slot.clone());
        let looking = self.images.bytecode_holds(&chosen.sandbox);
        let (built, holds) = tokio::join!(building, looking);
        let mut prepared = built?.0;
        if !holds {
            drop(prepared);
            chosen.sandbox.bytecode = None;
            prepared = self.probe(&chosen.sandbox, slot).await?.0;
        }
        self.interpreter(&chosen, language, &prepared.applied).map_err(Failure::Refused)?;
        prepared.image = chosen.image.map(|image| image.as_str().to_owned());
        Ok(prepared)
    }

    /// The sandbox for a language, with the root file system that it runs in.
    ///
    /// # Errors
    /// A refusal if that is an image, and it is not there or not usable.
    pub fn choose(&self, sandbox: &Sandbox, language: Language) -> Result<Chosen<'_>, Refusal> {
        self.images.choose(sandbox, language)
    }

    /// The interpreter of a language in the sandbox that was chosen for it.
    ///
    /// # Errors
    /// A refusal that says where it was looked for.
    pub fn interpreter<'a>(
        &self,
        chosen: &Chosen<'_>,
        language: Language,
        applied: &'a Applied,
    ) -> Result<&'a Path, Refusal> {
        let found = applied.interpreters.path(language);
        found.map_err(|refusal| self.images.without(language, chosen, refusal))
    }

    /// Where the helper is.
    ///
    /// # Errors
    /// A refusal that says where it was looked for.
    pub fn helper(&self) -> Result<PathBuf, Refusal> {
        locate::helper(self.jail.as_deref())
    }

    /// Builds a sandbox, and tells how the helper greeted.
    ///
    /// # Errors
    /// [`Failure`].
    pub async fn probe(&self, sandbox: &Sandbox, slot: Slot) -> Result<(Prepared, Hello), Failure> {
        let jail = self.helper().map_err(Failure::Refused)?;
        let turn = self.cgroups.turn().await;
        let sandbox = Sandbox { cgroup: turn.source.clone(), ..sandbox.clone() };
        let request = frame::encode_request(&Request::Prepare(sandbox))
            .map_err(|error| broken(&jail, &error.to_string()))?;
        let started = Session::start(&jail, &self.environment, self.cgroups.clone(), slot);
        let mut session = started.map_err(Failure::Refused)?;
        // A helper that refuses or dies may not read this; what it says tells more than the pipe.
        let _ = session.send(&[frame::encode_hello(&Hello::ours()), request].concat()).await;
        let answer = tokio::time::timeout(PREPARE, applied(&mut session, &jail)).await;
        match answer {
            Ok(Ok((applied, hello))) => {
                turn.learn(&applied.cgroup).await;
                session.has_cgroup(applied.cgroup.as_ref().ok().map(|cgroup| cgroup.run.clone()));
                Ok((Prepared { session, applied, image: None }, hello))
            }
            Ok(Err(Failure::Broken(mut refusal))) => {
                refusal.what.push_str(&session.end().await);
                Err(Failure::Broken(refusal))
            }
            Ok(Err(refused)) => Err(refused),
            Err(_) => {
                let seconds = PREPARE.as_secs();
                Err(broken(&jail, &format!("it built no sandbox within {seconds} s")))
            }
        }
    }
}

/// Greeting, then `Ready` or a refusal.
async fn applied(session: &mut Session, jail: &Path) -> Result<(Applied, Hello), Failure> {
    let hello = match next(session, jail).await? {
        ToServer::Hello(hello) => hello,
        other => return Err(out_of_order(jail, "a greeting", &other)),
    };
    greeting::check(&hello, jail).map_err(Failure::Refused)?;
    match next(session, jail).await? {
        ToServer::Event(Event::Ready(applied)) => Ok((*applied, hello)),
        ToServer::Event(Event::Refused(refusal)) => Err(Failure::Refused(one_line(refusal))),
        other => Err(out_of_order(jail, "Ready or Refused", &other)),
    }
}

async fn next(session: &mut Session, jail: &Path) -> Result<ToServer, Failure> {
    match session.next().await {
        Ok(Some(frame)) => Ok(frame),
        Ok(None) => Err(broken(jail, "it ended before a sandbox stood")),
        Err(error) => Err(broken(jail, &error.to_string())),
    }
}

impl Prepared {
    /// What protects the run.
    pub fn isolation(&self) -> &Isolation {
        &self.applied.isolation
    }

    /// What it sees as its system files: the name of an image, or this machine's.
    pub fn rootfs(&self) -> Option<&str> {
        self.image.as_deref().or(self.applied.isolation.rootfs.as_deref())
    }

    /// Everything that is in force, control by control.
    pub fn applied(&self) -> &Applied {
        &self.applied
    }

    /// Runs the code in the sandbox.
    pub async fn execute(
        mut self,
        script: Script,
        output: &mut Output<'_>,
        stop: &CancellationToken,
    ) -> Finish {
        let deadline = Duration::from_secs(script.timeout_seconds.get().into()) + GRACE;
        let request = match frame::encode_request(&Request::Execute(script)) {
            Ok(request) => request,
            Err(error) => return Finish::NotStarted(helper_fault(&error.to_string(), PROGRAM)),
        };
        let conversation = async {
            // As above: what a dying helper still says tells more than a failed write.
            let _ = self.session.send(&request).await;
            report(&mut self.session, output).await
        };
        let finish = tokio::select! {
            biased;
            () = stop.cancelled() => return Finish::Stopped,
            finish = tokio::time::timeout(deadline, conversation) => finish,
        };
        match finish {
            Ok(Finish::Lost(what)) => Finish::Lost(what + &self.session.end().await),
            Ok(finish) => finish,
            Err(_) => Finish::Lost(format!(
                "its helper did not report within {} s after the timeout",
                GRACE.as_secs()
            )),
        }
    }
}

/// Output frames, then the report.
async fn report(session: &mut Session, output: &mut Output<'_>) -> Finish {
    loop {
        let lost = match session.next().await {
            Ok(Some(ToServer::Output(stream, bytes))) => match output.add(stream, &bytes) {
                Ok(()) => continue,
                Err(_) => "its helper passed on more output than the cap".to_owned(),
            },
            Ok(Some(ToServer::Event(Event::Finished(outcome)))) => {
                return Finish::Finished(outcome);
            }
            // Only as long as nothing was executed: a helper that has passed on output lies.
            Ok(Some(ToServer::Event(Event::Refused(refusal)))) if output.is_empty() => {
                return Finish::NotStarted(one_line(refusal));
            }
            Ok(Some(other)) => order_error("Output or Finished", &other).to_string(),
            Ok(None) => "its helper ended without a report".to_owned(),
            Err(error) => format!("its helper broke the protocol: {error}"),
        };
        return Finish::Lost(lost);
    }
}

/// A refusal from the helper may quote paths: nothing in it may break the line.
fn one_line(refusal: Refusal) -> Refusal {
    let what = escape::for_display(&refusal.what, REASON);
    let fix = escape::for_display(&refusal.fix, REASON);
    Refusal { what, fix, ..refusal }
}

fn order_error(expected: &'static str, got: &ToServer) -> FrameError {
    let got = match got {
        ToServer::Hello(_) => "a greeting",
        ToServer::Event(Event::Ready(_)) => "Ready",
        ToServer::Event(Event::Refused(_)) => "Refused",
        ToServer::Event(Event::Finished(_)) => "Finished",
        ToServer::Output(..) => "Output",
    };
    FrameError::Order { expected, got }
}

fn out_of_order(jail: &Path, expected: &'static str, got: &ToServer) -> Failure {
    broken(jail, &order_error(expected, got).to_string())
}

fn broken(jail: &Path, what: &str) -> Failure {
    let jail = locate::shown(jail);
    Failure::Broken(helper_fault(&format!("the helper {jail} did not do its part: {what}"), &jail))
}

/// A fault of the helper's own; `jail` is what a person can call it by.
fn helper_fault(what: &str, jail: &str) -> Refusal {
    Refusal {
        what: what.to_owned(),
        cause: Cause::Other,
        fix: format!(
            "if this is not the first time, reinstall vestibule-mcp and vestibule-jail from one \
             release, or run `{jail} --check --explain` and report what it prints"
        ),
        retry: Retry::Now,
        at: None,
    }
}

#[cfg(test)]
mod tests;
