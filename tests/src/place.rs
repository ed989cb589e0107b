//! A place for one test: a user, a home folder, a workspace, and a look at what is left of them.

use crate::processes::{self, Process};
use crate::programs::programs;
use crate::server::ServerBuilder;
use crate::tally::Tally;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Where programs leave temporary files.
const TEMPORARY: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];
/// How long a process that was told to end may take to be gone.
const PATIENCE: Duration = Duration::from_secs(2);

/// A fresh home and workspace for one test, and the user they belong to.
#[derive(Debug)]
pub struct Place {
    base: PathBuf,
    user: Option<u32>,
    tally: Tally,
}

impl Default for Place {
    fn default() -> Place {
        Place::new()
    }
}

impl Place {
    /// Makes the folders; under root, for a uid that nothing else has.
    pub fn new() -> Place {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let base = std::env::temp_dir().join(format!("vtest-{}-{number}", std::process::id()));
        fs::create_dir(&base).expect("the temporary folder takes a folder");
        fs::set_permissions(&base, fs::Permissions::from_mode(0o755)).expect("the folder is ours");
        let user = nix::unistd::geteuid().is_root().then(|| unused_uid(number));
        let place = Place { base, user, tally: Tally::default() };
        place.folder("home");
        place
    }

    /// The uid that the server runs as.
    pub fn uid(&self) -> u32 {
        self.user.unwrap_or_else(|| nix::unistd::geteuid().as_raw())
    }

    /// The folder that holds everything of this test.
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// The calls of its servers.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    /// The home folder.
    pub fn home(&self) -> PathBuf {
        self.base.join("home")
    }

    /// The workspace that a server uses when no setting names another.
    pub fn workspace(&self) -> PathBuf {
        self.home().join(".vestibule/workspace")
    }

    /// Makes a folder of the user's, mode 0700.
    pub fn folder(&self, name: &str) -> PathBuf {
        let path = self.base.join(name);
        fs::create_dir(&path).expect("the test's folder takes a folder");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).expect("the folder is ours");
        self.give(&path);
        path
    }

    /// Writes a file of the user's.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.base.join(name);
        fs::write(&path, content).expect("the test's folder takes a file");
        self.give(&path);
        path
    }

    /// Makes the user the owner.
    pub fn give(&self, path: &Path) {
        if let Some(uid) = self.user {
            chown(path, Some(uid), Some(uid)).expect("root may chown");
        }
    }

    /// A command as the place's user, with the six variables that an MCP client is sure to pass on.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().current_dir(self.home());
        command.env("HOME", self.home()).env("PATH", "/usr/local/bin:/usr/bin:/bin");
        command.env("LOGNAME", "tester").env("USER", "tester");
        command.env("SHELL", "/bin/bash").env("TERM", "dumb");
        if let Some(uid) = self.user {
            command.gid(uid).uid(uid);
        }
        command
    }

    /// A server that is still to be started.
    pub fn server(&self) -> ServerBuilder<'_> {
        ServerBuilder::new(self, vec![programs().server().into_os_string()])
    }

    /// A program that starts the jail below a syscall filter: see `constrain` for the rules.
    pub fn constrained_jail(&self, rules: &[&str]) -> PathBuf {
        let (constrain, jail) = (programs().constrain(), programs().jail());
        let rules: Vec<String> = rules.iter().map(|rule| format!("'{rule}'")).collect();
        let line = format!(
            "exec {} {} -- {} \"$@\"",
            constrain.display(),
            rules.join(" "),
            jail.display()
        );
        self.program("constrained-jail", format!("#!/bin/sh\n{line}\n"))
    }

    /// A script that everyone may execute.
    pub fn program(&self, name: &str, script: String) -> PathBuf {
        let path = self.file(name, script);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("the file is ours");
        path
    }

    /// The living processes of this place. Root's tests own their uid; an ordinary tester's are
    /// told from the rest of the desktop by their name or by a PID namespace of their own.
    pub fn processes(&self) -> Vec<Process> {
        let uid = self.uid();
        let own_depth = Process::read(std::process::id().cast_signed()).map_or(0, |own| own.depth);
        let ours = |process: &Process| {
            self.user.is_some()
                || process.depth > own_depth
                || process.name.starts_with("vestibule-")
        };
        let of_user = processes::all().into_iter().filter(|process| process.uid == uid);
        of_user.filter(|process| ours(process)).collect()
    }

    /// What is left of this place's runs outside its own folders: processes, mounts, files.
    pub fn leftovers(&self) -> Vec<String> {
        let mut found: Vec<String> =
            self.processes().iter().map(|p| format!("process {} ({})", p.pid, p.name)).collect();
        found.extend(processes::mounts_naming(&self.base).iter().map(|m| format!("mount {m}")));
        found.extend(self.temporary_files().iter().map(|path| format!("file {}", path.display())));
        found
    }

    /// Asserts that nothing is left, as soon as it is so but within two seconds.
    #[track_caller]
    pub fn assert_nothing_left(&self) {
        self.assert_nothing_left_after(PATIENCE);
    }

    /// Asserts that nothing is left, as soon as it is so but within that time.
    #[track_caller]
    pub fn assert_nothing_left_after(&self, patience: Duration) {
        let end = Instant::now() + patience;
        loop {
            let left = self.leftovers();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < end, "left behind after {patience:?}: {left:#?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn temporary_files(&self) -> Vec<PathBuf> {
        let entries = TEMPORARY.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
        let ours = entries.flatten().filter(|entry| {
            let of_user = entry.metadata().is_ok_and(|meta| meta.uid() == self.uid());
            let name = entry.file_name().to_string_lossy().contains("vestibule");
            of_user && (self.user.is_some() || name) && entry.path() != self.base
        });
        let path = |entry: fs::DirEntry| entry.path();
        let staged = |path: &PathBuf| path.display().to_string().contains("vestibule-stage");
        ours.map(path).filter(|path| !staged(path)).collect()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.user.is_some() {
            // The uid is this test's alone: end what a broken program left running.
            for process in self.processes() {
                let pid = nix::unistd::Pid::from_raw(process.pid);
                let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
            }
        }
        let tally = self.tally.check(&self.home());
        let _ = fs::remove_dir_all(&self.base);
        if !std::thread::panicking() {
            assert_eq!(tally, Ok(()), "the audit log does not have every call");
        }
    }
}

/// A uid above those of people and services, without an account and without a process.
fn unused_uid(number: u32) -> u32 {
    let used: Vec<u32> = processes::all().iter().map(|process| process.uid).collect();
    let accounts = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let first = std::process::id().wrapping_mul(64).wrapping_add(number);
    let candidates = (0..40_000).map(|step| 20_000 + first.wrapping_add(step) % 40_000);
    let free = |uid: &u32| !used.contains(uid) && !accounts.contains(&format!(":{uid}:"));
    candidates.into_iter().find(free).expect("one of 40,000 uids is unused")
}
