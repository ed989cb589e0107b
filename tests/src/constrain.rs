//! Starts a program below a syscall filter, as a container or an old kernel would.
//!
//! ```text
//! constrain RULE... -- PROGRAM [ARGUMENT...]
//! ```
//!
//! A rule is `NAME=ERRNO` (`mount_setattr=ENOSYS`: a kernel that lacks the call) or
//! `NAME:INDEX&MASK=ERRNO` (`close_range:2&4=EINVAL`: only where that argument has a bit of the
//! mask). Everything else stays allowed. The filter outlives every exec, and `no_new_privs` is set.
#![forbid(unsafe_code)]

use libseccomp::{ScmpAction, ScmpArgCompare, ScmpCompareOp, ScmpFilterContext, ScmpSyscall};
use nix::errno::Errno;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut parts = arguments.splitn(2, |argument| argument == "--");
    let (Some(rules), Some([program, rest @ ..])) = (parts.next(), parts.next()) else {
        eprintln!("usage: constrain RULE... -- PROGRAM [ARGUMENT...]");
        return ExitCode::from(2);
    };
    if let Err(error) = load(rules) {
        eprintln!("constrain: {error}");
        return ExitCode::from(2);
    }
    eprintln!("constrain: {program}: {}", Command::new(program).args(rest).exec());
    ExitCode::from(127)
}

fn load(rules: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let mut filter = ScmpFilterContext::new(ScmpAction::Allow)?;
    for rule in rules {
        let (call, errno) = rule.split_once('=').ok_or("a rule is NAME=ERRNO")?;
        let action = ScmpAction::Errno(errno_named(errno)? as i32);
        let Some((name, condition)) = call.split_once(':') else {
            filter.add_rule(action, ScmpSyscall::from_name(call)?)?;
            continue;
        };
        let (index, mask) = condition.split_once('&').ok_or("a condition is INDEX&MASK")?;
        for bit in bits(mask.parse()?) {
            let has_bit = ScmpCompareOp::MaskedEqual(bit);
            let compare = ScmpArgCompare::new(index.parse()?, has_bit, bit);
            let syscall = ScmpSyscall::from_name(name)?;
            filter.add_rule_conditional(action, syscall, &[compare])?;
        }
    }
    filter.load()?;
    Ok(())
}

fn bits(mask: u64) -> impl Iterator<Item = u64> {
    (0..64).map(|place| 1 << place).filter(move |bit| mask & bit != 0)
}

fn errno_named(name: &str) -> Result<Errno, String> {
    let known = [Errno::EPERM, Errno::ENOSYS, Errno::EINVAL, Errno::EACCES, Errno::ENOSPC];
    let found = known.into_iter().find(|errno| format!("{errno:?}") == name);
    found.ok_or_else(|| format!("unknown errno {name}"))
}
