//! The workspace: made on first use, looked at before every call, read back by `read_workspace`.

mod content;
mod listing;
mod open;
mod path;
pub mod prepare;
pub(crate) mod private;
pub mod reader;
