//! What the server remembers of cgroups: where the next run's is made, and what a helper that died
//! may have left there.

use protocol::{CgroupSource, NoCgroup, RunCgroup, RunsName, ServerShare};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

/// How long it is believed that there is no cgroup before a helper looks again: a user manager may
/// have been started meanwhile.
const RECHECK: Duration = Duration::from_secs(30);

/// The pauses between the tries to remove a cgroup.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(1),
    Duration::from_millis(10),
    Duration::from_millis(100),
    Duration::from_secs(1),
    Duration::from_secs(5),
];

/// What earlier helpers have found out, shared by all runs.
#[derive(Debug)]
pub(super) struct Cgroups {
    known: Mutex<Option<Known>>,
    /// What all runs together may have of memory, in MiB.
    memory_mib: u64,
}

#[derive(Debug, PartialEq)]
enum Known {
    Home(PathBuf),
    Without(NoCgroup, Instant),
}

/// What one helper is told, and, as long as nothing is known, the right to find out.
pub(super) struct Turn<'a> {
    cgroups: &'a Cgroups,
    finding_out: Option<MutexGuard<'a, Option<Known>>>,
    /// Where the helper gets the run's cgroup from.
    pub source: CgroupSource,
}

impl Cgroups {
    /// Nothing is known yet.
    pub fn new(memory_mib: u64) -> Cgroups {
        Cgroups { known: Mutex::default(), memory_mib }
    }

    /// What the next helper is told. The first one finds out, and the others wait for it: it moves
    /// this process, and only one may do that.
    pub async fn turn(&self) -> Turn<'_> {
        let known = self.known.lock().await;
        let server = ServerShare { process: std::process::id(), memory_mib: self.memory_mib };
        let source = match &*known {
            Some(Known::Home(home)) => CgroupSource::Below { home: home.clone(), server },
            Some(Known::Without(reason, since)) if since.elapsed() < RECHECK => {
                CgroupSource::Without(reason.clone())
            }
            Some(Known::Without(..)) | None => CgroupSource::FindWith(server),
        };
        let finding_out = matches!(source, CgroupSource::FindWith(_)).then_some(known);
        Turn { cgroups: self, finding_out, source }
    }

    /// Where a helper may have made a cgroup: the home that is known, else the place that the first
    /// helper has moved this process to, if it died before it could tell.
    pub async fn home(&self) -> Option<PathBuf> {
        match &*self.known.lock().await {
            Some(Known::Home(home)) => Some(home.clone()),
            _ => above(&fs::read_to_string("/proc/self/cgroup").ok()?),
        }
    }
}

impl Turn<'_> {
    /// Takes over what the helper found.
    pub async fn learn(self, found: &Result<RunCgroup, NoCgroup>) {
        let now = match (&self.source, found) {
            // Told, not found out: the time of that stays.
            (CgroupSource::Without(told), Err(reason)) if told == reason => return,
            (CgroupSource::Below { home, .. }, Ok(run)) if run.home == *home => return,
            (_, Ok(run)) => Known::Home(run.home.clone()),
            (_, Err(reason)) => Known::Without(reason.clone(), Instant::now()),
        };
        let mut known = match self.finding_out {
            Some(known) => known,
            None => self.cgroups.known.lock().await,
        };
        *known = Some(now);
    }
}

/// Removes what a helper has left of its run's cgroup: `named` is what it told, `home` where it may
/// have made one without having told. Nothing on the way of a result waits for this.
pub(super) async fn clear(named: Option<PathBuf>, home: Option<PathBuf>, helper: u32) {
    let found = home.into_iter().flat_map(|home| of_helper(&home, helper));
    let mut left: Vec<PathBuf> = named.into_iter().chain(found).collect();
    left.dedup();
    for folder in left {
        remove(&folder).await;
    }
}

/// The cgroup above the one of a process, from its `/proc/PID/cgroup`, cgroups(7).
fn above(text: &str) -> Option<PathBuf> {
    let path = text.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(Path::new("/sys/fs/cgroup").join(path).parent()?.to_owned())
}

/// The cgroups that a helper has made below `home`, among the runs of this server.
fn of_helper(home: &Path, helper: u32) -> Vec<PathBuf> {
    let own = std::process::id();
    let runs = named(home, |name| RunsName::parse(name).is_some_and(|name| name.owner == own));
    let made = |name: &str| {
        RunCgroup::parse_name(name)
            .is_some_and(|name| name.supervisor == helper && name.owner == own)
    };
    runs.iter().flat_map(|runs| named(runs, made)).collect()
}

/// The folders in `folder` whose names are wanted.
fn named(folder: &Path, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let wanted = |path: &PathBuf| path.file_name().and_then(OsStr::to_str).is_some_and(&wanted);
    entries.flatten().map(|entry| entry.path()).filter(wanted).collect()
}

async fn remove(folder: &Path) {
    let mut last = None;
    for (number, pause) in PAUSES.into_iter().enumerate() {
        match try_to_remove(folder) {
            Ok(()) => return,
            Err(error) => {
                if number == 1 {
                    tracing::warn!("the cgroup {folder:?} is not removed yet: {error}");
                }
                last = Some(error);
            }
        }
        tokio::time::sleep(pause).await;
    }
    if let Some(error) = last {
        tracing::warn!("the cgroup {folder:?} stays: {error}; the next server tries again");
    }
}

fn try_to_remove(folder: &Path) -> io::Result<()> {
    // Before Linux 5.14, which brought the file, what was in it died with its init.
    let kill = fs::OpenOptions::new().write(true).open(folder.join("cgroup.kill"));
    let _ = kill.and_then(|mut kill| kill.write_all(b"1"));
    match fs::remove_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::CgroupOrigin;

    fn run(home: &str) -> Result<RunCgroup, NoCgroup> {
        let home = PathBuf::from(home);
        Ok(RunCgroup { run: home.join("r"), home, origin: CgroupOrigin::Given })
    }

    fn share() -> ServerShare {
        ServerShare { process: std::process::id(), memory_mib: 512 }
    }

    fn below(home: &str) -> CgroupSource {
        CgroupSource::Below { home: home.into(), server: share() }
    }

    #[tokio::test]
    async fn a_home_that_was_found_is_used_until_another_is_named() {
        let cgroups = Cgroups::new(512);
        let turn = cgroups.turn().await;
        assert_eq!(turn.source, CgroupSource::FindWith(share()));
        turn.learn(&run("/a")).await;
        let (one, other) = (cgroups.turn().await, cgroups.turn().await);
        assert_eq!((&one.source, &other.source), (&below("/a"), &below("/a")));
        one.learn(&run("/b")).await;
        assert_eq!(cgroups.turn().await.source, below("/b"));
        assert_eq!(cgroups.home().await, Some("/b".into()));
    }

    #[tokio::test(start_paused = true)]
    async fn one_finds_out_while_the_others_wait_and_what_failed_is_looked_at_again() {
        let cgroups = Cgroups::new(512);
        let first = cgroups.turn().await;
        let waiting = tokio::time::timeout(Duration::from_secs(1), cgroups.turn()).await;
        assert!(waiting.is_err(), "two helpers would move the server at once");
        first.learn(&Err(NoCgroup::NoUserManager)).await;
        let told = cgroups.turn().await;
        assert_eq!(told.source, CgroupSource::Without(NoCgroup::NoUserManager));
        tokio::time::advance(RECHECK / 2).await;
        told.learn(&Err(NoCgroup::NoUserManager)).await;
        tokio::time::advance(RECHECK / 2).await;
        assert_eq!(cgroups.turn().await.source, CgroupSource::FindWith(share()));
    }

    #[test]
    fn the_home_lies_above_the_leaf_of_the_server() {
        let home = above("1:name=x:/a\n0::/user.slice/a.scope/mcp-sandbox-supervisors\n");
        assert_eq!(home, Some(PathBuf::from("/sys/fs/cgroup/user.slice/a.scope")));
        assert_eq!(above("1:cpu:/a\n"), None);
    }

    #[tokio::test]
    async fn a_helper_that_never_answered_leaves_the_turn_to_the_next() {
        let cgroups = Cgroups::new(512);
        drop(cgroups.turn().await);
        let next = cgroups.turn().await;
        assert_eq!(next.source, CgroupSource::FindWith(share()));
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_helper_left_is_removed_and_nothing_else() {
        let home = std::env::temp_dir().join(format!("cgroups-{}", std::process::id()));
        let runs = home.join(RunsName { owner: std::process::id(), started: 5 }.to_name());
        let folder = |helper| runs.join(RunCgroup::name(std::process::id(), 5, helper));
        let (left, other) = (folder(70), folder(71));
        for made in [&left, &other] {
            fs::create_dir_all(made).unwrap();
        }
        clear(None, Some(home.clone()), 70).await;
        assert!(!left.exists() && other.exists());
        // A folder that something stands in cannot be removed: that is told, and ends.
        fs::write(other.join("x"), "").unwrap();
        clear(Some(other.clone()), None, 71).await;
        assert!(other.exists());
        fs::remove_dir_all(home).unwrap();
    }
}
