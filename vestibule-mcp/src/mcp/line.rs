//! Cuts a byte stream into lines, and holds no line that is longer than the limit.

use super::id::IdScanner;
use serde_json::Value;
use std::io::{self, BufRead};

/// The largest line buffer that is kept for the next line, in bytes: one large call must not stay
/// in memory for the life of the server.
const KEPT: usize = 64 * 1024;

/// One line of input.
#[derive(Debug, PartialEq)]
pub enum Line {
    /// The bytes of a line, without its end.
    Whole(Vec<u8>),
    /// A line over the limit. Only its id was kept, where it has one.
    TooLong {
        /// The id at the line's top level.
        id: Option<Value>,
    },
}

/// Reads lines. What stands behind the last line end is a line, too: some clients leave the last
/// one out.
pub struct LineReader<R> {
    input: R,
    limit: usize,
    line: Vec<u8>,
    /// Set while the line at hand is over the limit.
    too_long: Option<IdScanner>,
}

impl<R: BufRead> LineReader<R> {
    /// A reader of lines of at most `limit` bytes.
    pub fn new(input: R, limit: usize) -> LineReader<R> {
        LineReader { input, limit, line: Vec::new(), too_long: None }
    }

    /// The next line; `None` at the end of input.
    ///
    /// # Errors
    /// Whatever the input answers. Nothing read so far is lost, so that the caller may go on after
    /// `WouldBlock`.
    pub fn read(&mut self) -> io::Result<Option<Line>> {
        loop {
            let available = match self.input.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if available.is_empty() {
                let pending = self.too_long.is_some() || !self.line.is_empty();
                return Ok(pending.then(|| self.take()));
            }
            let end = available.iter().position(|&byte| byte == b'\n');
            let piece = &available[..end.unwrap_or(available.len())];
            match &mut self.too_long {
                Some(scanner) => scanner.feed(piece),
                None if self.line.len() + piece.len() <= self.limit => {
                    self.line.extend_from_slice(piece);
                }
                None => {
                    let mut scanner = IdScanner::default();
                    scanner.feed(&self.line);
                    scanner.feed(piece);
                    self.line = Vec::new();
                    self.too_long = Some(scanner);
                }
            }
            let consumed = piece.len() + usize::from(end.is_some());
            self.input.consume(consumed);
            if end.is_some() {
                return Ok(Some(self.take()));
            }
        }
    }

    fn take(&mut self) -> Line {
        if let Some(scanner) = self.too_long.take() {
            return Line::TooLong { id: scanner.finish() };
        }
        if self.line.len() > KEPT {
            return Line::Whole(std::mem::take(&mut self.line));
        }
        let line = self.line.clone();
        self.line.clear();
        Line::Whole(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;
    use std::io::{BufReader, Read};

    fn lines(input: impl Read, capacity: usize, limit: usize) -> Vec<Line> {
        let mut reader = LineReader::new(BufReader::with_capacity(capacity, input), limit);
        let mut lines = Vec::new();
        while let Some(line) = reader.read().expect("memory does not fail") {
            lines.push(line);
        }
        lines
    }

    fn whole(text: &str) -> Line {
        Line::Whole(text.into())
    }

    #[test]
    fn lines_are_cut_at_line_ends_alone() {
        let got = lines(&b"one\r\n\ntwo\0three\nfour"[..], 3, 100);
        assert_eq!(got, [whole("one\r"), whole(""), whole("two\0three"), whole("four")]);
        assert_eq!(lines(&b""[..], 3, 100), []);
        assert_eq!(lines(&b"x\n"[..], 3, 100), [whole("x")]);
    }

    #[test]
    fn the_limit_is_the_longest_line_taken() {
        assert_eq!(lines(&b"12345\n"[..], 2, 5), [whole("12345")]);
        assert_eq!(lines(&b"123456\nx\n"[..], 2, 5), [Line::TooLong { id: None }, whole("x")]);
        assert_eq!(lines(&b"123456"[..], 2, 5), [Line::TooLong { id: None }]);
    }

    #[test]
    fn a_line_over_the_limit_keeps_its_id_and_nothing_else() {
        let long = "x".repeat(1 << 20);
        for line in [
            format!("{{\"id\":\"a\",\"x\":\"{long}\"}}\nnext\n"),
            format!("{{\"x\":\"{long}\",\"id\":\"a\"}}\nnext\n"),
        ] {
            let mut reader = LineReader::new(BufReader::new(line.as_bytes()), 1000);
            let first = reader.read().expect("memory does not fail");
            assert_eq!(first, Some(Line::TooLong { id: Some(json!("a")) }));
            assert!(reader.line.capacity() <= 16 * 1024);
            assert_eq!(reader.read().expect("memory does not fail"), Some(whole("next")));
        }
    }

    /// Answers every second read with `WouldBlock`, as a non-blocking pipe may.
    struct Hesitant<'a>(&'a [u8], bool);

    impl Read for Hesitant<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 { Err(io::ErrorKind::WouldBlock.into()) } else { self.0.read(buffer) }
        }
    }

    #[test]
    fn nothing_is_lost_when_a_read_would_block() {
        let input = BufReader::with_capacity(2, Hesitant(b"one\ntwo", false));
        let mut reader = LineReader::new(input, 100);
        let mut got = Vec::new();
        loop {
            match reader.read() {
                Ok(Some(line)) => got.push(line),
                Ok(None) => break,
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
        }
        assert_eq!(got, [whole("one"), whole("two")]);
    }

    proptest! {
        #[test]
        fn any_input_is_cut_as_a_split_would_cut_it(
            input in prop::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..300),
            capacity in 1usize..40,
        ) {
            let mut expected: Vec<_> =
                input.split(|&byte| byte == b'\n').map(|line| Line::Whole(line.to_vec())).collect();
            if input.last().is_none_or(|&byte| byte == b'\n') {
                expected.pop();
            }
            prop_assert_eq!(lines(&input[..], capacity, 1000), expected);
        }
    }
}
