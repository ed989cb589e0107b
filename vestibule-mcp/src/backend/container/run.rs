//! One container: started, watched, and what the engine says of it.

use super::engine::{self, Kind};
use super::launch::{CID, Launch};
use super::record::{self, Record};
use super::refusal;
use super::removal::Remains;
use super::streams::{self, Streams};
use super::usage::{Counters, Meter, NOT_MEASURED};
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
                let words = words.map(|words| format!(" (standard error ended with: {words})"));
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
        let mut meter = Meter::new(self.cgroups, &self.sandbox.limits, scratch.path().join(CID));
        let mut remains = Remains::new(self.engine.clone(), name, scratch, self.slot.clone());
        let mut counter = Counter::new(script, output);
        let begun = || meter.start();
        let watched = watch(&mut client, &mut streams, &mut counter, &mut clock, stop, begun).await;
        if !matches!(watched, Watched::ClientEnded(_)) {
            end_client(&mut client, &mut streams, &mut counter).await;
        }
        let wall = clock.wall();
        if streams.has_begun() {
            remains.container_is_known();
        }
        let ending = match watched {
            Watched::ClientEnded(code) => {
                let patience = clock.left().max(RECORD);
                let (found, used) = tokio::join!(
                    self.account(code, &streams, &mut remains, patience),
                    meter.at_the_end()
                );
                return Ok(self.finish(found, used, &streams, &counter, wall));
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
        let mut outcome = counter.outcome(ending, wall, NOT_MEASURED);
        if let Some(used) = meter.now() {
            if used.killed {
                outcome.limits_hit.push(LimitHit::Memory(self.sandbox.limits.memory_mib.get()));
            }
            used.add_to(&mut outcome);
        }
        Ok(Finish::Finished(outcome))
    }

    /// What is known of a container whose client has ended.
    async fn account(
        &self,
        code: Option<i32>,
        streams: &Streams,
        remains: &mut Remains,
        patience: Duration,
    ) -> Result<Option<Record>, String> {
        if let Some(record) = self.told_by_client(code, streams) {
            return Ok(Some(record));
        }
        let found = record::read(&self.engine.cli, remains.name(), patience).await;
        // The engine has done with what the client asked for: no container comes after this.
        if matches!(found, Ok(Some(_))) || engine::is_missing_image(&streams.words()) {
            remains.container_is_known();
        }
        found
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
            return refusal::image_missing(kind, program, self.name);
        }
        refusal::said(kind, words)
    }

    /// Why a container has ended before its code was started: in its first program's words, or whoever
    /// could not start that.
    fn ended_early(&self, exit_code: i64, streams: &Streams) -> Refusal {
        let kind = self.engine.facts.kind;
        match streams.differing() {
            Some(wall) => refusal::changed(kind, &wall),
            None => refusal::ended_early(kind, self.name, exit_code, &streams.words()),
        }
    }

    /// What the engine's record makes of a run whose client has ended.
    fn finish(
        &self,
        found: Result<Option<Record>, String>,
        used: Option<Counters>,
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
            Ok(Some(record))
                if record.was_started()
                    && (!streams.has_begun() || streams.differing().is_some()) =>
            {
                Finish::NotStarted(self.ended_early(record.exit_code, streams))
            }
            Ok(Some(record)) if record.was_started() => {
                let mib = self.sandbox.limits.memory_mib.get();
                Finish::Finished(judged(&record, used, mib, counter, wall))
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

/// The report of a run, from the engine's record and from what the kernel counted, where that was read.
fn judged(
    record: &Record,
    used: Option<Counters>,
    mib: u32,
    counter: &Counter<'_, '_>,
    wall: Duration,
) -> Outcome {
    let code = u8::try_from(record.exit_code).unwrap_or(u8::MAX);
    // Podman over runc may not know of a kill for memory, and Podman is not asked where a child was killed.
    let oom_killed = record.oom_killed || used.as_ref().is_some_and(|used| used.killed);
    let killed = oom_killed && code == 128 + 9;
    let ending = if killed { Ending::OutOfMemory } else { Ending::Exited(code) };
    let mut outcome = counter.outcome(ending, wall, NOT_MEASURED);
    if let Some(used) = used {
        used.add_to(&mut outcome);
    }
    if oom_killed && !killed {
        outcome.limits_hit.push(LimitHit::Memory(mib));
    }
    outcome
}

#[cfg(test)]
#[path = "run_tests.rs"]
mod tests;
