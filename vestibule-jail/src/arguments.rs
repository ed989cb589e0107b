//! The command line of a person.

use lexopt::Arg::{Long, Short, Value};
use std::ffi::OsString;
use std::path::PathBuf;

/// What `--help` prints.
pub const HELP: &str = "\
Runs code in a sandbox made of the kernel's own walls. Without arguments it speaks the pipe protocol
of vestibule-mcp.

Usage: vestibule-jail [COMMAND] [OPTIONS]

Commands, one at a time:
      --spec FILE     Run the spec in this JSON file (`-`: standard input)
      --check         Build a sandbox, say what is in force, and end it
      --print-spec    Print a complete example of a spec
      --print-filter  Print the syscall policy as a table
  -h, --help          Print help
  -V, --version       Print version

Options of --spec and --check:
      --explain       Print each kernel step with its time and errno; with --spec on standard error
      --json          Print the result as JSON
";

/// What is to be done.
#[derive(Debug, PartialEq)]
pub enum Command {
    /// Run the spec in this file; `-` is standard input.
    Spec(PathBuf),
    /// Build a sandbox and end it.
    Check,
    /// Print an example of a spec.
    PrintSpec,
    /// Print the syscall policy.
    PrintFilter,
    /// Print what the program can do.
    Help,
    /// Print the version.
    Version,
}

/// The command and how its result is printed.
#[derive(Debug, PartialEq)]
pub struct Arguments {
    /// What is to be done.
    pub command: Command,
    /// Whether each step is printed.
    pub explain: bool,
    /// Whether the result is printed as JSON.
    pub json: bool,
}

impl Arguments {
    /// Takes a command line apart; the first argument is the program's name.
    ///
    /// # Errors
    /// What is wrong with it, as one line.
    pub fn parse(arguments: Vec<OsString>) -> Result<Arguments, String> {
        let mut parser = lexopt::Parser::from_iter(arguments);
        let (mut commands, mut explain, mut json) = (Vec::new(), false, false);
        while let Some(argument) = parser.next().map_err(|error| error.to_string())? {
            match argument {
                Long("spec") => {
                    let file = parser.value().map_err(|error| error.to_string())?;
                    commands.push(Command::Spec(file.into()));
                }
                Long("check") => commands.push(Command::Check),
                Long("print-spec") => commands.push(Command::PrintSpec),
                Long("print-filter") => commands.push(Command::PrintFilter),
                Long("help") | Short('h') => commands.push(Command::Help),
                Long("version") | Short('V') => commands.push(Command::Version),
                Long("explain") => explain = true,
                Long("json") => json = true,
                Value(_) | Long(_) | Short(_) => return Err(argument.unexpected().to_string()),
            }
        }
        let mut commands = commands.into_iter();
        let command = commands.next().ok_or("--explain and --json go with --spec or --check")?;
        if commands.next().is_some() {
            return Err("one command at a time".to_owned());
        }
        let runs = matches!(command, Command::Spec(_) | Command::Check);
        if (explain || json) && !runs {
            return Err("--explain and --json go with --spec or --check".to_owned());
        }
        Ok(Arguments { command, explain, json })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &[&str]) -> Result<Arguments, String> {
        let program = OsString::from("vestibule-jail");
        Arguments::parse(std::iter::once(program).chain(line.iter().map(OsString::from)).collect())
    }

    #[test]
    fn options_stand_in_any_order() {
        let wanted = Arguments { command: Command::Spec("a b".into()), explain: true, json: true };
        assert_eq!(parse(&["--json", "--spec", "a b", "--explain"]).as_ref(), Ok(&wanted));
        assert_eq!(parse(&["--explain", "--spec=a b", "--json"]), Ok(wanted));
        let version = Arguments { command: Command::Version, explain: false, json: false };
        assert_eq!(parse(&["-V"]), Ok(version));
        let stdin = Command::Spec("-".into());
        assert_eq!(parse(&["--spec", "-"]).map(|line| line.command), Ok(stdin));
    }

    #[test]
    fn what_makes_no_sense_is_refused_in_words() {
        for (line, named) in [
            (&["--no-such"][..], "--no-such"),
            (&["-x"], "-x"),
            (&["file.json"], "file.json"),
            (&["--spec"], "--spec"),
            (&["--check=1"], "--check"),
            (&["--check", "--print-spec"], "one command"),
            (&["--spec", "a", "--spec", "b"], "one command"),
            (&["--json"], "--spec or --check"),
            (&["--print-spec", "--json"], "--spec or --check"),
        ] {
            let said = parse(line).unwrap_err();
            assert!(said.contains(named) && !said.contains('\n'), "{line:?}: {said}");
        }
    }
}
