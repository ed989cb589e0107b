//! Pulling images through an engine, for `setup`: the one time that a network is used for them.

use super::Container;
use super::engine::Engine;
use super::refusal;
#[cfg(unix)]
use crate::backend::kill;
use crate::cli::say;
use crate::redact;
use crate::signals::Signals;
use protocol::{Language, Refusal};
use std::io;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::Child;

/// How long a client that was asked to end may take: it may have half an image to clear away.
const TO_END: Duration = Duration::from_secs(3);

/// How long the last lines of a client that has ended may take.
const LAST_LINES: Duration = Duration::from_secs(1);

/// Why an engine does not have the images.
pub enum NotPulled {
    /// It does not answer, or does not get one.
    Refused(Refusal),
    /// The signal of this name came.
    Stopped(&'static str),
}

impl From<Refusal> for NotPulled {
    fn from(refusal: Refusal) -> NotPulled {
        NotPulled::Refused(refusal)
    }
}

impl Container {
    /// Has the engine pull the images that it does not have, each of them whatever becomes of another. What its
    /// client says goes to standard error.
    ///
    /// # Errors
    /// [`NotPulled`]; images that were pulled stay.
    pub async fn pull_images(&self, signals: &mut Signals) -> Result<(), NotPulled> {
        let mut images =
            [Language::Python, Language::Node].map(|language| self.shared.image(language));
        images.sort_unstable();
        let looked = async {
            // Also a Podman that was never used: a person asks for it now.
            let engine = Engine::ask(self.shared.kind, None, images[0]).await?;
            let mut missing = Vec::new();
            for (index, image) in images.iter().enumerate() {
                let again = index > 0 && images[index - 1] == *image;
                if !again && engine.lacks(image).await? {
                    missing.push(*image);
                }
            }
            Ok::<_, Refusal>((engine, missing))
        };
        let (engine, missing) = tokio::select! {
            looked = looked => looked?,
            signal = signals.next() => return Err(NotPulled::Stopped(signal)),
        };
        if missing.is_empty() {
            say(format_args!("{}: the images are here", engine.facts.kind.name()));
        }
        let mut refused = None;
        for image in missing {
            say(format_args!("{}: pulling {image}", engine.facts.kind.name()));
            match pull(&engine, image, signals).await {
                Ok(()) => {}
                Err(NotPulled::Refused(refusal)) => refused = Some(both(refused, refusal)),
                Err(stopped @ NotPulled::Stopped(_)) => return Err(stopped),
            }
        }
        refused.map_or(Ok(()), |refusal| Err(refusal.into()))
    }
}

/// One refusal of those of two images.
fn both(before: Option<Refusal>, refusal: Refusal) -> Refusal {
    let Some(before) = before else { return refusal };
    Refusal {
        what: format!("{}; {}", before.what, refusal.what),
        fix: format!("{}; {}", before.fix, refusal.fix),
        ..refusal
    }
}

/// Has one image pulled. Its client is in a process group of its own, like all of them: it may be a script, or
/// start others, and all of them end when we are told to.
async fn pull(engine: &Engine, image: &str, signals: &mut Signals) -> Result<(), NotPulled> {
    let kind = engine.facts.kind;
    let mut command = engine.cli.command(["pull", image]);
    // A client shows its progress to a terminal alone, so it keeps that where there is no password to hide.
    let hides = redact::knows_secrets();
    let said = if hides { Stdio::piped() } else { Stdio::inherit() };
    command.stdout(Stdio::from(io::stderr())).stderr(said).kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| refusal::cannot_start(kind, &error))?;
    let said = child.stderr.take().map(|said| tokio::spawn(pass_on(said, say)));
    let ended = tokio::select! {
        ended = child.wait() => ended,
        signal = signals.next() => {
            end(&mut child).await;
            return Err(NotPulled::Stopped(signal));
        }
    };
    if let Some(said) = said {
        // What the client has started, such as its ssh, may outlive it and hold its stream open.
        let _ = tokio::time::timeout(LAST_LINES, said).await;
    }
    match ended {
        Ok(status) if status.success() => Ok(()),
        _ => Err(refusal::not_pulled(kind, &engine.cli.program, image).into()),
    }
}

/// Passes on what a client says, line by line, without the passwords of addresses.
async fn pass_on(said: impl AsyncRead + Unpin, mut say: impl FnMut(String)) {
    let mut said = BufReader::new(said);
    let mut line = Vec::new();
    while said.read_until(b'\n', &mut line).await.is_ok_and(|read| read > 0) {
        say(redact::engines_words(String::from_utf8_lossy(&line).trim_end()));
        line.clear();
    }
}

/// Asks a client to end, with all that it has started, and makes it.
async fn end(child: &mut Child) {
    #[cfg(unix)]
    if let Some(leader) = child.id() {
        kill::ask_group(leader);
        #[cfg(target_os = "linux")]
        let ended = tokio::time::timeout(TO_END, kill::group_after(leader)).await;
        #[cfg(not(target_os = "linux"))]
        let ended = tokio::time::timeout(TO_END, child.wait()).await;
        if !matches!(ended, Ok(Ok(_))) {
            kill::group(leader);
        }
    }
    // An error means that it has ended.
    let _ = child.start_kill();
    let _ = tokio::time::timeout(TO_END, child.wait()).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_clients_lines_are_passed_on_without_passwords() {
        let mut lines = Vec::new();
        let said = &b"Copying\xff\nError: lost ssh://ada:hunter2@h/x\n\nend"[..];
        pass_on(said, |line| lines.push(line)).await;
        assert_eq!(lines, ["Copying\u{fffd}", "Error: lost ssh://\u{2026}@h/x", "", "end"]);
    }
}
