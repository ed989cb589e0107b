//! The cgroup of a container: found by its id, watched until it is empty, and read then, before the engine
//! removes it.

use super::Counters;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use protocol::{LimitHit, Limits, Measured};
use std::collections::VecDeque;
use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Where cgroup v2 is mounted.
const ROOT: &str = "/sys/fs/cgroup";
/// How many folders are looked at to find where an engine puts its containers.
const FOLDERS: usize = 4096;
/// How long after a search that found nothing there is another.
const SEARCH_AGAIN: Duration = Duration::from_secs(60);
/// How often a watch looks whether it is still wanted.
const LOOK: u16 = 200;
/// How long the last reading may take once the engine has said that the run is over.
const LAST: Duration = Duration::from_millis(100);

/// Where the containers of an engine have their cgroups.
#[derive(Debug, Default)]
pub struct Cgroups {
    place: Mutex<Place>,
}

#[derive(Clone, Debug, Default)]
enum Place {
    #[default]
    Unknown,
    /// The path before and after the id.
    Known(String, String),
    /// No container's cgroup was to be seen at this time.
    Nowhere(Instant),
}

impl Cgroups {
    /// What was learnt may no longer hold.
    pub fn forget(&self) {
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = Place::default();
    }

    /// The cgroup of a running container. Where the first one lies is where all others do. That there is
    /// none is believed only if the container was `wanted` until the search had come to its end.
    fn find(&self, id: &str, unwanted: &AtomicBool) -> Option<PathBuf> {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        match &*place {
            Place::Known(before, after) => Some(PathBuf::from(format!("{before}{id}{after}"))),
            Place::Nowhere(since) if since.elapsed() < SEARCH_AGAIN => None,
            Place::Unknown | Place::Nowhere(_) => {
                let found = search(Path::new(ROOT), id);
                let text = found.as_ref().and_then(|path| path.to_str());
                *place = match text.and_then(|text| text.split_once(id)) {
                    Some((before, after)) => Place::Known(before.to_owned(), after.to_owned()),
                    None if unwanted.load(Ordering::Relaxed) => Place::Unknown,
                    None => Place::Nowhere(Instant::now()),
                };
                found
            }
        }
    }
}

/// Where engines put containers as a rule, to be looked at first: a machine may have many other cgroups.
fn usual() -> impl Iterator<Item = String> {
    let uid = nix::unistd::getuid();
    let user = format!("user.slice/user-{uid}.slice/user@{uid}.service");
    ["system.slice", "machine.slice", "docker", "libpod_parent"]
        .map(str::to_owned)
        .into_iter()
        .chain([format!("{user}/user.slice"), format!("{user}/app.slice"), user])
}

/// Looks for the folder of a container: the nearest to the root that has the id in its name. Podman's
/// monitor has one of its own.
fn search(root: &Path, id: &str) -> Option<PathBuf> {
    // Only cgroup v2 says when a cgroup is empty.
    root.join("cgroup.controllers").exists().then_some(())?;
    let mut folders: VecDeque<PathBuf> = usual().map(|folder| root.join(folder)).collect();
    folders.push_back(root.to_owned());
    for _ in 0..FOLDERS {
        // One of the usual may not be there.
        for entry in fs::read_dir(folders.pop_front()?).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.contains(id) && !name.contains("conmon") {
                return Some(entry.path());
            }
            folders.push_back(entry.path());
        }
    }
    None
}

/// Measures one run.
pub struct Meter {
    cgroups: Arc<Cgroups>,
    limits: Limits,
    cid: PathBuf,
    watch: Option<Watch>,
}

/// A thread that waits for the end of a container.
struct Watch {
    files: Arc<OnceLock<Files>>,
    unwanted: Arc<AtomicBool>,
    last: oneshot::Receiver<Counters>,
}

impl Meter {
    /// For a run whose client will write its container's id to the file `cid`.
    pub fn new(cgroups: &Arc<Cgroups>, limits: &Limits, cid: PathBuf) -> Meter {
        Meter { cgroups: cgroups.clone(), limits: *limits, cid, watch: None }
    }

    /// The container runs.
    pub fn start(&mut self) {
        let files: Arc<OnceLock<Files>> = Arc::default();
        let unwanted = Arc::new(AtomicBool::new(false));
        let (sender, last) = oneshot::channel();
        self.watch = Some(Watch { files: files.clone(), unwanted: unwanted.clone(), last });
        let (cgroups, limits, cid) = (self.cgroups.clone(), self.limits, self.cid.clone());
        let work = move || {
            let id = fs::read_to_string(cid).ok()?;
            let found = Files::open(&cgroups.find(id.trim(), &unwanted)?, limits)?;
            let files = files.get_or_init(|| found);
            let mut seen = Refusals::default();
            let counters = files.wait(&unwanted, &mut seen).then(|| files.read(seen))??;
            sender.send(counters).ok()
        };
        // Without a thread nothing is measured, and the result says so.
        let _ = std::thread::Builder::new().name("usage".to_owned()).spawn(work);
    }

    /// The counters at the end of the run, of which the engine has told. `None` if they were not readable.
    pub async fn at_the_end(mut self) -> Option<Counters> {
        let last = &mut self.watch.as_mut()?.last;
        tokio::time::timeout(LAST, last).await.ok()?.ok()
    }

    /// The counters of a run that is not over.
    pub fn now(self) -> Option<Counters> {
        self.watch.as_ref()?.files.get()?.read(Refusals::default())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.unwanted.store(true, Ordering::Relaxed);
    }
}

/// The files of a cgroup, opened while it is there.
struct Files {
    events: File,
    memory: Option<File>,
    pids: Option<File>,
    /// What it was refused, and what the one below it was: some runtimes put the processes into a cgroup
    /// below the container's, with limits on either, and the kernel counts a refusal where it came about.
    refused: Vec<Refused>,
    limits: Limits,
}

/// What limits did. The engine may remove the cgroup below at the end before it is read a last time, so that the
/// most that was ever seen counts.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Refusals {
    cpu_us: Option<u64>,
    periods: Option<u64>,
    throttled: Option<u64>,
    pids: Option<u64>,
    kills: Option<u64>,
}

impl Refusals {
    fn max(self, other: Refusals) -> Refusals {
        Refusals {
            cpu_us: self.cpu_us.max(other.cpu_us),
            periods: self.periods.max(other.periods),
            throttled: self.throttled.max(other.throttled),
            pids: self.pids.max(other.pids),
            kills: self.kills.max(other.kills),
        }
    }
}

/// The files that count what limits did.
struct Refused {
    cpu: Option<File>,
    memory: Option<File>,
    pids: Option<File>,
}

impl Files {
    fn open(folder: &Path, limits: Limits) -> Option<Files> {
        let open = |folder: &Path, name: &str| File::open(folder.join(name)).ok();
        let is_folder = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
        let below = fs::read_dir(folder).ok()?.flatten().find(is_folder).map(|entry| entry.path());
        let refused = |folder: &Path| Refused {
            cpu: open(folder, "cpu.stat"),
            memory: open(folder, "memory.events"),
            pids: open(folder, "pids.events"),
        };
        Some(Files {
            events: open(folder, "cgroup.events")?,
            memory: open(folder, "memory.peak"),
            pids: open(folder, "pids.peak"),
            refused: [Some(folder), below.as_deref()].into_iter().flatten().map(refused).collect(),
            limits,
        })
    }

    /// Waits until nothing is left in the cgroup; whether that came while it was wanted. What limits did
    /// meanwhile is added to `seen`.
    fn wait(&self, unwanted: &AtomicBool, seen: &mut Refusals) -> bool {
        while !unwanted.load(Ordering::Relaxed) {
            *seen = seen.max(self.refusals());
            match keyed(Some(&self.events), "populated") {
                Some(0) => return true,
                Some(_) => {}
                // It is gone: somebody was faster.
                None => return false,
            }
            // The kernel wakes whoever has read the file when it changes, cgroups(7).
            let mut descriptors = [PollFd::new(self.events.as_fd(), PollFlags::POLLPRI)];
            let _ = poll(&mut descriptors, PollTimeout::from(LOOK));
        }
        false
    }

    /// What limits did so far, as far as it can be read.
    fn refusals(&self) -> Refusals {
        let most = |file: fn(&Refused) -> Option<&File>, name| {
            self.refused.iter().filter_map(|refused| keyed(file(refused), name)).max()
        };
        // Each counts the periods of its own quota, and but one has any.
        let cpu = |name| most(|refused| refused.cpu.as_ref(), name);
        Refusals {
            cpu_us: cpu("usage_usec"),
            periods: cpu("nr_periods"),
            throttled: cpu("nr_throttled"),
            pids: most(|refused| refused.pids.as_ref(), "max"),
            kills: most(|refused| refused.memory.as_ref(), "oom_kill"),
        }
    }

    /// The counters, with what was `seen` before; `None` if the cgroup went while they were read.
    fn read(&self, seen: Refusals) -> Option<Counters> {
        let number = |file: &Option<File>| text(file.as_ref())?.trim().parse().ok();
        let found = seen.max(self.refusals());
        let mut limits_hit = Vec::new();
        if let (Some(throttled @ 1..), Some(periods)) = (found.throttled, found.periods) {
            limits_hit.push(LimitHit::Cpu { throttled, periods });
        }
        if found.pids.is_some_and(|refused| refused > 0) {
            limits_hit.push(LimitHit::Pids(self.limits.pids_max.get()));
        }
        let counters = Counters {
            cpu_us: measured(found.cpu_us, super::NOT_MEASURED),
            mem_peak_bytes: measured(number(&self.memory), "Linux 5.19+ needed"),
            pids_peak: measured(number(&self.pids), "Linux 6.1+ needed"),
            limits_hit,
            killed: found.kills.is_some_and(|kills| kills > 0),
        };
        keyed(Some(&self.events), "populated").map(|_| counters)
    }
}

fn measured(value: Option<u64>, why_not: &str) -> Measured<u64> {
    value.map_or_else(|| Measured::Missing(why_not.to_owned()), Measured::Value)
}

/// A file from its beginning: one that is opened once can be read as often as it changes.
fn text(file: Option<&File>) -> Option<String> {
    let mut bytes = [0; 4096];
    let length = file?.read_at(&mut bytes, 0).ok()?;
    String::from_utf8(bytes.get(..length)?.to_vec()).ok()
}

/// The value of a key in a file of `KEY VALUE` lines.
fn keyed(file: Option<&File>, key: &str) -> Option<u64> {
    let text = text(file)?;
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.parse().ok())
}

#[cfg(test)]
#[path = "cgroup_tests.rs"]
mod tests;
