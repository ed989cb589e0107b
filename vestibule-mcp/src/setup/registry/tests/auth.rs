//! Tokens and logins, and where they go.

use super::super::fake::{Fake, Folder, Reply, Request};
use super::*;
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A 401 that names a token service at the same host.
fn challenge(request: &Request) -> Reply {
    let realm = format!("http://{}/token?a=b", request.header("host").unwrap());
    let scope = "repository:library/python:pull";
    let challenge = format!(r#"Bearer realm="{realm}",service="reg istry",scope="{scope}""#);
    Reply::new(401, "{}").header("WWW-Authenticate", challenge)
}

#[test]
fn a_token_is_fetched_once_and_kept() {
    let fake = Fake::new(|request| match request.target.as_str() {
        target if target.starts_with("/token") => Reply::new(200, r#"{"access_token":"t"}"#),
        _ if request.header("authorization") == Some("Bearer t") => Reply::new(200, MANIFEST),
        _ => challenge(request),
    });
    let registry = client(&fake);
    assert_eq!(manifest(&registry).unwrap(), MANIFEST);
    assert_eq!(read(&registry, b"abc", 0).1, MANIFEST);
    let targets = fake.targets();
    assert_eq!(targets.len(), 4, "{targets:?}");
    let scope = "scope=repository%3Alibrary%2Fpython%3Apull";
    assert_eq!(targets[1], format!("/token?a=b&service=reg%20istry&{scope}"));
    assert_eq!(fake.requests()[1].header("authorization"), None);
}

#[test]
fn a_token_that_runs_out_is_replaced_and_one_that_is_no_good_is_the_end() {
    let given = AtomicUsize::new(0);
    let fake = Fake::new(move |request| {
        if request.target.starts_with("/token") {
            let number = given.fetch_add(1, Ordering::SeqCst);
            return Reply::new(200, format!(r#"{{"token":"t{number}"}}"#));
        }
        // The first token is good for one request alone, and the third for none.
        match (request.header("authorization"), request.target.contains("manifests")) {
            (Some("Bearer t0"), true) | (Some("Bearer t1"), false) => Reply::new(200, MANIFEST),
            _ => challenge(request),
        }
    });
    let registry = client(&fake);
    assert_eq!(manifest(&registry).unwrap(), MANIFEST);
    assert_eq!(read(&registry, b"abc", 0).1, MANIFEST);
    let count = fake.targets().len();
    let refused = manifest(&registry).unwrap_err();
    assert_eq!(fake.targets().len(), count + 3);
    assert!(refused.what.contains("gives no access to library/python: 401"), "{refused}");
    let login = format!("`docker login {}`", fake.address);
    assert!(refused.fix.contains(&login), "{}", refused.fix);
    assert_eq!(refused.again, Again::Never);
}

#[test]
fn logins_go_to_the_token_service_or_straight_to_the_registry() {
    let folder = Folder::new("basic");
    let fake = Fake::new(|request| {
        let sent = request.header("authorization").unwrap_or_default();
        match request.target.as_str() {
            target if target.starts_with("/token") && request.method == "POST" => {
                Reply::new(200, r#"{"token":"identity"}"#)
            }
            target if target.starts_with("/token") && sent == "Basic bWU6aHVudGVyMg==" => {
                Reply::new(200, r#"{"token":"t"}"#)
            }
            target if target.starts_with("/token") => Reply::new(401, error("UNAUTHORIZED")),
            _ if ["Bearer t", "Bearer identity"].contains(&sent) => Reply::new(200, MANIFEST),
            target if !target.contains("basic") => challenge(request),
            _ if sent == "Basic bWU6aHVudGVyMg==" => Reply::new(200, MANIFEST),
            _ => Reply::new(401, "").header("WWW-Authenticate", r#"Basic realm="x""#),
        }
    });
    let with = |login: &str, image_name: &str| {
        let config = format!(r#"{{"auths":{{"{}":{login}}}}}"#, fake.address);
        fs::write(folder.path().join("config.json"), config).unwrap();
        let docker_config = Some(folder.path().to_owned());
        let environment = Environment { docker_config, ..Environment::default() };
        let image = image(image_name);
        manifest(&Registry::new(&image, Some(&fake.url()), &environment).unwrap())
    };
    let good = r#"{"auth":"bWU6aHVudGVyMg=="}"#;
    assert_eq!(with(good, "python").unwrap(), MANIFEST);
    assert!(fake.targets().iter().any(|target| target.ends_with("&account=me")));
    assert_eq!(with(good, "basic/python").unwrap(), MANIFEST);
    assert_eq!(with(r#"{"identitytoken":"i d"}"#, "python").unwrap(), MANIFEST);
    let form = fake.requests().into_iter().find(|request| request.method == "POST").unwrap().body;
    assert!(form.contains("grant_type=refresh_token"), "{form}");
    assert!(form.contains("refresh_token=i%20d") || form.contains("refresh_token=i+d"), "{form}");
    // Neither the wrong login nor going without one helps.
    let count = fake.targets().len();
    let refused = with(r#"{"auth":"bWU6d3Jvbmc="}"#, "python").unwrap_err();
    assert_eq!(fake.targets().len(), count + 3);
    assert!(refused.fix.contains("docker login"), "{}", refused.fix);
    let file = folder.path().join("config.json").display().to_string();
    assert!(refused.what.contains(&format!("with the login that {file}")), "{refused}");
    let refused = with(r#"{"auth":"bWU6d3Jvbmc="}"#, "basic/python").unwrap_err();
    assert!(refused.what.contains(&file) && refused.fix.contains("log in again"), "{refused:?}");
    // Without one there is none to blame.
    let refused = with("{}", "basic/python").unwrap_err();
    assert!(refused.what.contains("401") && !refused.what.contains("login"), "{refused}");
}

#[test]
fn what_is_secret_stays_with_its_origin() {
    let other = Fake::new(|request| match request.header("authorization") {
        Some(_) => Reply::new(400, "unexpected Authorization"),
        None => Reply::ranged(b"0123456789", request),
    });
    let url = other.url();
    let fake = Fake::new(move |request| match request.target.as_str() {
        target if target.starts_with("/token") => Reply::new(200, r#"{"token":"t"}"#),
        _ if request.header("authorization") != Some("Bearer t") => challenge(request),
        "/moved" => Reply::ranged(b"moved", request),
        target if target.contains("manifests") => Reply::new(302, "").header("Location", "/moved"),
        _ => Reply::new(307, "").header("Location", format!("{url}/blob?signature=secret")),
    });
    let registry = client(&fake);
    assert_eq!(read(&registry, b"0123456789", 4), (4, b"456789".to_vec()));
    assert_eq!(manifest(&registry).unwrap(), b"moved");
}

#[test]
fn a_token_service_that_could_be_overheard_is_not_asked() {
    let fake = Fake::new(|_| {
        Reply::new(401, "").header("WWW-Authenticate", r#"Bearer realm="http://a.example/token""#)
    });
    let refused = manifest(&client(&fake)).unwrap_err();
    assert!(refused.what.contains("it is plain HTTP to another machine"), "{refused}");
    assert_eq!(refused.again, Again::Never);
}

#[test]
fn an_address_of_a_blob_that_has_run_out_is_asked_for_anew() {
    let store = Fake::new(|_| Reply::new(403, "<Error>Request has expired: secret</Error>"));
    let url = store.url();
    let fake = Fake::new(move |_| Reply::new(307, "").header("Location", format!("{url}/?secret")));
    let refused = client(&fake).blob(&descriptor(b"abc"), 0).err().unwrap();
    assert_eq!(refused.again, Again::Soon);
    assert!(refused.what.starts_with(&store.address.to_string()), "{refused}");
    assert!(!format!("{refused:?}").contains("secret"), "{refused:?}");
}

#[test]
fn a_login_for_https_does_not_go_to_whoever_listens_without() {
    let folder = Folder::new("plain");
    let fake =
        Fake::new(|request| match (request.target.as_str(), request.header("authorization")) {
            (target, None) if target.starts_with("/token") => {
                Reply::new(200, r#"{"token":"nobody"}"#)
            }
            (target, Some(_)) if target.starts_with("/token") => {
                Reply::new(200, r#"{"token":"me"}"#)
            }
            (_, Some("Bearer me" | "Basic bWU6aHVudGVyMg==")) => Reply::new(200, MANIFEST),
            (target, _) if target.contains("basic") => {
                Reply::new(401, "").header("WWW-Authenticate", r#"Basic realm="x""#)
            }
            _ => challenge(request),
        });
    let with = |scheme: &str, name: &str, mirror: Option<&str>| {
        let key = format!("{scheme}{}", fake.address);
        let config = format!(r#"{{"auths":{{"{key}":{{"auth":"bWU6aHVudGVyMg=="}}}}}}"#);
        fs::write(folder.path().join("config.json"), config).unwrap();
        let docker_config = Some(folder.path().to_owned());
        let environment = Environment { docker_config, ..Environment::default() };
        let reference = image(&format!("{}/{name}", fake.address));
        manifest(&Registry::new(&reference, mirror, &environment).unwrap())
    };
    let url = fake.url();
    let mirrors = [None, Some(url.as_str())];
    let names = ["python", "basic/python"];
    for (name, mirror) in names.into_iter().flat_map(|name| mirrors.map(|mirror| (name, mirror))) {
        let refused = with("https://", name, mirror).unwrap_err();
        let file = folder.path().join("config.json").display().to_string();
        assert!(refused.what.contains(&format!("{file} has or names was not sent")), "{refused}");
        assert!(refused.what.contains("for https:// and plain HTTP"), "{refused}");
        assert!(refused.fix.contains(&format!("docker login {}", fake.address)), "{refused:?}");
    }
    let sent = |request: &Request| request.header("authorization").map(str::to_owned);
    let sent: Vec<_> = fake.requests().iter().filter_map(sent).collect();
    assert!(sent.iter().all(|sent| sent == "Bearer nobody"), "{sent:?}");
    // Docker's own key for a registry on this machine has no scheme.
    for (scheme, mirror) in [("", None), ("http://", None), ("", mirrors[1])] {
        for name in names {
            assert_eq!(with(scheme, name, mirror).unwrap(), MANIFEST, "{scheme} {name}");
        }
    }
}
