//! The mounts of a container: ours, the engine's own, and any that nobody asked for.

use protocol::Sandbox;
use std::collections::BTreeMap;
use std::path::Path;

/// Files that are mounted: Podman's time zone and mark, the init programs of both, Docker's name of the host,
/// and ours. The last four are those of the sandbox, whatever an engine would put there.
const FILES: [&str; 9] = [
    "/etc/localtime",
    "/run/.containerenv",
    "/sbin/docker-init",
    "/run/podman-init",
    "/etc/hostname",
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/passwd",
    "/etc/group",
];
/// Folders below which the kernel shows itself, and the kinds of file systems that it does it with. Engines
/// mount more of them there, and cover parts with a tmpfs or a device.
const KERNELS: [(&str, &[&str]); 3] = [
    ("/proc", &["proc", "tmpfs", "devtmpfs"]),
    (
        "/sys",
        &[
            "sysfs",
            "tmpfs",
            "devtmpfs",
            "cgroup",
            "cgroup2",
            "securityfs",
            "selinuxfs",
            "debugfs",
            "tracefs",
            "pstore",
            "efivarfs",
            "bpf",
            "configfs",
            "fusectl",
        ],
    ),
    ("/dev", &["tmpfs", "devtmpfs", "devpts", "mqueue"]),
];
/// Ours in memory, each with a size.
const CAPPED: [&str; 4] = ["/tmp", "/run", "/var/tmp", "/dev/shm"];
/// Where distributions may have Podman mount what their subscriptions need.
const SECRETS: &str = "/run/secrets";

/// The mounts, by place.
#[derive(Clone, Debug, Default)]
pub struct Mounts {
    all: BTreeMap<String, Mount>,
    writable: Vec<String>,
}

#[derive(Clone, Debug)]
struct Mount {
    options: String,
    kind: String,
    settings: String,
}

impl Mount {
    fn is_read_only(&self) -> bool {
        self.options.split(',').any(|option| option == "ro")
    }

    fn is_capped(&self) -> bool {
        self.kind == "tmpfs" && self.settings.split(',').any(|part| part.starts_with("size="))
    }
}

impl Mounts {
    /// Takes `PLACE OPTIONS KIND`, and of a tmpfs its source and settings.
    pub fn add(&mut self, line: &str) {
        let mut words = line.split(' ').map(str::to_owned);
        let mut word = || words.next().unwrap_or_default();
        let (place, options, kind, _, settings) = (word(), word(), word(), word(), word());
        // A later mount on the same place covers the earlier one.
        self.all.insert(place, Mount { options, kind, settings });
    }

    /// Takes a place that could be written.
    pub fn writable(&mut self, place: &str) {
        self.writable.push(place.to_owned());
    }

    /// Whether the workspace is mounted read-only.
    pub fn workspace_is_read_only(&self) -> bool {
        self.all.get("/workspace").is_some_and(Mount::is_read_only)
    }

    /// What must hold of them and does not, in words.
    pub fn missing(&self, sandbox: &Sandbox) -> Vec<String> {
        let mut missing = Vec::new();
        for place in CAPPED {
            if !self.all.get(place).is_some_and(Mount::is_capped) {
                missing.push(format!("a cap on {place}"));
            }
        }
        let ours = below(&sandbox.workspace);
        for (place, mount) in &self.all {
            if let Some(inner) = place.strip_prefix("/workspace/") {
                if sandbox.workspace_read_only && !mount.is_read_only() {
                    missing.push(format!(
                        "a read-only {place} (a file system that is mounted in the workspace; unmount \
                         it, or update the engine)"
                    ));
                } else if !ours.iter().any(|ours| ours == inner) {
                    missing.push(unasked(place));
                }
            } else if !is_expected(place, mount) {
                missing.push(unasked(place));
            }
        }
        for place in &self.writable {
            let in_memory =
                |mount: &Mount| matches!(mount.kind.as_str(), "tmpfs" | "mqueue" | "devpts");
            let expected = self.all.get(place).filter(|mount| is_expected(place, mount));
            if !expected.is_some_and(in_memory) {
                missing.push(format!("a cap on {place}"));
            }
        }
        missing
    }
}

fn is_expected(place: &str, mount: &Mount) -> bool {
    let is_in = |folder: &str| {
        place.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    match place {
        "/" | "/workspace" => true,
        "/sandbox" => mount.is_read_only(),
        // Ours, in the place of what a distribution may have Podman put there.
        SECRETS => mount.kind == "tmpfs" && mount.is_read_only(),
        _ if CAPPED.contains(&place) => true,
        _ if FILES.contains(&place) => mount.is_read_only(),
        _ => KERNELS
            .iter()
            .any(|(folder, kinds)| is_in(folder) && kinds.contains(&mount.kind.as_str())),
    }
}

fn unasked(place: &str) -> String {
    format!(
        "its own mounts alone (there is {place}: does the image declare a volume, or a setting of the engine's?)"
    )
}

/// What is mounted below a folder, relative to it and written as mountinfo writes it, proc(5).
#[cfg(target_os = "linux")]
fn below(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let folder = escaped(&folder.to_string_lossy());
    let places = text.lines().filter_map(|line| line.split(' ').nth(4));
    let inner = |place: &str| Some(place.strip_prefix(&folder)?.strip_prefix('/')?.to_owned());
    places.filter_map(inner).collect()
}

#[cfg(not(target_os = "linux"))]
fn below(_folder: &Path) -> Vec<String> {
    Vec::new()
}

#[cfg(target_os = "linux")]
fn escaped(path: &str) -> String {
    let characters = [("\\", "\\134"), (" ", "\\040"), ("\t", "\\011"), ("\n", "\\012")];
    characters.iter().fold(path.to_owned(), |path, (from, to)| path.replace(from, to))
}

#[cfg(test)]
#[path = "mounts_tests.rs"]
mod tests;
