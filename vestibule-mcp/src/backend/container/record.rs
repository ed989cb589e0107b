//! The engine's own record of a container.

use super::cli::Cli;
use serde::Deserialize;
use std::time::Duration;

/// What the engine knows of a container.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "PascalCase", default)]
pub struct Record {
    /// The exit code of its first program.
    pub exit_code: i64,
    /// Whether the kernel ended a process of it for memory; Podman over runc may say no.
    #[serde(rename = "OOMKilled")]
    pub oom_killed: bool,
    /// What went wrong with its start.
    pub error: String,
    /// When it was started; the year 1 if it never was.
    pub started_at: String,
    /// Whether it still runs.
    pub running: bool,
}

impl Record {
    /// That of a run which is known to have been started and to have ended like this.
    pub fn exited(code: i32) -> Record {
        let started_at = "known".to_owned();
        Record { exit_code: code.into(), started_at, ..Record::default() }
    }

    /// Whether anything in it was executed.
    pub fn was_started(&self) -> bool {
        !self.started_at.is_empty() && !self.started_at.starts_with("0001-")
    }
}

/// Asks for the record of a container by its name. `None` if the engine knows none.
///
/// # Errors
/// A clause that says why there is no answer.
pub async fn read(cli: &Cli, name: &str, limit: Duration) -> Result<Option<Record>, String> {
    let question = ["inspect", "--type", "container", "--format", "{{json .State}}", name];
    match cli.ask(&question, limit).await {
        Ok(answer) if answer.status.success() => {
            serde_json::from_slice(&answer.stdout).map(Some).map_err(|error| {
                let place = crate::escape::place_in_json(&error);
                format!("the engine's record of the container is unreadable ({place})")
            })
        }
        Ok(answer) if no_such_container(&answer.stderr) => Ok(None),
        Ok(answer) => Err(format!("the engine gave no record ({})", answer.stderr.trim())),
        Err(no_answer) => Err(no_answer.to_string()),
    }
}

/// Whether an engine says that there is no such container: Docker, then Podman.
pub fn no_such_container(text: &str) -> bool {
    let text = text.to_lowercase();
    text.contains("no such container") || text.contains("no such object")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_that_was_only_created_was_not_started() {
        let state = r#"{"Status":"created","Running":false,"OOMKilled":false,"ExitCode":0,"Error":"x","StartedAt":"0001-01-01T00:00:00Z","FinishedAt":"0001-01-01T00:00:00Z"}"#;
        let record: Record = serde_json::from_str(state).unwrap();
        assert!(!record.was_started());
        let state = r#"{"Running":false,"OOMKilled":true,"ExitCode":3,"StartedAt":"2026-11-30T08:12:50.148438054Z"}"#;
        let record: Record = serde_json::from_str(state).unwrap();
        assert!(record.was_started() && record.oom_killed && record.exit_code == 3);
        assert!(!Record::default().was_started());
    }
}
