//! Addresses of what is asked for, and where a server may send us.

use crate::config::is_loopback;
use std::fmt;
use ureq::http::Uri;
use ureq::http::uri::Scheme;

/// An address that may be asked: HTTPS, or plain HTTP to this machine; with no user name and no
/// password in it. Its text may hold a signature, so only its host is ever displayed.
#[derive(Clone, Eq, PartialEq)]
pub struct Address(Uri);

/// Why a server's `Location` or token service is not asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Refused {
    /// It is no address.
    Malformed,
    /// It leads from HTTPS to plain HTTP.
    Downgrade,
    /// It leads to plain HTTP on another machine.
    Plain,
    /// It has a user name in it.
    UserName,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::Malformed => "to what is no address",
            Refused::Downgrade => "from HTTPS to plain HTTP",
            Refused::Plain => "to plain HTTP on another machine",
            Refused::UserName => "to an address with a user name in it",
        })
    }
}

impl Refused {
    /// The same as a reason of its own, where nothing leads anywhere.
    pub fn reason(self) -> &'static str {
        match self {
            Refused::Malformed => "it is no address",
            Refused::Downgrade => "it leads from HTTPS to plain HTTP",
            Refused::Plain => "it is plain HTTP to another machine",
            Refused::UserName => "it has a user name in it",
        }
    }
}

impl Address {
    /// Reads a full address.
    ///
    /// # Errors
    /// Why it may not be asked.
    pub fn parse(text: &str) -> Result<Address, Refused> {
        // The part after # is for browsers alone.
        let text = text.split('#').next().unwrap_or_default();
        let uri: Uri = text.parse().map_err(|_| Refused::Malformed)?;
        let authority = uri.authority().ok_or(Refused::Malformed)?;
        if authority.as_str().contains('@') {
            return Err(Refused::UserName);
        }
        if authority.host().is_empty() {
            return Err(Refused::Malformed);
        }
        let plain = uri.scheme() == Some(&Scheme::HTTP);
        if !plain && uri.scheme() != Some(&Scheme::HTTPS) {
            return Err(Refused::Malformed);
        }
        let address = Address(uri);
        if plain && !address.is_loopback() { Err(Refused::Plain) } else { Ok(address) }
    }

    /// Where a server at this address may send us: a full address, or one that starts with `/`, `//`
    /// or `?` or is beside this one.
    ///
    /// # Errors
    /// Why it may not be asked.
    pub fn follow(&self, location: &str) -> Result<Address, Refused> {
        let scheme = if self.is_https() { "https" } else { "http" };
        let authority = self.0.authority().map_or("", |authority| authority.as_str());
        let path = self.0.path();
        let has_scheme = location.split(['/', '?', '#']).next().is_some_and(|s| s.contains(':'));
        let full = if has_scheme {
            location.to_owned()
        } else if location.starts_with("//") {
            format!("{scheme}:{location}")
        } else if location.starts_with('/') {
            format!("{scheme}://{authority}{location}")
        } else if location.starts_with('?') {
            format!("{scheme}://{authority}{path}{location}")
        } else {
            let folder = path.rfind('/').and_then(|slash| path.get(..=slash)).unwrap_or("/");
            format!("{scheme}://{authority}{folder}{location}")
        };
        if self.is_https() && full.get(..5).is_some_and(|s| s.eq_ignore_ascii_case("http:")) {
            return Err(Refused::Downgrade);
        }
        Address::parse(&full)
    }

    /// Whether what is secret to one is so to the other: the same scheme, host and port.
    pub fn same_origin(&self, other: &Address) -> bool {
        let origin = |address: &Address| {
            (address.is_https(), address.host().to_ascii_lowercase(), address.port())
        };
        origin(self) == origin(other)
    }

    /// Whether it is this machine.
    pub fn is_loopback(&self) -> bool {
        is_loopback(self.host())
    }

    /// Whether it is HTTPS.
    pub fn is_https(&self) -> bool {
        self.0.scheme() == Some(&Scheme::HTTPS)
    }

    /// The host alone, as an address writes it: an IPv6 address has its brackets.
    pub fn host(&self) -> &str {
        self.0.host().unwrap_or_default()
    }

    /// The port, named or not.
    pub fn port(&self) -> u16 {
        self.0.port_u16().unwrap_or(if self.is_https() { 443 } else { 80 })
    }

    /// The whole address, for requests and never for a text.
    pub fn secret_uri(&self) -> &Uri {
        &self.0
    }

    /// The same address with more parameters, each a name and a value.
    pub fn with_query(&self, parameters: &[(&str, &str)]) -> Option<Address> {
        let mut text = self.0.to_string();
        for (name, value) in parameters {
            text.push(if text.contains('?') { '&' } else { '?' });
            text.push_str(&format!("{name}={}", encoded(value)));
        }
        text.parse().ok().map(Address)
    }
}

/// The host, with its port where it is not the usual one.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = if self.is_https() { 443 } else { 80 };
        f.write_str(&crate::escape::for_display(self.host(), 100))?;
        if self.port() == usual { Ok(()) } else { write!(f, ":{}", self.port()) }
    }
}

/// The same as its display: tests and logs get no signature either.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}

fn encoded(value: &str) -> percent_encoding::PercentEncode<'_> {
    percent_encoding::utf8_percent_encode(value, percent_encoding::NON_ALPHANUMERIC)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Address {
        Address::parse(text).unwrap()
    }

    #[test]
    fn plain_http_is_for_this_machine_alone() {
        for good in ["http://127.0.0.1:5000/", "http://localhost/a", "http://[::1]:1/", "HTTPS://a"]
        {
            assert!(Address::parse(good).is_ok(), "{good}");
        }
        for (bad, why) in [
            ("http://example.com/", Refused::Plain),
            ("http://127.example.com/", Refused::Plain),
            ("http://127.0.0.1.example.com/", Refused::Plain),
            ("https://user@example.com/", Refused::UserName),
            ("https://127.0.0.1:80@example.com/", Refused::UserName),
            ("ftp://example.com/", Refused::Malformed),
            ("/a", Refused::Malformed),
            ("https://", Refused::Malformed),
            ("https://a b/", Refused::Malformed),
        ] {
            assert_eq!(Address::parse(bad), Err(why), "{bad}");
        }
    }

    #[test]
    fn a_redirect_is_judged_by_where_it_comes_from() {
        let far = address("https://a.example/v2/x?y=z");
        let near = address("http://localhost:5000/v2/x");
        assert_eq!(far.follow("http://a.example/"), Err(Refused::Downgrade));
        assert_eq!(far.follow("HTTP://127.0.0.1/"), Err(Refused::Downgrade));
        assert_eq!(near.follow("http://a.example/"), Err(Refused::Plain));
        assert_eq!(near.follow("//a.example/"), Err(Refused::Plain));
        assert_eq!(far.follow("file:///etc/passwd"), Err(Refused::Malformed));
        let to = |from: &Address, location| from.follow(location).unwrap().secret_uri().to_string();
        assert_eq!(to(&far, "https://b.example/?s=1#f"), "https://b.example/?s=1");
        assert_eq!(to(&near, "https://b.example/"), "https://b.example/");
        assert_eq!(to(&near, "http://127.0.0.1:1/"), "http://127.0.0.1:1/");
        assert_eq!(to(&far, "//b.example/c"), "https://b.example/c");
        assert_eq!(to(&far, "/c?d=e:f"), "https://a.example/c?d=e:f");
        assert_eq!(to(&far, "w"), "https://a.example/v2/w");
        assert_eq!(to(&far, "?w"), "https://a.example/v2/x?w");
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let home = address("https://a.example/x");
        for same in ["https://a.example:443/y", "https://A.Example/"] {
            assert!(home.same_origin(&address(same)), "{same}");
        }
        for other in ["https://a.example:444/", "https://b.a.example/", "http://localhost:443/"] {
            assert!(!home.same_origin(&address(other)), "{other}");
        }
    }

    #[test]
    fn parameters_are_encoded_and_never_shown() {
        let with = address("https://a.example/token?x=1").with_query(&[("service", "a b&c")]);
        let with = with.unwrap();
        assert_eq!(with.secret_uri().query(), Some("x=1&service=a%20b%26c"));
        assert_eq!(format!("{with} {with:?}"), "a.example Address(a.example)");
        assert_eq!(address("http://[::1]:5000/").to_string(), "[::1]:5000");
    }
}
