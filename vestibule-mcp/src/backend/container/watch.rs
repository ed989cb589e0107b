//! Watching a run: its output, its time, its end.

use super::engine::ANSWER;
use super::streams::Streams;
use crate::backend::counter::Counter;
use protocol::Stream;
use std::time::Duration;
use tokio::process::Child;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long an engine may take until the code starts, at least. It counts from the call, so that one
/// with a long timeout has as much.
const START: Duration = Duration::from_secs(10);
/// How long output that is still on its way is waited for once the client was killed.
const DRAIN: Duration = Duration::from_millis(100);

/// How watching a container ended.
pub enum Watched {
    /// Its client ended, with this exit code.
    ClientEnded(Option<i32>),
    /// Its time was up.
    TimedOut,
    /// Its time was up before its code was started.
    NotBegun,
    /// A stream flooded.
    Overflow(Stream),
    /// It was told to stop.
    Stopped,
}

/// The time of one run.
pub struct Clock {
    /// When the engine was called.
    called: Instant,
    /// When the code was started, by its mark.
    begun: Option<Instant>,
    /// How long the code may take.
    timeout: Duration,
}

impl Clock {
    /// The clock of a run whose engine is about to be called.
    pub fn new(timeout: Duration) -> Clock {
        Clock { called: Instant::now(), begun: None, timeout }
    }

    /// When the run is ended.
    pub fn deadline(&self) -> Instant {
        match self.begun {
            Some(begun) => begun + self.timeout,
            None => self.called + self.timeout.max(START),
        }
    }

    /// How long an engine may still be asked something.
    pub fn left(&self) -> Duration {
        self.deadline().saturating_duration_since(Instant::now()).min(ANSWER)
    }

    /// How long the code has taken.
    pub fn wall(&self) -> Duration {
        self.begun.unwrap_or(self.called).elapsed()
    }
}

/// Reads output until the client ends, a stream floods, or the time is up. Calls `begun` when the code is
/// started.
pub async fn watch(
    client: &mut Child,
    streams: &mut Streams,
    counter: &mut Counter<'_, '_>,
    clock: &mut Clock,
    stop: &CancellationToken,
    mut begun: impl FnMut(),
) -> Watched {
    let mut open = true;
    loop {
        let deadline = clock.deadline();
        tokio::select! {
            biased;
            () = stop.cancelled() => return Watched::Stopped,
            () = tokio::time::sleep_until(deadline) => {
                return if clock.begun.is_some() { Watched::TimedOut } else { Watched::NotBegun };
            }
            more = streams.read(counter), if open => open = more,
            ended = client.wait(), if !open => {
                return Watched::ClientEnded(ended.ok().and_then(|status| status.code()));
            }
        }
        if let Some(stream) = counter.overflow {
            return Watched::Overflow(stream);
        }
        if clock.begun.is_none() && streams.has_begun() {
            clock.begun = Some(Instant::now());
            begun();
        }
    }
}

/// Kills the client and what it has started, the container not being among that, and takes what is
/// still in the pipes.
pub async fn end_client(client: &mut Child, streams: &mut Streams, counter: &mut Counter<'_, '_>) {
    #[cfg(unix)]
    if let Some(leader) = client.id() {
        crate::backend::kill::group(leader);
    }
    let _ = client.kill().await;
    let rest = async { while streams.read(counter).await {} };
    let _ = tokio::time::timeout(DRAIN, rest).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_counts_from_the_start_of_the_code_and_an_engine_has_ten_seconds_until_then() {
        let called = Instant::now();
        let mut clock = Clock { called, begun: None, timeout: Duration::from_secs(2) };
        assert_eq!(clock.deadline(), called + START);
        clock.begun = Some(called + Duration::from_secs(3));
        assert_eq!(clock.deadline(), called + Duration::from_secs(5));
        let patient = Clock { called, begun: None, timeout: Duration::from_secs(60) };
        assert_eq!(patient.deadline(), called + Duration::from_secs(60));
    }
}
