//! Commands for people and scripts.

pub mod audit;
pub mod doctor;
pub mod run;
mod screen;
pub mod setup;

use crate::backend::select::THEN_RESTART;
use crate::config::ENVIRONMENT;
use crate::run::privileges::AS_USER;
use protocol::Refusal;
use std::fmt::Display;
use std::io::{self, Write};

/// What refusals say for a client's user, and what it is for a person at a terminal: there is no client to
/// restart, and variables are the shell's.
const FOR_TERMINALS: [(&str, &str); 3] = [
    (THEN_RESTART, ""),
    (ENVIRONMENT, "in this terminal's environment"),
    (AS_USER, "run it as an ordinary user without capabilities"),
];

/// A refusal for a person at a terminal.
pub fn told(refusal: &Refusal) -> String {
    for_terminal(&refusal.without_retry())
}

/// A part of a refusal, for a person at a terminal.
pub fn for_terminal(text: &str) -> String {
    FOR_TERMINALS.iter().fold(text.to_owned(), |text, (client, here)| text.replace(client, here))
}

/// Writes a line to standard error. Where that is closed or full there is nobody to tell, and the
/// exit code says the rest.
pub fn say(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::select::merge;
    use crate::config::Config;
    use protocol::{Cause, Retry};

    #[test]
    fn nobody_at_a_terminal_is_sent_to_a_client() {
        let refusal = |fix: &str, retry| {
            let (what, fix) = ("w".to_owned(), fix.to_owned());
            Refusal { what, cause: Cause::Other, fix, retry, at: None }
        };
        let merged = merge(
            "code",
            vec![
                ("native", refusal("update", Retry::AfterRestart)),
                ("docker", refusal("start it", Retry::AfterFix)),
            ],
        );
        let invalid = [("HOME", "/home/ada"), ("VESTIBULE_POOL", "many")];
        let invalid = invalid.map(|(name, value)| (name.into(), value.into()));
        let invalid = Config::from_env(invalid).usable().unwrap_err();
        let home = Config::from_env([("HOME".into(), "ada".into())]);
        let jail = crate::backend::locate::helper(Some("/nowhere/jail".as_ref())).unwrap_err();
        let root = refusal(AS_USER, Retry::AfterRestart);
        for refusal in [merged, invalid, jail, root] {
            assert!(refusal.to_string().contains("MCP client"), "{refusal}");
            let told = told(&refusal);
            assert!(!told.contains("client") && told.contains(". Fix: "), "{told}");
        }
        for problem in &home.problems {
            assert!(!for_terminal(&problem.fix()).contains("client"));
        }
    }
}
