//! What `vestibule-mcp` and `vestibule-jail` agree on.
//!
//! The types here describe one sandboxed run: what is asked for ([`Sandbox`], [`Script`]), what was
//! really put in force ([`Applied`], [`Isolation`]), how it ended ([`Outcome`]), and why it was not
//! started ([`Refusal`]). [`frame`] is how they travel over the pipe between the two programs; the
//! same types as JSON are the file that `vestibule-jail --spec` reads.
#![forbid(unsafe_code)]

mod cgroup;
pub mod environment;
pub mod frame;
mod isolation;
mod language;
mod limits;
mod message;
pub mod policy;
mod refusal;
mod report;
mod spec;
mod step;

pub use cgroup::{
    Bus, CgroupOrigin, CgroupSource, NoCgroup, RunCgroup, RunName, RunsName, ServerShare,
};
pub use isolation::{Isolation, Level, Limit, StandIn};
pub use language::Language;
pub use limits::{
    CodeBytes, CpuPercent, MemoryMib, OutOfRange, OutputBytes, PidsMax, TimeoutSeconds, TmpfsMib,
};
pub use message::{Event, Hello, PROTOCOL_VERSION, Request};
pub use refusal::{Cause, Refusal, Retry, StepError};
pub use report::{
    Applied, Control, ControlState, Ending, Interpreter, Interpreters, LimitHit, Measured, Outcome,
    Stream, StreamTotals, TimedStep, Usage,
};
pub use spec::{Limits, Rootfs, RunSpec, Sandbox, Script, SpecError};
pub use step::{Actor, Step};
