//! The command line of `vestibule-mcp`.
#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};
use std::io;
use std::path::PathBuf;
use vestibule_mcp::backend::container::heirs;
use vestibule_mcp::cli::{audit, doctor, run, say, setup};
use vestibule_mcp::config::Config;
use vestibule_mcp::escape::text_for_display;
use vestibule_mcp::signals::outlive_file_limit;
use vestibule_mcp::{logging, serve};

/// The exit code of a command that could not do its work.
const FAILED: i32 = 1;

/// Runs an agent's code in a sandbox and says what protected it.
///
/// Without a command it serves MCP over standard input and output, as an MCP client starts it.
#[derive(Debug, Parser)]
#[command(name = "vestibule-mcp", version = version(), disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs one program the way a client's call would, and prints its output
    Run(run::Arguments),
    /// Prints the last calls from the audit log
    Audit(audit::Arguments),
    /// Fetches the images that code runs in, once
    Setup(setup::Arguments),
    /// Checks what this machine can do, and prints what is missing with its fix
    Doctor(doctor::Arguments),
    /// Goes on with the removal of a container of a process that has ended; started by that
    #[command(name = heirs::COMMAND, hide = true)]
    Remove {
        /// It may not be there yet
        #[arg(long)]
        late: bool,
        /// The engine's program
        program: PathBuf,
        /// The container, one of ours
        #[arg(value_parser = ours)]
        name: String,
    },
}

/// The version with what it was built from.
fn version() -> String {
    format!(
        "{} (protocol {}, {} {}, {} build)",
        env!("CARGO_PKG_VERSION"),
        protocol::PROTOCOL_VERSION,
        std::env::consts::OS,
        std::env::consts::ARCH,
        if cfg!(debug_assertions) { "debug" } else { "release" },
    )
}

fn main() {
    let command = match Arguments::try_parse() {
        Ok(arguments) => arguments.command,
        Err(error) => {
            // It repeats what was typed, and a shell may have put names there that code has chosen.
            let text = text_for_display(&error.to_string());
            if error.use_stderr() {
                eprint!("{text}");
            } else {
                print!("{text}");
            }
            std::process::exit(error.exit_code());
        }
    };
    let config = Config::from_env(std::env::vars_os());
    logging::start(&config.log);
    let failed = if matches!(command, Some(Command::Run(_))) { run::REFUSED } else { FAILED };
    let code = carry_out(command, config).unwrap_or_else(|error| {
        // Not through the log, which needs a thread: that may be what is refused.
        say(format_args!("vestibule-mcp: the system refuses what every command needs: {error}"));
        failed
    });
    logging::flush();
    // Not by returning: a thread that waits for stdin would keep the process.
    std::process::exit(code);
}

/// One thread is enough: all that the server does is to wait for others. It saves memory and start
/// time.
fn carry_out(command: Option<Command>, config: Config) -> io::Result<i32> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        outlive_file_limit()?;
        let code = match command {
            None => serve::serve(config).await,
            Some(Command::Run(arguments)) => run::run(config, arguments).await,
            Some(Command::Audit(arguments)) => audit::run(&config, &arguments).await,
            // Pages and images of that size would make every command's future as large.
            Some(Command::Setup(arguments)) => Ok(Box::pin(setup::run(config, arguments)).await),
            Some(Command::Doctor(arguments)) => Ok(Box::pin(doctor::run(config, arguments)).await),
            Some(Command::Remove { late, program, name }) => {
                heirs::go_on(program, &name, late).await;
                return Ok(0);
            }
        };
        heirs::hand_over();
        code
    })
}

/// A container's name as runs make them.
fn ours(name: &str) -> Result<String, String> {
    let ours = name.starts_with("vestibule-");
    ours.then(|| name.to_owned()).ok_or_else(|| "no container of Vestibule's".to_owned())
}
