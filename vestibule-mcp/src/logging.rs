//! The log, on standard error. A client that never reads it must not hold up the server, so lines
//! are queued for a thread of their own, and dropped, with a count, when the queue is full.

use crate::escape::is_hostile;
use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};
use tracing_subscriber::EnvFilter;

/// Lines that may wait to be written.
const WAITING_LINES: usize = 256;
/// How much of a line is kept, in bytes.
const LINE_LIMIT: usize = 8 * 1024;
/// How long the end of the process waits for the last lines to be taken.
const FLUSH: Duration = Duration::from_millis(20);
/// How often [`flush`] looks whether it is done.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

static QUEUE: OnceLock<Queue> = OnceLock::new();

/// Starts to log what passes `filter`, panics included.
pub fn start(filter: &str) {
    let filter = EnvFilter::builder().parse_lossy(filter);
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(false)
        .with_writer(|| LogLine)
        .finish();
    // Fails only where a log was started before, which then stays.
    let _ = tracing::subscriber::set_global_default(subscriber);
    std::panic::set_hook(Box::new(|panic| tracing::error!("{panic}")));
}

/// Waits until what was logged so far is written, but for 20 ms at most.
pub fn flush() {
    let Some(queue) = QUEUE.get() else { return };
    let until = Instant::now() + FLUSH;
    while queue.waiting.load(Ordering::Acquire) > 0 && Instant::now() < until {
        thread::sleep(LOOK_AGAIN);
    }
}

struct Queue {
    lines: Option<SyncSender<Vec<u8>>>,
    waiting: AtomicU64,
    dropped: AtomicU64,
}

impl Queue {
    /// The queue with its thread, which is started by the first line: an ordinary session has none.
    fn get() -> &'static Queue {
        QUEUE.get_or_init(|| {
            let (sender, lines) = sync_channel(WAITING_LINES);
            let thread = thread::Builder::new().name("stderr".into()).stack_size(128 * 1024);
            let started = thread.spawn(move || write_lines(&lines));
            let lines = started.is_ok().then_some(sender);
            Queue { lines, waiting: AtomicU64::new(0), dropped: AtomicU64::new(0) }
        })
    }

    fn push(&self, line: Vec<u8>) {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let queued = self.lines.as_ref().is_some_and(|lines| lines.try_send(line).is_ok());
        if !queued {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
            self.dropped.fetch_add(1, Ordering::AcqRel);
        }
    }
}

fn write_lines(lines: &Receiver<Vec<u8>>) {
    let queue = Queue::get();
    for line in lines {
        // Where stderr is closed there is nobody to tell.
        let _ = io::stderr().write_all(&line);
        let dropped = queue.dropped.swap(0, Ordering::AcqRel);
        if dropped > 0 {
            let _ = writeln!(io::stderr(), "{dropped} log lines were dropped: nobody read them");
        }
        queue.waiting.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Where the formatter writes one event, in one call.
struct LogLine;

impl Write for LogLine {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        Queue::get().push(one_line(event));
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An event as exactly one line that can't drive a terminal, whatever text it carries.
fn one_line(event: &[u8]) -> Vec<u8> {
    let text = String::from_utf8_lossy(event);
    let mut line = String::new();
    for c in text.trim_end_matches('\n').chars() {
        if line.len() >= LINE_LIMIT {
            line.push('…');
            break;
        }
        if is_hostile(c) {
            line.extend(c.escape_default());
        } else {
            line.push(c);
        }
    }
    line.push('\n');
    line.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_whatever_it_says() {
        let line = one_line(b"WARN guest said a\nERROR forged\x1b[2J\xff\n");
        assert_eq!(line, "WARN guest said a\\nERROR forged\\u{1b}[2J\u{fffd}\n".as_bytes());
        assert!(one_line(&[b'x'; 100_000]).len() < LINE_LIMIT + 8);
    }

    #[test]
    fn a_full_queue_drops_lines_and_counts_them() {
        let (sender, lines) = sync_channel(1);
        let queue =
            Queue { lines: Some(sender), waiting: AtomicU64::new(0), dropped: AtomicU64::new(0) };
        for _ in 0..3 {
            queue.push(b"x\n".to_vec());
        }
        assert_eq!(queue.dropped.load(Ordering::Acquire), 2);
        assert_eq!(queue.waiting.load(Ordering::Acquire), 1);
        assert_eq!(lines.recv(), Ok(b"x\n".to_vec()));
    }
}
