//! What a run prints, as it comes in.

use crate::engine::Progress;
use protocol::{OutputBytes, Stream};
use tokio::sync::watch;
use tokio::time::Instant;

/// Someone who wants the output as it comes, such as a terminal.
pub type Tee<'a> = &'a mut (dyn FnMut(Stream, &[u8]) + Send);

/// The bytes of one stream.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Captured {
    /// The bytes, at most the output cap.
    pub bytes: Vec<u8>,
    /// How many bytes the guest wrote, as far as they were read.
    pub seen: u64,
}

/// More output than the cap allows to be passed on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct OverCap;

/// Both streams of one run.
pub struct Output<'a> {
    /// Standard output.
    pub stdout: Captured,
    /// Standard error.
    pub stderr: Captured,
    cap: usize,
    since: Instant,
    progress: watch::Sender<Progress>,
    tee: Option<Tee<'a>>,
}

impl<'a> Output<'a> {
    /// No output yet.
    pub fn new(
        cap: OutputBytes,
        progress: watch::Sender<Progress>,
        tee: Option<Tee<'a>>,
    ) -> Output<'a> {
        let since = Instant::now();
        progress.send_replace(Progress::Running { since, printed: 0 });
        let (stdout, stderr) = (Captured::default(), Captured::default());
        Output { stdout, stderr, cap: cap.get() as usize, since, progress, tee }
    }

    /// One stream.
    pub fn stream(&mut self, stream: Stream) -> &mut Captured {
        match stream {
            Stream::Stdout => &mut self.stdout,
            Stream::Stderr => &mut self.stderr,
        }
    }

    /// Whether nothing was printed yet.
    pub fn is_empty(&self) -> bool {
        self.stdout.seen + self.stderr.seen == 0
    }

    /// Takes bytes that a backend passes on.
    ///
    /// # Errors
    /// [`OverCap`] if the backend did not cut the stream at the cap; nothing is taken then.
    pub fn add(&mut self, stream: Stream, bytes: &[u8]) -> Result<(), OverCap> {
        let cap = self.cap;
        let captured = self.stream(stream);
        if captured.bytes.len() + bytes.len() > cap {
            return Err(OverCap);
        }
        captured.bytes.extend_from_slice(bytes);
        captured.seen += bytes.len() as u64;
        let printed = self.stdout.seen + self.stderr.seen;
        self.progress.send_replace(Progress::Running { since: self.since, printed });
        if let Some(tee) = &mut self.tee {
            tee(stream, bytes);
        }
        Ok(())
    }
}

impl Captured {
    /// The text of the stream, and how many of the guest's bytes it leaves out. Invalid bytes are
    /// replaced; where the stream was cut, it ends with a whole character.
    pub fn text(&self) -> (String, u64) {
        let cut = self.seen > self.bytes.len() as u64;
        let kept = if cut { whole_characters(&self.bytes) } else { &self.bytes };
        (String::from_utf8_lossy(kept).into_owned(), self.seen - kept.len() as u64)
    }
}

/// The bytes without the beginning of a character at their end.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    for back in 1..=bytes.len().min(3) {
        let start = bytes.len() - back;
        match std::str::from_utf8(&bytes[start..]) {
            // An end that is cut short, not one that is wrong.
            Err(error) if error.valid_up_to() == 0 && error.error_len().is_none() => {
                return &bytes[..start];
            }
            _ => {}
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn captured(bytes: &[u8], seen: u64) -> Captured {
        Captured { bytes: bytes.to_vec(), seen }
    }

    #[test]
    fn a_cut_stream_ends_with_a_whole_character() {
        assert_eq!(captured("xé".as_bytes(), 3).text(), ("xé".into(), 0));
        assert_eq!(captured(b"x\xc3", 3).text(), ("x".into(), 2));
        assert_eq!(captured(b"x\xf0\x9f\x8e", 5).text(), ("x".into(), 4));
    }

    #[test]
    fn invalid_bytes_are_replaced_and_counted_as_kept() {
        assert_eq!(captured(b"a\xff\xfeb", 4).text(), ("a\u{fffd}\u{fffd}b".into(), 0));
        assert_eq!(captured(b"a\xff", 9).text(), ("a\u{fffd}".into(), 7));
        // Not cut: the guest itself stopped within a character.
        assert_eq!(captured(b"a\xc3", 2).text(), ("a\u{fffd}".into(), 0));
    }

    #[test]
    fn a_backend_cannot_pass_on_more_than_the_cap() {
        let (progress, watched) = watch::channel(Progress::Queued);
        let mut output = Output::new(OutputBytes::new(4).unwrap(), progress, None);
        assert_eq!(output.add(Stream::Stdout, b"abc"), Ok(()));
        assert_eq!(output.add(Stream::Stdout, b"de"), Err(OverCap));
        assert_eq!(output.add(Stream::Stderr, b"de"), Ok(()));
        assert_eq!(output.stdout.bytes, b"abc");
        assert!(matches!(*watched.borrow(), Progress::Running { printed: 5, .. }));
    }

    proptest! {
        #[test]
        fn every_byte_is_kept_or_counted(bytes in proptest::collection::vec(any::<u8>(), 0..64), more in 0u64..9) {
            let captured = captured(&bytes, bytes.len() as u64 + more);
            let (_, left_out) = captured.text();
            prop_assert!(left_out >= more && left_out <= more + 3);
        }

        #[test]
        fn cutting_valid_text_never_yields_a_replacement(text in ".{1,40}", at in 0usize..64) {
            let bytes = text.as_bytes();
            let at = at.min(bytes.len());
            let (shown, _) = captured(&bytes[..at], bytes.len() as u64).text();
            prop_assert!(text.starts_with(&shown));
        }
    }
}
