//! The languages a run can be written in.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A language of `run_code`. Each has one interpreter and one script name inside the sandbox.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// CPython 3.
    Python,
    /// GNU bash.
    Bash,
    /// Node.js.
    Node,
}

impl Language {
    /// Every language, in the order in which they are listed to users.
    pub const ALL: [Language; 3] = [Language::Python, Language::Bash, Language::Node];

    /// The name as users type it.
    pub const fn name(self) -> &'static str {
        match self {
            Language::Python => "python",
            Language::Bash => "bash",
            Language::Node => "node",
        }
    }

    /// The interpreter's program name, as looked up in a root file system.
    pub const fn program(self) -> &'static str {
        match self {
            Language::Python => "python3",
            Language::Bash => "bash",
            Language::Node => "node",
        }
    }

    /// The package of Debian and its kin that brings the interpreter.
    pub const fn package(self) -> &'static str {
        match self {
            Language::Python => "python3",
            Language::Bash => "bash",
            Language::Node => "nodejs",
        }
    }

    /// The script's file name below `/sandbox`.
    pub const fn script(self) -> &'static str {
        match self {
            Language::Python => "main.py",
            Language::Bash => "main.sh",
            Language::Node => "main.js",
        }
    }

    /// The language with that exact name.
    pub fn from_name(name: &str) -> Option<Language> {
        Language::ALL.into_iter().find(|language| language.name() == name)
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
