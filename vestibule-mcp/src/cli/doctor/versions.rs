//! The versions of the two programs.

use crate::backend::locate;
use crate::config::Config;
use crate::escape::for_display;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

/// How long the helper may take to say its version.
const ANSWER: Duration = Duration::from_secs(2);
/// How much of what it says is read, in bytes, and shown, in characters.
const SAID: (u64, usize) = (1024, 200);

/// Which programs these are.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Versions {
    /// This program.
    pub server: Server,
    /// The helper, where there is one.
    pub helper: Option<Helper>,
}

/// This program.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Server {
    /// Its version.
    pub version: String,
    /// The protocol that it speaks with its helper.
    pub protocol: u32,
    /// What it was built for.
    pub target: String,
    /// Debug or release.
    pub build: String,
}

/// `vestibule-jail`.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Helper {
    /// Where it lies.
    pub path: String,
    /// Its version.
    pub version: Option<String>,
    /// The protocol that it speaks.
    pub protocol: Option<u32>,
    /// The library that compiled its filter when it was built.
    pub libseccomp: Option<String>,
    /// All that it says of itself.
    pub says: Option<String>,
}

/// Off Linux there is no helper. It is asked only for a user who may run it at all: as root nothing is
/// started.
pub async fn look(config: &Config, user_may: bool) -> Versions {
    let helper = match locate::helper(config.jail.as_deref()) {
        Ok(path) if cfg!(target_os = "linux") && user_may => Some(helper(&path).await),
        Ok(path) if cfg!(target_os = "linux") => {
            Some(Helper { path: locate::shown(&path), ..Helper::default() })
        }
        _ => None,
    };
    let abi = if cfg!(target_env = "musl") {
        "-musl"
    } else if cfg!(target_env = "gnu") {
        "-gnu"
    } else {
        ""
    };
    let server = Server {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        protocol: protocol::PROTOCOL_VERSION,
        target: format!("{}-{}{abi}", std::env::consts::ARCH, std::env::consts::OS),
        build: if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
    };
    Versions { server, helper }
}

async fn helper(path: &Path) -> Helper {
    let said = tokio::time::timeout(ANSWER, ask(path)).await.ok().flatten().unwrap_or_default();
    Helper { path: locate::shown(path), ..read(said.lines().next().unwrap_or_default()) }
}

async fn ask(path: &Path) -> Option<String> {
    let mut command = Command::new(path);
    command.arg("--version").env_clear().current_dir("/").kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let mut said = Vec::new();
    child.stdout.take()?.take(SAID.0).read_to_end(&mut said).await.ok()?;
    // It may have more to say than is read: it must be gone all the same.
    let _ = child.kill().await;
    Some(String::from_utf8_lossy(&said).into_owned())
}

/// Reads `vestibule-jail 1.2.3 (protocol 4, …, … libseccomp 2.5.4, …)`. Another release may say it in
/// another way, so whatever is not found is left out.
fn read(line: &str) -> Helper {
    let Some(facts) = line.strip_prefix("vestibule-jail ") else {
        let says = (!line.is_empty()).then(|| for_display(line, SAID.1));
        return Helper { says, ..Helper::default() };
    };
    let after = |name: &str| {
        let mut words = facts.split([' ', ',', '(', ')']).skip_while(|word| *word != name);
        words.nth(1).filter(|word| !word.is_empty()).map(|word| for_display(word, SAID.1))
    };
    Helper {
        path: String::new(),
        version: facts.split(' ').next().map(|word| for_display(word, SAID.1)),
        protocol: after("protocol").and_then(|number| number.parse().ok()),
        libseccomp: after("libseccomp"),
        says: Some(for_display(facts, SAID.1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_helper_says_is_read_as_far_as_it_is_known() {
        let line = "vestibule-jail 0.2.0 (protocol 7, linux x86_64, filter compiled by libseccomp 2.5.4, 9 instructions)";
        let helper = read(line);
        let found = (helper.version.as_deref(), helper.protocol, helper.libseccomp.as_deref());
        assert_eq!(found, (Some("0.2.0"), Some(7), Some("2.5.4")));
        let bare = read("vestibule-jail 9");
        assert_eq!(
            (bare.version.as_deref(), bare.protocol, bare.libseccomp),
            (Some("9"), None, None)
        );
        let other = read("\u{1b}[31m");
        assert_eq!((other.version, other.says.as_deref()), (None, Some("\\u{1b}[31m")));
        assert_eq!(read(""), Helper::default());
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_helper_that_says_nothing_or_never_stops_is_no_harm() {
        let started = std::time::Instant::now();
        for path in ["/nonexistent/jail", "/bin/true", "/usr/bin/yes"] {
            let helper = helper(Path::new(path)).await;
            assert_eq!((helper.path.as_str(), helper.version), (path, None));
        }
        assert!(started.elapsed() < ANSWER);
    }
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_helper_is_asked_only_for_a_user_who_may_run_it() {
        let variables = [("HOME", "/home/ada"), ("VESTIBULE_JAIL", "/bin/echo")];
        let config = Config::from_env(variables.map(|(name, value)| (name.into(), value.into())));
        for user_may in [true, false] {
            let helper = look(&config, user_may).await.helper.unwrap();
            assert_eq!((helper.path.as_str(), helper.says.is_some()), ("/bin/echo", user_may));
        }
    }
}
