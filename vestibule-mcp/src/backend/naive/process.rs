//! The process of one run without isolation.

use crate::backend::counter::Counter;
use crate::backend::pipes::Pipes;
use protocol::{Ending, Language};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use tokio::process::{Child, Command};

/// Variables that are passed on: programs are found through them. Windows needs its own.
const PASSED_ON: [&str; 5] = ["PATH", "PATHEXT", "SYSTEMROOT", "SYSTEMDRIVE", "COMSPEC"];

/// A running program and its two pipes.
pub struct Running {
    child: Child,
    pipes: Pipes,
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
        let pipes = Pipes::new(&mut child);
        #[cfg(unix)]
        let leader = child.id().ok_or(io::ErrorKind::NotFound)?;
        Ok(Running {
            #[cfg(unix)]
            group: Some(leader),
            #[cfg(unix)]
            _guardian: super::guardian::Guardian::start(leader, scratch)?,
            child,
            pipes,
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
        let Running { child, pipes, .. } = self;
        tokio::select! {
            status = child.wait() => (status.ok().map(ending), true),
            more = pipes.read(|stream, bytes| counter.take(stream, bytes)) => (None, more),
        }
    }

    /// Reads once; whether there may be more.
    pub async fn read(&mut self, counter: &mut Counter<'_, '_>) -> bool {
        self.pipes.read(|stream, bytes| counter.take(stream, bytes)).await
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

fn ending(status: ExitStatus) -> Ending {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return Ending::Killed(signal);
    }
    // Windows has codes beyond a byte; they all mean that it failed.
    Ending::Exited(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(255))
}
