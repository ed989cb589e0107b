//! One `run_code` call, from its arguments to its answer.

pub mod admission;
pub mod facts;
pub mod output;
pub mod pipeline;
pub mod privileges;
pub mod report;
pub mod request;
pub mod text;
