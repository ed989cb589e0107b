//! The guest's environment: composed here from nothing, never inherited.

use protocol::environment::{BYTECODE, VARIABLES};
use protocol::{Rootfs, Sandbox};

/// The search path where the request brings none.
pub const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

/// The search path on this machine's own `/usr`, where `/usr/local` is usually covered.
const HOST_PATH: &str = "/usr/bin:/bin:/usr/sbin:/sbin";

/// The variables of the guest as `NAME=value`; those of the request replace ours.
pub fn compose(sandbox: &Sandbox) -> Vec<String> {
    let requested = &sandbox.environment;
    let path = match sandbox.rootfs {
        Rootfs::Host => HOST_PATH,
        Rootfs::Image(_) => DEFAULT_PATH,
    };
    let replaced = |name: &str| requested.iter().any(|(given, _)| given == name);
    let bytecode = sandbox.bytecode.as_ref().map(|_| ("PYTHONPYCACHEPREFIX", BYTECODE));
    let ours = [("PATH", path)].into_iter().chain(VARIABLES).chain(bytecode);
    let kept = ours.filter(|(name, _)| !replaced(name));
    let mut variables: Vec<String> = kept.map(|(name, value)| format!("{name}={value}")).collect();
    variables.extend(requested.iter().map(|(name, value)| format!("{name}={value}")));
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sandbox(environment: &str, bytecode: &str) -> Sandbox {
        let limits = r#"{"memory_mib": 256, "cpu_percent": 75, "pids_max": 128, "tmpfs_mib": 1}"#;
        let text = format!(
            r#"{{"rootfs": "host", "workspace": "/w", "workspace_read_only": false,
                "limits": {limits}, "environment": {environment}, "bytecode": {bytecode}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_request_replaces_what_it_names_and_adds_the_rest() {
        let variables = compose(&sandbox(r#"[["PATH", "/opt/bin"], ["X", ""]]"#, "null"));
        assert!(variables.contains(&"PATH=/opt/bin".to_owned()));
        assert!(variables.contains(&"X=".to_owned()));
        assert_eq!(variables.iter().filter(|line| line.starts_with("PATH=")).count(), 1);
        assert!(variables.contains(&"HOME=/tmp".to_owned()));
        assert!(!variables.iter().any(|line| line.starts_with("PYTHONPYCACHEPREFIX=")));
    }

    #[test]
    fn python_is_told_where_its_modules_lie_compiled() {
        let variables = compose(&sandbox("[]", r#""/images/pyc""#));
        assert!(variables.contains(&"PYTHONPYCACHEPREFIX=/pycache".to_owned()));
    }
}
