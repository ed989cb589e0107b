//! What must hold before anything is tried.

use nix::errno::Errno;
use nix::sys::utsname::uname;
use nix::unistd::getresuid;
use protocol::{Cause, Refusal, Retry, Step, StepError};

/// The oldest kernel that has all the jail needs: `close_range(2)`.
const OLDEST: (u32, u32) = (5, 9);

/// Refuses uid 0 in any form and any permitted capability.
pub fn privileges() -> Result<(), Refusal> {
    let unknown = |errno: Errno| Refusal {
        what: "the own privileges cannot be read".to_owned(),
        cause: Cause::Other,
        fix: "start it outside a sandbox that filters getresuid and capget".to_owned(),
        retry: Retry::AfterFix,
        at: Some(StepError { step: Step::CheckPrivileges, errno: errno as i32 }),
    };
    let ids = getresuid().map_err(unknown)?;
    let permitted = crate::sys::process::permitted_capabilities().map_err(unknown)?;
    let what = if [ids.real, ids.effective, ids.saved].iter().any(|id| id.is_root()) {
        "the jail does not run as root (uid 0)"
    } else if permitted != 0 {
        "the jail does not run with capabilities"
    } else {
        return Ok(());
    };
    Err(Refusal {
        what: what.to_owned(),
        cause: Cause::Privileged,
        fix: "start it as an ordinary user without capabilities".to_owned(),
        retry: Retry::AfterRestart,
        at: None,
    })
}

/// Refuses kernels that are too old, and tells the version of others.
pub fn kernel() -> Result<(u32, u32), Refusal> {
    let release = uname().map(|name| name.release().to_string_lossy().into_owned());
    let release = release.unwrap_or_default();
    let version = parse_release(&release);
    match version {
        Some(version) if version >= OLDEST => Ok(version),
        _ => Err(Refusal {
            what: format!(
                "Linux {release:?} is too old: the sandbox needs {}.{} or later",
                OLDEST.0, OLDEST.1
            ),
            cause: Cause::KernelTooOld,
            fix: "update the kernel".to_owned(),
            retry: Retry::AfterRestart,
            at: None,
        }),
    }
}

fn parse_release(release: &str) -> Option<(u32, u32)> {
    let mut parts = release.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_distributions_are_read() {
        assert_eq!(parse_release("6.1.0-28-amd64"), Some((6, 1)));
        assert_eq!(parse_release("5.15.167.4-microsoft-standard-WSL2"), Some((5, 15)));
        assert_eq!(parse_release("6.18.44-fc-v857"), Some((6, 18)));
        assert_eq!(parse_release("garbage"), None);
    }
}
