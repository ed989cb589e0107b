//! Where the cgroup of a run comes from, and why there may be none.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;

/// Where the jail gets a run's cgroup from.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CgroupSource {
    /// A delegated cgroup that the jail runs in, else a transient scope of the user's systemd.
    #[default]
    Find,
    /// The same, and the server, which must be the process that started the jail, is moved there too:
    /// every later jail of its own is then born in it.
    FindWith(ServerShare),
    /// The delegated cgroup that an earlier jail named. One that is gone is looked for anew.
    Below {
        /// Its folder.
        home: PathBuf,
        /// As in `FindWith`.
        server: ServerShare,
    },
    /// None: an earlier jail has found out why.
    Without(NoCgroup),
}

/// A server that runs are made for, and what they may have together.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct ServerShare {
    /// Its process id.
    pub process: u32,
    /// The memory of all its runs together, in MiB: what one of them has handed to another counts for
    /// neither once the first is gone.
    pub memory_mib: u64,
}

/// The cgroup that a run has for itself.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct RunCgroup {
    /// The delegated cgroup that it was made in, itself or one level below, which serves further runs.
    pub home: PathBuf,
    /// Its own folder, made by mkdir, which the server removes if the supervisor dies.
    pub run: PathBuf,
    /// How the home was come by.
    pub origin: CgroupOrigin,
}

/// How the name of a run's cgroup begins.
const NAME: &str = "vestibule-run-";

/// How the name of the cgroup begins that holds all runs of one server.
const RUNS: &str = "mcp-sandbox-runs-";

/// What the name of a run's cgroup tells: what the dead have left can be told from what is about to be
/// used, and a server finds what a helper made that died without a word.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RunName {
    /// The process id of whoever answers for it: the server, or the jail itself.
    pub owner: u32,
    /// When the owner was started, in clock ticks since boot; process ids are used again.
    pub started: u64,
    /// The process id of the jail that made it.
    pub supervisor: u32,
}

impl RunCgroup {
    /// The name of a run's folder below its home.
    pub fn name(owner: u32, started: u64, supervisor: u32) -> String {
        format!("{NAME}{owner}-{started}-{supervisor}")
    }

    /// Takes such a name apart; `None` for any other.
    pub fn parse_name(name: &str) -> Option<RunName> {
        let mut parts = name.strip_prefix(NAME)?.split('-');
        let name = RunName {
            owner: parts.next()?.parse().ok()?,
            started: parts.next()?.parse().ok()?,
            supervisor: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(name)
    }
}

/// What the name of the cgroup of all runs of a server tells.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct RunsName {
    /// The process id of the server.
    pub owner: u32,
    /// When it was started, as in [`RunName`].
    pub started: u64,
}

impl RunsName {
    /// The name.
    pub fn to_name(self) -> String {
        format!("{RUNS}{}-{}", self.owner, self.started)
    }

    /// Takes such a name apart; `None` for any other.
    pub fn parse(name: &str) -> Option<RunsName> {
        let (owner, started) = name.strip_prefix(RUNS)?.split_once('-')?;
        Some(RunsName { owner: owner.parse().ok()?, started: started.parse().ok()? })
    }
}

/// How a delegated cgroup was come by.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum CgroupOrigin {
    /// The processes ran in it already.
    Delegated,
    /// A transient scope of the user's systemd.
    Scope {
        /// The unit's name.
        name: String,
        /// The way in which systemd was asked.
        bus: Bus,
    },
    /// It is the one that the request named.
    Given,
}

/// A way to speak to the user's systemd.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Bus {
    /// The session bus.
    Session,
    /// The private socket of the user manager, which needs no bus.
    Private,
}

impl fmt::Display for Bus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Bus::Session => "session bus",
            Bus::Private => "private socket",
        })
    }
}

/// Why a run has no cgroup of its own. Its [`Display`](fmt::Display) is the reason in the
/// `isolation:` line.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum NoCgroup {
    /// cgroup v2 is not mounted at `/sys/fs/cgroup`.
    NoHierarchy,
    /// cgroup v1 has the controllers, and v2 is there without any.
    Hybrid,
    /// None of the controllers is delegated to the user.
    NoControllers,
    /// The user has no running systemd: no bus and no private socket.
    NoUserManager,
    /// The user's systemd did not answer in time.
    NoAnswer {
        /// How long was waited, in seconds.
        seconds: u64,
    },
    /// The user's systemd refused, or said what cannot be understood.
    NoScope(String),
    /// A delegated cgroup is there and cannot be used: what failed.
    Unusable(String),
}

impl fmt::Display for NoCgroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoCgroup::NoHierarchy => f.write_str("no cgroup v2 at /sys/fs/cgroup"),
            NoCgroup::Hybrid => f.write_str("cgroup v1 has the controllers"),
            NoCgroup::NoControllers => f.write_str("no cgroup controller is delegated"),
            NoCgroup::NoUserManager => f.write_str("no systemd user bus"),
            NoCgroup::NoAnswer { seconds } => {
                write!(f, "the user's systemd did not answer within {seconds} s")
            }
            NoCgroup::NoScope(what) => write!(f, "the user's systemd made no scope: {what}"),
            NoCgroup::Unusable(what) => write!(f, "the delegated cgroup cannot be used: {what}"),
        }
    }
}

impl NoCgroup {
    /// What to do about it.
    pub const fn fix(&self) -> &'static str {
        match self {
            NoCgroup::NoHierarchy | NoCgroup::Hybrid => {
                "boot with cgroup v2 alone (systemd.unified_cgroup_hierarchy=1 on the kernel's \
                 command line)"
            }
            NoCgroup::NoControllers => {
                "have the administrator delegate cpu, memory and pids: Delegate=yes in a drop-in for \
                 user@.service"
            }
            NoCgroup::NoUserManager => {
                "install systemd's PAM module (libpam-systemd on Debian) and log in anew, or run \
                 `loginctl enable-linger`; in a container: delegate a writable cgroup v2 to it"
            }
            NoCgroup::NoAnswer { .. } | NoCgroup::NoScope(_) => {
                "look at `systemctl --user status` and the journal of the user manager"
            }
            NoCgroup::Unusable(_) => {
                "delegate a cgroup that holds no other processes, or run where the user has a systemd"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_taken_apart_as_it_was_made() {
        let parsed = RunCgroup::parse_name(&RunCgroup::name(7, 1 << 40, 9));
        assert_eq!(parsed, Some(RunName { owner: 7, started: 1 << 40, supervisor: 9 }));
        for other in ["mcp-sandbox-supervisors", "vestibule-run-", "vestibule-run-1-2", "session"] {
            assert_eq!(RunCgroup::parse_name(other), None, "{other}");
        }
        let runs = RunsName { owner: 7, started: 1 << 40 };
        assert_eq!(RunsName::parse(&runs.to_name()), Some(runs));
        for other in ["mcp-sandbox-supervisors", "mcp-sandbox-runs-1", "mcp-sandbox-runs-1-2-3"] {
            assert_eq!(RunsName::parse(other), None, "{other}");
        }
        assert_eq!(RunCgroup::parse_name("vestibule-run-1-2-3-4"), None);
        assert_eq!(RunCgroup::parse_name("vestibule-run-x-2-3"), None);
    }

    #[test]
    fn every_reason_is_one_clause_and_has_a_fix() {
        let all = [
            NoCgroup::NoHierarchy,
            NoCgroup::Hybrid,
            NoCgroup::NoControllers,
            NoCgroup::NoUserManager,
            NoCgroup::NoAnswer { seconds: 5 },
            NoCgroup::NoScope("w".to_owned()),
            NoCgroup::Unusable("w".to_owned()),
        ];
        for reason in all {
            let text = reason.to_string();
            assert!(!text.ends_with('.') && !text.contains(';'), "{text}");
            assert!(!reason.fix().is_empty());
        }
    }
}
