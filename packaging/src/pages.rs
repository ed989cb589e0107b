//! The generated pages.

use protocol::Step;
use std::fmt::Write;
use std::path::Path;
use std::{fs, io};
use vestibule_mcp::backend::container::profile::FLAGS;

/// A page below `docs/` that is made from a table in the code.
pub struct Page {
    /// Its file name.
    pub name: &'static str,
    content: fn() -> String,
}

/// Every generated page.
pub const ALL: [Page; 3] = [
    Page { name: "CONFIGURATION.md", content: vestibule_mcp::config::docs::markdown },
    Page { name: "JAIL_STEPS.md", content: jail_steps },
    Page { name: "CONTAINER.md", content: container },
];

/// Why a page is not as it has to be.
#[derive(Debug)]
pub enum PageError {
    /// It cannot be read or written.
    Io(io::Error),
    /// It differs from the table.
    Differs,
}

impl std::fmt::Display for PageError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            PageError::Io(error) => write!(f, "{error}"),
            PageError::Differs => f.write_str("differs from the code's table; run `make docs`"),
        }
    }
}

impl Page {
    /// Writes the page.
    pub fn write(&self, path: &Path) -> Result<(), PageError> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(PageError::Io)?;
        }
        fs::write(path, (self.content)()).map_err(PageError::Io)
    }

    /// Compares the page with the table.
    pub fn check(&self, path: &Path) -> Result<(), PageError> {
        let written = fs::read_to_string(path).map_err(PageError::Io)?;
        if written == (self.content)() { Ok(()) } else { Err(PageError::Differs) }
    }
}

const JAIL_STEPS_HEAD: &str = "\
<!-- Written by `make docs` from the table in protocol/src/step.rs. -->
# What vestibule-jail does, in execution order

One run is this list of steps, from top to bottom. The names are those of refusals (`step clone: \
…`) and of `vestibule-jail --spec FILE --explain`, which prints each step of a real run with its \
duration and errno.

The supervisor is the process that the server starts and stays outside the sandbox, init is PID 1 \
inside, the builder is a child of init that works at the same time and ends before there is a guest, \
and the guest is the process that becomes the interpreter. The kernel is the version that \
brought what the step needs; below Linux 5.9 nothing runs.

| | step | who | kernel | what it does |
| ---: | --- | --- | --- | --- |
";

fn jail_steps() -> String {
    let mut page = JAIL_STEPS_HEAD.to_owned();
    for (index, step) in Step::ALL.iter().enumerate() {
        let (name, actor) = (step.name(), step.actor().name());
        let (kernel, what) = (step.kernel(), step.what());
        // Writing to a string cannot fail.
        let _ = writeln!(page, "| {} | `{name}` | {actor} | {kernel} | {what} |", index + 1);
    }
    page
}

const CONTAINER_HEAD: &str = "\
<!-- Written by `make docs` from the table in vestibule-mcp/src/backend/container/profile.rs. -->
# The container of a run

What `docker run` and `podman run` are given for one run, in this order. What stands in braces differs \
from run to run. After the options come the variables of the code's environment, the image, and the \
first program: bash, which goes no further where the container is not as the probe found it, starts a \
timer that ends the run should nobody else have done so, writes a mark to standard error, so that the \
engine's own words can be told from the code's, and becomes the interpreter.

| option | engines | what it is for |
| --- | --- | --- |
";

fn container() -> String {
    let mut page = CONTAINER_HEAD.to_owned();
    for flag in FLAGS {
        let value = if flag.value.is_empty() { String::new() } else { format!(" {}", flag.value) };
        let (option, engines, why) = (flag.option, flag.only.text(), flag.why);
        // Writing to a string cannot fail.
        let _ = writeln!(page, "| `{option}{value}` | {engines} | {why} |");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_has_one_row_in_its_place() {
        let page = jail_steps();
        let rows: Vec<&str> = page.lines().filter(|line| line.contains("| `")).collect();
        assert_eq!(rows.len(), Step::ALL.len());
        for (row, step) in rows.iter().zip(Step::ALL) {
            assert!(row.contains(&format!("| `{}` |", step.name())), "{row}");
        }
    }

    #[test]
    fn every_option_of_a_container_has_one_row() {
        let rows = container().lines().filter(|line| line.starts_with("| `--")).count();
        assert_eq!(rows, FLAGS.len());
    }

    #[test]
    fn a_page_that_was_changed_by_hand_is_found() {
        let path = std::env::temp_dir().join(format!("vestibule-page-{}", std::process::id()));
        let page = &ALL[1];
        page.write(&path).unwrap();
        assert!(page.check(&path).is_ok());
        fs::write(&path, "other").unwrap();
        assert!(matches!(page.check(&path), Err(PageError::Differs)));
        fs::remove_file(&path).unwrap();
    }
}
