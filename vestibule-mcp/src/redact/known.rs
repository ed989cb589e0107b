//! Addresses of the environment that lead an engine elsewhere. Their values are known, so nothing of their
//! passwords is left in a text, whatever the passwords hold and wherever the text quotes them.

use super::{LEFT_OUT, bare_value, has_scheme, text};
use std::ffi::OsString;
use std::sync::LazyLock;

/// Variables that lead the command line of an engine elsewhere.
pub const ADDRESSES: [&str; 2] = ["DOCKER_HOST", "CONTAINER_HOST"];
/// What is shorter is no password to look for: it stands in every other word.
const SHORT: usize = 4;
/// What is shorter is no part of one that tells anything.
const PART: usize = 2;

/// The addresses of an environment.
#[derive(Debug, Default)]
pub struct Known(Vec<Address>);

/// One address with a secret.
#[derive(Debug)]
struct Address {
    /// As it is, and as a program quotes it.
    values: Vec<String>,
    /// How it is shown.
    shown: String,
    /// The user's name and password, if there are any.
    user: String,
    /// What goes wherever it stands: the password, with and without its escapes.
    secrets: Vec<String>,
}

/// What is known of this process's environment.
static OURS: LazyLock<Known> = LazyLock::new(|| Known::new(|name| std::env::var_os(name)));

/// What an engine's client says, as it may be passed on: it quotes the address that it cannot use.
pub fn engines_words(said: &str) -> String {
    OURS.clean(said)
}

/// Whether an address of the environment has anything to hide.
pub fn knows_secrets() -> bool {
    !OURS.0.is_empty()
}

impl Known {
    /// What is known of this environment. The names may be in lower case, as those of a proxy are.
    pub fn new(variable: impl Fn(&str) -> Option<OsString>) -> Known {
        let names = ADDRESSES.iter().flat_map(|name| [name.to_string(), name.to_lowercase()]);
        let values = names.filter_map(|name| variable(&name));
        Known(values.filter_map(|value| Address::new(value.to_string_lossy().trim())).collect())
    }

    /// A text without the secrets of these addresses, nor of any other that looks like one.
    pub fn clean(&self, said: &str) -> String {
        text(&self.0.iter().fold(said.to_owned(), |said, address| address.clean(&said)))
    }
}

impl Address {
    fn new(value: &str) -> Option<Address> {
        let shown = bare_value(value);
        if shown == value {
            return None;
        }
        let rest = if has_scheme(value) { value.split_once("://")?.1 } else { value };
        let user = rest.rsplit_once('@').map_or("", |(user, _)| user).to_owned();
        // Where a query has an `@` too, the password ends at one of them.
        let begin = user.find(':').map_or(rest.len(), |at| at + 1);
        let ends = rest.match_indices('@').filter_map(|(end, _)| rest.get(begin..end));
        let mut secrets: Vec<String> = ends
            .flat_map(|password| [password.to_owned(), unescaped(password)])
            .flat_map(|secret| [quoted(&secret), secret])
            .filter(|secret| secret.chars().count() >= SHORT)
            .collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        Some(Address { values: vec![quoted(value), value.to_owned()], shown, user, secrets })
    }

    fn clean(&self, said: &str) -> String {
        let whole = self
            .values
            .iter()
            .fold(said.to_owned(), |said, value| said.replace(value.as_str(), &self.shown));
        let left = LEFT_OUT.to_string();
        let said =
            self.secrets.iter().fold(whole, |said, secret| said.replace(secret.as_str(), &left));
        self.without_parts(&said)
    }

    /// A parser quotes the part that it does not like: `invalid port ":hunter2" after host`.
    fn without_parts(&self, said: &str) -> String {
        let parts = said.split('"').enumerate().map(|(index, part)| {
            let long = part.chars().count() >= PART;
            let is_part = index % 2 == 1 && long && self.user.contains(part);
            if is_part { LEFT_OUT.to_string() } else { part.to_owned() }
        });
        parts.collect::<Vec<_>>().join("\"")
    }
}

/// As Docker and Podman quote a text, which are written in Go: like Rust, but for some characters.
fn quoted(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars() {
        match c {
            '\'' => shown.push(c),
            '\u{7}' => shown.push_str("\\a"),
            '\u{8}' => shown.push_str("\\b"),
            '\u{b}' => shown.push_str("\\v"),
            '\u{c}' => shown.push_str("\\f"),
            '\0'..='\u{1f}' | '\u{7f}' if !"\t\n\r".contains(c) => {
                shown.push_str(&format!("\\x{:02x}", u32::from(c)));
            }
            _ => shown.extend(c.escape_debug()),
        }
    }
    shown
}

/// A password of an address without its percent signs; as it is if that would be no text.
fn unescaped(password: &str) -> String {
    let bytes = password.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = password.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        plain.push(byte.unwrap_or(bytes[at]));
        at += if byte.is_some() { 3 } else { 1 };
    }
    String::from_utf8(plain).unwrap_or_else(|_| password.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(name: &str, value: &str) -> Known {
        Known::new(|asked| (asked == name).then(|| value.into()))
    }

    #[test]
    fn nothing_of_a_known_password_is_left_however_it_is_quoted() {
        for (host, said) in [
            ("tcp://ada:p hunter2@h:9", "parse \"tcp://ada:p hunter2@h:9\": invalid userinfo"),
            ("tcp://ada:p'\"hunter2@h", "parse \"tcp://ada:p'\\\"hunter2@h\": invalid"),
            ("tcp://ada:p\u{1b}hunter2@h", "parse \"tcp://ada:p\\x1bhunter2@h\": invalid"),
            ("ssh://ada:hunter2 SECRET@h/x", "invalid host ssh://ada:hunter2 SECRET@h/x"),
            ("ada:hunter2@h", "no answer from ada:hunter2@h"),
            ("tcp://ada:hunter2/x@h", "parse \"x\": invalid port \":hunter2\" after host"),
            ("ssh://ada:hunter%32 x@h", "no login with hunter2 x at h"),
            ("tcp://h?token=hunter2", "no answer from tcp://h?token=hunter2"),
            ("ada:hunter2://x@h", "no address: ada:hunter2://x@h"),
            ("tcp://ada:hunter2@h?a=@b", "no answer from ada, hunter2"),
        ] {
            let shown = known("DOCKER_HOST", host).clean(said);
            assert!(!shown.contains("hunter2") && shown.contains('…'), "{host}: {shown}");
        }
        let part = "parse \"ssh://ada:hun%zzter2@h\": invalid URL escape \"%zz\"";
        let shown = known("CONTAINER_HOST", "ssh://ada:hun%zzter2@h").clean(part);
        assert_eq!(shown, "parse \"ssh://…@h\": invalid URL escape \"…\"");
    }

    #[test]
    fn this_process_knows_its_own_environment() {
        const HOST: &str = "tcp://ada:p hunter2@h";
        if std::env::var_os("DOCKER_HOST").is_some_and(|host| host == HOST) {
            assert_eq!(engines_words(&format!("at {HOST}")), "at tcp://…@h");
            assert!(knows_secrets());
            return;
        }
        // This test once more, in a process with another environment.
        let name = "redact::known::tests::this_process_knows_its_own_environment";
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        let done = again.args(["--exact", name]).env("DOCKER_HOST", HOST).output().unwrap();
        let printed = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success() && printed.contains("1 passed"), "{printed}");
    }

    #[test]
    fn a_name_in_lower_case_is_known_too() {
        let shown = known("docker_host", "tcp://ada:p hunter2@h").clean("at tcp://ada:p hunter2@h");
        assert_eq!(shown, "at tcp://…@h");
    }

    #[test]
    fn what_is_no_secret_stays() {
        let said = "Error: \"a\" is \"ad\" at unix:///run/docker.sock for ada";
        for host in ["unix:///run/docker.sock", "tcp://x:a@h", "ssh://h", ""] {
            assert_eq!(known("DOCKER_HOST", host).clean(said), said);
        }
    }

    #[test]
    fn an_unknown_address_is_redacted_all_the_same() {
        assert_eq!(Known::default().clean("at \"ssh://ada:hunter2@h\""), "at \"ssh://…@h\"");
    }
}
