//! Makes what is shipped from the tables that the code itself uses, so that neither can be wrong
//! about the other.
#![forbid(unsafe_code)]

mod pages;

use clap::{Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Makes what is shipped from the code's own tables.
#[derive(Parser)]
#[command(name = "packaging")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Writes the generated pages below docs/.
    Docs {
        /// Write nothing; fail if a page differs from what would be written.
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    let Command::Docs { check } = Arguments::parse().command;
    let results = pages::ALL.iter().map(|page| {
        let path = docs().join(page.name);
        let done = if check { page.check(&path) } else { page.write(&path) };
        done.inspect_err(|error| eprintln!("packaging: {}: {error}", path.display()))
    });
    // Every page is looked at, also after one that is wrong.
    if results.filter(Result::is_err).count() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}
