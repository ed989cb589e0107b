//! The settings' page, written from the table.

use super::table::{self, Kind, Setting};
use std::fmt::Write;

const HEAD: &str = "\
<!-- Written by `make docs` from the table in vestibule-mcp/src/config/table.rs. -->
# Configuration

Every setting is an environment variable, read once when the server starts: put it into the `env` \
block of your MCP client's entry for `vestibule-mcp`, then restart the client. A blank value counts \
as unset.

`vestibule-mcp setup`, `run`, `doctor` and `audit` read the variables of the shell that they are typed in, and \
not those of the client's entry: set there what you set in the entry, such as a folder or an image, so that \
both mean the same.

An invalid setting never stops the server. Every call is then answered with `Blocked:` and the \
setting's name, its value and what it may be. `vestibule-mcp doctor` lists all such problems at once.

| variable | value | default | meaning |
| --- | --- | --- | --- |
";

const TAIL: &str = "
- Numbers are whole and written with digits alone. Switches take `1`, `true`, `yes`, `on` and `0`, \
`false`, `no`, `off`.
- Folders are absolute, or start with `~/`: the folder named by `HOME`, else the one of the user \
database. The workspace, the image folder and the audit folder must lie outside one another.
- Two more variables are read and passed on to `vestibule-jail`: `XDG_RUNTIME_DIR` and \
`DBUS_SESSION_BUS_ADDRESS`, by which it finds the user's systemd. Clients strip them: without the \
first, `/run/user/UID` is taken if it is a folder of yours; without the second, `bus` in that folder.
";

/// `docs/CONFIGURATION.md`.
pub fn markdown() -> String {
    let mut page = HEAD.to_owned();
    for setting in table::ALL {
        let default = match setting.default {
            "" => "none".to_owned(),
            text => format!("`{text}`"),
        };
        let Setting { name, meaning, .. } = setting;
        // Writing to a String cannot fail.
        let _ = writeln!(page, "| `{name}` | {} | {default} | {meaning} |", values(setting));
    }
    page + TAIL
}

fn values(setting: &Setting) -> String {
    match setting.kind {
        Kind::Number { min, max } => format!("{min} to {max}"),
        Kind::Switch => "switch".to_owned(),
        Kind::Choice(words) => {
            words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
        }
        Kind::Folder => "folder".to_owned(),
        Kind::Program => "path".to_owned(),
        Kind::Image => "image".to_owned(),
        Kind::Registry => "registry".to_owned(),
        Kind::LogFilter => "log filter".to_owned(),
    }
}
