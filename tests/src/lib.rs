//! What the end-to-end tests share: the built programs, a place and a user to run them as, an MCP
//! client, a driver of the jail, and looks at what a run leaves behind.
//!
//! Every test runs the real server and the real jail. A tester who is root gives each test an
//! unused uid of its own, since Vestibule refuses root: whatever has that uid is the test's.
#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

pub mod harness;
pub mod host;
pub mod jail;
pub mod place;
pub mod processes;
pub mod programs;
pub mod reply;
pub mod server;
pub mod stand_in;
pub mod tally;
#[cfg(target_os = "linux")]
pub mod tracer;

pub use harness::{Outcome, Skip, skip};
pub use jail::Jail;
pub use place::Place;
pub use reply::Reply;
pub use server::Server;
