//! Whom we let vouch for a server.

use super::environment::Environment;
use crate::escape;
use crate::setup::source::{Again, SourceError};
use rustls_native_certs::CertificateResult;
use std::path::Path;
use ureq::tls::{Certificate, RootCerts};

/// The authorities that `SSL_CERT_FILE` and `SSL_CERT_DIR` name where one is set, else the system's,
/// else those that Mozilla trusts, which are built in: a small Debian has none.
///
/// # Errors
/// A file or a folder that is set cannot be read, or no certificate is in any of them.
pub fn load(environment: &Environment) -> Result<RootCerts, SourceError> {
    if environment.cert_file.is_none() && environment.cert_dirs.is_empty() {
        let system = rustls_native_certs::load_native_certs();
        return Ok(if system.certs.is_empty() { RootCerts::WebPki } else { roots(&[system]) });
    }
    let file = environment.cert_file.as_deref().map(|file| ("SSL_CERT_FILE", file, file.is_file()));
    let dirs =
        environment.cert_dirs.iter().map(|dir| ("SSL_CERT_DIR", dir.as_path(), dir.is_dir()));
    let mut loaded = Vec::new();
    for (variable, path, there) in file.into_iter().chain(dirs) {
        let (file, dir) =
            if variable == "SSL_CERT_FILE" { (Some(path), None) } else { (None, Some(path)) };
        let read = rustls_native_certs::load_certs_from_paths(file, dir);
        // A folder may hold other files too, and be empty beside a file that is not.
        if !there || (file.is_some() && read.certs.is_empty()) {
            return Err(useless(variable, path, &read));
        }
        loaded.push(read);
    }
    match loaded.iter().all(|read| read.certs.is_empty()) {
        true => Err(useless(
            "SSL_CERT_DIR",
            environment.cert_dirs.first().map_or(Path::new(""), |dir| dir.as_path()),
            &CertificateResult::default(),
        )),
        false => Ok(roots(&loaded)),
    }
}

fn roots(loaded: &[CertificateResult]) -> RootCerts {
    let certificates = loaded.iter().flat_map(|read| &read.certs);
    certificates.map(|certificate| Certificate::from_der(certificate).to_owned()).into()
}

fn useless(variable: &str, path: &Path, read: &CertificateResult) -> SourceError {
    let why = match read.errors.first() {
        Some(error) => escape::for_display(&error.to_string(), 300),
        None => "no certificate is in it".to_owned(),
    };
    let shown = escape::for_display(&path.to_string_lossy(), 300);
    SourceError {
        what: format!("{variable} is {shown}, which cannot be used ({why})"),
        fix: format!("set {variable} to certificates in PEM format, or remove it"),
        again: Again::Never,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::registry::fake::{AUTHORITY, Folder};
    use std::fs;

    fn file(path: &Path) -> Environment {
        Environment { cert_file: Some(path.to_owned()), ..Environment::default() }
    }

    fn count(roots: RootCerts) -> usize {
        match roots {
            RootCerts::Specific(certificates) => certificates.len(),
            _ => 0,
        }
    }

    #[test]
    fn what_is_set_is_used_alone_or_named() {
        let folder = Folder::new("roots");
        let good = folder.path().join("ca.pem");
        fs::write(&good, AUTHORITY).unwrap();
        assert_eq!(count(load(&file(&good)).unwrap()), 1);
        let dirs = |dirs: &[&Path]| Environment {
            cert_dirs: dirs.iter().map(|dir| dir.to_path_buf()).collect(),
            ..Environment::default()
        };
        assert_eq!(count(load(&dirs(&[folder.path()])).unwrap()), 1);
        let empty = folder.path().join("empty");
        fs::write(&empty, "").unwrap();
        let none = folder.path().join("none");
        fs::create_dir(&none).unwrap();
        for (environment, variable, name) in [
            (file(&folder.path().join("missing")), "SSL_CERT_FILE", "missing"),
            (file(&empty), "SSL_CERT_FILE", "empty"),
            (file(&none), "SSL_CERT_FILE", "none"),
            (dirs(&[folder.path(), &folder.path().join("missing")]), "SSL_CERT_DIR", "missing"),
            (dirs(&[&none]), "SSL_CERT_DIR", "none"),
        ] {
            let error = load(&environment).unwrap_err();
            assert!(error.what.starts_with(variable) && error.what.contains(name), "{error}");
        }
    }
}
