//! Whether two programs fit each other.

use crate::backend::locate;
use protocol::{Cause, Hello, Refusal, Retry};
use std::path::Path;

/// Refuses a helper of another protocol or version than ours: the two are one program in two
/// processes, and a mixed pair is an update that is only half done.
///
/// # Errors
/// A refusal with both paths and versions.
pub fn check(helper: &Hello, jail: &Path) -> Result<(), Refusal> {
    let ours = Hello::ours();
    if *helper == ours {
        return Ok(());
    }
    let own = std::env::current_exe().unwrap_or_default();
    let server_is_older = order(&ours) < order(helper);
    let fix = if server_is_older {
        "install both from one release if vestibule-mcp on disk is still the older one"
    } else {
        "install vestibule-mcp and vestibule-jail from one release"
    };
    let retry = if server_is_older { Retry::AfterRestart } else { Retry::AfterFix };
    Err(Refusal {
        what: format!(
            "vestibule-mcp and vestibule-jail are of different versions: {} has version {} \
             (protocol {}), {} has version {} (protocol {})",
            locate::shown(&own),
            ours.version,
            ours.protocol,
            locate::shown(jail),
            helper.version,
            helper.protocol,
        ),
        cause: Cause::Version,
        fix: fix.to_owned(),
        retry,
        at: None,
    })
}

/// What tells older from newer: the protocol, then the version's numbers.
fn order(hello: &Hello) -> (u32, Vec<u64>) {
    let numbers = hello.version.split(['.', '-', '+']).map(|part| part.parse().unwrap_or(0));
    (hello.protocol, numbers.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(protocol: u32, version: &str) -> String {
        let hello = Hello { protocol, version: version.to_owned() };
        check(&hello, Path::new("/opt/vestibule-jail")).unwrap_err().to_string()
    }

    #[test]
    fn one_release_fits() {
        assert_eq!(check(&Hello::ours(), Path::new("/x")), Ok(()));
    }

    #[test]
    fn a_mixed_pair_is_named_with_both_paths_and_versions() {
        let ours = Hello::ours();
        let text = text(ours.protocol, "0.0.1");
        assert!(text.contains("/opt/vestibule-jail has version 0.0.1"), "{text}");
        assert!(text.contains(&format!("has version {}", ours.version)), "{text}");
        assert!(text.contains("from one release"), "{text}");
    }

    #[test]
    fn a_server_that_was_updated_under_its_feet_needs_a_restart() {
        let ours = Hello::ours();
        for text in [text(ours.protocol + 1, &ours.version), text(ours.protocol, "99.10.0")] {
            let end = "still the older one; then restart your MCP client.";
            assert!(text.ends_with(end), "{text}");
        }
    }
}
