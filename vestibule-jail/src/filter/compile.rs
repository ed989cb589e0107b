//! Compiles the policy with libseccomp.
//!
//! Not part of the library: `build.rs` and the tests include this file, so that libseccomp is
//! needed to build and to test, and never to run.

use libseccomp::{
    ScmpAction, ScmpArch, ScmpArgCompare, ScmpCompareOp, ScmpFilterContext, ScmpSyscall,
    ScmpVersion,
};
use protocol::policy::{self, Action, Arch, Clause, Comparison, Operator};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io::Read;

/// What libseccomp makes of the policy for one architecture.
pub struct Compiled {
    /// The program, as `struct sock_filter[]` in the byte order of the target.
    pub bytes: Vec<u8>,
    /// Number and name of every call that the program can report.
    pub reported: BTreeMap<i32, &'static str>,
    /// Names in the policy that this libseccomp doesn't know on this architecture; the calls get
    /// what every unknown number gets.
    pub unknown: BTreeSet<&'static str>,
    /// The version of the library.
    pub libseccomp: String,
}

/// Bytes of one `struct sock_filter`.
pub const INSTRUCTION_BYTES: usize = 8;

/// The API level with user notification, and the highest of libseccomp 2.5. Set by hand: by itself
/// the library takes what the kernel of the machine that builds supports, which says nothing about
/// the one that runs.
const API_LEVEL: u32 = 6;

/// `SCMP_FLTATR_CTL_OPTIMIZE`: a binary tree over the call numbers instead of a list.
const BINARY_TREE: u32 = 2;

/// Past every number that a kernel uses; what lies between is asked for one by one.
const NUMBERS_END: i32 = 1024;

/// Compiles the policy for an architecture, which need not be the one that this runs on.
///
/// # Errors
/// What libseccomp refused, and for which call. It has to be 2.5.0 or later.
pub fn compile(arch: Arch) -> Result<Compiled, Box<dyn Error>> {
    let version = ScmpVersion::current()?;
    if !libseccomp::check_version(ScmpVersion::from((2, 5, 0)))? {
        return Err(format!("libseccomp {version} is too old: install 2.5.0 or later").into());
    }
    libseccomp::set_api(API_LEVEL)?;
    let mut context = new_context(arch)?;
    let mut listed = BTreeSet::new();
    let mut reported = BTreeMap::new();
    let mut unknown = BTreeSet::new();
    for clause in policy::clauses(arch) {
        let Some(number) = number(clause.name, arch) else {
            unknown.insert(clause.name);
            continue;
        };
        listed.insert(number);
        if clause.action == Action::Report {
            reported.insert(number, clause.name);
        }
        add(&mut context, &clause).map_err(|error| format!("rule for {}: {error}", clause.name))?;
    }
    for name in names(arch).filter(|(number, _)| !listed.contains(number)).map(|(_, name)| name) {
        context
            .add_rule_exact(scmp_action(policy::UNLISTED), ScmpSyscall::from_name(&name)?)
            .map_err(|error| format!("rule for {name}: {error}"))?;
    }
    let bytes = export(&context)?;
    Ok(Compiled { bytes, reported, unknown, libseccomp: version.to_string() })
}

fn new_context(arch: Arch) -> Result<ScmpFilterContext, Box<dyn Error>> {
    let mut context = ScmpFilterContext::new(scmp_action(policy::UNNAMED))?;
    // A new context has the native architecture of this machine, and of no other.
    context.remove_arch(ScmpArch::native())?;
    context.add_arch(scmp_arch(arch))?;
    context.set_act_badarch(scmp_action(policy::FOREIGN))?;
    context.set_ctl_optimize(BINARY_TREE)?;
    Ok(context)
}

/// Adds a clause, exactly as it is: libseccomp must not rewrite it, nor accept a call that the
/// target lacks. It takes the number that a call has on the machine that this runs on (a negative
/// stand-in if it has none there) and translates it by name.
fn add(context: &mut ScmpFilterContext, clause: &Clause) -> Result<(), Box<dyn Error>> {
    if clause.action == policy::UNNAMED {
        // The context's default already; libseccomp takes no rule with the same action.
        return Ok(());
    }
    let comparisons: Vec<ScmpArgCompare> = clause.comparisons.iter().map(scmp_compare).collect();
    context.add_rule_conditional_exact(
        scmp_action(clause.action),
        ScmpSyscall::from_name(clause.name)?,
        &comparisons,
    )?;
    Ok(())
}

/// Number and name of every call that libseccomp can name on an architecture.
fn names(arch: Arch) -> impl Iterator<Item = (i32, String)> {
    (0..NUMBERS_END).filter_map(move |number| {
        let syscall = ScmpSyscall::from_raw_syscall(number);
        syscall.get_name_by_arch(scmp_arch(arch)).ok().map(|name| (number, name))
    })
}

/// The program as bytes. libseccomp 2.5 writes it to a descriptor only; the thread keeps a pipe
/// smaller than the program from blocking the write.
fn export(context: &ScmpFilterContext) -> Result<Vec<u8>, Box<dyn Error>> {
    let (mut reader, writer) = std::io::pipe()?;
    std::thread::scope(|scope| {
        let bytes = scope.spawn(move || {
            let mut bytes = Vec::new();
            reader.read_to_end(&mut bytes).map(|_| bytes)
        });
        let exported = context.export_bpf(&writer);
        drop(writer);
        let bytes = bytes.join().map_err(|_| "the thread that reads the program panicked")??;
        exported?;
        Ok(bytes)
    })
}

/// The number of a call on an architecture. `None` if this libseccomp doesn't know the name, or
/// knows it, under a negative stand-in number, for other architectures only.
fn number(name: &str, arch: Arch) -> Option<i32> {
    let syscall = ScmpSyscall::from_name_by_arch(name, scmp_arch(arch)).ok()?;
    Some(syscall.as_raw_syscall()).filter(|&number| number >= 0)
}

fn scmp_arch(arch: Arch) -> ScmpArch {
    match arch {
        Arch::X86_64 => ScmpArch::X8664,
        Arch::Aarch64 => ScmpArch::Aarch64,
    }
}

fn scmp_action(action: Action) -> ScmpAction {
    match (action, action.errno()) {
        (Action::Report, _) => ScmpAction::Notify,
        (_, Some(errno)) => ScmpAction::Errno(errno.into()),
        (_, None) => ScmpAction::Allow,
    }
}

fn scmp_compare(comparison: &Comparison) -> ScmpArgCompare {
    let (operator, value) = match comparison.operator {
        Operator::MaskedEqual { mask, value } => (ScmpCompareOp::MaskedEqual(mask), value),
        Operator::NotEqual(value) => (ScmpCompareOp::NotEqual, value),
        Operator::AtLeast(value) => (ScmpCompareOp::GreaterEqual, value),
    };
    ScmpArgCompare::new(comparison.arg, operator, value)
}
