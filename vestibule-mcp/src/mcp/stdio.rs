//! The two pipes to the client, each with a thread of its own, so that neither a client that sends
//! nothing nor one that reads nothing can hold up the server.

use super::line::{Line, LineReader};
use std::io::{self, BufRead, ErrorKind, Write};
use std::sync::mpsc as thread_channel;
use std::thread;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// Lines that are read ahead of the server.
const READ_AHEAD: usize = 16;
/// Bytes that may wait for the client to read them before no further line is read from it.
const UNREAD_LIMIT: usize = 2 * 1024 * 1024;
/// How often a reader that waits for the client looks again.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Both threads only move bytes.
const STACK: usize = 256 * 1024;

/// Where lines to the client go, in the order in which they are sent.
#[derive(Clone)]
pub struct Output {
    lines: thread_channel::Sender<Vec<u8>>,
    unread: watch::Sender<usize>,
    gone: CancellationToken,
}

impl Output {
    /// Starts to write to `output`.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(output: impl Write + Send + 'static) -> io::Result<Output> {
        let (lines, queue) = thread_channel::channel();
        let unread = watch::Sender::new(0);
        let started = Output { lines, unread: unread.clone(), gone: CancellationToken::new() };
        let gone = started.gone.clone();
        thread::Builder::new()
            .name("stdout".into())
            .stack_size(STACK)
            .spawn(move || write_all(output, &queue, &unread, &gone))?;
        Ok(started)
    }

    /// Sends one line, which must end with a line end. Never waits.
    pub fn send(&self, line: Vec<u8>) {
        self.unread.send_modify(|bytes| *bytes += line.len());
        if self.lines.send(line).is_err() {
            self.gone.cancel();
        }
    }

    /// Returns when the client can be written to no more.
    pub async fn gone(&self) {
        self.gone.cancelled().await;
    }

    /// Returns when everything that was sent is written, or cannot be.
    pub async fn written(&self) {
        let mut unread = self.unread.subscribe();
        tokio::select! {
            _ = unread.wait_for(|bytes| *bytes == 0) => {}
            () = self.gone() => {}
        }
    }

    fn is_behind(&self) -> bool {
        *self.unread.borrow() > UNREAD_LIMIT && !self.gone.is_cancelled()
    }
}

fn write_all(
    mut output: impl Write,
    queue: &thread_channel::Receiver<Vec<u8>>,
    unread: &watch::Sender<usize>,
    gone: &CancellationToken,
) {
    for line in queue {
        if let Err(error) = write_line(&mut output, &line) {
            tracing::debug!(%error, "stdout is closed");
            gone.cancel();
            return;
        }
        unread.send_modify(|bytes| *bytes -= line.len());
    }
}

fn write_line(output: &mut impl Write, mut line: &[u8]) -> io::Result<()> {
    while !line.is_empty() {
        match output.write(line) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => line = &line[written..],
            Err(error) => wait_or_fail(error, ready::to_write)?,
        }
    }
    loop {
        match output.flush() {
            Ok(()) => return Ok(()),
            Err(error) => wait_or_fail(error, ready::to_write)?,
        }
    }
}

/// A client may hand over pipes that don't block: then what would block is waited for.
fn wait_or_fail(error: io::Error, wait: fn()) -> io::Result<()> {
    match error.kind() {
        ErrorKind::WouldBlock => wait(),
        ErrorKind::Interrupted => {}
        _ => return Err(error),
    }
    Ok(())
}

/// Starts to read lines of at most `limit` bytes from `input`, and gives them out until its end.
/// While the client leaves too much of `output` unread, no further line is taken from it.
///
/// # Errors
/// When no thread can be started.
pub fn read(
    input: impl BufRead + Send + 'static,
    limit: usize,
    output: Output,
) -> io::Result<mpsc::Receiver<Line>> {
    let (sender, lines) = mpsc::channel(READ_AHEAD);
    thread::Builder::new()
        .name("stdin".into())
        .stack_size(STACK)
        .spawn(move || read_all(LineReader::new(input, limit), &sender, &output))?;
    Ok(lines)
}

fn read_all(mut reader: LineReader<impl BufRead>, sender: &mpsc::Sender<Line>, output: &Output) {
    loop {
        while output.is_behind() {
            if ready::hung_up(LOOK_AGAIN) {
                return;
            }
        }
        match reader.read() {
            Ok(Some(line)) => {
                if sender.blocking_send(line).is_err() {
                    return;
                }
            }
            Ok(None) => return,
            Err(error) => {
                if let Err(error) = wait_or_fail(error, ready::to_read) {
                    tracing::warn!(%error, "stdin cannot be read");
                    return;
                }
            }
        }
    }
}

/// Waiting for the pipes that the process was started with.
#[cfg(unix)]
mod ready {
    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
    use std::os::fd::{AsFd, BorrowedFd};
    use std::time::Duration;

    fn wait(pipe: BorrowedFd<'_>, events: PollFlags, timeout: PollTimeout) -> PollFlags {
        let mut pipes = [PollFd::new(pipe, events)];
        // Failing here, by a signal or for want of memory, means to look again.
        let _ = poll(&mut pipes, timeout);
        pipes[0].revents().unwrap_or(PollFlags::empty())
    }

    pub fn to_read() {
        wait(std::io::stdin().as_fd(), PollFlags::POLLIN, PollTimeout::NONE);
    }

    pub fn to_write() {
        wait(std::io::stdout().as_fd(), PollFlags::POLLOUT, PollTimeout::NONE);
    }

    /// Waits a while, at most; true once the client has closed its end of stdin, read or not.
    pub fn hung_up(at_most: Duration) -> bool {
        let timeout = PollTimeout::try_from(at_most).unwrap_or(PollTimeout::ZERO);
        let events = wait(std::io::stdin().as_fd(), PollFlags::empty(), timeout);
        events.intersects(PollFlags::POLLHUP | PollFlags::POLLERR)
    }
}

#[cfg(not(unix))]
mod ready {
    use super::LOOK_AGAIN;
    use std::time::Duration;

    pub fn to_read() {
        std::thread::sleep(LOOK_AGAIN);
    }

    pub fn to_write() {
        std::thread::sleep(LOOK_AGAIN);
    }

    pub fn hung_up(at_most: Duration) -> bool {
        std::thread::sleep(at_most);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    struct Broken;

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Takes one byte at a time, and is interrupted before each.
    #[derive(Clone, Default)]
    struct Slow(Arc<Mutex<Vec<u8>>>, bool);

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(ErrorKind::Interrupted.into());
            }
            self.0.lock().expect("not poisoned").extend(bytes.first());
            Ok(1)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn lines_are_written_whole_and_in_order() {
        let slow = Slow::default();
        let output = Output::start(slow.clone()).expect("a thread");
        output.send(b"one\n".to_vec());
        output.send(b"two\n".to_vec());
        output.written().await;
        assert_eq!(*slow.0.lock().expect("not poisoned"), b"one\ntwo\n");
        assert!(!output.gone.is_cancelled());
    }

    #[tokio::test]
    async fn a_client_that_is_gone_is_noticed() {
        let output = Output::start(Broken).expect("a thread");
        output.send(b"one\n".to_vec());
        output.gone().await;
        output.send(b"two\n".to_vec());
        output.written().await;
    }

    #[tokio::test]
    async fn lines_are_delivered_until_the_end_of_input() {
        let output = Output::start(io::sink()).expect("a thread");
        let mut lines = read(&b"one\ntwo"[..], 100, output).expect("a thread");
        assert_eq!(lines.recv().await, Some(Line::Whole(b"one".to_vec())));
        assert_eq!(lines.recv().await, Some(Line::Whole(b"two".to_vec())));
        assert_eq!(lines.recv().await, None);
    }
}
