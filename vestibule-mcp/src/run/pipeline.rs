//! One run as a list of steps.

use super::admission::{Admission, Slot};
use super::output::{Output, Tee};
use super::privileges;
use super::report::{Ended, Report};
use super::request::RunRequest;
use crate::audit::record::Outcome;
use crate::audit::{Audit, Entry};
use crate::backend::select::{NotPrepared, Selector};
use crate::backend::{Finish, Prepared};
use crate::config::Config;
use crate::engine::{Call, Progress};
use crate::workspace;
use protocol::{Isolation, Refusal, Rootfs, Sandbox, Script};
use serde_json::{Map, Value};
use std::future::ready;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What every run of one server shares.
pub struct Shared {
    /// The settings.
    pub config: Config,
    /// The slots.
    pub admission: Admission,
    /// The backends.
    pub selector: Selector,
    /// The audit log.
    pub audit: Audit,
    /// Cancelled when the process ends.
    pub ending: CancellationToken,
}

/// Why a call ran nothing.
#[derive(Clone, Debug, PartialEq)]
pub enum NotRun {
    /// It was refused.
    Blocked(Refusal),
    /// It was told to stop before its code was started.
    Stopped,
}

impl From<Refusal> for NotRun {
    fn from(refusal: Refusal) -> NotRun {
        NotRun::Blocked(refusal)
    }
}

impl std::fmt::Display for NotRun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NotRun::Blocked(refusal) => refusal.fmt(f),
            NotRun::Stopped => {
                f.write_str("the call was stopped before its code was started. Fix: call again.")
            }
        }
    }
}

/// A call that passed selection.
enum Selected {
    /// Its backend is ready.
    Ready(RunRequest, Box<Prepared>),
    /// Its backend broke.
    Broke(Box<Report>),
}

/// Runs the code of one call. `tee` gets the output as it comes.
///
/// # Errors
/// [`NotRun`] if nothing reached a backend that works.
pub async fn run(
    shared: &Shared,
    arguments: Map<String, Value>,
    call: &Call,
    tee: Option<Tee<'_>>,
) -> Result<Report, NotRun> {
    // Where a setting is wrong, the audit log's own place may be.
    shared.config.usable()?;
    let entry = shared.audit.entry(&call.client, &arguments);
    match select(shared, arguments, call).await {
        Ok(Selected::Ready(request, prepared)) => {
            Ok(execute(shared, request, *prepared, call, entry, tee).await)
        }
        Ok(Selected::Broke(mut report)) => {
            let mut entry = entry;
            entry.start(&report, None).await;
            report.audit = entry.end(&report, Outcome::of(&report, false)).await;
            Ok(*report)
        }
        Err(not_run) => {
            entry.blocked(&not_run.to_string()).await;
            Err(not_run)
        }
    }
}

async fn select(
    shared: &Shared,
    arguments: Map<String, Value>,
    call: &Call,
) -> Result<Selected, NotRun> {
    let config = &shared.config;
    unless_stopped(&call.stop, ready(())).await?;
    let request = RunRequest::parse(arguments, config)?;
    privileges::check()?;
    let slot = unless_stopped(&call.stop, slot(shared, call)).await??;
    let sandbox = sandbox(config)?;
    let started = Instant::now();
    let preparing = shared.selector.prepare(&sandbox, request.language, &slot);
    match unless_stopped(&call.stop, preparing).await? {
        Ok(prepared) => Ok(Selected::Ready(request, Box::new(prepared))),
        Err(NotPrepared::Blocked(refusal)) => Err(NotRun::Blocked(refusal)),
        Err(NotPrepared::Broke { backend, refusal }) => {
            let mut report = Report::new(config, &request, backend, Isolation::none());
            report.never_started(&refusal, started.elapsed());
            Ok(Selected::Broke(Box::new(report)))
        }
    }
}

/// Waits for something, but not beyond the word to stop.
async fn unless_stopped<T>(
    stop: &CancellationToken,
    work: impl Future<Output = T>,
) -> Result<T, NotRun> {
    tokio::select! {
        biased;
        () = stop.cancelled() => Err(NotRun::Stopped),
        done = work => Ok(done),
    }
}

async fn slot(shared: &Shared, call: &Call) -> Result<Slot, Refusal> {
    call.progress.send_replace(Progress::Queued);
    let slot = shared.admission.slot().await?;
    call.progress.send_replace(Progress::Running { since: Instant::now(), printed: 0 });
    Ok(slot)
}

/// The sandbox that the settings ask for; the same for every run.
///
/// # Errors
/// A refusal if the workspace cannot be used.
pub fn sandbox(config: &Config) -> Result<Sandbox, Refusal> {
    Ok(Sandbox {
        rootfs: Rootfs::Host,
        workspace: workspace::prepare::folder(config)?,
        workspace_read_only: config.workspace_read_only,
        limits: config.limits(),
        environment: Vec::new(),
        bytecode: None,
        cgroup: protocol::CgroupSource::default(),
    })
}

async fn execute(
    shared: &Shared,
    request: RunRequest,
    prepared: Prepared,
    call: &Call,
    mut entry: Entry<'_>,
    tee: Option<Tee<'_>>,
) -> Report {
    let config = &shared.config;
    let started = Instant::now();
    let isolation = prepared.isolation().clone();
    let mut report = Report::new(config, &request, prepared.backend(), isolation);
    entry.start(&report, prepared.rootfs()).await;
    let mut output = Output::new(config.max_output, call.progress.clone(), tee);
    let script = Script {
        language: request.language,
        code: request.code,
        timeout_seconds: request.timeout,
        output_bytes: config.max_output,
    };
    let finish = prepared.execute(script, &mut output, &call.stop).await;
    (report.stdout, report.stderr) = (output.stdout, output.stderr);
    let mut cancelled = false;
    match finish {
        Finish::Finished(outcome) => report.finish(outcome),
        Finish::NotStarted(refusal) => report.never_started(&refusal, started.elapsed()),
        Finish::Lost(what) => report.ended = Ended::Stopped(what),
        Finish::Stopped => {
            cancelled = !shared.ending.is_cancelled();
            report.ended = Ended::Stopped("the call was told to stop".to_owned());
        }
    }
    report.audit = entry.end(&report, Outcome::of(&report, cancelled)).await;
    report
}
