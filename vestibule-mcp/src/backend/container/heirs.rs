//! Removals that outlive the process: a server ends within a fraction of a second, and an engine may take
//! longer, or refuse at first. Podman does when a container ends by itself while it is being removed.

use super::cli::Cli;
use super::removal;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The command of `vestibule-mcp` that an heir is started with.
pub const COMMAND: &str = "remove-container";
/// How long an heir goes on.
const LIFE: Duration = Duration::from_secs(60);

/// What this process is removing, and how another would go on with it.
static REMOVALS: Mutex<BTreeMap<String, Heir>> = Mutex::new(BTreeMap::new());

/// An heir's arguments and variables.
struct Heir {
    arguments: Vec<OsString>,
    environment: Vec<(&'static str, PathBuf)>,
}

/// A removal that is under way until this is dropped.
pub(super) struct UnderWay {
    name: String,
}

/// The map is whole after every operation, so a panic elsewhere cannot have broken it.
fn removals() -> MutexGuard<'static, BTreeMap<String, Heir>> {
    REMOVALS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl UnderWay {
    /// The removal of a container that may still be coming into being, or is known.
    pub fn new(cli: &Cli, name: &str, may_come_late: bool) -> UnderWay {
        let mut arguments: Vec<OsString> = vec![COMMAND.into()];
        arguments.extend(may_come_late.then(|| "--late".into()));
        arguments.extend([cli.program.clone().into(), name.into()]);
        let heir = Heir { arguments, environment: cli.environment.clone() };
        removals().insert(name.to_owned(), heir);
        UnderWay { name: name.to_owned() }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        removals().remove(&self.name);
    }
}

/// The last thing that a process does: leaves each removal that is under way to a process of its own.
/// Where none can be started, the next server removes the container once it is overdue.
pub fn hand_over() {
    let Ok(program) = std::env::current_exe() else { return };
    for (name, heir) in std::mem::take(&mut *removals()) {
        let mut command = Command::new(&program);
        command
            .args(heir.arguments)
            .envs(heir.environment)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        // A client may end our whole group, and does so after we have gone.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        match command.spawn() {
            Ok(_) => tracing::debug!("the container {name} is left to another process to remove"),
            Err(error) => tracing::warn!("the container {name} is not removed yet: {error}"),
        }
    }
}

/// What an heir does: removes a container of ours, for a minute at most.
pub async fn go_on(program: PathBuf, name: &str, may_come_late: bool) {
    // What the client needs beside is in our own environment.
    let cli = Cli { program, environment: Vec::new() };
    let _ = tokio::time::timeout(LIFE, removal::remove(&cli, name, may_come_late, |_| ())).await;
}
