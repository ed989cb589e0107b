//! What the server must not be: root, or anything with capabilities.

use protocol::{Cause, Refusal, Retry};

/// Refuses a real, effective or saved uid 0 and any permitted capability: what the code of a run
/// could reach through a fault of ours must be no more than what the user can.
///
/// # Errors
/// A refusal that says what was found.
pub fn check() -> Result<(), Refusal> {
    found().map_or(Ok(()), |what| {
        Err(Refusal {
            what,
            cause: Cause::Privileged,
            fix: "start your MCP client, and with it this server, as an ordinary user without \
                  capabilities"
                .to_owned(),
            retry: Retry::AfterRestart,
            at: None,
        })
    })
}

#[cfg(target_os = "linux")]
fn found() -> Option<String> {
    match std::fs::read_to_string("/proc/self/status") {
        Ok(status) => judge(&status),
        Err(error) => {
            Some(format!("/proc/self/status cannot be read ({error}), so root cannot be ruled out"))
        }
    }
}

#[cfg(all(unix, not(target_os = "linux")))]
fn found() -> Option<String> {
    use nix::unistd::{geteuid, getuid};
    let root = getuid().is_root() || geteuid().is_root();
    root.then(|| "the server runs as root (uid 0)".to_owned())
}

#[cfg(not(unix))]
fn found() -> Option<String> {
    None
}

/// What is wrong with a `/proc/self/status`; a line that is missing is wrong too.
#[cfg(any(target_os = "linux", test))]
fn judge(status: &str) -> Option<String> {
    let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let (Some(uids), Some(permitted)) = (line("Uid:"), line("CapPrm:")) else {
        return Some("/proc/self/status lacks Uid or CapPrm, so root cannot be ruled out".into());
    };
    // Real, effective, saved; the fourth is the file system's.
    if uids.split_whitespace().take(3).any(|uid| uid == "0") {
        return Some("the server runs as root (a real, effective or saved uid 0)".into());
    }
    let permitted = permitted.trim();
    if permitted.bytes().any(|digit| digit != b'0') {
        return Some(format!("the server holds capabilities (permitted set {permitted})"));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(uids: &str, permitted: &str) -> String {
        format!("Name:\tx\nUid:\t{uids}\nGid:\t1\nCapInh:\t0\nCapPrm:\t{permitted}\n")
    }

    #[test]
    fn root_in_any_of_three_places_and_any_capability_is_refused() {
        assert_eq!(judge(&status("5\t5\t5\t5", "0000000000000000")), None);
        assert_eq!(judge(&status("10\t100\t1000\t10", "0000000000000000")), None);
        for uids in ["0\t5\t5\t5", "5\t0\t5\t5", "5\t5\t0\t5"] {
            assert!(judge(&status(uids, "0000000000000000")).unwrap().contains("root"), "{uids}");
        }
        let found = judge(&status("5\t5\t5\t5", "0000000000000400")).unwrap();
        assert!(found.contains("0000000000000400"), "{found}");
    }

    #[test]
    fn an_unreadable_answer_is_no_clearance() {
        assert!(judge("Name:\tx\n").is_some());
    }
}
