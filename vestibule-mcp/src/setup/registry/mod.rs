//! A registry as the OCI distribution specification 1.1 has it, asked for one image.
//!
//! Nothing of what it sends is trusted but as the answer to which bytes are wanted: digests are checked
//! by whoever reads them, so that also a mirror need not be trusted where an image's setting has one.

mod address;
mod auth;
mod challenge;
mod credentials;
mod deadline;
mod environment;
#[cfg(test)]
pub(crate) mod fake;
mod helper;
mod proxy;
mod reference;
mod refusal;
mod roots;
#[cfg(test)]
mod tests;
mod transport;

pub use environment::{Environment, ProxyVariable};
pub use reference::Reference;
pub use transport::body_error;

use super::oci::{Descriptor, MANIFEST_TYPES};
use super::source::{Again, DOCUMENT_MAX, Opened, Origin, Source, SourceError};
use crate::config::{ImageReference, is_loopback};
use crate::escape;
use crate::store::digest::Digest;
use address::Address;
use auth::{Auth, Proof};
use refusal::{Asked, Login};
use std::cell::{OnceCell, RefCell};
use transport::{Answer, Transport};
use ureq::http::header::{ACCEPT, HeaderName, RANGE};

/// One image of a registry or of its mirror.
pub struct Registry {
    transport: Transport,
    environment: Environment,
    reference: Reference,
    place: Place,
    /// The registry's address, found at the first request.
    root: OnceCell<Address>,
    /// What convinced the registry last.
    authorization: RefCell<Option<Proof>>,
}

/// Whom to ask.
struct Place {
    /// Host and port.
    host: String,
    /// What comes before the repository's path: empty, or `PREFIX/`.
    prefix: String,
    /// `https` or `http`; unknown for a registry on this machine that no mirror setting names.
    scheme: Option<&'static str>,
    /// Whether `VESTIBULE_REGISTRY_MIRROR` names it.
    mirrored: bool,
}

impl Registry {
    /// The registry that an image is in or, where one is named, a mirror that is asked in its stead.
    /// No request is made yet.
    ///
    /// # Errors
    /// The settings for certificates cannot be used, or the mirror is no address of a registry.
    pub fn new(
        image: &ImageReference,
        mirror: Option<&str>,
        environment: &Environment,
    ) -> Result<Registry, SourceError> {
        let reference = Reference::parse(image);
        let place = match mirror {
            Some(mirror) => Place::of_mirror(mirror)?,
            None => Place {
                host: reference.host.clone(),
                prefix: String::new(),
                scheme: (!is_loopback(without_port(&reference.host))).then_some("https"),
                mirrored: false,
            },
        };
        Ok(Registry {
            transport: Transport::new(environment, place.mirrored)?,
            environment: environment.clone(),
            reference,
            place,
            root: OnceCell::new(),
            authorization: RefCell::new(None),
        })
    }

    /// The image that is asked for.
    pub fn reference(&self) -> &Reference {
        &self.reference
    }

    /// Who is asked: a host, with its port where it has one.
    pub fn host(&self) -> String {
        escape::for_display(&self.place.host, 100)
    }

    /// The registry's address. On this machine it may speak HTTPS or not, as Docker has it.
    fn root(&self) -> Result<&Address, SourceError> {
        if let Some(root) = self.root.get() {
            return Ok(root);
        }
        let at = |scheme: &str| {
            let root = Address::parse(&format!("{scheme}://{}/v2/", self.place.host));
            root.map_err(|why| SourceError {
                what: format!("{} cannot be asked ({})", self.host(), why.reason()),
                fix: "check the image's name".to_owned(),
                again: Again::Never,
            })
        };
        let root = match self.place.scheme {
            Some(scheme) => at(scheme)?,
            None => {
                let https = at("https")?;
                if self.transport.speaks_tls(&https)? { https } else { at("http")? }
            }
        };
        Ok(self.root.get_or_init(|| root))
    }

    /// Asks for something of the repository, and proves who asks where the registry wants that.
    fn ask(
        &self,
        path: &str,
        thing: String,
        headers: &[(HeaderName, String)],
    ) -> Result<(Answer, Asked), SourceError> {
        let root = self.root()?;
        let repository = format!("{}{}", self.place.prefix, self.reference.repository);
        let address = root.follow(&format!("/v2/{repository}/{path}"));
        let address = address.map_err(|why| SourceError {
            what: format!("{} cannot be asked for {thing} ({})", self.host(), why.reason()),
            fix: "check the image's name".to_owned(),
            again: Again::Never,
        })?;
        let login = self.place.login();
        let asked = Asked {
            host: root.to_string(),
            thing,
            repository,
            login,
            kept: Login::None,
            mirrored: self.place.mirrored,
        };
        let known = self.authorization.borrow().clone();
        let (header, kept) = known.map(|known| (known.header, known.login)).unzip();
        let answer = self.transport.get(&address, headers, header.as_ref())?;
        let asked = Asked { kept: kept.unwrap_or_default(), ..asked };
        // Only the registry itself may ask who we are, and once: what it then hands out must do.
        if answer.status != 401 || !answer.from.same_origin(root) {
            return Ok((answer, asked));
        }
        let auth = Auth {
            transport: &self.transport,
            environment: &self.environment,
            registry: root,
            host: &self.place.host,
            asked: &asked,
        };
        let fresh = auth.answer(answer)?;
        let answer = self.transport.get(&address, headers, Some(&fresh.header))?;
        let asked = Asked { kept: fresh.login.clone(), ..asked };
        *self.authorization.borrow_mut() = Some(fresh);
        Ok((answer, asked))
    }
}

impl Source for Registry {
    fn manifest(&self, digest: Option<&Digest>) -> Result<Vec<u8>, SourceError> {
        let (version, shown) = match digest {
            Some(digest) => (digest.to_string(), digest.short()),
            None => (self.reference.version(), self.reference.tag.clone()),
        };
        let accept = [(ACCEPT, MANIFEST_TYPES.join(", "))];
        let thing = format!("the manifest {shown}");
        let (answer, asked) = self.ask(&format!("manifests/{version}"), thing, &accept)?;
        match answer.status {
            200 => answer.document(DOCUMENT_MAX),
            _ => Err(refusal::of(answer, &asked)),
        }
    }

    fn origin(&self) -> Origin {
        Origin::Network
    }

    fn blob(&self, blob: &Descriptor, offset: u64) -> Result<Opened, SourceError> {
        let path = format!("blobs/{}", blob.digest);
        let thing = || format!("the blob {}", blob.digest.short());
        if offset > 0 {
            let range = [(RANGE, format!("bytes={offset}-"))];
            let (answer, asked) = self.ask(&path, thing(), &range)?;
            match answer.status {
                206 if starts_at(&answer, offset) => {
                    return Ok(Opened { offset, bytes: Box::new(answer.body()) });
                }
                200 => return Ok(Opened { offset: 0, bytes: Box::new(answer.body()) }),
                // A server that does not understand the range is asked for all of it.
                206 | 416 => {}
                _ => return Err(refusal::of(answer, &asked)),
            }
        }
        let (answer, asked) = self.ask(&path, thing(), &[])?;
        match answer.status {
            200 => Ok(Opened { offset: 0, bytes: Box::new(answer.body()) }),
            _ => Err(refusal::of(answer, &asked)),
        }
    }
}

impl Place {
    fn of_mirror(text: &str) -> Result<Place, SourceError> {
        let full = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
        let wrong = |why: String| SourceError {
            what: format!("VESTIBULE_REGISTRY_MIRROR is no address of a registry ({why})"),
            fix: "set it to https://HOST[:PORT][/PATH], or to http:// for a loopback address alone"
                .to_owned(),
            again: Again::Never,
        };
        let address = Address::parse(&full).map_err(|why| wrong(why.reason().to_owned()))?;
        let uri = address.secret_uri();
        if uri.query().is_some() {
            return Err(wrong("it has a question mark".to_owned()));
        }
        let path = uri.path().trim_matches('/');
        let path = path.strip_suffix("/v2").unwrap_or(if path == "v2" { "" } else { path });
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        Ok(Place {
            host: reference::registry_host(authority),
            prefix: if path.is_empty() { String::new() } else { format!("{path}/") },
            scheme: Some(if address.is_https() { "https" } else { "http" }),
            mirrored: true,
        })
    }

    /// What `docker login` calls the host; it needs no name for Docker Hub.
    fn login(&self) -> String {
        if self.host == reference::DOCKER_HUB {
            String::new()
        } else {
            escape::for_display(&self.host, 100)
        }
    }
}

/// Whether the bytes of an answer start where they should: `Content-Range: bytes 7-9/10`.
fn starts_at(answer: &Answer, offset: u64) -> bool {
    let range = answer.header("content-range");
    let start = range.as_deref().and_then(|range| range.strip_prefix("bytes "));
    start.and_then(|range| range.split('-').next()?.trim().parse().ok()) == Some(offset)
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => name,
        _ => host,
    }
}
