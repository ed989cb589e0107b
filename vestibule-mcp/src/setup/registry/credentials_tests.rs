//! Which logins are found, and which are sent where.

use super::*;
use crate::setup::registry::fake::Folder;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

fn find(environment: &Environment, host: &str, repository: &str) -> Option<Credentials> {
    match super::find(environment, host, repository, false) {
        Found::Login(kept) => Some(kept.credentials),
        _ => None,
    }
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
fn a_login_for_https_is_for_https_alone() {
    let auth = |text: &str| json!({"auth": STANDARD.encode(text)});
    let (folder, environment) = folder_with(
        "schemes",
        &json!({"auths": {
            "https://tls:1/v2/": auth("tls:p"), "http://open:2": auth("open:p"), "any:3": auth("any:p"),
            "https://both:4": auth("tls:p"), "both:4": auth("both:p"), "https://tls:1/team": auth("team:p"),
        }, "credHelpers": {"https://helped:5": "own", "named:6": "own"}}),
    );
    helper(&folder, "own", r#"echo '{"Username":"own","Secret":"s"}'"#);
    let file = shown(&folder.path().join("config.json"));
    for (host, proven, unproven) in [
        ("tls:1", "tls", None),
        ("open:2", "open", Some("open")),
        ("any:3", "any", Some("any")),
        ("both:4", "", Some("both")),
        ("helped:5", "own", None),
        ("named:6", "own", Some("own")),
    ] {
        let user = |found| match found {
            Found::Login(Kept { credentials: Credentials::Password { user, .. }, .. }) => user,
            other => panic!("{host}: {other:?}"),
        };
        // Of two for one host it is not known which comes first.
        let sent = user(super::find(&environment, host, "a", false));
        assert!(proven.is_empty() || sent == proven, "{host}: {sent}");
        let found = super::find(&environment, host, "a", true);
        match unproven {
            Some(name) => assert_eq!(user(found), name),
            None => assert_eq!(found, Found::Withheld(file.clone())),
        }
    }
    assert_eq!(super::find(&environment, "none:7", "a", true), Found::Nothing);
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
    assert_eq!(find_within(&environment, "a.example", "b", false, limit), Found::Nothing);
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
