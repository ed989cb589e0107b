//! MCP over stdio, from bytes to calls of the [`Engine`](crate::engine::Engine) and back.
//!
//! A line travels through these modules in this order: [`stdio`] reads it on a thread of its own,
//! [`line`] cuts it off and bounds it, [`message`] says what it means, [`transport`] answers what
//! rmcp can't and hands on the rest, rmcp's service loop dispatches it, [`guard`] makes sure that
//! it is answered, and [`handler`] calls the engine, with [`progress`] while that takes time.
//! [`tools`] describes to a client what there is to call.

#[cfg(test)]
mod buffer;
pub mod guard;
pub mod handler;
pub mod id;
pub mod line;
pub mod message;
pub mod progress;
pub mod stdio;
pub mod tools;
pub mod transport;
