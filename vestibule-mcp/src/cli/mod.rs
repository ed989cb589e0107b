//! Commands for people and scripts.

pub mod audit;
pub mod doctor;
pub mod run;
mod screen;
pub mod setup;

use std::fmt::Display;
use std::io::{self, Write};

/// Writes a line to standard error. Where that is closed or full there is nobody to tell, and the
/// exit code says the rest.
pub fn say(line: impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}
