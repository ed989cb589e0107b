//! Where events and output go. Nothing here ever waits for a reader while a run goes on: what a
//! slow reader has not taken yet is kept, and is bounded by the output caps. No descriptor that others
//! share is set to non-blocking: that would outlive this process in them, such as in a shell.

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{Mode, SFlag, fstat};
use nix::unistd::write;
use protocol::{Event, Stream, frame};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Bytes on their way to one descriptor.
#[derive(Debug)]
pub struct Outbox {
    fd: OwnedFd,
    bytes: Vec<u8>,
    sent: usize,
    broken: bool,
}

/// What a pipe that polls as writable takes without waiting, pipe(7).
const SURE: usize = libc::PIPE_BUF;

impl Outbox {
    /// An outbox for a descriptor.
    pub fn new(fd: OwnedFd) -> Outbox {
        Outbox { fd, bytes: Vec::new(), sent: 0, broken: false }
    }

    /// An outbox for a descriptor that others share. A terminal that polls as writable may still make
    /// a large write wait, and so may a pipe with another writer: these are opened anew for this
    /// process, non-blocking.
    ///
    /// # Errors
    /// The error of duplicating the descriptor.
    pub fn shared(fd: BorrowedFd<'_>) -> std::io::Result<Outbox> {
        let kind =
            fstat(fd).map(|status| SFlag::from_bits_truncate(status.st_mode) & SFlag::S_IFMT);
        if matches!(kind, Ok(SFlag::S_IFCHR | SFlag::S_IFIFO)) {
            let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
            let flags = OFlag::O_WRONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
            if let Ok(own) = open(path.as_str(), flags, Mode::empty()) {
                return Ok(Outbox::new(own));
            }
        }
        fd.try_clone_to_owned().map(Outbox::new)
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.flush();
    }

    /// Writes what the reader takes now.
    fn flush(&mut self) {
        while let Some(rest) = self.bytes.get(self.sent..).filter(|rest| !rest.is_empty()) {
            if !self.is_ready(PollTimeout::ZERO) {
                return;
            }
            match write(&self.fd, rest.get(..SURE).unwrap_or(rest)) {
                Ok(written) => self.sent += written,
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return,
                Err(_) => {
                    self.broken = true;
                    break;
                }
            }
        }
        self.bytes.clear();
        self.sent = 0;
    }

    /// Whether a write would not wait, or would fail.
    fn is_ready(&self, timeout: PollTimeout) -> bool {
        let mut fds = [PollFd::new(self.fd.as_fd(), PollFlags::POLLOUT)];
        poll(&mut fds, timeout).is_ok_and(|ready| ready > 0)
    }

    /// The descriptor to poll for writing, while something waits.
    fn waiting(&self) -> Option<BorrowedFd<'_>> {
        (!self.bytes.is_empty()).then(|| self.fd.as_fd())
    }

    /// Writes everything, as long as there is a reader.
    fn finish(&mut self) {
        while self.waiting().is_some() {
            self.is_ready(PollTimeout::NONE);
            self.flush();
        }
    }
}

/// Where a run's output goes.
#[derive(Debug)]
pub enum Sink {
    /// Frames for the server.
    Server(Outbox),
    /// The two streams as they are: a person's terminal or files.
    Streams {
        /// Standard output.
        stdout: Outbox,
        /// Standard error.
        stderr: Outbox,
    },
    /// Kept until the end.
    Kept {
        /// Standard output.
        stdout: Vec<u8>,
        /// Standard error.
        stderr: Vec<u8>,
    },
}

impl Sink {
    /// Passes output on.
    pub fn output(&mut self, stream: Stream, bytes: &[u8]) {
        match (self, stream) {
            (Sink::Server(server), stream) => {
                for chunk in bytes.chunks(frame::MAX_OUTPUT) {
                    server.push(&frame::encode_output(stream, chunk));
                }
            }
            (Sink::Streams { stdout, .. }, Stream::Stdout) => stdout.push(bytes),
            (Sink::Streams { stderr, .. }, Stream::Stderr) => stderr.push(bytes),
            (Sink::Kept { stdout, .. }, Stream::Stdout) => stdout.extend_from_slice(bytes),
            (Sink::Kept { stderr, .. }, Stream::Stderr) => stderr.extend_from_slice(bytes),
        }
    }

    /// Sends an event, where events are sent.
    ///
    /// # Errors
    /// An event that is too large for a frame.
    pub fn event(&mut self, event: &Event) -> Result<(), frame::FrameError> {
        if let Sink::Server(server) = self {
            server.push(&frame::encode_event(event)?);
            server.finish();
        }
        Ok(())
    }

    /// Sends bytes of the protocol that are no event: the greeting.
    pub fn raw(&mut self, bytes: &[u8]) {
        if let Sink::Server(server) = self {
            server.push(bytes);
            server.finish();
        }
    }

    /// The descriptors to poll for writing.
    pub fn waiting(&self) -> Vec<BorrowedFd<'_>> {
        match self {
            Sink::Server(server) => server.waiting().into_iter().collect(),
            Sink::Streams { stdout, stderr } => {
                [stdout, stderr].into_iter().filter_map(Outbox::waiting).collect()
            }
            Sink::Kept { .. } => Vec::new(),
        }
    }

    /// Writes what the readers take now.
    pub fn flush(&mut self) {
        self.each(Outbox::flush);
    }

    fn each(&mut self, act: impl Fn(&mut Outbox)) {
        match self {
            Sink::Server(server) => act(server),
            Sink::Streams { stdout, stderr } => [stdout, stderr].into_iter().for_each(act),
            Sink::Kept { .. } => {}
        }
    }

    /// Whether the server has closed its end: a run for nobody.
    pub fn is_broken(&self) -> bool {
        matches!(self, Sink::Server(server) if server.broken)
    }

    /// Whether some of a person's output could not be written.
    pub fn has_lost(&self) -> bool {
        matches!(self, Sink::Streams { stdout, stderr } if stdout.broken || stderr.broken)
    }

    /// Writes what still waits.
    pub fn finish(&mut self) {
        self.each(Outbox::finish);
    }

    /// What was kept, as text; invalid bytes are replaced.
    pub fn into_kept(self) -> (Option<String>, Option<String>) {
        let text = |bytes: Vec<u8>| Some(String::from_utf8_lossy(&bytes).into_owned());
        match self {
            Sink::Kept { stdout, stderr } => (text(stdout), text(stderr)),
            Sink::Server(_) | Sink::Streams { .. } => (None, None),
        }
    }
}
