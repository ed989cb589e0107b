//! `vestibule-jail`: builds one sandbox, runs one script in it, and ends.
//!
//! Three processes, three parts: [`supervisor`] outside, [`sandbox`] for init inside, [`guest`] for
//! what becomes the interpreter, which [`loader`] looks at. [`plan`] is what the first hands to the others, [`control`] what
//! they say to each other. [`pipe`] is the conversation with the server, [`by_hand`] that with a
//! person, whose command line [`arguments`] reads. [`cgroup`] is where the limits of a run are set. All of it is one thread; `unsafe` stands in [`sys`]
//! only.
#![cfg(target_os = "linux")]
#![deny(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]
#![deny(clippy::panic)]

pub mod arguments;
pub mod by_hand;
pub mod cgroup;
pub mod control;
pub mod filter;
pub mod guest;
pub mod loader;
pub mod mountinfo;
pub mod pipe;
pub mod plan;
pub mod procfs;
pub mod sandbox;
pub mod status;
pub mod supervisor;
pub mod sys;
pub mod trace;

use std::ffi::OsString;
use std::io::IsTerminal;

/// The program: the pipe protocol without arguments, else a command of a person.
pub fn main(arguments: Vec<OsString>) -> i32 {
    // A panic must never unwind into the other side of a clone.
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("vestibule-jail: bug: {panic}");
        std::process::abort();
    }));
    if let Err(errno) = sys::start::settle() {
        eprintln!("vestibule-jail: the standard descriptors cannot be opened: {errno}");
        return 1;
    }
    // What an odd parent may have left behind: an ignored SIGCHLD reaps children by itself, a strict
    // umask would make files of the sandbox unreadable for the sandbox.
    sys::process::default_signal(libc::SIGCHLD);
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
    if arguments.len() > 1 {
        return by_hand::main(arguments);
    }
    if std::io::stdin().is_terminal() {
        eprintln!("vestibule-jail: without arguments it is started by vestibule-mcp; see --help");
        return 2;
    }
    match pipe::serve() {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("vestibule-jail: {error}");
            1
        }
    }
}
