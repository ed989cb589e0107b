//! The two streams of a container's client, with the engine's own words kept apart from the code's.

use crate::backend::counter::Counter;
use crate::backend::pipes::Pipes;
use crate::run::output::Captured;
use protocol::Stream;
use tokio::process::Child;

/// How much of an engine's words is kept.
const WORDS: usize = 16 * 1024;

/// The streams of one run.
pub struct Streams {
    pipes: Pipes,
    chatter: Chatter,
}

/// What comes on standard error before the container's first program has written the mark: the
/// engine's own words. What comes after it is the code's.
struct Chatter {
    mark: Vec<u8>,
    words: Vec<u8>,
    begun: bool,
}

impl Streams {
    /// The streams of a client whose container will write `mark` to standard error before it starts
    /// the code.
    pub fn new(child: &mut Child, mark: &str) -> Streams {
        let chatter =
            Chatter { mark: format!("{mark}\n").into_bytes(), words: Vec::new(), begun: false };
        Streams { pipes: Pipes::new(child), chatter }
    }

    /// Whether the code has been started.
    pub fn has_begun(&self) -> bool {
        self.chatter.begun
    }

    /// What the engine itself has said.
    pub fn words(&self) -> String {
        String::from_utf8_lossy(&self.chatter.words).into_owned()
    }

    /// Reads once from whichever stream has something; whether one is still open.
    pub async fn read(&mut self, counter: &mut Counter<'_, '_>) -> bool {
        let Streams { pipes, chatter } = self;
        let sort = |stream, bytes: &[u8]| match stream {
            Stream::Stdout => counter.take(stream, bytes),
            Stream::Stderr => chatter.sort(bytes, counter),
        };
        pipes.read(sort).await
    }
}

impl Chatter {
    fn sort(&mut self, bytes: &[u8], counter: &mut Counter<'_, '_>) {
        if self.begun {
            return counter.take(Stream::Stderr, bytes);
        }
        self.words.extend_from_slice(bytes);
        let found = self.words.windows(self.mark.len()).position(|part| part == self.mark);
        if let Some(at) = found {
            let code = self.words.split_off(at + self.mark.len());
            self.words.truncate(at);
            self.begun = true;
            if !code.is_empty() {
                counter.take(Stream::Stderr, &code);
            }
        } else if self.words.len() > WORDS {
            // The mark may have begun at the end of what is kept.
            let surplus = self.words.len() - WORDS;
            self.words.drain(..surplus);
        }
    }
}

/// Takes the engine's last words off what the code wrote to standard error: a client that loses its
/// engine says so there. Only for a run of which the engine gives no account.
pub fn take_last_words(stderr: &mut Captured) -> Option<String> {
    let text = String::from_utf8_lossy(&stderr.bytes).into_owned();
    let mut kept = text.trim_end_matches('\n').len();
    let mut words = None;
    while let Some(line) = text[..kept].rsplit('\n').next().filter(|line| is_engines(line)) {
        words = Some(line.to_owned());
        kept = kept.saturating_sub(line.len() + 1);
    }
    if words.is_some() && kept < stderr.bytes.len() {
        // The line end before them is the code's.
        let end = if kept == 0 { 0 } else { kept + 1 };
        stderr.seen = stderr.seen.saturating_sub((stderr.bytes.len() - end) as u64);
        stderr.bytes.truncate(end);
    }
    words
}

/// How the clients of Docker and Podman begin a line of their own.
fn is_engines(line: &str) -> bool {
    let logged = line.starts_with("time=\"") && line.contains(" level=");
    let connection =
        ["EOF", "connection", "socket", ".sock"].iter().any(|part| line.contains(part));
    logged
        || line.starts_with("Error response from daemon")
        || line.starts_with("error waiting for container")
        || (line.starts_with("Error: ") && connection)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(text: &str) -> (String, Option<String>) {
        let mut stderr = Captured { bytes: text.as_bytes().to_vec(), seen: text.len() as u64 };
        let words = take_last_words(&mut stderr);
        assert_eq!(stderr.seen, stderr.bytes.len() as u64);
        (String::from_utf8(stderr.bytes).unwrap(), words)
    }

    #[test]
    fn an_engines_last_words_are_told_from_the_codes() {
        let lost = "time=\"2026-11-30T08:42:02Z\" level=error msg=\"error waiting for container: unexpected EOF\"";
        assert_eq!(taken(&format!("mine\n{lost}\n")), ("mine\n".into(), Some(lost.into())));
        assert_eq!(taken(&format!("{lost}\n")), (String::new(), Some(lost.into())));
        let two = format!("{lost}\nError response from daemon: x\n");
        assert_eq!(taken(&two), (String::new(), Some(lost.into())));
        assert_eq!(taken("Error: my own\n"), ("Error: my own\n".into(), None));
        assert_eq!(taken(""), (String::new(), None));
    }
}
