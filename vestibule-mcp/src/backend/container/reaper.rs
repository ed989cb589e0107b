//! Removing what runs of dead servers have left: containers, and folders with their scripts.

use super::cli::Cli;
use super::engine::ANSWER;
use super::profile::{DEADLINE_LABEL, LIFE_LABEL, RUN_LABEL};
use super::removal;
use protocol::TimeoutSeconds;
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// How often a server looks.
const EVERY: Duration = Duration::from_secs(60);
/// The age of a folder that no run can have any more.
const FOLDER_AGE: Duration = Duration::from_secs(TimeoutSeconds::MAX as u64 + 600);

/// What is remembered between two looks.
#[derive(Default)]
pub struct Reaper {
    looked: Option<Instant>,
    /// Overdue containers that still run, and when they were first seen so.
    running: HashMap<String, Instant>,
}

/// A container of some server's run.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Found {
    name: String,
    runs: bool,
    deadline: u64,
    life: u64,
}

impl Reaper {
    /// Whether it is time to look again; counts as a look.
    pub fn is_due(&mut self) -> bool {
        let due = self.looked.is_none_or(|looked| looked.elapsed() >= EVERY);
        if due {
            self.looked = Some(Instant::now());
        }
        due
    }

    /// Removes the overdue containers of an engine, and the folders of runs that are long over.
    /// Anything else may be another server's.
    pub async fn reap(&mut self, cli: &Cli, scratch: &Path) {
        let format = "{{.Names}}\t{{.State}}\t{{.Labels}}";
        let filter = format!("label={RUN_LABEL}");
        let list = ["ps", "--all", "--no-trunc", "--filter", &filter, "--format", format];
        let Ok(answer) = cli.ask(&list, ANSWER).await else { return };
        if !answer.status.success() {
            return;
        }
        let text = String::from_utf8_lossy(&answer.stdout).into_owned();
        let found: Vec<Found> = text.lines().filter_map(Found::parse).collect();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        for name in self.overdue(&found, now, Instant::now()) {
            match removal::remove_once(cli, &name).await {
                Ok(()) => tracing::info!("the container {name} of an earlier server was removed"),
                Err(why) => tracing::warn!("the container {name} cannot be removed: {why}"),
            }
        }
        sweep(scratch, |name| found.iter().any(|found| found.name == name));
    }

    /// Which of them nobody can own any more. The clock that the deadline was written by may have been
    /// set since, or the machine may have slept: one that still runs is given its whole life once more,
    /// by the clock that does neither.
    fn overdue(&mut self, found: &[Found], now: u64, seen: Instant) -> Vec<String> {
        let overdue: Vec<&Found> = found.iter().filter(|found| found.deadline < now).collect();
        self.running.retain(|name, _| overdue.iter().any(|found| found.name == *name));
        let mut names = Vec::new();
        for found in overdue {
            let since = *self.running.entry(found.name.clone()).or_insert(seen);
            if !found.runs || seen.duration_since(since) >= Duration::from_secs(found.life) {
                names.push(found.name.clone());
            }
        }
        names
    }
}

impl Found {
    /// A line of the list. Labels are `a=1,b=2` with Docker and `map[a:1 b:2]` with Podman.
    fn parse(line: &str) -> Option<Found> {
        let mut fields = line.split('\t');
        let (name, state, labels) = (fields.next()?, fields.next()?, fields.next()?);
        let number = |label: &str| {
            let digits = labels
                .split([',', ' ', '[', ']'])
                .find_map(|pair| pair.strip_prefix(label)?.strip_prefix(['=', ':']));
            digits?.parse().ok()
        };
        let (deadline, life) = (number(DEADLINE_LABEL)?, number(LIFE_LABEL)?);
        let runs = matches!(state, "running" | "paused" | "restarting");
        let ours = name.starts_with("vestibule-");
        ours.then(|| Found { name: name.to_owned(), runs, deadline, life })
    }
}

/// Removes folders of scripts that are older than any run and have no container.
fn sweep(scratch: &Path, has_container: impl Fn(&str) -> bool) {
    let entries = fs::read_dir(scratch).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let age = modified.ok().and_then(|time| time.elapsed().ok()).unwrap_or_default();
        if name.starts_with("vestibule-") && age > FOLDER_AGE && !has_container(&name) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_engines_lists_are_read() {
        let docker =
            "vestibule-1-0-9\texited\tvestibule.deadline=1700,vestibule.life=75,vestibule.run=1";
        let podman = "vestibule-1-0-9\trunning\tmap[vestibule.deadline:1700 vestibule.life:75 vestibule.run:1]";
        let found = Found::parse(docker).unwrap();
        assert_eq!((found.deadline, found.life, found.runs), (1700, 75, false));
        assert!(Found::parse(podman).unwrap().runs);
        assert_eq!(Found::parse("other\texited\tvestibule.deadline=1,vestibule.life=1"), None);
        assert_eq!(Found::parse("vestibule-x\texited\ta=1"), None);
        let others = "vestibule-x\texited\ta.vestibule.deadline=1,vestibule.life=1";
        assert_eq!(Found::parse(others), None);
    }

    #[test]
    fn only_what_is_overdue_goes_and_what_still_runs_gets_its_life_once_more() {
        let found =
            |name: &str, runs, deadline| Found { name: name.into(), runs, deadline, life: 75 };
        let all = [
            found("a", false, 100),
            found("b", true, 100),
            found("c", true, 300),
            found("d", false, 300),
        ];
        let mut reaper = Reaper::default();
        let start = Instant::now();
        assert_eq!(reaper.overdue(&all, 200, start), ["a"]);
        assert_eq!(reaper.overdue(&all, 200, start + Duration::from_secs(74)), ["a"]);
        assert_eq!(reaper.overdue(&all, 200, start + Duration::from_secs(75)), ["a", "b"]);
    }
}
