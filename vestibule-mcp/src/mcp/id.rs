//! Finds the id of a message that no JSON parser takes: cut off, nested too deep, not Unicode, or
//! longer than the server is willing to hold.

use serde_json::Value;

/// The longest key or id that is looked at, in bytes with its quotes. Anything longer is no id that
/// could be answered to.
const MAX_TOKEN: usize = 4096;

/// Reads a line piece by piece and remembers the value of the `id` that stands at its top level,
/// wherever in the line that is. Takes any bytes, and holds [`MAX_TOKEN`] of them at most.
#[derive(Debug, Default)]
pub struct IdScanner {
    place: Place,
    quoted: Quoted,
    depth: u64,
    token: Vec<u8>,
    key_is_id: bool,
    id: Option<Value>,
}

/// What comes next at the top level of the object.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Place {
    #[default]
    Object,
    Key,
    Colon,
    Value,
    Rest,
    /// Past the end of the object, or no object at all.
    Nothing,
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
enum Quoted {
    #[default]
    No,
    Yes,
    /// Right behind a backslash.
    Escaped,
}

impl IdScanner {
    /// Takes the next piece of the line.
    pub fn feed(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match self.quoted {
                Quoted::Escaped => self.quoted_byte(byte, Quoted::Yes),
                Quoted::Yes if byte == b'\\' => self.quoted_byte(byte, Quoted::Escaped),
                Quoted::Yes if byte == b'"' => self.end_string(),
                Quoted::Yes => self.quoted_byte(byte, Quoted::Yes),
                Quoted::No => self.plain_byte(byte),
            }
        }
    }

    /// The id: a string or a number. When the line has several, the last one, as a parser would
    /// take it.
    pub fn finish(self) -> Option<Value> {
        self.id
    }

    fn plain_byte(&mut self, byte: u8) {
        match (self.place, byte) {
            (Place::Nothing, _) => {}
            // White space, or a byte order mark.
            (Place::Object, b' ' | b'\t' | b'\r' | 0xef | 0xbb | 0xbf) => {}
            (Place::Object, b'{') => {
                self.depth = 1;
                self.place = Place::Key;
            }
            (Place::Object, _) => self.place = Place::Nothing,
            (_, b'"') => self.begin_string(),
            (_, b'{' | b'[') => self.open(),
            (_, b'}' | b']') => self.close(),
            _ if self.depth > 1 => {}
            (_, b',') => {
                self.end_value();
                self.place = Place::Key;
            }
            (Place::Colon, b':') => self.place = Place::Value,
            (Place::Value, b' ' | b'\t' | b'\r') if self.token.is_empty() => {}
            (Place::Value, b' ' | b'\t' | b'\r') => self.end_value(),
            (Place::Value, _) => self.keep(byte),
            _ => {}
        }
    }

    fn open(&mut self) {
        if self.depth == 1 && self.place == Place::Value {
            self.drop_value();
        }
        self.depth = self.depth.saturating_add(1);
    }

    fn close(&mut self) {
        if self.depth == 1 {
            self.end_value();
            self.place = Place::Nothing;
        }
        self.depth = self.depth.saturating_sub(1);
    }

    fn begin_string(&mut self) {
        self.quoted = Quoted::Yes;
        if self.is_wanted() {
            self.token.clear();
            self.token.push(b'"');
        }
    }

    fn quoted_byte(&mut self, byte: u8, next: Quoted) {
        self.quoted = next;
        if self.is_wanted() {
            self.keep(byte);
        }
    }

    fn end_string(&mut self) {
        self.quoted = Quoted::No;
        if !self.is_wanted() {
            return;
        }
        self.keep(b'"');
        if self.place == Place::Key {
            self.key_is_id = matches!(self.take_token(), Some(Value::String(key)) if key == "id");
            self.place = Place::Colon;
        } else {
            self.end_value();
        }
    }

    /// Whether the string at hand is a key of the top level or the value of one.
    fn is_wanted(&self) -> bool {
        self.depth == 1 && matches!(self.place, Place::Key | Place::Value)
    }

    fn keep(&mut self, byte: u8) {
        if self.token.len() <= MAX_TOKEN {
            self.token.push(byte);
        }
    }

    fn end_value(&mut self) {
        if self.place != Place::Value {
            return;
        }
        let value = self.take_token();
        if self.key_is_id {
            self.id = value.filter(|value| value.is_string() || value.is_number());
        }
        self.place = Place::Rest;
    }

    /// The value is an object or a list: whatever it is, it is no id.
    fn drop_value(&mut self) {
        self.token.clear();
        self.end_value();
    }

    fn take_token(&mut self) -> Option<Value> {
        let token = std::mem::take(&mut self.token);
        if token.len() > MAX_TOKEN {
            return None;
        }
        serde_json::from_slice(&token).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn id_of(line: &[u8]) -> Option<Value> {
        let mut scanner = IdScanner::default();
        scanner.feed(line);
        scanner.finish()
    }

    #[test]
    fn the_id_is_found_wherever_it_stands() {
        for (line, id) in [
            (r#"{"id":1,"method":"x","#, json!(1)),
            (r#"{"method":"x","params":{"code":"\ud800"},"id":"a"}"#, json!("a")),
            (r#"{"params":{"id":9,"x":[{"id":8}]},"id":7}"#, json!(7)),
            (r#"{"params":"\"id\":6","id":5}"#, json!(5)),
            (r#"{"params":"\\","id":-5}"#, json!(-5)),
            (" \t{ \"id\" : 12 , \"x\": tru", json!(12)),
            ("\u{feff}{\"id\":3}", json!(3)),
            (r#"{"\u0069d":4}"#, json!(4)),
            (r#"{"id":1,"id":2}"#, json!(2)),
            (r#"{"id":301,"method":"ping",}"#, json!(301)),
            (r#"{"id":"ü\n","x":["#, json!("ü\n")),
        ] {
            assert_eq!(id_of(line.as_bytes()), Some(id), "{line}");
        }
        assert_eq!(id_of(b"{\"id\":302,\"method\":\"p\xffng\"}"), Some(json!(302)));
    }

    #[test]
    fn what_is_no_id_is_not_taken_for_one() {
        for line in [
            "",
            "id",
            "{",
            "[{\"id\":1}]",
            "\"id\":1",
            "{'id': 5}",
            r#"{"id":"#,
            r#"{"id":null}"#,
            r#"{"id":true,"x":1}"#,
            r#"{"id":{"id":3}}"#,
            r#"{"id":[4]}"#,
            r#"{"id":"\ud800"}"#,
            r#"{"x":{"id":1}}"#,
            r#"{"x":"id","y":5}"#,
            r#"{"x":"\"id\":5"#,
            r#"{"x":1} {"id":5}"#,
            // Cut off in the middle of a number, it could be any number.
            r#"{"id":12"#,
        ] {
            assert_eq!(id_of(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn an_endless_id_is_not_held() {
        let mut scanner = IdScanner::default();
        scanner.feed(b"{\"id\":\"");
        for _ in 0..1000 {
            scanner.feed(&[b'x'; 4096]);
        }
        assert!(scanner.token.capacity() <= 4 * MAX_TOKEN);
        scanner.feed(b"\"}");
        assert_eq!(scanner.finish(), None);
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_give_one_answer(
            line in prop::collection::vec(
                prop_oneof![prop::sample::select(br#"{}[]",:\ id0-"#.to_vec()), any::<u8>()], 0..200),
            cut in 0usize..200,
        ) {
            let cut = cut.min(line.len());
            let mut pieces = IdScanner::default();
            pieces.feed(&line[..cut]);
            pieces.feed(&line[cut..]);
            prop_assert_eq!(pieces.finish(), id_of(&line));
        }

        #[test]
        fn a_proper_message_has_the_id_that_a_parser_finds(
            id in prop_oneof![any::<i64>().prop_map(Value::from), ".{0,40}".prop_map(Value::from)],
            text in ".{0,80}",
            last in any::<bool>(),
        ) {
            let (id_text, text) = (id.to_string(), Value::from(text).to_string());
            let line = if last {
                format!(r#"{{"params":{{"id":0,"t":{text}}},"id":{id_text}}}"#)
            } else {
                format!(r#"{{"id":{id_text},"params":[{text},{{"id":0}}]}}"#)
            };
            prop_assert_eq!(id_of(line.as_bytes()), Some(id));
        }
    }
}
