//! A terminal that shows what guests print, without obeying it.

use crate::escape;

/// Turns a stream of bytes into text that a terminal only shows: escape sequences, control
/// characters and characters that reorder the line become visible.
#[derive(Default)]
pub struct Screen {
    /// The beginning of a character, or a carriage return whose successor is not known yet.
    pending: Vec<u8>,
}

impl Screen {
    /// The next piece of the stream; what it ends with may be kept for the next call.
    pub fn show(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let whole = self.pending.len() - unfinished(&self.pending);
        let rest = self.pending.split_off(whole);
        let ready = std::mem::replace(&mut self.pending, rest);
        visible(&ready)
    }

    /// What was kept, once the stream has ended.
    pub fn finish(&mut self) -> String {
        visible(&std::mem::take(&mut self.pending))
    }
}

/// How many bytes at the end cannot be shown before their successors are known.
fn unfinished(bytes: &[u8]) -> usize {
    if bytes.ends_with(b"\r") {
        return 1;
    }
    let begins_character = |back: &usize| {
        let end = &bytes[bytes.len() - back..];
        let cut =
            |error: std::str::Utf8Error| error.valid_up_to() == 0 && error.error_len().is_none();
        std::str::from_utf8(end).is_err_and(cut)
    };
    (1..=bytes.len().min(3)).find(begins_character).unwrap_or(0)
}

fn visible(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).replace("\r\n", "\n");
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '\n' | '\t') || !escape::is_hostile(c) {
            shown.push(c);
        } else {
            shown.extend(c.escape_default());
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(pieces: &[&[u8]]) -> String {
        let mut screen = Screen::default();
        let shown: String = pieces.iter().map(|piece| screen.show(piece)).collect();
        shown + &screen.finish()
    }

    #[test]
    fn escapes_become_visible_and_text_stays() {
        assert_eq!(all(&[b"\x1b[31mred\x1b[0m\tok\r\n"]), "\\u{1b}[31mred\\u{1b}[0m\tok\n");
        assert_eq!(all(&["żółć\u{9b}31m\u{202e}".as_bytes()]), "żółć\\u{9b}31m\\u{202e}");
        assert_eq!(all(&[b"over\rwritten"]), "over\\rwritten");
    }

    proptest! {
        #[test]
        fn where_the_stream_is_cut_makes_no_difference(
            bytes in proptest::collection::vec(any::<u8>(), 0..40),
            at in 0usize..40,
        ) {
            let at = at.min(bytes.len());
            let whole = all(&[&bytes]);
            prop_assert_eq!(&all(&[&bytes[..at], &bytes[at..]]), &whole);
            let hostile = |c: char| c != '\n' && c != '\t' && escape::is_hostile(c);
            prop_assert!(!whole.contains(hostile));
        }
    }
}
