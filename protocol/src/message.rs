//! The requests and events of one run, and the greeting before them.

use crate::{Applied, Outcome, Refusal, Sandbox, Script};
use serde::{Deserialize, Serialize};

/// Raised whenever a type that travels over the pipe changes. Two programs with different numbers
/// do not talk to each other.
pub const PROTOCOL_VERSION: u32 = 4;

/// The first frame in each direction. Its form never changes, so that any two versions can tell
/// each other apart.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Hello {
    /// [`PROTOCOL_VERSION`] of the sender.
    pub protocol: u32,
    /// The sender's program version, for people.
    pub version: String,
}

impl Hello {
    /// This build's greeting.
    pub fn ours() -> Hello {
        Hello { protocol: PROTOCOL_VERSION, version: env!("CARGO_PKG_VERSION").to_owned() }
    }
}

/// From the server to the jail. Allowed in this order only, each once: `Prepare`, `Execute`. End of
/// file at any time means: cancel, kill, clean up.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub enum Request {
    /// Build the sandbox.
    Prepare(Sandbox),
    /// Run this in it.
    Execute(Script),
}

/// From the jail to the server. After `Prepare`: `Ready` or `Refused`. After `Execute`: output
/// frames, then `Finished`, or `Refused` if nothing was executed.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub enum Event {
    /// The sandbox stands; what is really in force.
    Ready(Box<Applied>),
    /// Nothing was executed.
    Refused(Refusal),
    /// The run is over and nothing of it is left.
    Finished(Outcome),
}
