//! The engine's command line: one question, one answer, a limit on time and size.

use crate::redact;
use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

/// The most that is read of an answer, in bytes.
const ANSWER: u64 = 1024 * 1024;

/// The engine's program and what it needs beside our own environment.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Cli {
    /// The program.
    pub program: PathBuf,
    /// Variables that it is given beside ours.
    pub environment: Vec<(&'static str, PathBuf)>,
}

/// What a command said.
#[derive(Debug)]
pub struct Answer {
    /// How it ended.
    pub status: ExitStatus,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error, without the passwords of addresses: it ends up in refusals and in our own log.
    pub stderr: String,
}

/// Why a command said nothing.
#[derive(Debug)]
pub enum NoAnswer {
    /// It could not be started.
    NotStarted(io::Error),
    /// It took longer than this.
    TimedOut(Duration),
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoAnswer::NotStarted(error) => write!(f, "the engine cannot be asked ({error})"),
            NoAnswer::TimedOut(limit) => {
                write!(f, "the engine gave no answer within {} s", limit.as_secs())
            }
        }
    }
}

impl Cli {
    /// A command that is still to be started: no input, in a process group of its own.
    pub fn command(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .envs(self.environment.iter().map(|(name, value)| (*name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // Ctrl-C in a terminal is for us, who end the run in an orderly way.
        #[cfg(unix)]
        command.process_group(0);
        command
    }

    /// Asks and waits. A command that takes too long is killed.
    ///
    /// # Errors
    /// [`NoAnswer`].
    pub async fn ask(&self, arguments: &[&str], limit: Duration) -> Result<Answer, NoAnswer> {
        let mut command = self.command(arguments);
        command.kill_on_drop(true);
        self.answer(command, limit).await
    }

    /// The same, for a command that goes on when we end.
    ///
    /// # Errors
    /// [`NoAnswer`].
    pub async fn tell(&self, arguments: &[&str], limit: Duration) -> Result<Answer, NoAnswer> {
        self.answer(self.command(arguments), limit).await
    }

    async fn answer(&self, mut command: Command, limit: Duration) -> Result<Answer, NoAnswer> {
        let mut child = command.spawn().map_err(NoAnswer::NotStarted)?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let talk = async {
            let (stdout, stderr) = tokio::join!(read(stdout), read(stderr));
            let status = child.wait().await?;
            let stderr = redact::engines_words(&String::from_utf8_lossy(&stderr));
            Ok(Answer { status, stdout, stderr })
        };
        match tokio::time::timeout(limit, talk).await {
            Ok(answer) => answer.map_err(NoAnswer::NotStarted),
            Err(_) => {
                // Also one that was to outlive us: an engine that hangs would gather them. And with it
                // what it has started: a client may be a script, and Podman's starts others.
                #[cfg(unix)]
                if let Some(leader) = child.id() {
                    crate::backend::kill::group(leader);
                }
                let _ = child.start_kill();
                Err(NoAnswer::TimedOut(limit))
            }
        }
    }
}

/// The beginning of a stream; the rest is left to a broken pipe. An error is its end.
async fn read(stream: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        let _ = stream.take(ANSWER).read_to_end(&mut bytes).await;
    }
    bytes
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_holds_no_password_of_an_address() {
        let cli = Cli { program: "/bin/sh".into(), ..Cli::default() };
        let say = "echo 'no answer from tcp://ada:hunter2@h:1' >&2";
        let answer = cli.ask(&["-c", say], Duration::from_secs(10)).await.unwrap();
        assert_eq!(answer.stderr, "no answer from tcp://…@h:1\n");
    }
}
