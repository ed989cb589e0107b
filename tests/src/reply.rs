//! An answer to a tool call, taken apart.

use serde_json::Value;

/// The prefixes of the lines that may follow the last stream.
const TAIL: [&str; 6] =
    ["note: ", "usage: ", "limits hit: ", "blocked syscalls: ", "audit: ", "isolation: "];

/// A result of `run_code` or `read_workspace`.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The text blocks, joined.
    pub text: String,
    /// Whether the call was refused.
    pub is_error: bool,
    /// The whole result, as JSON.
    pub json: Value,
}

impl Reply {
    /// Takes a JSON-RPC answer apart; panics where it is an error and not a result.
    #[track_caller]
    pub fn new(message: &Value) -> Reply {
        let json = message.get("result").unwrap_or_else(|| panic!("no result: {message}")).clone();
        let blocks = json["content"].as_array().cloned().unwrap_or_default();
        let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
        Reply { text: texts.join("\n"), is_error: json["isError"] == true, json }
    }

    /// The exit code; panics if the reply is a refusal.
    #[track_caller]
    pub fn exit_code(&self) -> i32 {
        let code = self.text.lines().find_map(|line| line.strip_prefix("exit_code: "));
        let code = code.and_then(|code| code.parse().ok());
        code.unwrap_or_else(|| panic!("no exit code in: {}", self.text))
    }

    /// What stands before the exit code.
    pub fn head(&self) -> &str {
        self.text.split_once("exit_code: ").map_or("", |(head, _)| head)
    }

    /// The guest's standard output, without its last newlines.
    pub fn stdout(&self) -> String {
        let text = &self.text;
        let after_code = text.find("exit_code: ").map_or("", |start| &text[start..]);
        let start = after_code.find("\nstdout:\n").map(|at| at + "\nstdout:\n".len());
        let Some(start) = start else {
            return String::new();
        };
        let lines = after_code[start..].lines();
        let lines = lines.take_while(|line| *line != "stderr:" && !is_tail(line));
        joined(lines)
    }

    /// The guest's standard error, without its last newlines.
    pub fn stderr(&self) -> String {
        let Some(start) = self.text.find("\nstderr:\n") else {
            return String::new();
        };
        let lines = self.text[start + "\nstderr:\n".len()..].lines();
        joined(lines.take_while(|line| !is_tail(line)))
    }

    /// What follows the prefix in the last line that has it: `line("usage")`.
    pub fn line(&self, name: &str) -> Option<&str> {
        let prefix = format!("{name}: ");
        self.text.lines().rev().find_map(|line| line.strip_prefix(&prefix))
    }

    /// The last line, which has to be the isolation.
    #[track_caller]
    pub fn isolation(&self) -> &str {
        let last = self.text.lines().last().unwrap_or_default();
        last.strip_prefix("isolation: ")
            .unwrap_or_else(|| panic!("no isolation last: {}", self.text))
    }

    /// The same facts from `_meta`.
    pub fn facts(&self) -> &Value {
        &self.json["_meta"]["vestibule/run"]
    }

    /// Asserts that the code ran and exited with 0; gives its standard output.
    #[track_caller]
    pub fn success(&self) -> String {
        assert!(!self.is_error && self.exit_code() == 0, "expected a success: {}", self.text);
        self.stdout()
    }

    /// Asserts that nothing ran, with a reason and a fix that hold these words.
    #[track_caller]
    pub fn assert_blocked(&self, words: &[&str]) {
        let refused = self.is_error && self.text.starts_with("Blocked: ");
        assert!(refused, "expected a refusal, got: {}", self.text);
        assert!(!self.text.contains("\nisolation: "), "a refusal claims isolation: {}", self.text);
        for word in words {
            assert!(self.text.contains(word), "{word:?} is not named in: {}", self.text);
        }
    }
}

fn is_tail(line: &str) -> bool {
    TAIL.iter().any(|prefix| line.starts_with(prefix))
}

/// An empty line may stand below a stream whose last line looks like one of Vestibule's.
fn joined<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    lines.collect::<Vec<_>>().join("\n").trim_end_matches('\n').to_owned()
}
