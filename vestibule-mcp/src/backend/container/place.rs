//! Whether a container's workspace is the one that was meant.
//!
//! Under the same kernel the folder has the same numbers inside and outside, and nothing in it needs to be
//! touched. An engine on a machine of its own, as on macOS and Windows, has to carry a file there and back.

use crate::backend::scratch;
use protocol::Sandbox;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How the names of the two files begin.
const NAME: &str = ".vestibule-probe";
/// The age at which a file of a probe is nobody's any more.
const STALE: Duration = Duration::from_secs(600);

/// What a container says of its workspace.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    boot: String,
    numbers: String,
    writable: bool,
    read: Option<String>,
    wrote: bool,
}

impl Seen {
    /// Takes a line of the probe's.
    pub fn take(&mut self, name: &str, rest: &str) {
        match name {
            "boot" => self.boot = rest.to_owned(),
            "workspace" => self.numbers = rest.to_owned(),
            "workspace-writable" => self.writable = true,
            "read" => self.read = Some(rest.to_owned()),
            "wrote" => self.wrote = true,
            _ => {}
        }
    }

    /// What is not as it must be. `None` if it takes a round trip to know.
    pub fn missing(
        &self,
        sandbox: &Sandbox,
        mounted_read_only: bool,
        token: Option<&str>,
    ) -> Option<Vec<String>> {
        let (is_ours, writable) = match (token, &self.read) {
            (Some(token), Some(read)) => (read == token, self.wrote),
            _ if is_this_kernel(&self.boot) => (
                numbers(&sandbox.workspace).is_some_and(|ours| ours == self.numbers),
                self.writable,
            ),
            _ => return None,
        };
        let mut missing = Vec::new();
        if !is_ours {
            missing.push(
                "the workspace that was mounted (is it shared with the engine's machine?)"
                    .to_owned(),
            );
        }
        if !sandbox.workspace_read_only && !writable {
            missing.push("a workspace that can be written".to_owned());
        }
        if sandbox.workspace_read_only && (self.wrote || !mounted_read_only) {
            missing.push("a workspace that refuses writes".to_owned());
        }
        Some(missing)
    }
}

/// Whether a boot id of proc(5)'s `/proc/sys/kernel/random/boot_id` is that of the kernel we run on.
#[cfg(target_os = "linux")]
fn is_this_kernel(boot: &str) -> bool {
    let ours = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    !boot.is_empty() && ours.trim() == boot
}

#[cfg(not(target_os = "linux"))]
fn is_this_kernel(_boot: &str) -> bool {
    false
}

/// The device and the inode of a folder, as `stat -c %d:%i` prints them. None of its parents may have become
/// a link since it was checked.
#[cfg(target_os = "linux")]
fn numbers(folder: &Path) -> Option<String> {
    use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2};
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let how = OpenHow::new().flags(flags).resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
    let found = nix::sys::stat::fstat(openat2(AT_FDCWD, folder, how).ok()?).ok()?;
    Some(format!("{}:{}", found.st_dev, found.st_ino))
}

#[cfg(not(target_os = "linux"))]
fn numbers(_folder: &Path) -> Option<String> {
    None
}

/// Two files in the workspace: one of ours that the probe reads, and one that it writes.
pub struct RoundTrip {
    workspace: PathBuf,
    /// The name of the first, and what it holds.
    pub token: String,
    /// The name of the second.
    pub answer: String,
}

impl RoundTrip {
    /// Makes the first, and removes what a probe has left that was killed.
    pub fn new(workspace: &Path) -> std::io::Result<RoundTrip> {
        sweep(workspace);
        let token = scratch::unique(NAME);
        let answer = format!("{token}-answer");
        std::fs::write(workspace.join(&token), format!("{token}\n"))?;
        Ok(RoundTrip { workspace: workspace.to_owned(), token, answer })
    }
}

impl Drop for RoundTrip {
    fn drop(&mut self) {
        for name in [&self.token, &self.answer] {
            // The answer is there only if the workspace is the one that was meant, and writable.
            let _ = std::fs::remove_file(self.workspace.join(name));
        }
    }
}

fn sweep(workspace: &Path) {
    for entry in std::fs::read_dir(workspace).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let age = modified.ok().and_then(|time| time.elapsed().ok()).unwrap_or_default();
        if name.to_string_lossy().starts_with(&format!("{NAME}-")) && age > STALE {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
#[path = "place_tests.rs"]
mod tests;
