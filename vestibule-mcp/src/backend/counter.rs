//! Output of a process of ours, counted and cut at the cap.

use crate::run::output::Output;
use protocol::{Ending, Measured, Outcome, Script, Stream, StreamTotals, Usage};
use std::time::Duration;

/// Passes output on up to the cap and counts the rest.
pub struct Counter<'a, 'tee> {
    output: &'a mut Output<'tee>,
    cap: u64,
    totals: [StreamTotals; 2],
    /// The first stream that passed twice the cap.
    pub overflow: Option<Stream>,
}

impl<'a, 'tee> Counter<'a, 'tee> {
    /// Nothing yet.
    pub fn new(script: &Script, output: &'a mut Output<'tee>) -> Counter<'a, 'tee> {
        let cap = script.output_bytes.get().into();
        Counter { output, cap, totals: Default::default(), overflow: None }
    }

    /// Takes what a stream brought.
    pub fn take(&mut self, stream: Stream, bytes: &[u8]) {
        let totals = &mut self.totals[stream as usize];
        let room = (self.cap - totals.forwarded).min(bytes.len() as u64);
        totals.seen += bytes.len() as u64;
        totals.forwarded += room;
        if totals.seen > 2 * self.cap {
            self.overflow.get_or_insert(stream);
        }
        let kept = &bytes[..room as usize];
        // `room` is what the cap leaves, so this is never over it.
        if !kept.is_empty() && self.output.add(stream, kept).is_err() {
            tracing::error!("a backend passed on more output than its cap");
        }
    }

    /// The report of a run of which nothing but the wall time was measured, and why.
    pub fn outcome(&self, ending: Ending, wall: Duration, not_measured: &str) -> Outcome {
        let missing = || Measured::Missing(not_measured.to_owned());
        let [stdout, stderr] = self.totals;
        Outcome {
            ending,
            stdout,
            stderr,
            usage: Usage {
                wall_us: u64::try_from(wall.as_micros()).unwrap_or(u64::MAX),
                cpu_us: missing(),
                mem_peak_bytes: missing(),
                pids_peak: missing(),
            },
            limits_hit: Vec::new(),
            limits_lost: Vec::new(),
            denied: Vec::new(),
            denied_stopped: false,
            steps: Vec::new(),
        }
    }
}
