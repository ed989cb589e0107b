//! What the user has logged in with, by `docker login` or `podman login`.

use super::environment::Environment;
use super::helper;
use super::reference::DOCKER_HUB;
use crate::escape;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The most that is read of a file of credentials, in bytes.
const FILE: u64 = 1 << 20;

/// How long a program that keeps passwords may take: it may ask a keyring that is locked.
const HELPER: Duration = Duration::from_secs(10);

/// The name by which Docker keeps what it knows of Docker Hub.
const HUB_KEY: &str = "https://index.docker.io/v1/";

/// What proves who the user is.
#[derive(Clone, Eq, PartialEq)]
pub enum Credentials {
    /// A name and a password.
    Password {
        /// The name.
        user: String,
        /// The password.
        password: String,
    },
    /// A token that the registry's token service changes for another (OAuth 2 calls it a refresh token).
    Identity(String),
}

/// Credentials, and where they were found.
#[derive(Debug, Eq, PartialEq)]
pub struct Kept {
    /// The credentials.
    pub credentials: Credentials,
    /// The file that has or names them, escaped for display.
    pub file: String,
}

/// What is to be done with a login.
#[derive(Debug, Eq, PartialEq)]
pub enum Found {
    /// There is none.
    Nothing,
    /// It is to be sent.
    Login(Kept),
    /// It is for HTTPS, which the registry does not speak here. The file that has or names it, escaped for
    /// display.
    Withheld(String),
}

/// Says of which kind they are, and no more.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Credentials::Password { .. } => "Password",
            Credentials::Identity(_) => "Identity",
        })
    }
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Logins {
    #[serde(deserialize_with = "or_default")]
    auths: HashMap<String, Login>,
    #[serde(deserialize_with = "or_default")]
    cred_helpers: HashMap<String, String>,
    #[serde(deserialize_with = "or_default")]
    creds_store: String,
}

/// Go's reader takes `null` for nothing, so tools write it.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Login {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
}

/// What the user has logged in with at `host`, for `repository`. A file or a program that cannot be
/// used is a warning: most images need no login.
///
/// A host on this machine that speaks plain HTTP is `unproven`: whoever listens at its port may be somebody
/// else than on the day of the login. Docker takes that on for a host that was named without a scheme, and
/// so do we; a login for `https://` does not go there.
pub fn find(environment: &Environment, host: &str, repository: &str, unproven: bool) -> Found {
    find_within(environment, host, repository, unproven, HELPER)
}

fn find_within(
    environment: &Environment,
    host: &str,
    repository: &str,
    unproven: bool,
    limit: Duration,
) -> Found {
    let mut withheld = None;
    for file in files(environment) {
        let Some(mut logins) = read(&file) else { continue };
        let set_aside = if unproven { logins.without_https() } else { Logins::default() };
        let credentials = in_file(&logins, host, repository)
            .or_else(|| by_helper(&logins, environment, host, limit));
        if let Some(credentials) = credentials {
            return Found::Login(Kept { credentials, file: shown(&file) });
        }
        let own = set_aside.cred_helpers.keys().any(|key| names(host).contains(&plain(key)));
        if own || in_file(&set_aside, host, repository).is_some() {
            withheld.get_or_insert_with(|| shown(&file));
        }
    }
    withheld.map_or(Found::Nothing, Found::Withheld)
}

impl Logins {
    /// Takes out those for HTTPS alone, and hands them out.
    fn without_https(&mut self) -> Logins {
        let is_https = |key: &str| key.starts_with("https://");
        Logins {
            auths: self.auths.extract_if(|key, _| is_https(key)).collect(),
            cred_helpers: self.cred_helpers.extract_if(|key, _| is_https(key)).collect(),
            creds_store: String::new(),
        }
    }
}

/// The files, the first that knows the host being taken: Podman's, then Docker's.
fn files(environment: &Environment) -> Vec<PathBuf> {
    let home = environment.home.as_ref();
    let below = |dir: Option<&PathBuf>, path: &str| dir.map(|dir| dir.join(path));
    let docker = environment.docker_config.clone().or_else(|| below(home, ".docker"));
    let places = [
        environment.auth_file.clone(),
        below(environment.runtime_dir.as_ref(), "containers/auth.json"),
        below(home, ".config/containers/auth.json"),
        below(docker.as_ref(), "config.json"),
    ];
    places.into_iter().flatten().collect()
}

fn shown(path: &Path) -> String {
    escape::for_display(&path.to_string_lossy(), 300)
}

fn read(path: &Path) -> Option<Logins> {
    let warn = |why: String| {
        tracing::warn!("{} is not used ({why})", shown(path));
        None
    };
    let mut text = Vec::new();
    match File::open(path).and_then(|file| file.take(FILE).read_to_end(&mut text)) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => return warn(error.to_string()),
    }
    // What serde_json says may quote what it read.
    let parsed = serde_json::from_slice::<Logins>(&text);
    parsed
        .or_else(|error| warn(format!("line {} is not as it should be", error.line())).ok_or(error))
        .ok()
}

/// The host's login in the file itself. Podman also keeps logins for parts of a registry.
fn in_file(logins: &Logins, host: &str, repository: &str) -> Option<Credentials> {
    let mut keys = Vec::new();
    for name in names(host) {
        let mut path = format!("{name}/{repository}");
        while path.contains('/') {
            keys.push(path.clone());
            path.truncate(path.rfind('/').unwrap_or(0));
        }
    }
    keys.extend(names(host).iter().map(|name| (*name).to_owned()));
    keys.iter().find_map(|key| {
        let known = logins.auths.iter().filter(|(name, _)| plain(name) == *key);
        known.map(|(_, login)| login).find_map(|login| of_login(login, key))
    })
}

/// The names that files know a host by.
fn names(host: &str) -> Vec<&str> {
    if host == DOCKER_HUB { vec!["docker.io", "index.docker.io", DOCKER_HUB] } else { vec![host] }
}

/// A key without the scheme and the version that old Dockers wrote: `https://HOST/v1/`.
fn plain(key: &str) -> &str {
    let key = key.strip_prefix("https://").or(key.strip_prefix("http://")).unwrap_or(key);
    let key = key.trim_end_matches('/');
    key.strip_suffix("/v1").or(key.strip_suffix("/v2")).unwrap_or(key)
}

fn of_login(login: &Login, key: &str) -> Option<Credentials> {
    if let Some(token) = login.identitytoken.as_ref().filter(|token| !token.is_empty()) {
        return Some(Credentials::Identity(token.clone()));
    }
    if let (Some(user), Some(password)) = (&login.username, &login.password)
        && !user.is_empty()
    {
        return Some(Credentials::Password { user: user.clone(), password: password.clone() });
    }
    let auth = login.auth.as_ref().filter(|auth| !auth.is_empty())?;
    let decoded = STANDARD.decode(auth.trim()).ok().and_then(|text| String::from_utf8(text).ok());
    let pair = decoded.as_ref().and_then(|text| text.split_once(':'));
    let Some((user, password)) = pair else {
        let key = escape::for_display(key, 100);
        tracing::warn!("the login for {key} is not used (it is no name and password in base64)");
        return None;
    };
    // Docker once padded passwords with zero bytes.
    let password = password.trim_end_matches('\0');
    Some(Credentials::Password { user: user.to_owned(), password: password.to_owned() })
}

fn by_helper(
    logins: &Logins,
    environment: &Environment,
    host: &str,
    limit: Duration,
) -> Option<Credentials> {
    let mut own = logins.cred_helpers.iter();
    let own = own.find(|(key, _)| names(host).contains(&plain(key)));
    let (server, helper) = match own {
        Some((key, helper)) => (key.as_str(), helper),
        None if logins.creds_store.is_empty() => return None,
        None => (if host == DOCKER_HUB { HUB_KEY } else { host }, &logins.creds_store),
    };
    helper::get(helper, server, &environment.path, limit).unwrap_or_else(|why| {
        tracing::warn!("docker-credential-{} is not used ({why})", escape::for_display(helper, 50));
        None
    })
}

#[cfg(test)]
#[path = "credentials_tests.rs"]
mod tests;
