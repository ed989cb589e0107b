//! Commands for people and scripts.

pub mod doctor;
pub mod run;
mod screen;
