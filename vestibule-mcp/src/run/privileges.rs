//! What the server must not be: root, or anything with capabilities.

use protocol::{Cause, Refusal, Retry};

/// Why the server is refused.
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "elsewhere less can be found"))]
#[derive(Debug, Eq, PartialEq)]
enum Finding {
    /// It is root, or has capabilities: how.
    Privileged(String),
    /// Nobody can tell: why.
    Unknown(String),
}

/// What to do about privileges, for a client's user.
pub const AS_USER: &str =
    "start your MCP client, and with it this server, as an ordinary user without capabilities";

impl From<Finding> for Refusal {
    fn from(finding: Finding) -> Refusal {
        let (what, cause, fix, retry) = match finding {
            Finding::Privileged(what) => (what, Cause::Privileged, AS_USER, Retry::AfterRestart),
            Finding::Unknown(why) => (
                format!("{why}, so root cannot be ruled out"),
                Cause::Other,
                "mount /proc",
                Retry::AfterFix,
            ),
        };
        Refusal { what, cause, fix: fix.to_owned(), retry, at: None }
    }
}

/// Refuses a real, effective or saved uid 0 and any permitted capability: what the code of a run
/// could reach through a fault of ours must be no more than what the user can.
///
/// # Errors
/// A refusal that says what was found.
pub fn check() -> Result<(), Refusal> {
    found().map_or(Ok(()), |finding| Err(finding.into()))
}

#[cfg(target_os = "linux")]
fn found() -> Option<Finding> {
    match std::fs::read_to_string("/proc/self/status") {
        Ok(status) => judge(&status),
        Err(error) => Some(Finding::Unknown(format!("/proc/self/status cannot be read ({error})"))),
    }
}

#[cfg(all(unix, not(target_os = "linux")))]
fn found() -> Option<Finding> {
    use nix::unistd::{geteuid, getuid};
    let root = getuid().is_root() || geteuid().is_root();
    root.then(|| Finding::Privileged("the server runs as root (uid 0)".to_owned()))
}

#[cfg(not(unix))]
fn found() -> Option<Finding> {
    None
}

/// What is wrong with a `/proc/self/status`; a line that is missing is wrong too.
#[cfg(any(target_os = "linux", test))]
fn judge(status: &str) -> Option<Finding> {
    let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let (Some(uids), Some(permitted)) = (line("Uid:"), line("CapPrm:")) else {
        return Some(Finding::Unknown("/proc/self/status lacks Uid or CapPrm".to_owned()));
    };
    // Real, effective, saved; the fourth is the file system's.
    if uids.split_whitespace().take(3).any(|uid| uid == "0") {
        let what = "the server runs as root (a real, effective or saved uid 0)";
        return Some(Finding::Privileged(what.to_owned()));
    }
    let permitted = permitted.trim();
    if permitted.bytes().any(|digit| digit != b'0') {
        let what = format!("the server holds capabilities (permitted set {permitted})");
        return Some(Finding::Privileged(what));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(uids: &str, permitted: &str) -> String {
        format!("Name:\tx\nUid:\t{uids}\nGid:\t1\nCapInh:\t0\nCapPrm:\t{permitted}\n")
    }

    fn refusal(uids: &str, permitted: &str) -> String {
        Refusal::from(judge(&status(uids, permitted)).unwrap()).to_string()
    }

    #[test]
    fn root_in_any_of_three_places_and_any_capability_is_refused() {
        assert_eq!(judge(&status("5\t5\t5\t5", "0000000000000000")), None);
        assert_eq!(judge(&status("10\t100\t1000\t10", "0000000000000000")), None);
        for uids in ["0\t5\t5\t5", "5\t0\t5\t5", "5\t5\t0\t5"] {
            assert!(refusal(uids, "0000000000000000").contains("runs as root"), "{uids}");
        }
        let text = refusal("5\t5\t5\t5", "0000000000000400");
        assert!(text.contains("0000000000000400") && text.contains("ordinary user"), "{text}");
    }

    #[test]
    fn an_unreadable_answer_is_no_clearance() {
        let refusal = Refusal::from(judge("Name:\tx\n").unwrap());
        assert_eq!(
            refusal.to_string(),
            "/proc/self/status lacks Uid or CapPrm, so root cannot be ruled out. Fix: mount \
             /proc; then call again, no restart is needed."
        );
    }
}
