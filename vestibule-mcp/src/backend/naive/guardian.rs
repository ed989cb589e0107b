//! What ends a run without isolation when the server itself is killed: nothing else would.

use std::path::Path;
use std::process::Stdio;
use tokio::process::{Child, Command};

/// Waits for the server's end of the pipe to close; then kills the group, on Linux also whatever has
/// left it, and removes the folder.
const SCRIPT: &str = r#"
read -r _
kill -KILL -- "-$1"
for process in /proc/[0-9]*; do
    grep -qsFxz "TMPDIR=$2" "$process/environ" && kill -KILL "${process#/proc/}"
done
rm -rf -- "$2"
"#;

/// A shell that outlives the server by a moment. Dropping it kills it, for whoever drops it has
/// cleaned up already.
pub struct Guardian(#[expect(dead_code, reason = "held for the pipe and for its drop")] Child);

impl Guardian {
    /// Starts it for the group that `leader` leads and the run's own folder.
    pub fn start(leader: u32, scratch: &Path) -> std::io::Result<Guardian> {
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", SCRIPT, "sh", &leader.to_string()])
            .arg(scratch)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // Outside the run's group, and outside the terminal's.
            .process_group(0)
            .kill_on_drop(true);
        command.spawn().map(Guardian)
    }
}
