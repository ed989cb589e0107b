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
pub fn find(environment: &Environment, host: &str, repository: &str) -> Option<Kept> {
    find_within(environment, host, repository, HELPER)
}

fn find_within(
    environment: &Environment,
    host: &str,
    repository: &str,
    limit: Duration,
) -> Option<Kept> {
    files(environment).into_iter().find_map(|file| {
        let logins = read(&file)?;
        let credentials = in_file(&logins, host, repository)
            .or_else(|| by_helper(&logins, environment, host, limit))?;
        Some(Kept { credentials, file: shown(&file) })
    })
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
mod tests {
    use super::*;
    use crate::setup::registry::fake::Folder;
    use serde_json::{Value, json};
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::time::Instant;

    fn find(environment: &Environment, host: &str, repository: &str) -> Option<Credentials> {
        super::find(environment, host, repository).map(|kept| kept.credentials)
    }

    fn folder_with(name: &str, config: &Value) -> (Folder, Environment) {
        let folder = Folder::new(name);
        fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
        let docker_config = Some(folder.path().to_owned());
        let path = folder.path().as_os_str().to_owned();
        (folder, Environment { docker_config, path, ..Environment::default() })
    }

    fn helper(folder: &Folder, name: &str, script: &str) {
        let path = folder.path().join(format!("docker-credential-{name}"));
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    }

    fn password(user: &str, password: &str) -> Option<Credentials> {
        Some(Credentials::Password { user: user.to_owned(), password: password.to_owned() })
    }

    #[test]
    fn logins_are_found_by_every_name_that_docker_and_podman_give() {
        let auth = |text: &str| json!({"auth": STANDARD.encode(text)});
        let (_folder, environment) = folder_with(
            "logins",
            &json!({"auths": {
                HUB_KEY: auth("hub:p:w"),
                "https://old.example/v1/": auth("old:pw"),
                "plain.example:5000": auth("plain:pw\0\0"),
                "parts.example": auth("all:pw"),
                "parts.example/team": auth("team:pw"),
                "token.example": {"auth": STANDARD.encode("x:"), "identitytoken": "t"},
                "named.example": {"username": "u", "password": "p"},
                "empty.example": {},
                "bad.example": {"auth": "%%%"},
            }}),
        );
        let at = |host, repository| find(&environment, host, repository);
        assert_eq!(at(DOCKER_HUB, "library/python"), password("hub", "p:w"));
        assert_eq!(at("old.example", "a"), password("old", "pw"));
        assert_eq!(at("plain.example:5000", "a"), password("plain", "pw"));
        assert_eq!(at("parts.example", "team/a"), password("team", "pw"));
        assert_eq!(at("parts.example", "teams/a"), password("all", "pw"));
        assert_eq!(at("token.example", "a"), Some(Credentials::Identity("t".to_owned())));
        assert_eq!(at("named.example", "a"), password("u", "p"));
        for host in ["empty.example", "bad.example", "plain.example", "example"] {
            assert_eq!(at(host, "a"), None, "{host}");
        }
        assert_eq!(format!("{:?}", password("u", "hunter2")), "Some(Password)");
    }

    #[test]
    fn podmans_file_comes_first_and_one_that_cannot_be_read_is_passed_over() {
        let login = |user| json!({"auths": {"a.example": {"username": user, "password": "p"}}});
        let (folder, mut environment) = folder_with("files", &login("docker"));
        environment.runtime_dir = Some(folder.path().to_owned());
        environment.auth_file = Some(folder.path().join("mine.json"));
        let found = || find(&environment, "a.example", "b");
        assert_eq!(found(), password("docker", "p"));
        fs::create_dir(folder.path().join("containers")).unwrap();
        let podman = folder.path().join("containers/auth.json");
        fs::write(&podman, "{ no JSON").unwrap();
        assert_eq!(found(), password("docker", "p"));
        fs::write(&podman, login("podman").to_string()).unwrap();
        assert_eq!(found(), password("podman", "p"));
        fs::write(folder.path().join("mine.json"), login("mine").to_string()).unwrap();
        assert_eq!(found(), password("mine", "p"));
    }

    #[test]
    fn a_helper_is_asked_for_its_host_or_for_all() {
        let (folder, environment) = folder_with(
            "helpers",
            &json!({"credsStore": "all", "credHelpers": {
                "own.example": "own", "token.example": "token", "none.example": "none",
                "gone.example": "gone", "evil.example": "../own", "junk.example": "junk",
            }}),
        );
        helper(&folder, "all", r#"read h; echo "{\"Username\":\"$1\",\"Secret\":\"$h\"}""#);
        helper(&folder, "own", r#"echo '{"Username":"own","Secret":"s"}'"#);
        helper(&folder, "token", r#"echo '{"Username":"<token>","Secret":"t"}'"#);
        helper(&folder, "none", "echo 'credentials not found in native keychain'; exit 1");
        helper(&folder, "junk", "echo junk");
        let at = |host| find(&environment, host, "a");
        assert_eq!(at(DOCKER_HUB), password("get", HUB_KEY));
        assert_eq!(at("any.example"), password("get", "any.example"));
        assert_eq!(at("own.example"), password("own", "s"));
        assert_eq!(at("token.example"), Some(Credentials::Identity("t".to_owned())));
        for host in ["none.example", "gone.example", "evil.example", "junk.example"] {
            assert_eq!(at(host), None, "{host}");
        }
    }

    #[test]
    fn nulls_are_nothing_and_do_not_spoil_the_rest() {
        let auth = base64::engine::general_purpose::STANDARD.encode("ada:secret");
        let (_folder, environment) = folder_with(
            "nulls",
            &json!({"auths": {"a.example": {"auth": auth}}, "credHelpers": null, "credsStore": null}),
        );
        let found = find(&environment, "a.example", "library/x");
        assert!(matches!(found, Some(Credentials::Password { .. })), "{found:?}");
    }

    #[test]
    fn a_helper_that_hangs_is_left_behind_with_all_that_it_started() {
        let (folder, environment) = folder_with("hangs", &json!({"credsStore": "slow"}));
        let file = folder.path().join("pid");
        helper(&folder, "slow", &format!("sleep 60 & echo $! >'{}'; wait", file.display()));
        let (start, limit) = (Instant::now(), Duration::from_millis(300));
        assert_eq!(find_within(&environment, "a.example", "b", limit), None);
        assert!(start.elapsed() < Duration::from_secs(30));
        // Nothing is there where it was too slow even to start what is to be killed.
        let child = fs::read_to_string(&file).unwrap_or_default();
        let stat = format!("/proc/{}/stat", child.trim());
        let ended = || {
            let stat = fs::read_to_string(&stat).unwrap_or_default();
            stat.is_empty() || stat.contains(") Z ") || stat.contains(") X ")
        };
        while !ended() {
            assert!(start.elapsed() < Duration::from_secs(30), "{child} is still there");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
