//! The guest's environment: composed here from nothing, never inherited.

use protocol::Rootfs;
use protocol::environment::VARIABLES;

/// The search path where the request brings none.
pub const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

/// The search path on this machine's own `/usr`, where `/usr/local` is usually covered.
const HOST_PATH: &str = "/usr/bin:/bin:/usr/sbin:/sbin";

/// The variables of the guest as `NAME=value`; those of the request replace ours.
pub fn compose(source: &Rootfs, requested: &[(String, String)]) -> Vec<String> {
    let path = match source {
        Rootfs::Host => HOST_PATH,
        Rootfs::Image(_) => DEFAULT_PATH,
    };
    let replaced = |name: &str| requested.iter().any(|(given, _)| given == name);
    let ours = [("PATH", path)].into_iter().chain(VARIABLES);
    let kept = ours.filter(|(name, _)| !replaced(name));
    let mut variables: Vec<String> = kept.map(|(name, value)| format!("{name}={value}")).collect();
    variables.extend(requested.iter().map(|(name, value)| format!("{name}={value}")));
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_replaces_what_it_names_and_adds_the_rest() {
        let requested =
            vec![("PATH".to_owned(), "/opt/bin".to_owned()), ("X".to_owned(), String::new())];
        let variables = compose(&Rootfs::Host, &requested);
        assert!(variables.contains(&"PATH=/opt/bin".to_owned()));
        assert!(variables.contains(&"X=".to_owned()));
        assert_eq!(variables.iter().filter(|line| line.starts_with("PATH=")).count(), 1);
        assert!(variables.contains(&"HOME=/tmp".to_owned()));
    }
}
