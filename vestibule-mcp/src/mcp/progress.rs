//! Progress notifications: some clients give up on a call that says nothing for 60 s.

use crate::engine::Progress;
use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::Peer;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

/// How often a client hears of a call that it waits for.
const PERIOD: Duration = Duration::from_secs(2);

/// Tells a client what its call is doing, if it asked for that.
pub struct Heartbeat {
    peer: Peer<RoleServer>,
    token: Option<ProgressToken>,
    progress: watch::Receiver<Progress>,
    began: Instant,
    ticks: Interval,
}

impl Heartbeat {
    /// A heartbeat that begins to count now.
    pub fn new(
        peer: Peer<RoleServer>,
        token: Option<ProgressToken>,
        progress: watch::Receiver<Progress>,
    ) -> Heartbeat {
        let began = Instant::now();
        let mut ticks = interval_at(began + PERIOD, PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Heartbeat { peer, token, progress, began, ticks }
    }

    /// Waits until the client is to hear of its call: never, if it did not ask. May be given up at
    /// any time.
    pub async fn due(&mut self) {
        if self.token.is_none() {
            std::future::pending::<()>().await;
        }
        self.ticks.tick().await;
    }

    /// Tells the client, and returns once that is on its way. Must not be given up half-way: what
    /// it sends could then overtake the answer.
    pub async fn tell(&self) {
        let Some(token) = &self.token else { return };
        let message = describe(&self.progress.borrow(), Instant::now());
        let passed = self.began.elapsed().as_secs_f64();
        let params = ProgressNotificationParam::new(token.clone(), passed).with_message(message);
        // It fails only when the session is over.
        let _ = self.peer.notify_progress(params).await;
    }
}

/// What a call is doing, in words; nothing of what the guest printed.
fn describe(progress: &Progress, now: Instant) -> String {
    match progress {
        Progress::Queued => "queued: every slot is taken".to_owned(),
        Progress::Running { since, printed } => {
            // Rounded: the slot was given a little after the call began, by which ticks are timed.
            let seconds = now.saturating_duration_since(*since).as_secs_f64();
            format!("running {seconds:.0} s, {} printed", size(*printed))
        }
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn progress_is_told_in_seconds_and_sizes() {
        let since = Instant::now();
        let after = |milliseconds, printed| {
            let running = Progress::Running { since, printed };
            describe(&running, since + Duration::from_millis(milliseconds))
        };
        assert_eq!(after(40, 0), "running 0 s, 0 bytes printed");
        assert_eq!(after(1_990, 0), "running 2 s, 0 bytes printed");
        assert_eq!(after(4_040, 999), "running 4 s, 999 bytes printed");
        assert_eq!(after(12_040, 3_140_000), "running 12 s, 3.1 MB printed");
        assert_eq!(after(12_040, 20_000), "running 12 s, 20.0 kB printed");
        assert_eq!(describe(&Progress::Queued, since), "queued: every slot is taken");
    }
}
