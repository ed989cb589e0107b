//! The MCP server's library: everything but the command line.
#![forbid(unsafe_code)]

pub mod audit;
pub mod backend;
pub mod cli;
pub mod config;
pub mod engine;
pub mod escape;
pub mod logging;
pub mod mcp;
pub mod redact;
pub mod run;
pub mod serve;
#[cfg(target_os = "linux")]
pub mod setup;
pub mod signals;
#[cfg(target_os = "linux")]
pub mod store;
pub mod workspace;
