//! Which requests go through a proxy.

use super::address::Address;
use super::environment::{Environment, ProxyVariable};
use crate::escape;
use crate::setup::source::{Again, SourceError};
use ureq::{Proxy, ProxyProtocol};

/// A proxy that can be used.
pub struct Usable {
    /// The proxy, with its credentials.
    pub proxy: Proxy,
    /// What it is called in a text: its host, port and variable, and no credentials.
    pub name: String,
}

/// Reads what a variable says.
///
/// # Errors
/// It is no address of a proxy of a kind that we speak.
pub fn read(variable: &ProxyVariable) -> Result<Usable, SourceError> {
    let wrong = |what: String| SourceError {
        what,
        fix: format!(
            "set {} to http://HOST:PORT, remove it, or name the registry in NO_PROXY",
            variable.name
        ),
        again: Again::Never,
    };
    let proxy = Proxy::new(&variable.value)
        .map_err(|_| wrong(format!("{} is no address of a proxy", variable.name)))?;
    match proxy.protocol() {
        ProxyProtocol::Http | ProxyProtocol::Https => {}
        other => {
            return Err(wrong(format!("{} names a proxy of kind {other}", variable.name)));
        }
    }
    let host = escape::for_display(proxy.host(), 100);
    let name = format!("the proxy {host}:{} ({})", proxy.port(), variable.name);
    Ok(Usable { proxy, name })
}

/// Whether a request goes past every proxy: to this machine always, elsewhere by `NO_PROXY`, whose
/// entries are separated by commas or blanks.
pub fn is_direct(address: &Address, environment: &Environment) -> bool {
    address.is_loopback()
        || environment
            .no_proxy
            .split([',', ' ', '\t'])
            .filter(|entry| !entry.is_empty())
            .any(|entry| covers(entry, address))
}

/// Whether an entry covers an address: `*`, `HOST` with its subdomains, `.SUFFIX`, `*.SUFFIX`, an IP
/// address, each perhaps with a port. What curl and Go have in common.
fn covers(entry: &str, address: &Address) -> bool {
    if entry == "*" {
        return true;
    }
    let bare = |host: &str| host.trim_start_matches('[').trim_end_matches(']').to_lowercase();
    let is_ip = entry.parse::<std::net::IpAddr>().is_ok();
    let (entry, port) = match entry.rsplit_once(':') {
        Some((name, port)) if !is_ip && !port.ends_with(']') => (name, Some(port)),
        _ => (entry, None),
    };
    if port.is_some_and(|port| port.parse() != Ok(address.port())) {
        return false;
    }
    let host = bare(address.host());
    let name = bare(entry.trim_start_matches('*').trim_start_matches('.'));
    let is_below = || host.strip_suffix(&name).is_some_and(|rest| rest.ends_with('.'));
    !name.is_empty() && (host == name || is_below())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_proxy_is_read_in_its_usual_forms() {
        let direct = |no_proxy: &str, address: &str| {
            let environment =
                Environment { no_proxy: no_proxy.to_owned(), ..Environment::default() };
            is_direct(&Address::parse(address).unwrap(), &environment)
        };
        for (no_proxy, address) in [
            ("*", "https://a.example"),
            ("x, a.example", "https://a.example"),
            ("x a.example", "https://A.Example:8443"),
            ("example", "https://a.example"),
            (".a.example", "https://b.a.example"),
            (".a.example", "https://a.example"),
            ("*.a.example", "https://b.a.example"),
            ("a.example:8443", "https://a.example:8443"),
            ("a.example:443", "https://a.example"),
            ("10.0.0.7", "https://10.0.0.7"),
            ("fd00::7", "https://[fd00::7]"),
            ("[fd00::7]:443", "https://[fd00::7]"),
            ("", "https://localhost"),
            ("", "http://127.0.0.9:5000"),
            ("", "http://[::1]:5000"),
        ] {
            assert!(direct(no_proxy, address), "{no_proxy} {address}");
        }
        for (no_proxy, address) in [
            ("", "https://a.example"),
            (" , ", "https://a.example"),
            (".", "https://a.example"),
            ("a.example:444", "https://a.example"),
            ("a.example", "https://ba.example"),
            ("b.a.example", "https://a.example"),
            ("0.0.7", "https://10.0.0.70"),
        ] {
            assert!(!direct(no_proxy, address), "{no_proxy} {address}");
        }
    }

    #[test]
    fn a_proxy_is_named_without_its_credentials() {
        let read =
            |value: &str| read(&ProxyVariable { name: "HTTPS_PROXY", value: value.to_owned() });
        for value in ["http://me:hunter2@proxy.example:3128", "me:hunter2@proxy.example:3128"] {
            let usable = read(value).unwrap();
            assert_eq!(usable.name, "the proxy proxy.example:3128 (HTTPS_PROXY)");
            assert_eq!(usable.proxy.password(), Some("hunter2"));
        }
        assert_eq!(read("proxy").unwrap().name, "the proxy proxy:80 (HTTPS_PROXY)");
        for value in
            ["socks5://me:hunter2@proxy", "gopher://hunter2", "hunter2 hunter2", "/hunter2"]
        {
            let error = read(value).err().unwrap();
            assert!(error.what.contains("HTTPS_PROXY"), "{error}");
            assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
        }
    }
}
