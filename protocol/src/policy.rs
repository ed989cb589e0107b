//! The system call policy, as data.
//!
//! Equal in effect to Docker's default seccomp profile for a process without capabilities (see
//! [`SOURCE`]), with the differences of [`DEVIATIONS`]. The rules are regrouped by purpose and hold
//! only what exists on x86_64 and aarch64. `vestibule-jail` compiles them at build time with
//! libseccomp; a container engine can be given the same rules as a profile of its own. Both start
//! from [`clauses`], which has one entry per system call and set of comparisons.
//!
//! How a call is judged:
//!
//! 1. Made through a foreign ABI (x32, i386, 32-bit ARM): [`FOREIGN`].
//! 2. Named by a rule: the action of the rule whose conditions hold. Conditional rules of one call
//!    never overlap unless they have the same action, so that their order does not matter; a rule
//!    without conditions for a call that has conditional rules means "otherwise".
//! 3. Not named by a rule, but known to the libseccomp that compiled the filter: [`UNLISTED`].
//! 4. Any other number: [`UNNAMED`].
//!
//! Every `Allow` states exactly what it allows. An "otherwise" only picks the error number of what
//! is refused anyway; no `Allow` is ever one, which a test holds.

mod allowed;
mod clauses;
mod conditional;
mod deviations;
mod refused;
mod sockets;
mod unlisted;

pub use clauses::{Clause, Comparison, Operator, clauses};
pub use deviations::{DEVIATIONS, Deviation};
pub use unlisted::UNLISTED_NAMES;

/// The profile that the policy is equal to in effect, and its date.
pub const SOURCE: &str = "Docker's default seccomp profile, github.com/moby/profiles tag \
     seccomp/v0.2.3, commit 836ae4d2ef2ec995c77c99fc55f5b5f3af3a897, 2026-05-06";

/// What happens to a call made through another ABI than the kernel's native 64-bit one.
pub const FOREIGN: Action = Action::Unknown;

/// What happens to a call that libseccomp can name and that no rule names.
pub const UNLISTED: Action = Action::Refuse;

/// What happens to a number that libseccomp can't name. Programs that probe for a newer kernel fall
/// back to an older call on `ENOSYS`, and on nothing else.
pub const UNNAMED: Action = Action::Unknown;

/// An architecture that the policy is written for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Arch {
    /// 64-bit x86, without the x32 ABI.
    X86_64,
    /// 64-bit ARM, without 32-bit ARM.
    Aarch64,
}

impl Arch {
    /// Every architecture.
    pub const ALL: [Arch; 2] = [Arch::X86_64, Arch::Aarch64];

    /// The name that `uname -m`, Rust and cargo use.
    pub const fn name(self) -> &'static str {
        match self {
            Arch::X86_64 => "x86_64",
            Arch::Aarch64 => "aarch64",
        }
    }

    /// The architecture of that name, if the policy is written for it.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|arch| arch.name() == name)
    }
}

/// What happens to a system call.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Action {
    /// The kernel carries it out.
    Allow,
    /// Fails with `EPERM`, and the run's result lists it.
    Report,
    /// Fails with `EPERM`.
    Refuse,
    /// Fails with `ENOSYS`, as on a kernel that doesn't have the call.
    Unknown,
    /// Returns 0 and does nothing.
    Pretend,
}

impl Action {
    /// Every action.
    pub const ALL: [Action; 5] =
        [Action::Allow, Action::Report, Action::Refuse, Action::Unknown, Action::Pretend];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Action::Allow => "allow",
            Action::Report => "report",
            Action::Refuse => "refuse",
            Action::Unknown => "unknown",
            Action::Pretend => "pretend",
        }
    }

    /// What the action means, for a reader of the table.
    pub const fn meaning(self) -> &'static str {
        match self {
            Action::Allow => "carried out by the kernel",
            Action::Report => "fails with EPERM and is listed in the run's result",
            Action::Refuse => "fails with EPERM",
            Action::Unknown => "fails with ENOSYS, as on a kernel without the call",
            Action::Pretend => "returns 0 and does nothing",
        }
    }

    /// The error number that the caller gets (the same on both architectures), 0 for a pretended
    /// success, `None` for a call that is carried out.
    pub const fn errno(self) -> Option<u16> {
        const EPERM: u16 = 1;
        const ENOSYS: u16 = 38;
        match self {
            Action::Allow => None,
            Action::Report | Action::Refuse => Some(EPERM),
            Action::Unknown => Some(ENOSYS),
            Action::Pretend => Some(0),
        }
    }
}

/// One line of the policy.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The kernel's names of the system calls.
    pub names: &'static [&'static str],
    /// The only architecture that has them, or `None` if both do.
    pub arch: Option<Arch>,
    /// What happens to them.
    pub action: Action,
    /// All of these must hold; none at all means always, or otherwise where other rules name the
    /// same call.
    pub when: &'static [Condition],
    /// What the calls are for, or why the action is this one.
    pub why: &'static str,
}

impl Rule {
    /// Whether the architecture has the rule's calls.
    pub fn is_for(&self, arch: Arch) -> bool {
        self.arch.is_none_or(|only| only == arch)
    }
}

/// A test of one argument of a system call.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    /// Which argument, 0 to 5.
    pub arg: u32,
    /// The bits of the argument that are looked at. The kernel reads an `int` from the low 32 bits
    /// of the register and ignores the rest, so the mask of an `int` has no higher bit.
    pub mask: u64,
    /// What those bits must be.
    pub test: Test,
    /// The condition in words.
    pub meaning: &'static str,
}

/// What the masked bits of an argument must be.
#[derive(Clone, Copy, Debug)]
pub enum Test {
    /// One of these values.
    OneOf(&'static [u64]),
    /// None of these values. Multiplied out, since libseccomp compares for inequality in whole
    /// arguments only.
    NoneOf(&'static [u64]),
    /// Anything but zero. libseccomp can only express it for a whole argument, so the mask has all
    /// 64 bits.
    NotZero,
}

/// Every rule, in the order of the table.
pub fn rules() -> impl Iterator<Item = &'static Rule> {
    [allowed::RULES, conditional::RULES, sockets::RULES, refused::RULES].into_iter().flatten()
}

/// A condition on an `int` or `unsigned int` argument.
const fn int(arg: u32, values: &'static [u64], meaning: &'static str) -> Condition {
    bits(arg, 0xffff_ffff, values, meaning)
}

/// A condition on some bits of an argument.
const fn bits(arg: u32, mask: u64, values: &'static [u64], meaning: &'static str) -> Condition {
    Condition { arg, mask, test: Test::OneOf(values), meaning }
}

#[cfg(test)]
mod tests;
