//! The machine, as far as it can matter to a report. Whatever is read here is text of others'.

use crate::escape::for_display;
use crate::redact::{self, ADDRESSES};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::path::PathBuf;

/// How much of a file is read, in bytes.
const READ: u64 = 16 * 1024;
/// How many characters of a fact are shown.
const SHOWN: usize = 120;
/// Switches and limits that decide on user namespaces, where a kernel has them.
const SYSCTLS: [&str; 5] = [
    "kernel.unprivileged_userns_clone",
    "kernel.apparmor_restrict_unprivileged_userns",
    "user.max_user_namespaces",
    "user.max_net_namespaces",
    "kernel.yama.ptrace_scope",
];
/// Variables whose value may be a secret, or names the user, and does not matter.
const WHETHER_SET: [&str; 3] = ["XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "HTTPS_PROXY"];

/// What is said of a variable that has no value.
pub const UNSET: &str = "unset";

/// What kind of machine it is.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Machine {
    /// The operating system's own name for itself.
    pub system: String,
    /// The kernel and its release.
    pub kernel: Option<String>,
    /// The kind of its processor, by the kernel's name for it.
    pub architecture: String,
    /// What it seems to run in: WSL, a container, a virtual machine, an emulator.
    pub surroundings: Vec<String>,
    /// The name of process 1, which is `systemd` where that runs the machine.
    pub init: Option<String>,
    /// Which hierarchies of control groups there are.
    pub cgroups: Option<String>,
    /// Whether `/run/user/UID` is there, which stands in for an unset XDG_RUNTIME_DIR.
    pub runtime_folder: bool,
    /// The kernel's security modules.
    pub security_modules: Option<String>,
    /// The switches and limits that this kernel has of [`SYSCTLS`].
    pub sysctls: BTreeMap<String, String>,
}

/// Looks at this machine.
pub fn look() -> Machine {
    let (kernel, architecture) = uname();
    Root(PathBuf::from("/")).machine(kernel, architecture)
}

/// The variables that matter: whether they are set, or their value without secrets.
pub fn environment(variable: impl Fn(&str) -> Option<OsString>) -> BTreeMap<String, String> {
    let value = |name: &str| {
        let value = variable(name).or_else(|| variable(&name.to_lowercase()))?;
        Some(value.to_string_lossy().trim().to_owned()).filter(|value| !value.is_empty())
    };
    let unset = || UNSET.to_owned();
    let whether = WHETHER_SET
        .iter()
        .map(|name| (name.to_string(), value(name).map_or_else(unset, |_| "set".to_owned())));
    let addresses = ADDRESSES.iter().map(|name| {
        let shown = |value: String| for_display(&redact::bare_value(&value), SHOWN);
        (name.to_string(), value(name).map_or_else(unset, shown))
    });
    whether.chain(addresses).collect()
}

#[cfg(unix)]
fn uname() -> (Option<String>, String) {
    match nix::sys::utsname::uname() {
        Ok(name) => {
            let text = |part: &std::ffi::OsStr| part.to_string_lossy().into_owned();
            let kernel = format!("{} {}", text(name.sysname()), text(name.release()));
            (Some(kernel), text(name.machine()))
        }
        Err(_) => (None, std::env::consts::ARCH.to_owned()),
    }
}

#[cfg(not(unix))]
fn uname() -> (Option<String>, String) {
    (None, std::env::consts::ARCH.to_owned())
}

/// The folder that the machine's files lie below.
struct Root(PathBuf);

impl Root {
    fn machine(&self, kernel: Option<String>, architecture: String) -> Machine {
        let sysctls = SYSCTLS.iter().filter_map(|name| {
            let value = self.line(&format!("proc/sys/{}", name.replace('.', "/")))?;
            Some((name.to_string(), value))
        });
        Machine {
            system: self.system().unwrap_or_else(|| std::env::consts::OS.to_owned()),
            surroundings: self.surroundings(kernel.as_deref().unwrap_or_default()),
            kernel: kernel.map(|kernel| for_display(&kernel, SHOWN)),
            architecture: for_display(&architecture, SHOWN),
            init: self.line("proc/1/comm"),
            cgroups: self.cgroups(),
            runtime_folder: self.runtime_folder(),
            security_modules: self.line("sys/kernel/security/lsm"),
            sysctls: sysctls.collect(),
        }
    }

    /// The beginning of a file. Of an ordinary one: a pipe in its place would be waited for.
    fn read(&self, path: &str) -> Option<String> {
        let path = self.0.join(path);
        if !fs::metadata(&path).ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        File::open(path).ok()?.take(READ).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn line(&self, path: &str) -> Option<String> {
        let text = self.read(path)?;
        let line = text.lines().next().unwrap_or_default().trim();
        (!line.is_empty()).then(|| for_display(line, SHOWN))
    }

    fn has(&self, path: &str) -> bool {
        self.0.join(path).exists()
    }

    fn system(&self) -> Option<String> {
        let text = self.read("etc/os-release").or_else(|| self.read("usr/lib/os-release"))?;
        let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
        let name = name.trim().trim_matches(['"', '\'']);
        (!name.is_empty()).then(|| for_display(name, SHOWN))
    }

    fn surroundings(&self, kernel: &str) -> Vec<String> {
        let mut found = Vec::new();
        let kernel = kernel.to_lowercase();
        if kernel.contains("microsoft") {
            found.push(if kernel.contains("wsl2") { "WSL 2" } else { "WSL" }.to_owned());
        }
        if let Some(container) = self.container() {
            found.push(format!("container ({container})"));
        }
        let processor = self.read("proc/cpuinfo").unwrap_or_default();
        let vendor = self.line("sys/class/dmi/id/sys_vendor").unwrap_or_default();
        if vendor == "QEMU" || processor.split_whitespace().any(|word| word == "hypervisor") {
            let vendor = if vendor.is_empty() { "of unknown make" } else { &vendor };
            found.push(format!("virtual machine ({vendor})"));
        }
        found.extend(emulator(&processor).map(|what| format!("emulated processor ({what})")));
        found
    }

    fn container(&self) -> Option<String> {
        if let Some(manager) = self.line("run/systemd/container") {
            return Some(manager);
        }
        for (file, engine) in [(".dockerenv", "Docker"), ("run/.containerenv", "Podman")] {
            if self.has(file) {
                return Some(engine.to_owned());
            }
        }
        // Neither installers nor live systems aside, nobody boots from an overlay.
        let mounts = self.read("proc/self/mountinfo")?;
        let overlay = mounts
            .lines()
            .any(|line| line.split(' ').nth(4) == Some("/") && line.contains(" - overlay "));
        overlay.then(|| "perhaps: its root is an overlay".to_owned())
    }

    fn cgroups(&self) -> Option<String> {
        let version = if self.has("sys/fs/cgroup/cgroup.controllers") {
            "v2"
        } else if self.has("sys/fs/cgroup/unified/cgroup.controllers") {
            "v1 and v2"
        } else if self.has("sys/fs/cgroup/memory") || self.has("sys/fs/cgroup/pids") {
            "v1"
        } else if self.has("proc/self") {
            "none"
        } else {
            return None;
        };
        Some(version.to_owned())
    }

    #[cfg(unix)]
    fn runtime_folder(&self) -> bool {
        self.has(&format!("run/user/{}", nix::unistd::getuid()))
    }

    #[cfg(not(unix))]
    fn runtime_folder(&self) -> bool {
        false
    }
}

/// Who emulates this processor, if its description gives that away. A translator of single programs shows
/// them the description of the machine below, which is of another kind.
fn emulator(processor: &str) -> Option<&'static str> {
    let own = match std::env::consts::ARCH {
        "x86_64" => "vendor_id",
        "aarch64" => "CPU implementer",
        _ => "",
    };
    if processor.contains("QEMU TCG") || processor.contains("QEMU Virtual CPU") {
        Some("QEMU")
    } else if processor.contains("VirtualApple") {
        Some("Rosetta")
    } else if !processor.is_empty() && !processor.contains(own) {
        Some("by a translator of single programs")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine of these files.
    fn machine(name: &str, kernel: &str, files: &[(&str, &str)]) -> Machine {
        let name = format!("doctor-machine-{name}-{}", std::process::id());
        let root = std::env::temp_dir().join(name);
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let machine = Root(root.clone()).machine(Some(kernel.to_owned()), "x86_64".to_owned());
        let _ = fs::remove_dir_all(root);
        machine
    }

    #[test]
    fn nothing_that_can_be_read_is_no_crash() {
        let machine = machine("bare", "Linux 6.1", &[]);
        let expected = Machine {
            system: std::env::consts::OS.to_owned(),
            kernel: Some("Linux 6.1".to_owned()),
            architecture: "x86_64".to_owned(),
            ..Machine::default()
        };
        assert_eq!(machine, expected);
    }

    #[test]
    fn what_a_machine_says_of_itself_is_read_and_cannot_drive_a_terminal() {
        let own =
            if cfg!(target_arch = "x86_64") { "vendor_id : x" } else { "CPU implementer : x" };
        let machine = machine(
            "hostile",
            "Linux 5.15-microsoft-standard-WSL2",
            &[
                ("etc/os-release", "NAME=x\nPRETTY_NAME=\"Evil \u{1b}[31mOS\"\n"),
                ("proc/1/comm", "systemd\n"),
                (
                    "proc/cpuinfo",
                    &format!("{own}\nmodel name : QEMU TCG CPU\nflags : hypervisor\n"),
                ),
                ("proc/sys/user/max_user_namespaces", "0\n"),
                ("sys/fs/cgroup/cgroup.controllers", "cpu\n"),
                ("sys/kernel/security/lsm", "yama,apparmor"),
                (".dockerenv", ""),
            ],
        );
        assert_eq!(machine.system, "Evil \\u{1b}[31mOS");
        assert_eq!(machine.init.as_deref(), Some("systemd"));
        assert_eq!(machine.cgroups.as_deref(), Some("v2"));
        assert_eq!(machine.security_modules.as_deref(), Some("yama,apparmor"));
        assert_eq!(machine.sysctls["user.max_user_namespaces"], "0");
        let surroundings = [
            "WSL 2",
            "container (Docker)",
            "virtual machine (of unknown make)",
            "emulated processor (QEMU)",
        ];
        assert_eq!(machine.surroundings, surroundings);
    }

    #[test]
    fn each_hierarchy_of_cgroups_and_each_container_is_told_apart() {
        let cgroups = |file: &str| machine("cgroup", "Linux", &[(file, "")]).cgroups;
        assert_eq!(cgroups("sys/fs/cgroup/memory/x").as_deref(), Some("v1"));
        assert_eq!(
            cgroups("sys/fs/cgroup/unified/cgroup.controllers").as_deref(),
            Some("v1 and v2")
        );
        assert_eq!(cgroups("proc/self/x").as_deref(), Some("none"));
        let around =
            |file: &str, text: &str| machine("around", "Linux", &[(file, text)]).surroundings;
        assert_eq!(around("run/systemd/container", "lxc\n"), ["container (lxc)"]);
        let overlay = "1 2 0:30 / / rw - overlay overlay rw\n";
        assert_eq!(around("proc/self/mountinfo", overlay).len(), 1);
        let merged = "1 2 0:30 / /var/lib rw - overlay overlay rw\n";
        assert_eq!(around("proc/self/mountinfo", merged), [""; 0]);
        assert_eq!(around("proc/cpuinfo", "vendor_id CPU implementer"), [""; 0]);
        assert_eq!(around("proc/cpuinfo", "of another kind").len(), 1);
    }

    #[test]
    fn of_the_environment_no_secret_is_shown() {
        let found = environment(|name| {
            let value = match name {
                "https_proxy" => "http://ada:hunter2@proxy:3128",
                "DOCKER_HOST" => "ssh://hunter2@build.example",
                "CONTAINER_HOST" => " ",
                "DBUS_SESSION_BUS_ADDRESS" => "unix:path=/hunter2",
                _ => return None,
            };
            Some(value.into())
        });
        let expected = [
            ("CONTAINER_HOST", "unset"),
            ("DBUS_SESSION_BUS_ADDRESS", "set"),
            ("DOCKER_HOST", "ssh://…@build.example"),
            ("HTTPS_PROXY", "set"),
            ("XDG_RUNTIME_DIR", "unset"),
        ];
        assert!(
            found.iter().map(|(name, value)| (name.as_str(), value.as_str())).eq(expected),
            "{found:?}"
        );
    }
}
