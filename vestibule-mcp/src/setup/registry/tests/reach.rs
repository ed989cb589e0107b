//! Certificates, redirects and proxies.

use super::super::fake::{AUTHORITY, Fake, Folder, Reply};
use super::super::transport::Limits;
use super::*;
use std::fs;

#[test]
fn redirects_have_an_end_and_never_lose_encryption() {
    let folder = Folder::new("astray");
    let authority = folder.path().join("ca.pem");
    fs::write(&authority, AUTHORITY).unwrap();
    let environment = Environment { cert_file: Some(authority), ..Environment::default() };
    let plain = Fake::new(|_| Reply::new(200, MANIFEST));
    let to = format!("{}/?signature=secret", plain.url());
    let fake = Fake::tls(move |_| Reply::new(307, "").header("Location", to.as_str()));
    let mirror = format!("https://localhost:{}", fake.address.port());
    let registry = Registry::new(&image("python"), Some(&mirror), &environment).unwrap();
    let refused = manifest(&registry).unwrap_err();
    assert!(refused.what.contains("from HTTPS to plain HTTP"), "{refused}");
    assert!(!refused.what.contains("signature"), "{refused}");
    assert_eq!(plain.targets(), [""; 0]);

    let circle = Fake::new(|_| Reply::new(302, "").header("Location", "/again?signature=secret"));
    let refused = manifest(&client(&circle)).unwrap_err();
    assert!(refused.what.contains("redirects more than 5 times"), "{refused}");
    assert!(!refused.what.contains("signature"), "{refused}");
    assert_eq!(circle.targets().len(), 6);
}

#[test]
fn an_unknown_authority_is_named_with_the_setting_that_helps() {
    let folder = Folder::new("authority");
    let authority = folder.path().join("ca.pem");
    fs::write(&authority, AUTHORITY).unwrap();
    let fake = Fake::tls(|_| Reply::new(200, MANIFEST));
    // A registry on this machine is asked by HTTPS first.
    let reference = image(&format!("localhost:{}/python", fake.address.port()));
    let with = |cert_file| {
        let environment = Environment { cert_file, ..Environment::default() };
        manifest(&Registry::new(&reference, None, &environment).unwrap())
    };
    let refused = with(None).unwrap_err();
    assert!(refused.what.contains("from an authority that is not trusted"), "{refused}");
    assert!(refused.fix.contains("SSL_CERT_FILE"), "{}", refused.fix);
    assert_eq!(refused.again, Again::Never);
    assert_eq!(with(Some(authority)).unwrap(), MANIFEST);
}

#[test]
fn a_registry_on_this_machine_may_have_no_encryption() {
    let fake = Fake::new(|_| Reply::new(200, MANIFEST));
    let reference = image(&format!("{}/a/b", fake.address));
    let registry = Registry::new(&reference, None, &Environment::default()).unwrap();
    assert_eq!(manifest(&registry).unwrap(), MANIFEST);
    assert_eq!(fake.targets(), ["/v2/a/b/manifests/latest"]);
}

/// A port that nobody listens at.
fn dead() -> std::net::SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn who_does_not_answer_is_named_with_the_settings_that_matter() {
    let dead = dead();
    let mirror = format!("http://{dead}");
    let registry = Registry::new(&image("python"), Some(&mirror), &Environment::default()).unwrap();
    let refused = manifest(&registry).unwrap_err();
    assert!(refused.what.contains(&format!("{dead} does not answer")), "{refused}");
    assert!(refused.fix.contains("VESTIBULE_REGISTRY_MIRROR"), "{}", refused.fix);
    assert_eq!(refused.again, Again::Soon);

    let value = format!("http://me:hunter2@{dead}");
    let proxy = Some(ProxyVariable { name: "https_proxy", value });
    let environment = Environment { proxy, ..Environment::default() };
    let registry = Registry::new(&image("registry.invalid/a"), None, &environment).unwrap();
    let refused = manifest(&registry).unwrap_err();
    assert!(refused.what.starts_with("registry.invalid does not answer"), "{refused}");
    assert!(refused.what.contains(&format!("the proxy {dead} (https_proxy)")), "{refused}");
    assert!(refused.fix.contains("NO_PROXY"), "{}", refused.fix);
    assert!(!format!("{refused:?}").contains("hunter2"), "{refused:?}");
    // This machine is never asked through a proxy, and neither is what NO_PROXY names.
    let fake = Fake::new(|_| Reply::new(200, MANIFEST));
    assert_eq!(manifest(&client_with(&fake, &environment)).unwrap(), MANIFEST);
}

#[test]
fn a_proxy_is_asked_for_a_tunnel_and_its_refusal_told() {
    let fake = Fake::new(|_| Reply::new(407, ""));
    let value = format!("http://me:hunter2@{}", fake.address);
    let proxy = Some(ProxyVariable { name: "HTTPS_PROXY", value });
    let environment = Environment { proxy, ..Environment::default() };
    let registry = Registry::new(&image("registry.invalid/a"), None, &environment).unwrap();
    let refused = manifest(&registry).unwrap_err();
    assert!(refused.what.contains("407"), "{refused}");
    let request = fake.requests().remove(0);
    assert_eq!(
        (request.method.as_str(), request.target.as_str()),
        ("CONNECT", "registry.invalid:443")
    );
    assert_eq!(request.header("proxy-authorization"), Some("Basic bWU6aHVudGVyMg=="));
    assert!(!format!("{refused:?}").contains("hunter2"), "{refused:?}");
}

#[test]
fn a_proxy_that_cannot_be_used_matters_only_where_it_is_needed() {
    let proxy =
        Some(ProxyVariable { name: "ALL_PROXY", value: "socks5://hunter2@a.example".to_owned() });
    let environment = Environment { proxy, ..Environment::default() };
    let registry = Registry::new(&image("registry.invalid/a"), None, &environment).unwrap();
    let refused = manifest(&registry).unwrap_err();
    assert!(refused.what.contains("ALL_PROXY names a proxy of kind SOCKS5"), "{refused}");
    let fake = Fake::new(|_| Reply::new(200, MANIFEST));
    assert_eq!(manifest(&client_with(&fake, &environment)).unwrap(), MANIFEST);
}

#[test]
fn a_proxy_is_gone_through_with_encryption_to_the_far_end() {
    let folder = Folder::new("tunnel");
    let authority = folder.path().join("ca.pem");
    fs::write(&authority, AUTHORITY).unwrap();
    let fake = Fake::tls(|_| Reply::new(200, MANIFEST));
    let through = Fake::proxy(fake.address);
    let proxy = Some(ProxyVariable { name: "HTTPS_PROXY", value: through.address.to_string() });
    let environment = Environment { proxy, cert_file: Some(authority), ..Environment::default() };
    let registry = Registry::new(&image("registry.invalid/a"), None, &environment).unwrap();
    assert_eq!(manifest(&registry).unwrap(), MANIFEST);
    assert_eq!(fake.requests()[0].header("host"), Some("registry.invalid"));
    assert_eq!(through.targets(), ["registry.invalid:443"]);
}

#[test]
fn what_comes_without_end_and_brings_nothing_is_broken_off() {
    let fake = Fake::new(|request| match request.target.as_str() {
        target if target.ends_with("/3") => Reply::new(200, MANIFEST).trailing(),
        target if target.contains("blobs") => Reply::new(200, "ab").trailing(),
        _ => Reply::new(200, MANIFEST),
    });
    let mut registry = client(&fake);
    let limit = Duration::from_millis(300);
    registry.transport.limits = Limits { pause: limit, document: limit };
    let late = manifest(&registry).unwrap_err();
    assert!(late.what.contains("broke off (not all of it came within 0 s)"), "{late}");
    assert_eq!(late.again, Again::Soon);
    let mut read = Vec::new();
    let mut body = registry.blob(&descriptor(b"abc"), 0).unwrap().bytes;
    let late = body.read_to_end(&mut read).unwrap_err();
    assert_eq!(
        (read.as_slice(), body_error(&late).as_str()),
        (&b"ab"[..], "nothing came for 30 s")
    );
    drop(body);
    // The limit of one answer is none of the next one's.
    assert_eq!(registry.manifest(Some(&Digest::of(MANIFEST))).unwrap(), MANIFEST);
}
