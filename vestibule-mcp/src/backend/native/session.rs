//! One helper process: started, spoken to in frames, ended.

use super::cgroup::{self, Cgroups};
use crate::backend::{kill, locate};
use crate::escape;
use crate::run::admission::Slot;
use protocol::frame::{Direction, FrameError, HEADER_LEN, Header, ToServer};
use protocol::{Cause, Refusal, Retry};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

/// How long a helper whose pipe was closed may take to clean up and end.
const CLEAN_UP: Duration = Duration::from_secs(2);
/// The same for a helper that did not do its part.
const SHORT_CLEAN_UP: Duration = Duration::from_millis(200);
/// How much of a helper's diagnostics is logged.
const DIAGNOSTICS: u64 = 8 * 1024;

/// A running helper. Dropping it closes its pipe, which cancels whatever it does; the process is
/// waited for, and killed if need be, in the background.
pub(super) struct Session {
    process: Option<Process>,
    events: BufReader<ChildStdout>,
}

/// The process and our end of its standard input.
struct Process {
    child: Child,
    /// Ends with the helper, and ends what is left of its group: an init that was stopped as it was
    /// born has not yet asked to die with its supervisor, and would keep our pipe open.
    ended: JoinHandle<()>,
    requests: ChildStdin,
    slot: Slot,
    cgroups: Arc<Cgroups>,
    cgroup: Option<PathBuf>,
}

impl Session {
    /// Starts the helper: no arguments, and of the environment only what D-Bus needs. Init is a copy
    /// of the helper, so both can be read inside the sandbox through `/proc/1`.
    pub fn start(
        jail: &Path,
        environment: &[(&'static str, OsString)],
        cgroups: Arc<Cgroups>,
        slot: Slot,
    ) -> Result<Session, Refusal> {
        let mut command = Command::new(jail);
        command
            // Init would show the path, and with it the user's name.
            .arg0("vestibule-jail")
            .env_clear()
            .envs(environment.iter().map(|(name, value)| (*name, value)))
            .current_dir("/")
            // Ctrl-C in a terminal is for us, who end the helper in an orderly way.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().map_err(|error| not_started(jail, &error))?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(requests), Some(events), Some(diagnostics)) = pipes else {
            return Err(not_started(jail, &io::ErrorKind::BrokenPipe.into()));
        };
        tokio::spawn(log_diagnostics(diagnostics));
        let ended = tokio::spawn(end_group_after(child.id()));
        let process = Some(Process { child, ended, requests, slot, cgroups, cgroup: None });
        Ok(Session { process, events: BufReader::new(events) })
    }

    /// Remembers the cgroup that the helper has made: it goes with the helper, or after it.
    pub fn has_cgroup(&mut self, folder: Option<PathBuf>) {
        if let Some(process) = &mut self.process {
            process.cgroup = folder;
        }
    }

    /// Sends frames.
    pub async fn send(&mut self, frames: &[u8]) -> io::Result<()> {
        match &mut self.process {
            Some(process) => process.requests.write_all(frames).await,
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// The next frame; `None` at the end. Not to be called again after a call that was abandoned.
    pub async fn next(&mut self) -> Result<Option<ToServer>, FrameError> {
        read_frame(&mut self.events).await
    }

    /// Ends a helper that did not do its part, and says how it ended, as the end of a sentence.
    pub async fn end(&mut self) -> String {
        let Some(process) = self.process.take() else { return String::new() };
        match process.end(SHORT_CLEAN_UP).await {
            Some(status) => format!(" ({status})"),
            None => String::new(),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let (Some(process), Ok(runtime)) =
            (self.process.take(), tokio::runtime::Handle::try_current())
        else {
            return; // Without a runtime `kill_on_drop` is all there is.
        };
        runtime.spawn(process.end(CLEAN_UP));
    }
}

impl Process {
    /// Closes the pipe, waits for the process, kills it if it does not end, and removes what it has
    /// left. The slot is kept until then.
    async fn end(self, patience: Duration) -> Option<ExitStatus> {
        let Process { mut child, mut ended, requests, slot, cgroups, cgroup } = self;
        drop(requests);
        let leader = child.id();
        if tokio::time::timeout(patience, &mut ended).await.is_err() {
            if let Some(leader) = leader {
                kill::group(leader);
            }
            let _ = ended.await;
        }
        let ended = child.wait().await;
        let cleanly = ended.as_ref().is_ok_and(ExitStatus::success);
        let named = cgroup.filter(|folder| folder.exists());
        if let (Some(helper), true) = (leader, named.is_some() || !cleanly) {
            tokio::spawn(async move {
                let home = cgroups.home().await;
                cgroup::clear(named, home, helper).await;
                drop(slot);
            });
        }
        ended.ok()
    }
}

/// Waits for the helper's end without taking it from its owner, and ends what is left of its group.
/// A helper that cannot be watched is ended at once: its owner waits for this.
async fn end_group_after(helper: Option<u32>) {
    let Some(helper) = helper else { return };
    if let Err(error) = kill::group_after(helper).await {
        tracing::error!("the end of a helper cannot be watched: {error}");
        kill::group(helper);
    }
}

/// Reads one frame. The payload is read in steps, so that room is made only for what has come.
async fn read_frame(input: &mut (impl AsyncRead + Unpin)) -> Result<Option<ToServer>, FrameError> {
    let mut header = [0; HEADER_LEN];
    if input.read(&mut header[..1]).await? == 0 {
        return Ok(None);
    }
    input.read_exact(&mut header[1..]).await?;
    let header = Header::parse(header, Direction::ToServer)?;
    let mut payload = Vec::new();
    let read = input.take(header.length as u64).read_to_end(&mut payload).await?;
    if read < header.length {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    ToServer::decode(header, payload).map(Some)
}

/// Logs the beginning of what a helper writes to standard error, and takes the rest, so that it
/// never waits for a reader.
async fn log_diagnostics(mut diagnostics: ChildStderr) {
    let mut text = Vec::new();
    let read = (&mut diagnostics).take(DIAGNOSTICS).read_to_end(&mut text).await;
    if read.is_ok() {
        for line in String::from_utf8_lossy(&text).lines().filter(|line| !line.is_empty()) {
            tracing::warn!("vestibule-jail: {}", escape::for_display(line, 500));
        }
    }
    let _ = tokio::io::copy(&mut diagnostics, &mut tokio::io::sink()).await;
}

fn not_started(jail: &Path, error: &io::Error) -> Refusal {
    let fix = match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "make it executable for this user, folders above included"
        }
        io::ErrorKind::NotFound => {
            "reinstall it: the file, or the loader that it names, is missing"
        }
        _ => "free processes, memory and descriptors, or reinstall it",
    };
    Refusal {
        what: format!("the helper {} cannot be started ({error})", locate::shown(jail)),
        cause: Cause::Other,
        fix: fix.to_owned(),
        retry: Retry::AfterFix,
        at: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::frame::{encode_hello, encode_output};
    use protocol::{Hello, Stream};

    #[tokio::test]
    async fn frames_are_read_to_a_clean_end() {
        let bytes = [encode_hello(&Hello::ours()), encode_output(Stream::Stderr, b"x")].concat();
        let mut input = bytes.as_slice();
        assert_eq!(read_frame(&mut input).await.unwrap(), Some(ToServer::Hello(Hello::ours())));
        let output = read_frame(&mut input).await.unwrap();
        assert_eq!(output, Some(ToServer::Output(Stream::Stderr, b"x".to_vec())));
        assert!(read_frame(&mut input).await.unwrap().is_none());
    }

    #[tokio::test]
    async fn an_end_within_a_frame_and_an_oversized_frame_are_errors() {
        let whole = encode_output(Stream::Stdout, b"abc");
        for cut in 1..whole.len() {
            assert!(read_frame(&mut &whole[..cut]).await.is_err(), "{cut}");
        }
        let huge = [0xff, 0xff, 0xff, 0xff, 3];
        assert!(matches!(read_frame(&mut &huge[..]).await, Err(FrameError::Size { .. })));
    }
}
