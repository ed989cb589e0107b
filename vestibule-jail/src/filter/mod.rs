//! The system call filter: the policy of [`protocol::policy`], compiled by libseccomp when this
//! crate was built. Loading it is `sys`'s.

mod table;

pub use table::print_table;

use protocol::policy::Arch;

/// The version of libseccomp that compiled the program.
pub const LIBSECCOMP: &str = env!("VESTIBULE_LIBSECCOMP");

/// One instruction of a classic BPF program: the kernel's `struct sock_filter`
/// (`linux/filter.h`), field by field.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(C)]
pub struct Instruction {
    /// Class, size, mode and operation.
    pub code: u16,
    /// How many instructions to skip if a comparison is true.
    pub jt: u8,
    /// How many instructions to skip if a comparison is false.
    pub jf: u8,
    /// The constant.
    pub k: u32,
}

// ARCH, PROGRAM, REPORTED (ascending numbers) and UNKNOWN_NAMES.
include!(concat!(env!("OUT_DIR"), "/filter.rs"));

/// The filter program. The kernel takes up to 4,096 instructions (`BPF_MAXINSNS`).
pub fn program() -> &'static [Instruction] {
    &PROGRAM
}

/// The name of a system call that the program can report, by its number on this architecture.
pub fn reported_name(number: i32) -> Option<&'static str> {
    let index = REPORTED.binary_search_by_key(&number, |&(reported, _)| reported).ok()?;
    REPORTED.get(index).map(|&(_, name)| name)
}

/// Names in the policy that the libseccomp of the build doesn't know. The calls are newer than the
/// library, and fail like every number that it can't name.
pub fn unknown_names() -> &'static [&'static str] {
    UNKNOWN_NAMES
}
