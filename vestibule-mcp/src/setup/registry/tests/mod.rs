//! What the client does with registries of every kind, good and bad.

mod auth;
mod reach;

use super::fake::{Fake, Reply, descriptor};

use super::*;
use std::io::Read;
use std::time::Duration;

const MANIFEST: &[u8] = br#"{"schemaVersion":2}"#;

fn image(text: &str) -> ImageReference {
    ImageReference::parse(text).unwrap()
}

/// A client of a fake registry that is set as a mirror.
fn client(fake: &Fake) -> Registry {
    client_with(fake, &Environment::default())
}

fn client_with(fake: &Fake, environment: &Environment) -> Registry {
    Registry::new(&image("python:3"), Some(&fake.url()), environment).unwrap()
}

fn manifest(registry: &Registry) -> Result<Vec<u8>, SourceError> {
    registry.manifest(None)
}

fn read(registry: &Registry, bytes: &[u8], offset: u64) -> (u64, Vec<u8>) {
    let opened = registry.blob(&descriptor(bytes), offset).unwrap();
    let (mut read, mut body) = (Vec::new(), opened.bytes);
    body.read_to_end(&mut read).unwrap();
    (opened.offset, read)
}

fn error(code: &str) -> String {
    format!(r#"{{"errors":[{{"code":"{code}","message":"m\u001b"}}]}}"#)
}

#[test]
fn a_manifest_is_asked_for_by_tag_or_digest_in_every_form() {
    let fake = Fake::new(|_| Reply::new(200, MANIFEST).header("Docker-Content-Digest", "sha512:0"));
    let registry = client(&fake);
    assert_eq!(manifest(&registry).unwrap(), MANIFEST);
    let digest = Digest::of(MANIFEST);
    registry.manifest(Some(&digest)).unwrap();
    let requests = fake.requests();
    assert_eq!(requests[0].target, "/v2/library/python/manifests/3");
    assert_eq!(requests[1].target, format!("/v2/library/python/manifests/{digest}"));
    let accept = requests[0].header("accept").unwrap();
    assert!(MANIFEST_TYPES.iter().all(|form| accept.contains(form)), "{accept}");
    assert_eq!(requests[0].header("accept-encoding"), Some("identity"));
}

#[test]
fn a_mirror_may_have_a_path_and_is_asked_alone() {
    let fake = Fake::new(|_| Reply::new(200, MANIFEST));
    for (path, target) in [
        ("", "/v2/library/python/manifests/latest"),
        ("/", "/v2/library/python/manifests/latest"),
        ("/v2/", "/v2/library/python/manifests/latest"),
        ("/hub", "/v2/hub/library/python/manifests/latest"),
        ("/a/hub/v2", "/v2/a/hub/library/python/manifests/latest"),
    ] {
        let mirror = format!("{}{path}", fake.url());
        let registry =
            Registry::new(&image("docker.io/python"), Some(&mirror), &Environment::default());
        manifest(&registry.unwrap()).unwrap();
        assert_eq!(fake.targets().last().unwrap(), target, "{path}");
    }
    let place = Place::of_mirror("Mirror.example:5000/x").unwrap();
    assert_eq!((place.host.as_str(), place.scheme), ("mirror.example:5000", Some("https")));
    for bad in ["http://mirror.example", "https://u:hunter2@mirror.example", "https://a?b=hunter2"]
    {
        let refused = Place::of_mirror(bad).err().unwrap();
        assert!(refused.what.starts_with("VESTIBULE_REGISTRY_MIRROR"), "{refused}");
        assert!(!refused.what.contains("hunter2"), "{refused}");
    }
}

#[test]
fn a_blob_is_resumed_where_the_server_can_do_that() {
    const BLOB: &[u8] = b"0123456789";
    let fake = Fake::new(|request| Reply::ranged(BLOB, request));
    assert_eq!(read(&client(&fake), BLOB, 0), (0, BLOB.to_vec()));
    assert_eq!(read(&client(&fake), BLOB, 7), (7, b"789".to_vec()));
    assert_eq!(fake.requests()[1].header("range"), Some("bytes=7-"));
    let without = Fake::new(|_| Reply::new(200, BLOB));
    assert_eq!(read(&client(&without), BLOB, 7), (0, BLOB.to_vec()));
    for status in [206, 416] {
        let wrong = Fake::new(move |request| match request.header("range") {
            Some(_) => Reply::new(status, "xyz").header("Content-Range", "bytes 6-9/10"),
            None => Reply::new(200, BLOB),
        });
        assert_eq!(read(&client(&wrong), BLOB, 7), (0, BLOB.to_vec()));
    }
}

#[test]
fn refusals_say_what_is_missing_and_what_to_do() {
    let of = |status: u16, code: &'static str| {
        let fake = Fake::new(move |_| Reply::new(status, error(code)));
        manifest(&client(&fake)).unwrap_err()
    };
    let unknown = of(404, "MANIFEST_UNKNOWN");
    assert!(unknown.what.contains("does not have the manifest 3 of library/python"), "{unknown}");
    assert!(unknown.what.contains("MANIFEST_UNKNOWN: m\\u{1b}"), "{unknown}");
    assert!(unknown.fix.contains("VESTIBULE_REGISTRY_MIRROR"), "{}", unknown.fix);
    assert!(of(404, "NAME_UNKNOWN").what.contains("has no repository library/python"));
    assert!(of(403, "DENIED").fix.contains("docker login"));
    assert_eq!(of(400, "NAME_INVALID").again, Again::Never);
    for status in [500, 502, 503, 504, 408] {
        assert_eq!(of(status, "").again, Again::Soon, "{status}");
    }
    let fake = Fake::new(|_| Reply::new(404, error("BLOB_UNKNOWN")));
    let unknown = client(&fake).blob(&descriptor(b"abc"), 0).err().unwrap();
    assert!(unknown.what.contains("the blob sha256:ba7816bf8f01"), "{unknown}");
}

#[test]
fn a_rate_limit_names_itself_and_its_remedies() {
    let of = |headers: &[(&'static str, &'static str)]| {
        let headers = headers.to_vec();
        let fake = Fake::new(move |_| {
            let reply = Reply::new(429, error("TOOMANYREQUESTS"));
            headers.iter().fold(reply, |reply, (name, value)| reply.header(name, *value))
        });
        manifest(&client(&fake)).unwrap_err()
    };
    let limit = ("ratelimit-limit", "100;w=21600");
    let refused = of(&[limit]);
    assert!(refused.what.contains("the limit being 100 in 6 h"), "{refused}");
    assert!(refused.what.contains("TOOMANYREQUESTS"), "{refused}");
    for remedy in ["wait", "`docker login ", "VESTIBULE_REGISTRY_MIRROR"] {
        assert!(refused.fix.contains(remedy), "{}", refused.fix);
    }
    assert_eq!(refused.again, Again::Never);
    assert_eq!(of(&[]).again, Again::Soon);
    let refused = of(&[limit, ("retry-after", "90")]);
    assert_eq!(refused.again, Again::After(Duration::from_secs(90)));
    assert!(refused.fix.contains("wait 90 s"), "{}", refused.fix);
    let past = of(&[("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT")]);
    assert_eq!(past.again, Again::After(Duration::ZERO));
}

#[test]
fn a_document_has_a_limit_whatever_is_announced() {
    let large = vec![b' '; usize::try_from(DOCUMENT_MAX).unwrap() + 1];
    let announced = large.clone();
    let fake = Fake::new(move |_| Reply::new(200, announced.clone()));
    let refused = manifest(&client(&fake)).unwrap_err();
    assert!(refused.what.contains("larger than 4194304 bytes"), "{refused}");
    let fake = Fake::new(move |_| Reply::new(200, large.clone()).unannounced());
    let refused = manifest(&client(&fake)).unwrap_err();
    assert!(refused.what.contains("larger than 4194304 bytes"), "{refused}");
    let fake = Fake::new(|_| Reply::new(200, MANIFEST).unannounced());
    assert_eq!(manifest(&client(&fake)).unwrap(), MANIFEST);
    let fake = Fake::new(|_| Reply::new(200, MANIFEST).cut(5));
    let broken = manifest(&client(&fake)).unwrap_err();
    assert_eq!(broken.again, Again::Soon);
    assert!(broken.what.contains("broke off"), "{broken}");
}
