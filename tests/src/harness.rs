//! Running tests: by name, in parallel, with skips that carry a reason.

use crate::programs;
use libtest_mimic::{Arguments, Completion, Trial};
use std::process::ExitCode;

/// Why a test cannot be made on this machine.
#[derive(Debug)]
pub struct Skip(pub String);

/// What a test returns. A failure is a panic.
pub type Outcome = Result<(), Skip>;

/// Ends a test that this machine cannot show.
///
/// # Errors
/// Always: the [`Skip`].
pub fn skip<T>(reason: impl Into<String>) -> Result<T, Skip> {
    Err(Skip(reason.into()))
}

/// A test under the name `module::function`.
pub fn trial(module: &str, name: &str, test: fn() -> Outcome) -> Trial {
    let module = module.rsplit("::").next().unwrap_or(module);
    let full = format!("{module}::{name}");
    Trial::ignorable_test(full.clone(), move || {
        Ok(match test() {
            Ok(()) => Completion::Completed,
            Err(Skip(reason)) => {
                println!("skipped: {full}: {reason}");
                Completion::ignored_with(reason)
            }
        })
    })
}

/// Lists a module's tests. One that is left out is an unused function, which the build refuses.
#[macro_export]
macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        pub(crate) fn tests() -> Vec<libtest_mimic::Trial> {
            vec![$($crate::harness::trial(module_path!(), stringify!($name), $name)),*]
        }
    };
}

/// Runs the tests that the command line asks for.
pub fn main(trials: Vec<Trial>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    // An ordinary tester has one uid for all tests, so what one leaves behind can only be told
    // from what another is doing if there is no other.
    if !nix::unistd::geteuid().is_root() {
        arguments.test_threads = Some(1);
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    programs::remove_stage();
    conclusion.exit_code()
}
