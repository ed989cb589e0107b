//! One container: started, watched, and what the engine says of it.

use super::engine::{self, Kind};
use super::launch::Launch;
use super::record::{self, Record};
use super::refusal;
use super::removal::Remains;
use super::streams::{self, Streams};
use super::watch::{Clock, Watched, end_client, watch};
use crate::backend::Finish;
use crate::backend::counter::Counter;
use crate::backend::scratch;
use crate::run::output::Output;
use protocol::{Ending, LimitHit, Outcome, Refusal, Script};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long the engine may take for its record, at least, when the time of the run is up.
const RECORD: Duration = Duration::from_secs(2);
/// Why nothing but the wall time is measured.
const NOT_MEASURED: &str = "not readable from outside a container";

impl Launch<'_> {
    /// Runs a script in a container of its own. The container is removed in the background, however
    /// this ends.
    pub async fn run(
        self,
        script: &Script,
        output: &mut Output<'_>,
        stop: &CancellationToken,
    ) -> Finish {
        match self.start_and_watch(script, output, stop).await {
            Ok(Finish::Lost(what)) => {
                let words = streams::take_last_words(&mut output.stderr);
                let words = words.map(|words| format!(" ({})", refusal::words(&words)));
                Finish::Lost(what + &words.unwrap_or_default())
            }
            Ok(finish) => finish,
            Err(refusal) => Finish::NotStarted(refusal),
        }
    }

    async fn start_and_watch(
        &self,
        script: &Script,
        output: &mut Output<'_>,
        stop: &CancellationToken,
    ) -> Result<Finish, Refusal> {
        let name = scratch::unique("vestibule");
        let scratch = self.write(&name, script)?;
        let arguments = self.arguments(&name, scratch.path(), script)?;
        let mut command = self.engine.cli.command(arguments);
        command.kill_on_drop(true);
        let mut clock = Clock::new(Duration::from_secs(script.timeout_seconds.get().into()));
        let kind = self.engine.facts.kind;
        let mut client = command.spawn().map_err(|error| refusal::cannot_start(kind, &error))?;
        let mut streams = Streams::new(&mut client, &name);
        let mut remains = Remains::new(self.engine.clone(), name, scratch, self.slot.clone());
        let mut counter = Counter::new(script, output);
        let watched = watch(&mut client, &mut streams, &mut counter, &mut clock, stop).await;
        if !matches!(watched, Watched::ClientEnded(_)) {
            end_client(&mut client, &mut streams, &mut counter).await;
        }
        let wall = clock.wall();
        if streams.has_begun() {
            remains.container_is_known();
        }
        let ending = match watched {
            Watched::ClientEnded(code) => {
                let found = match self.told_by_client(code, &streams) {
                    Some(record) => Ok(Some(record)),
                    None => {
                        let patience = clock.left().max(RECORD);
                        record::read(&self.engine.cli, remains.name(), patience).await
                    }
                };
                return Ok(self.finish(found, &streams, &counter, wall));
            }
            Watched::Stopped => return Ok(Finish::Stopped),
            Watched::NotBegun => {
                let (title, seconds) = (kind.title(), wall.as_secs());
                let what = format!("{title} did not start the code within {seconds} s");
                return Ok(Finish::Lost(what));
            }
            Watched::TimedOut => Ending::TimedOut,
            Watched::Overflow(stream) => Ending::Overflow(stream),
        };
        Ok(Finish::Finished(counter.outcome(ending, wall, NOT_MEASURED)))
    }

    /// The record of a run that needs none: to ask Podman takes a third of a short run. The mark shows
    /// that the code was started, and the client ends with the code's own exit code, but for those that
    /// can be its own or a kill for memory.
    fn told_by_client(&self, code: Option<i32>, streams: &Streams) -> Option<Record> {
        let code = code.filter(|code| !matches!(code, 125..=127 | 137))?;
        let told = self.engine.facts.kind == Kind::Podman && streams.has_begun();
        told.then(|| Record::exited(code))
    }

    /// Why the engine did not start the code, in its words.
    fn refused(&self, words: &str) -> Refusal {
        let (kind, program) = (self.engine.facts.kind, &self.engine.cli.program);
        if engine::is_missing_image(words) {
            return refusal::image_missing(kind, program, self.image);
        }
        refusal::said(kind, words)
    }

    /// What the engine's record makes of a run whose client has ended.
    fn finish(
        &self,
        found: Result<Option<Record>, String>,
        streams: &Streams,
        counter: &Counter<'_, '_>,
        wall: Duration,
    ) -> Finish {
        let kind = self.engine.facts.kind;
        match found {
            Ok(Some(record)) if record.running => {
                Finish::Lost(format!("the connection to {} ended before the run did", kind.title()))
            }
            // Its init was started and could not start our first program, or ended before it.
            Ok(Some(record)) if record.was_started() && !streams.has_begun() => {
                let words = streams.words();
                Finish::NotStarted(match words.trim().is_empty() {
                    true => refusal::ended_early(self.image, record.exit_code),
                    false => self.refused(&words),
                })
            }
            Ok(Some(record)) if record.was_started() => {
                let mib = self.sandbox.limits.memory_mib.get();
                Finish::Finished(judged(&record, mib, counter, wall))
            }
            Ok(Some(record)) => {
                let words = streams.words();
                let words = if words.trim().is_empty() { record.error } else { words };
                Finish::NotStarted(self.refused(&words))
            }
            Ok(None) if !streams.has_begun() => Finish::NotStarted(self.refused(&streams.words())),
            Ok(None) => Finish::Lost(format!("{} has lost the container", kind.title())),
            Err(why) => Finish::Lost(why),
        }
    }
}

fn judged(record: &Record, mib: u32, counter: &Counter<'_, '_>, wall: Duration) -> Outcome {
    let code = u8::try_from(record.exit_code).unwrap_or(u8::MAX);
    let killed = record.oom_killed && code == 128 + 9;
    let ending = if killed { Ending::OutOfMemory } else { Ending::Exited(code) };
    let mut outcome = counter.outcome(ending, wall, NOT_MEASURED);
    if record.oom_killed && !killed {
        outcome.limits_hit.push(LimitHit::Memory(mib));
    }
    outcome
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
