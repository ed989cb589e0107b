//! The types of the settings' values, and how their text is read.

use super::table::Setting;
use std::fmt;
use std::net::Ipv4Addr;

macro_rules! choice {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub enum $name { $($(#[$variant_doc])* $variant,)* }

        impl $name {
            /// The choice of that name, in any case of letters.
            pub fn parse(text: &str) -> Option<$name> {
                $(if text.eq_ignore_ascii_case($word) { return Some($name::$variant); })*
                None
            }

            /// The name as users type it.
            pub const fn name(self) -> &'static str {
                match self { $($name::$variant => $word,)* }
            }
        }
    };
}

choice! {
    /// `VESTIBULE_BACKEND`.
    BackendChoice {
        /// The strongest that works.
        Auto = "auto",
        /// The native sandbox alone.
        Native = "native",
        /// A container alone.
        Container = "container",
        /// No isolation at all.
        Naive = "naive",
    }
}

choice! {
    /// `VESTIBULE_RUNTIME`.
    RuntimeChoice {
        /// Docker, then Podman.
        Auto = "auto",
        /// Docker alone.
        Docker = "docker",
        /// Podman alone.
        Podman = "podman",
    }
}

choice! {
    /// `VESTIBULE_ROOTFS`.
    RootfsChoice {
        /// The image where it is there, else this machine's `/usr`.
        Auto = "auto",
        /// The image alone.
        Image = "image",
        /// This machine's `/usr` alone.
        Host = "host",
    }
}

/// Reads a switch.
pub fn parse_switch(text: &str) -> Option<bool> {
    let is = |words: [&str; 4]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
    if is(["1", "true", "yes", "on"]) {
        return Some(true);
    }
    is(["0", "false", "no", "off"]).then_some(false)
}

/// Reads a whole number within a range: digits and nothing else.
pub fn parse_number(text: &str, min: u32, max: u32) -> Option<u32> {
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    text.parse().ok().filter(|number| (min..=max).contains(number))
}

/// What of an image's name stands for its repository, which no registry takes in upper case: neither the
/// host nor the tag.
fn repository(name: &str) -> &str {
    let path = match name.split_once('/') {
        Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => path,
        _ => name,
    };
    let last = path.rfind('/').map_or(0, |slash| slash + 1);
    let tag = path.get(last..).and_then(|last| last.find(':'));
    tag.and_then(|tag| path.get(..last + tag)).unwrap_or(path)
}

/// A reference to a container image: `[HOST[:PORT]/]NAME[:TAG][@ALGORITHM:DIGEST]`, the algorithm being
/// sha256 or sha512.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ImageReference(String);

impl ImageReference {
    /// The reference, if it is well-formed.
    pub fn parse(text: &str) -> Option<ImageReference> {
        let (name, digest) = match text.split_once('@') {
            Some((name, digest)) => (name, Some(digest)),
            None => (text, None),
        };
        let part = |part: &str| {
            let starts = part.starts_with(|c: char| c.is_ascii_alphanumeric());
            starts && part.chars().all(|c| c.is_ascii_alphanumeric() || "._-:".contains(c))
        };
        let named = name.len() <= 255
            && name.split('/').all(part)
            && !name.ends_with(':')
            && !repository(name).contains(|c: char| c.is_ascii_uppercase());
        (named && digest.is_none_or(is_digest)).then(|| ImageReference(text.to_owned()))
    }

    /// The reference as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it names one image and no other, by its digest or as an engine's id.
    pub fn is_pinned(&self) -> bool {
        self.0.contains('@') || self.is_id()
    }

    /// Whether it is what an engine calls an image that it has, by the digest of its configuration.
    pub fn is_id(&self) -> bool {
        is_digest(&self.0)
    }
}

fn is_digest(text: &str) -> bool {
    let (digits, length) = match text.split_once(':') {
        Some(("sha256", digits)) => (digits, 64),
        Some(("sha512", digits)) => (digits, 128),
        _ => return false,
    };
    digits.len() == length && digits.chars().all(|c| matches!(c, '0'..='9' | 'a'..='f'))
}

/// Reads a registry's address: HTTPS, or plain HTTP to this machine alone.
pub fn parse_registry(text: &str) -> Option<String> {
    let (plain, rest) = match text.split_once("://") {
        Some(("https", rest)) => (false, rest),
        Some(("http", rest)) => (true, rest),
        Some(_) => return None,
        None => (false, text),
    };
    let authority = rest.split('/').next().unwrap_or_default();
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let host_fits = host == "[::1]"
        || (!host.is_empty()
            && host.chars().all(|c| c.is_ascii_alphanumeric() || "-.".contains(c)));
    let port_fits = port.is_none_or(|port| parse_number(port, 1, 65_535).is_some());
    let path_fits = rest.chars().all(|c| c.is_ascii_alphanumeric() || "-._~/:[]".contains(c));
    (host_fits && port_fits && path_fits && (!plain || is_loopback(host))).then(|| text.to_owned())
}

/// Whether a host, as an address names it, is this machine: a name such as 127.example.com is not.
pub fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host == "[::1]"
        || host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
}

/// The variable that names the home folder.
pub const HOME: &str = if cfg!(windows) { "USERPROFILE" } else { "HOME" };

/// A setting that is set to something else than its default, be it valid or not.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Changed {
    /// The setting.
    pub setting: &'static Setting,
    /// Its value as it was set, without secrets of an address, escaped and cut for display.
    pub value: String,
}

/// What is wrong with the settings.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Problem {
    /// A setting cannot be used as it is.
    Setting {
        /// The variable's name.
        name: &'static str,
        /// Its value, escaped and cut for display.
        value: String,
        /// What it may be, as the end of a sentence that begins with "it must be".
        expected: String,
    },
    /// A folder lies in the home folder, and neither the environment nor the user database names
    /// one.
    NoHome {
        /// The value of [`HOME`], escaped and cut for display, where it is set and no absolute path.
        value: Option<String>,
    },
}

impl Problem {
    /// What to do about it, as one clause without a full stop.
    pub fn fix(&self) -> String {
        match self {
            Problem::Setting { expected, .. } => format!("set it to {expected}, or remove it"),
            Problem::NoHome { .. } => {
                format!("set {HOME} {}", super::ENVIRONMENT)
            }
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Problem::Setting { name, value, expected } => {
                write!(f, "{name} is \"{value}\": it must be {expected}")
            }
            Problem::NoHome { value: None } => {
                write!(f, "no home folder is known ({HOME} is unset)")
            }
            Problem::NoHome { value: Some(value) } => {
                write!(f, "no home folder is known ({HOME} is \"{value}\", no absolute path)")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_take_eight_words_in_any_case() {
        for (text, want) in
            [("1", true), ("YES", true), ("on", true), ("False", false), ("0", false)]
        {
            assert_eq!(parse_switch(text), Some(want), "{text}");
        }
        for text in ["2", "maybe", "", "y"] {
            assert_eq!(parse_switch(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_are_digits_within_the_range() {
        assert_eq!(parse_number("010", 1, 60), Some(10));
        for text in ["", "-3", "+3", "1.0", "1e1", "0", "61", "soon", "99999999999999999999"] {
            assert_eq!(parse_number(text, 1, 60), None, "{text}");
        }
    }

    #[test]
    fn an_engines_id_means_one_image_and_has_no_name() {
        let hex = "a".repeat(64);
        let image = |text: &str| ImageReference::parse(text).unwrap();
        let id = image(&format!("sha256:{hex}"));
        assert!(id.is_id() && id.is_pinned());
        let pinned = image(&format!("python@sha256:{hex}"));
        assert!(!pinned.is_id() && pinned.is_pinned());
        for named in ["sha256:3", "python:3", "sha256"] {
            assert!(!image(named).is_id() && !image(named).is_pinned(), "{named}");
        }
    }

    #[test]
    fn image_references_are_checked_to_the_last_digit_of_the_pin() {
        let digest = "a".repeat(64);
        let good = [
            "python".to_owned(),
            "localhost:5000/python:3.12-slim".to_owned(),
            "GHCR.io/python:RC1".to_owned(),
            "Registry:5000/a/b:RC.A".to_owned(),
            format!("docker.io/library/python@sha256:{digest}"),
            format!("python:3.12@sha512:{digest}{digest}"),
        ];
        for text in good {
            assert!(ImageReference::parse(&text).is_some(), "{text}");
        }
        let bad = [
            "".to_owned(),
            "-v".to_owned(),
            "a b".to_owned(),
            "a//b".to_owned(),
            "Python".to_owned(),
            "docker.io/Library/python".to_owned(),
            "Someone/python:3".to_owned(),
            "python@sha256:abc".to_owned(),
            format!("python@sha256:{}", "G".repeat(64)),
            format!("python@md5:{digest}"),
            format!("python@sha256:{digest}{digest}"),
            format!("python@sha512:{digest}"),
            format!("python@sha256:{digest}@sha256:{digest}"),
        ];
        for text in bad {
            assert!(ImageReference::parse(&text).is_none(), "{text}");
        }
    }

    #[test]
    fn plain_http_goes_to_this_machine_alone() {
        for text in [
            "https://mirror.example/v2",
            "mirror.example:5000",
            "http://127.0.0.1:5000",
            "http://[::1]:80",
        ] {
            assert!(parse_registry(text).is_some(), "{text}");
        }
        for text in [
            "http://mirror.example",
            "http://127.mirror.example",
            "http://127.0.0.1.mirror.example",
            "ftp://x",
            "https://",
            "https://u:p@h",
            "https://h:99999",
            "a b",
        ] {
            assert!(parse_registry(text).is_none(), "{text}");
        }
    }
}
