//! The container that a run gets: one table, from which the arguments are made and documented.

use super::engine::{Facts, Kind};
use protocol::Limit;
use std::collections::HashMap;

/// The label that every container of a run has.
pub const RUN_LABEL: &str = "vestibule.run=1";
/// The label with the second since 1970 at which the container has certainly ended by itself.
pub const DEADLINE_LABEL: &str = "vestibule.deadline";
/// The label with the seconds that the container may take until then.
pub const LIFE_LABEL: &str = "vestibule.life";

/// Which engines get an option.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Only {
    /// All of them.
    All,
    /// Docker.
    Docker,
    /// Podman.
    Podman,
    /// Podman as an ordinary user.
    RootlessPodman,
    /// All, where the workspace is read-only.
    ReadOnlyWorkspace,
    /// All, where the workspace can be written.
    WritableWorkspace,
    /// All but a rootless Podman whose user was not delegated the controller: asking would fail.
    Delegated(Limit),
}

/// One option of `docker run` and `podman run`.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Its name.
    pub option: &'static str,
    /// Its value, with `{names}` in the place of what differs from run to run; empty for a switch.
    pub value: &'static str,
    /// Which engines get it.
    pub only: Only,
    /// What it is for.
    pub why: &'static str,
}

const fn flag(option: &'static str, value: &'static str, why: &'static str) -> Flag {
    Flag { option, value, only: Only::All, why }
}

const fn only(only: Only, option: &'static str, value: &'static str, why: &'static str) -> Flag {
    Flag { option, value, only, why }
}

const PROXY: &str = "the client would pass a proxy of its own settings on, and with it a password";

const ETC: &str =
    "that of the native sandbox: the engine's has names of this machine and its people";

/// The table, in the order of the arguments.
pub const FLAGS: &[Flag] = &[
    flag("--name", "{name}", "a name of the run's own, by which it is removed"),
    flag("--cidfile", "{cid}", "its id, by which its cgroup is found and its usage read"),
    flag("--label", "vestibule.run=1", "tells a run's container from all others"),
    flag("--label", "vestibule.deadline={deadline}", "when whoever finds it may remove it"),
    flag("--label", "vestibule.life={life}", "how long that was from its start"),
    flag("--pull", "never", "a run opens no connection"),
    flag("--log-driver", "none", "what code prints goes to the caller and to no log of the engine"),
    flag("--network", "none", "no network but loopback"),
    flag("--cap-drop", "ALL", "no capability"),
    flag("--security-opt", "no-new-privileges", "no program can bring a privilege"),
    flag("--security-opt", "seccomp={seccomp}", "the syscall policy of the native sandbox"),
    flag("--read-only", "", "a read-only root"),
    flag(
        "--user",
        "{user}",
        "an ordinary user: yours, under rootless Docker the one that stands for you",
    ),
    only(
        Only::RootlessPodman,
        "--userns",
        "keep-id",
        "your own uid inside, so that the workspace is yours",
    ),
    only(Only::Delegated(Limit::Memory), "--memory", "{memory}m", "the cap on memory"),
    only(
        Only::Delegated(Limit::Memory),
        "--memory-swap",
        "{memory}m",
        "memory and swap together: no swap on top",
    ),
    only(Only::Delegated(Limit::Cpu), "--cpus", "{cpus}", "the cap on CPU time"),
    only(
        Only::Delegated(Limit::Pids),
        "--pids-limit",
        "{pids}",
        "the cap on processes and threads",
    ),
    only(
        Only::Docker,
        "--tmpfs",
        "/tmp:rw,exec,nosuid,nodev,mode=1777,size={tmp}m,nr_inodes={inodes}",
        "a capped /tmp",
    ),
    only(
        Only::Podman,
        "--tmpfs",
        "/tmp:rw,exec,nosuid,nodev,mode=1777,size={tmp}m",
        "a capped /tmp; Podman knows no cap on inodes",
    ),
    flag(
        "--tmpfs",
        "/run:rw,noexec,nosuid,nodev,mode=1777,size=1m",
        "capped: Podman leaves it writable under a read-only root",
    ),
    flag("--tmpfs", "/var/tmp:rw,noexec,nosuid,nodev,mode=1777,size=1m", "likewise"),
    only(
        Only::Podman,
        "--tmpfs",
        "/run/secrets:ro,noexec,nosuid,nodev,size=4k",
        "an empty one: distributions have Podman put the machine's subscriptions there",
    ),
    flag("--shm-size", "64m", "the cap on /dev/shm"),
    only(
        Only::Podman,
        "--image-volume",
        "ignore",
        "an image's volumes would be writable and have no size",
    ),
    flag("--init", "", "an init that reaps"),
    flag("--stop-timeout", "0", "whoever ends it does not wait"),
    flag("--no-healthcheck", "", "nothing of the image's runs beside the code"),
    flag("--hostname", "vestibule", "not the name of this machine"),
    only(
        Only::ReadOnlyWorkspace,
        "--mount",
        "type=bind,src={workspace},dst=/workspace,readonly{relabel}",
        "the one doorway; under SELinux Podman gives it its label",
    ),
    only(
        Only::WritableWorkspace,
        "--mount",
        "type=bind,src={workspace},dst=/workspace{relabel}",
        "the one doorway; under SELinux Podman gives it its label",
    ),
    flag("--mount", "type=bind,src={sandbox},dst=/sandbox,readonly{relabel}", "the script"),
    flag("--mount", "type=bind,src={etc}/passwd,dst=/etc/passwd,readonly{relabel}", ETC),
    flag("--mount", "type=bind,src={etc}/group,dst=/etc/group,readonly{relabel}", ETC),
    flag("--mount", "type=bind,src={etc}/hosts,dst=/etc/hosts,readonly{relabel}", ETC),
    flag("--mount", "type=bind,src={etc}/resolv.conf,dst=/etc/resolv.conf,readonly{relabel}", ETC),
    flag(
        "--workdir",
        "/",
        "no program is looked for where code could put one; code starts in /workspace",
    ),
    only(Only::Podman, "--http-proxy=false", "", PROXY),
    only(Only::Docker, "--env", "HTTP_PROXY=", PROXY),
    only(Only::Docker, "--env", "HTTPS_PROXY=", PROXY),
    only(Only::Docker, "--env", "FTP_PROXY=", PROXY),
    only(Only::Docker, "--env", "NO_PROXY=", PROXY),
    only(Only::Docker, "--env", "ALL_PROXY=", PROXY),
    only(Only::Docker, "--env", "http_proxy=", PROXY),
    only(Only::Docker, "--env", "https_proxy=", PROXY),
    only(Only::Docker, "--env", "ftp_proxy=", PROXY),
    only(Only::Docker, "--env", "no_proxy=", PROXY),
    only(Only::Docker, "--env", "all_proxy=", PROXY),
    flag("--entrypoint", "bash", "our own first program, whatever the image's"),
];

/// What the `{names}` of the table stand for in one run.
pub type Values = HashMap<&'static str, String>;

/// Every name that the table uses.
pub const NAMES: [&str; 15] = [
    "name",
    "deadline",
    "life",
    "seccomp",
    "user",
    "memory",
    "cpus",
    "pids",
    "tmp",
    "inodes",
    "workspace",
    "sandbox",
    "relabel",
    "cid",
    "etc",
];

impl Only {
    /// In words, for the documentation.
    pub const fn text(self) -> &'static str {
        match self {
            Only::All => "all",
            Only::Docker => "Docker",
            Only::Podman => "Podman",
            Only::RootlessPodman => "rootless Podman",
            Only::ReadOnlyWorkspace => "all, with `VESTIBULE_WORKSPACE_RO`",
            Only::WritableWorkspace => "all, without `VESTIBULE_WORKSPACE_RO`",
            Only::Delegated(_) => "all, but Podman without the cgroup controller",
        }
    }

    fn holds(self, facts: &Facts, read_only: bool) -> bool {
        match self {
            Only::All => true,
            Only::Docker => facts.kind == Kind::Docker,
            Only::Podman => facts.kind == Kind::Podman,
            Only::RootlessPodman => facts.kind == Kind::Podman && facts.rootless,
            Only::ReadOnlyWorkspace => read_only,
            Only::WritableWorkspace => !read_only,
            Only::Delegated(limit) => !facts.undelegated.contains(&limit),
        }
    }
}

/// The names of the variables that are set to nothing.
pub fn proxies() -> impl Iterator<Item = &'static str> {
    let names = FLAGS.iter().filter(|flag| flag.option == "--env");
    names.filter_map(|flag| flag.value.strip_suffix('='))
}

/// The arguments of `run` up to the image.
pub fn arguments(facts: &Facts, read_only: bool, values: &Values) -> Vec<String> {
    let mut arguments = Vec::new();
    for flag in FLAGS.iter().filter(|flag| flag.only.holds(facts, read_only)) {
        arguments.push(flag.option.to_owned());
        if !flag.value.is_empty() {
            arguments.push(fill(flag.value, values));
        }
    }
    arguments
}

/// Puts values in the place of `{names}`, once: a value that holds braces stays as it is.
fn fill(template: &str, values: &Values) -> String {
    let mut filled = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        filled.push_str(before);
        filled.push_str(values.get(name).map_or("", String::as_str));
        rest = after;
    }
    filled + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> Values {
        NAMES.into_iter().map(|name| (name, format!("<{name}>"))).collect()
    }

    fn line(kind: Kind, rootless: bool, read_only: bool) -> String {
        let values = values().into_iter().filter(|(name, _)| *name != "relabel").collect();
        arguments(&Facts { kind, rootless, ..Facts::default() }, read_only, &values).join(" ")
    }

    #[test]
    fn every_name_in_the_table_has_a_value() {
        for flag in FLAGS {
            let filled = fill(flag.value, &values());
            let named = flag.value.matches('{').count();
            assert_eq!(filled.matches('<').count(), named, "{}", flag.value);
        }
    }

    #[test]
    fn a_value_is_not_read_for_names_again() {
        let values = Values::from([("workspace", "/w/{memory}".to_owned())]);
        assert_eq!(fill("src={workspace},x", &values), "src=/w/{memory},x");
    }

    #[test]
    fn no_engine_is_ever_given_less_than_the_whole_profile() {
        for (kind, rootless) in [
            (Kind::Docker, false),
            (Kind::Docker, true),
            (Kind::Podman, false),
            (Kind::Podman, true),
        ] {
            let line = line(kind, rootless, false);
            for part in [
                "--network none",
                "--cap-drop ALL",
                "--security-opt no-new-privileges",
                "--security-opt seccomp=<seccomp>",
                "--read-only",
                "--user <user>",
                "--memory <memory>m --memory-swap <memory>m",
                "--cpus <cpus>",
                "--pids-limit <pids>",
                "--tmpfs /tmp:",
                "--tmpfs /run:",
                "--tmpfs /var/tmp:",
                "--shm-size 64m",
                "--init",
                "--pull never",
                "--log-driver none",
                "dst=/sandbox,readonly",
            ] {
                assert!(line.contains(part), "{kind:?}: {part} is missing in {line}");
            }
            assert!(!line.contains(" -v ") && !line.contains("--rm"), "{line}");
            assert_eq!(line.contains("--userns keep-id"), kind == Kind::Podman && rootless);
        }
    }

    #[test]
    fn a_limit_without_a_controller_is_not_asked_for() {
        let facts = Facts { kind: Kind::Podman, undelegated: vec![Limit::Cpu], ..Facts::default() };
        let line = arguments(&facts, false, &values()).join(" ");
        assert!(!line.contains("--cpus") && line.contains("--memory <memory>m"), "{line}");
    }

    #[test]
    fn a_read_only_workspace_is_mounted_so() {
        assert!(
            line(Kind::Docker, false, true).contains("src=<workspace>,dst=/workspace,readonly")
        );
        assert!(line(Kind::Docker, false, false).contains("src=<workspace>,dst=/workspace "));
    }
}
