//! Why a sandbox was not built or a script not started. Data, so that every reader gets the step,
//! the errno, the cause and the fix.

use crate::{Language, Step};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A kernel step that failed.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct StepError {
    /// Which step.
    pub step: Step,
    /// The errno it failed with; 0 where the step read something back that was not as it must be.
    pub errno: i32,
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.errno {
            0 => write!(f, "step {}: read back wrong", self.step.name()),
            errno => {
                write!(f, "step {}: {}", self.step.name(), std::io::Error::from_raw_os_error(errno))
            }
        }
    }
}

/// What makes native isolation impossible, as far as the evidence tells.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Cause {
    /// Started as root, or with capabilities.
    Privileged,
    /// The kernel is older than 5.9.
    KernelTooOld,
    /// A sysctl turns unprivileged user namespaces off (`EPERM`).
    UserNamespacesOff,
    /// One of `user.max_…_namespaces` is used up or 0 (`ENOSPC`), or nesting is too deep.
    NamespaceLimit,
    /// AppArmor or another security module denies user namespaces or takes their capabilities.
    SecurityModule,
    /// A surrounding container's syscall filter forbids it.
    ContainerFilter,
    /// A surrounding container masks parts of `/proc`, so the kernel refuses a fresh one.
    MaskedProc,
    /// The process lives in a chroot, where the kernel allows no user namespace.
    Chroot,
    /// The root file system is unusable.
    Rootfs,
    /// The interpreter of this language is missing.
    InterpreterMissing(Language),
    /// The workspace folder does not exist.
    WorkspaceMissing,
    /// The workspace folder cannot be written to.
    WorkspaceNotWritable,
    /// The workspace is a folder that must not be shared with a sandbox, or is reached by a symlink.
    WorkspaceNotAllowed,
    /// The request itself cannot be carried out.
    Request,
    /// The two programs speak different protocol versions.
    Version,
    /// A container engine is missing, does not answer, or lacks something.
    Engine,
    /// A container engine lacks an image, or the image lacks something.
    Image,
    /// Anything else; the step and errno tell what.
    Other,
}

/// Whether calling again can help.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Retry {
    /// Yes, at once.
    Now,
    /// Yes, once the fix is done; nothing needs a restart.
    AfterFix,
    /// Only after the fix and a restart of the MCP client, which restarts the server.
    AfterRestart,
    /// Yes, once the fix is done; the fix names several ways, and the one that changes a setting
    /// takes a restart of the MCP client.
    AfterFixOrRestart,
}

/// A refusal: what, why, how to fix it, and whether to retry.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Refusal {
    /// What is refused or missing, as one clause without a full stop.
    pub what: String,
    /// The cause.
    pub cause: Cause,
    /// What to do about it, as one clause without a full stop.
    pub fix: String,
    /// Whether calling again can help.
    pub retry: Retry,
    /// The kernel step that failed, if one did.
    pub at: Option<StepError>,
}

impl Refusal {
    /// What, where and the fix, for a reader who has no client to restart.
    pub fn without_retry(&self) -> String {
        let at = self.at.map_or_else(String::new, |at| format!(" ({at})"));
        format!("{}{at}. Fix: {}.", self.what, self.fix)
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.without_retry().trim_end_matches('.'))?;
        f.write_str(match self.retry {
            Retry::Now => "; then call again.",
            Retry::AfterFix => "; then call again, no restart is needed.",
            Retry::AfterRestart => "; then restart your MCP client.",
            Retry::AfterFixOrRestart => {
                "; then call again (a changed setting needs a restart of your MCP client)."
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_says_what_to_do_after_the_fix() {
        let end = |retry| {
            let (what, fix) = ("w".to_owned(), "f".to_owned());
            Refusal { what, cause: Cause::Other, fix, retry, at: None }.to_string()
        };
        assert_eq!(end(Retry::Now), "w. Fix: f; then call again.");
        assert_eq!(end(Retry::AfterFix), "w. Fix: f; then call again, no restart is needed.");
        assert_eq!(end(Retry::AfterRestart), "w. Fix: f; then restart your MCP client.");
        assert_eq!(
            end(Retry::AfterFixOrRestart),
            "w. Fix: f; then call again (a changed setting needs a restart of your MCP client)."
        );
    }
}
