//! An image's reference, with what Docker takes for granted filled in.

use crate::config::ImageReference;
use crate::store::digest::Digest;

/// The host that answers for Docker Hub, whose images are named `docker.io/…` or by no host at all.
pub const DOCKER_HUB: &str = "registry-1.docker.io";

/// Which image of which registry.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Reference {
    /// The registry's host, with its port where the reference names one.
    pub host: String,
    /// The repository's path: `library/python`.
    pub repository: String,
    /// The tag; a digest makes it a comment.
    pub tag: String,
    /// What pins the image.
    pub digest: Option<Digest>,
}

impl Reference {
    /// Reads a reference as Docker does: `python` is `docker.io/library/python:latest`.
    pub fn parse(image: &ImageReference) -> Reference {
        let (name, digest) = match image.as_str().split_once('@') {
            Some((name, digest)) => (name, Digest::parse(digest)),
            None => (image.as_str(), None),
        };
        let (host, path) = match name.split_once('/') {
            Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => {
                (registry_host(first), rest)
            }
            _ => (DOCKER_HUB.to_owned(), name),
        };
        // What follows a colon before the last slash is no tag.
        let last = path.rfind('/').map_or(0, |slash| slash + 1);
        let (path, tag) = match path.get(last..).and_then(|last| last.split_once(':')) {
            Some((_, tag)) => (path.strip_suffix(tag).unwrap_or(path), tag),
            None => (path, "latest"),
        };
        let path = path.trim_end_matches(':');
        let repository = match host == DOCKER_HUB && !path.contains('/') {
            true => format!("library/{path}"),
            false => path.to_owned(),
        };
        Reference { host, repository, tag: tag.to_owned(), digest }
    }

    /// The tag or the digest, as a registry is asked for it.
    pub fn version(&self) -> String {
        self.digest.as_ref().map_or_else(|| self.tag.clone(), Digest::to_string)
    }
}

/// The host to ask for what users call `docker.io`; every other is its own.
pub fn registry_host(name: &str) -> String {
    let hub = ["docker.io", "index.docker.io"].iter().any(|hub| name.eq_ignore_ascii_case(hub));
    if hub { DOCKER_HUB.to_owned() } else { name.to_ascii_lowercase() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Reference {
        Reference::parse(&ImageReference::parse(text).unwrap())
    }

    #[test]
    fn what_is_left_out_is_filled_in_as_docker_does() {
        for (text, host, repository, tag) in [
            ("python", DOCKER_HUB, "library/python", "latest"),
            ("python:3.12-slim", DOCKER_HUB, "library/python", "3.12-slim"),
            ("docker.io/python", DOCKER_HUB, "library/python", "latest"),
            ("docker.io/library/python", DOCKER_HUB, "library/python", "latest"),
            ("index.docker.io/a/b:c", DOCKER_HUB, "a/b", "c"),
            ("someone/python", DOCKER_HUB, "someone/python", "latest"),
            ("ghcr.io/a/b/c:1.0", "ghcr.io", "a/b/c", "1.0"),
            ("GHCR.io/python", "ghcr.io", "python", "latest"),
            ("localhost/python", "localhost", "python", "latest"),
            ("127.0.0.1:5000/library/python:x", "127.0.0.1:5000", "library/python", "x"),
            ("mirror:5000/python", "mirror:5000", "python", "latest"),
            ("localhost:5000", DOCKER_HUB, "library/localhost", "5000"),
        ] {
            let got = parse(text);
            let got = (got.host.as_str(), got.repository.as_str(), got.tag.as_str());
            assert_eq!(got, (host, repository, tag), "{text}");
        }
    }

    #[test]
    fn a_digest_is_asked_for_and_not_the_tag_beside_it() {
        let hex = "a".repeat(64);
        let got = parse(&format!("localhost:5000/python:3@sha256:{hex}"));
        assert_eq!((got.repository.as_str(), got.tag.as_str()), ("python", "3"));
        assert_eq!(got.version(), format!("sha256:{hex}"));
        assert_eq!(parse("python:3").version(), "3");
        let long = format!("sha512:{hex}{hex}");
        assert_eq!(parse(&format!("python@{long}")).version(), long);
    }
}
