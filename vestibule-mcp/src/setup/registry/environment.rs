//! The variables of the environment that every program which talks to registries reads.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// The variables, read once. A blank one counts as unset.
#[derive(Clone, Default)]
pub struct Environment {
    /// The proxy for HTTPS. Plain HTTP goes to this machine alone and past every proxy, so there is no
    /// other.
    pub proxy: Option<ProxyVariable>,
    /// `NO_PROXY`.
    pub no_proxy: String,
    /// `SSL_CERT_FILE`.
    pub cert_file: Option<PathBuf>,
    /// `SSL_CERT_DIR`, which may name several folders.
    pub cert_dirs: Vec<PathBuf>,
    /// `REGISTRY_AUTH_FILE`.
    pub auth_file: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`.
    pub runtime_dir: Option<PathBuf>,
    /// `DOCKER_CONFIG`.
    pub docker_config: Option<PathBuf>,
    /// `HOME`.
    pub home: Option<PathBuf>,
    /// `PATH`, for the programs that keep passwords.
    pub path: OsString,
}

/// A proxy and where it was named. It may hold a password, so it has no debug text.
#[derive(Clone)]
pub struct ProxyVariable {
    /// The variable's name.
    pub name: &'static str,
    /// Its value.
    pub value: String,
}

/// Where a proxy for HTTPS may be named, by rank.
const PROXIES: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

impl Environment {
    /// Reads the variables from a process's environment.
    pub fn from_env(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Environment {
        let set =
            variables.into_iter().filter(|(_, value)| !value.to_string_lossy().trim().is_empty());
        let set: HashMap<OsString, OsString> = set.collect();
        let value = |name: &str| set.get(&OsString::from(name)).cloned();
        let text = |name: &str| value(name).map(|value| value.to_string_lossy().trim().to_owned());
        let path = |name: &str| value(name).map(PathBuf::from);
        let dirs = value("SSL_CERT_DIR").unwrap_or_default();
        let dirs = std::env::split_paths(&dirs).filter(|dir| !dir.as_os_str().is_empty());
        Environment {
            proxy: PROXIES
                .iter()
                .find_map(|name| text(name).map(|value| ProxyVariable { name, value })),
            no_proxy: text("NO_PROXY").or_else(|| text("no_proxy")).unwrap_or_default(),
            cert_file: path("SSL_CERT_FILE"),
            cert_dirs: dirs.collect(),
            auth_file: path("REGISTRY_AUTH_FILE"),
            runtime_dir: path("XDG_RUNTIME_DIR"),
            docker_config: path("DOCKER_CONFIG"),
            home: path("HOME"),
            path: value("PATH").unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Environment {
        Environment::from_env(variables.iter().map(|(name, value)| (name.into(), value.into())))
    }

    #[test]
    fn the_proxy_for_https_comes_before_the_one_for_all() {
        let name = |variables: &[(&str, &str)]| {
            read(variables).proxy.map(|proxy| (proxy.name, proxy.value))
        };
        let all = ("ALL_PROXY", "http://all");
        assert_eq!(name(&[all]).unwrap().0, "ALL_PROXY");
        let both = name(&[all, ("https_proxy", " http://p ")]).unwrap();
        assert_eq!(both, ("https_proxy", "http://p".to_owned()));
        assert_eq!(name(&[all, ("HTTPS_PROXY", " ")]).unwrap().0, "ALL_PROXY");
        assert_eq!(name(&[("HTTP_PROXY", "http://p")]), None);
    }

    #[test]
    fn folders_of_certificates_are_separated_by_colons() {
        let read = read(&[("SSL_CERT_DIR", "/a::/b"), ("SSL_CERT_FILE", ""), ("no_proxy", "x")]);
        assert_eq!(read.cert_dirs, [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert_eq!((read.cert_file, read.no_proxy.as_str()), (None, "x"));
    }
}
