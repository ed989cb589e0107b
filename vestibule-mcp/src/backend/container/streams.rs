//! The two streams of a container's client, with the engine's own words kept apart from the code's.

use crate::backend::counter::Counter;
use crate::backend::pipes::Pipes;
use crate::redact;
use crate::run::output::Captured;
use protocol::Stream;
use tokio::process::Child;

/// How much of an engine's words is kept.
const WORDS: usize = 16 * 1024;
/// How many bytes at the end of standard error may be taken for an engine's words.
const LAST_WORDS: usize = 400;

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

    /// The wall that the first program found to be another than the probe's.
    pub fn differing(&self) -> Option<String> {
        let words = self.words();
        let mark = String::from_utf8_lossy(&self.chatter.mark);
        let wall = |line: &str| {
            line.strip_prefix(mark.trim_end())?.strip_prefix(" differs: ").map(str::to_owned)
        };
        words.lines().find_map(wall)
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

/// Takes off the lines at the end of standard error that read like an engine's: a client that loses its
/// engine says so there. Only for a run of which the engine gives no account. Its code may have printed
/// the like, so whoever passes them on says where they stood, and not who wrote them.
pub fn take_last_words(stderr: &mut Captured) -> Option<String> {
    let end = stderr.bytes.len();
    // Of a stream that was cut the end is not here.
    if stderr.seen != end as u64 {
        return None;
    }
    let mut kept = end;
    while let Some((begin, line)) = last_line(&stderr.bytes[..kept]) {
        if !is_engines(line) || end - begin > LAST_WORDS {
            break;
        }
        kept = begin;
    }
    // What stays is the code's and is not changed; what is quoted may name an address with its password.
    let words = redact::engines_words(&String::from_utf8_lossy(&stderr.bytes[kept..]));
    let words = words.trim_end().replace('\n', " | ");
    stderr.bytes.truncate(kept);
    stderr.seen = kept as u64;
    (!words.is_empty()).then_some(words)
}

/// The last line and where it begins; `None` if it is empty or no text.
fn last_line(bytes: &[u8]) -> Option<(usize, &str)> {
    let line = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let begin = line.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let text = std::str::from_utf8(&line[begin..]).ok()?;
    (!text.is_empty()).then_some((begin, text))
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
        let both = format!("{lost} | Error response from daemon: x");
        assert_eq!(taken(&two), (String::new(), Some(both)));
        let long = format!("Error response from daemon: {}\n", "x".repeat(LAST_WORDS));
        assert_eq!(taken(&long), (long.clone(), None));
        assert_eq!(taken("Error: my own\n"), ("Error: my own\n".into(), None));
        assert_eq!(taken(""), (String::new(), None));
    }

    #[test]
    fn an_engines_last_words_hold_no_password_and_the_codes_output_stays() {
        let mine = "at tcp://me:mine@h\n";
        let (kept, words) =
            taken(&format!("{mine}Error: lost connection to ssh://ada:hunter2@h/x\n"));
        assert_eq!(kept, mine);
        assert_eq!(words.as_deref(), Some("Error: lost connection to ssh://…@h/x"));
    }

    #[test]
    fn what_stands_before_an_engines_words_stays_whatever_it_is() {
        let bytes = b"\xff\xfe\nError response from daemon: x\n".to_vec();
        let mut stderr = Captured { seen: bytes.len() as u64, bytes };
        assert!(take_last_words(&mut stderr).is_some());
        assert_eq!((stderr.bytes.as_slice(), stderr.seen), (&b"\xff\xfe\n"[..], 3));
        let mut cut = Captured { bytes: b"Error response from daemon: x\n".to_vec(), seen: 99 };
        assert_eq!(take_last_words(&mut cut), None);
        assert_eq!(cut.seen, 99);
    }
}
