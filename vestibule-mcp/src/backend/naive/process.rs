//! The process of one run without isolation.

use crate::backend::counter::Counter;
use protocol::{Ending, Language, Stream};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, ChildStderr, ChildStdout, Command};

/// How much is read at once.
const CHUNK: usize = 16 * 1024;
/// Variables that are passed on: programs are found through them. Windows needs its own.
const PASSED_ON: [&str; 5] = ["PATH", "PATHEXT", "SYSTEMROOT", "SYSTEMDRIVE", "COMSPEC"];

/// A running program and its two pipes.
pub struct Running {
    child: Child,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    /// The process group, which can outlive its leader.
    #[cfg(unix)]
    group: Option<u32>,
    #[cfg(unix)]
    _guardian: super::guardian::Guardian,
    /// The entry of its environment that tells its descendants from other processes.
    #[cfg(target_os = "linux")]
    mark: String,
}

/// The interpreter of a language: looked for on the server's own `PATH`.
pub fn interpreter(language: Language) -> Option<PathBuf> {
    let names: &[&str] = match (language, cfg!(windows)) {
        (Language::Python, true) => &["python3.exe", "python.exe"],
        (Language::Bash, true) => &["bash.exe"],
        (Language::Node, true) => &["node.exe"],
        (other, false) => &[other.program()],
    };
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .flat_map(|folder| names.iter().map(move |name| folder.join(name)))
        .find(|program| program.is_file())
}

impl Running {
    /// Starts the interpreter on a script: in the workspace, with a composed environment, in a
    /// process group of its own.
    pub fn start(
        language: Language,
        script: &Path,
        workspace: &Path,
        scratch: &Path,
    ) -> io::Result<Running> {
        let program = interpreter(language).ok_or(io::ErrorKind::NotFound)?;
        let mut command = Command::new(program);
        command.arg(script).current_dir(workspace).env_clear();
        for name in PASSED_ON {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        for name in ["HOME", "TMPDIR", "TEMP", "TMP"] {
            command.env(name, scratch);
        }
        command.envs([("LANG", "C.UTF-8"), ("TERM", "dumb")]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.kill_on_drop(true);
        #[cfg(unix)]
        command.process_group(0);
        let mut child = command.spawn()?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        #[cfg(unix)]
        let leader = child.id().ok_or(io::ErrorKind::NotFound)?;
        Ok(Running {
            #[cfg(unix)]
            group: Some(leader),
            #[cfg(unix)]
            _guardian: super::guardian::Guardian::start(leader, scratch)?,
            child,
            stdout,
            stderr,
            #[cfg(target_os = "linux")]
            mark: format!("TMPDIR={}", scratch.display()),
        })
    }

    /// Waits for the main process.
    pub async fn wait(&mut self) -> Option<Ending> {
        match self.child.wait().await {
            Ok(status) => Some(ending(status)),
            Err(error) => {
                tracing::error!("a process of ours cannot be waited for: {error}");
                None
            }
        }
    }

    /// Waits for the main process or output, whichever comes first: how it ended, and whether a
    /// stream is still open.
    pub async fn wait_or_read(&mut self, counter: &mut Counter<'_, '_>) -> (Option<Ending>, bool) {
        let Running { child, stdout, stderr, .. } = self;
        tokio::select! {
            status = child.wait() => (status.ok().map(ending), true),
            more = read_either(stdout, stderr, counter) => (None, more),
        }
    }

    /// Reads once; whether there may be more.
    pub async fn read(&mut self, counter: &mut Counter<'_, '_>) -> io::Result<bool> {
        Ok(read_either(&mut self.stdout, &mut self.stderr, counter).await)
    }

    /// Kills the whole run and waits for its main process.
    pub async fn kill(&mut self) {
        self.kill_all();
        let _ = self.child.wait().await;
    }

    /// Kills the process group and, where they can be told apart, processes that have left it.
    fn kill_all(&mut self) {
        // The number stays the group's own as long as the group has a member, and a group that has
        // none was just now waited for.
        #[cfg(unix)]
        if let Some(leader) = self.group.take() {
            crate::backend::kill::group(leader);
            #[cfg(target_os = "linux")]
            crate::backend::kill::marked(self.mark.as_bytes());
        }
        let _ = self.child.start_kill();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill_all();
    }
}

/// Reads once from whichever stream has something; a stream that has ended is dropped. Whether one
/// is still open.
async fn read_either(
    stdout: &mut Option<ChildStdout>,
    stderr: &mut Option<ChildStderr>,
    counter: &mut Counter<'_, '_>,
) -> bool {
    let (mut out, mut err) = ([0; CHUNK], [0; CHUNK]);
    tokio::select! {
        read = read_some(stdout, &mut out), if stdout.is_some() => match read {
            0 => *stdout = None,
            count => counter.take(Stream::Stdout, &out[..count]),
        },
        read = read_some(stderr, &mut err), if stderr.is_some() => match read {
            0 => *stderr = None,
            count => counter.take(Stream::Stderr, &err[..count]),
        },
        else => {}
    }
    stdout.is_some() || stderr.is_some()
}

/// An error on a pipe of ours is its end.
async fn read_some(stream: &mut Option<impl AsyncRead + Unpin>, buffer: &mut [u8]) -> usize {
    match stream {
        Some(stream) => stream.read(buffer).await.unwrap_or(0),
        None => 0,
    }
}

fn ending(status: ExitStatus) -> Ending {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return Ending::Killed(signal);
    }
    // Windows has codes beyond a byte; they all mean that it failed.
    Ending::Exited(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(255))
}
