//! HTTP: one request, its redirects, and what can go wrong on the way.

use super::address::{Address, Refused};
use super::deadline::Deadline;
use super::environment::Environment;
use super::{proxy, roots};
use crate::escape;
use crate::setup::source::{Again, SourceError};
use std::io::{self, Read};
use std::time::{Duration, Instant};
use ureq::http::header::{AUTHORIZATION, HeaderName, LOCATION};
use ureq::http::{HeaderMap, HeaderValue, Response};
use ureq::tls::TlsConfig;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Connector, DefaultConnector};
use ureq::{Agent, Body};

/// Until a name is found, and until a connection stands.
const CONNECT: Duration = Duration::from_secs(15);

/// Until the headers of an answer are there.
const QUIET: Duration = Duration::from_secs(30);

/// Until a whole body is there. One that comes so slowly is resumed where the server can do that.
const BODY: Duration = Duration::from_secs(3600);

/// How long a body is waited for, whatever else comes.
#[derive(Clone, Copy)]
pub struct Limits {
    /// Until more of it is there.
    pub pause: Duration,
    /// Until a whole document is there, which has some kilobytes.
    pub document: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { pause: QUIET, document: Duration::from_secs(60) }
    }
}

/// How many redirects are followed. Registries need one or two.
const REDIRECTS: usize = 5;

/// Makes requests.
pub struct Transport {
    environment: Environment,
    direct: Agent,
    proxied: Option<Result<(Agent, String), SourceError>>,
    mirrored: bool,
    deadline: Deadline,
    pub(super) limits: Limits,
}

/// An answer whose body has not been read yet.
pub struct Answer {
    /// Who answered, after all redirects.
    pub from: Address,
    /// The status.
    pub status: u16,
    headers: HeaderMap,
    body: Body,
    deadline: Deadline,
    limits: Limits,
}

/// A body as it comes.
struct Pieces<R> {
    body: R,
    deadline: Deadline,
    pause: Duration,
}

impl Transport {
    /// Reads certificates and proxies. Whether a mirror is asked changes what errors propose.
    ///
    /// # Errors
    /// `SSL_CERT_FILE` or `SSL_CERT_DIR` is of no use.
    pub fn new(environment: &Environment, mirrored: bool) -> Result<Transport, SourceError> {
        let tls = TlsConfig::builder().root_certs(roots::load(environment)?).build();
        let deadline = Deadline::default();
        let agent = |proxy| {
            let config = Agent::config_builder()
                .tls_config(tls.clone())
                .proxy(proxy)
                // We judge each redirect ourselves.
                .max_redirects(0)
                .http_status_as_error(false)
                .user_agent(concat!("vestibule/", env!("CARGO_PKG_VERSION")))
                // Digests are of the bytes as they are stored.
                .accept_encoding("identity")
                .timeout_resolve(Some(CONNECT))
                .timeout_connect(Some(CONNECT))
                .timeout_send_request(Some(QUIET))
                .timeout_send_body(Some(QUIET))
                .timeout_recv_response(Some(QUIET))
                .timeout_per_read(Some(QUIET))
                .timeout_recv_body(Some(BODY));
            let connector = DefaultConnector::new().chain(deadline.clone());
            Agent::with_parts(config.build(), connector, DefaultResolver::default())
        };
        let proxied = environment.proxy.as_ref().map(|variable| {
            proxy::read(variable).map(|usable| (agent(Some(usable.proxy)), usable.name))
        });
        Ok(Transport {
            environment: environment.clone(),
            direct: agent(None),
            proxied,
            mirrored,
            limits: Limits::default(),
            deadline,
        })
    }

    /// Asks, and follows redirects. The authorization goes to the address's own origin alone.
    ///
    /// # Errors
    /// There was no answer, or it leads where we do not go. A status is no error.
    pub fn get(
        &self,
        address: &Address,
        headers: &[(HeaderName, String)],
        authorization: Option<&HeaderValue>,
    ) -> Result<Answer, SourceError> {
        let mut authorization = authorization;
        let mut address = address.clone();
        for _ in 0..=REDIRECTS {
            let answer = self.get_once(&address, headers, authorization)?;
            let redirect = matches!(answer.status, 301 | 302 | 303 | 307 | 308);
            let Some(location) = answer.header(LOCATION.as_str()).filter(|_| redirect) else {
                return Ok(answer);
            };
            let next = address.follow(&location).map_err(|why| astray(&address, why))?;
            // Once dropped it stays so, even where the next redirect leads back.
            authorization = authorization.filter(|_| next.same_origin(&address));
            address = next;
        }
        Err(SourceError {
            what: format!("{address} redirects more than {REDIRECTS} times"),
            fix: self.elsewhere().to_owned(),
            again: Again::Never,
        })
    }

    fn get_once(
        &self,
        address: &Address,
        headers: &[(HeaderName, String)],
        authorization: Option<&HeaderValue>,
    ) -> Result<Answer, SourceError> {
        let (agent, proxy) = self.agent(address)?;
        let mut request = agent.get(address.secret_uri());
        for (name, value) in headers {
            request = request.header(name, value);
        }
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        match request.call() {
            Ok(response) => Ok(self.answer(address, response)),
            Err(error) => Err(self.no_answer(&error, address, proxy)),
        }
    }

    /// Sends a form. It may hold a secret, so no redirect is followed.
    ///
    /// # Errors
    /// There was no answer. A status is no error.
    pub fn post(&self, address: &Address, form: &[(&str, &str)]) -> Result<Answer, SourceError> {
        let (agent, proxy) = self.agent(address)?;
        match agent.post(address.secret_uri()).send_form(form.iter().copied()) {
            Ok(response) => Ok(self.answer(address, response)),
            Err(error) => Err(self.no_answer(&error, address, proxy)),
        }
    }

    fn answer(&self, from: &Address, response: Response<Body>) -> Answer {
        let (parts, body) = response.into_parts();
        Answer {
            from: from.clone(),
            status: parts.status.as_u16(),
            headers: parts.headers,
            body,
            deadline: self.deadline.clone(),
            limits: self.limits,
        }
    }

    /// Whether a server speaks TLS at all.
    ///
    /// # Errors
    /// It does not answer in any way, or its certificate is not trusted.
    pub fn speaks_tls(&self, address: &Address) -> Result<bool, SourceError> {
        let (agent, proxy) = self.agent(address)?;
        let Err(error) = agent.get(address.secret_uri()).call() else { return Ok(true) };
        let cut = |error: &io::Error| {
            let kind = error.kind();
            matches!(kind, io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset)
        };
        match (tls_error(&error), &error) {
            (Some(rustls::Error::InvalidMessage(_)), _) => Ok(false),
            (None, ureq::Error::Io(io)) if cut(io) => Ok(false),
            _ => Err(self.no_answer(&error, address, proxy)),
        }
    }

    /// Who makes the next request. What was set for the last one's body does not hold for it.
    fn agent(&self, address: &Address) -> Result<(&Agent, Option<&str>), SourceError> {
        self.deadline.lift();
        match &self.proxied {
            Some(proxied) if !proxy::is_direct(address, &self.environment) => {
                let (agent, name) = proxied.as_ref().map_err(SourceError::clone)?;
                Ok((agent, Some(name)))
            }
            _ => Ok((&self.direct, None)),
        }
    }

    fn no_answer(&self, error: &ureq::Error, at: &Address, proxy: Option<&str>) -> SourceError {
        if let Some(rustls::Error::InvalidCertificate(why)) = tls_error(error) {
            return untrusted(at, why);
        }
        let what = match (error, proxy) {
            (ureq::Error::HostNotFound, None) => format!("{at} is not found by its name"),
            (ureq::Error::HostNotFound, Some(proxy)) => format!("{proxy} is not found by its name"),
            (error, None) => format!("{at} does not answer ({})", cause(error)),
            (error, Some(proxy)) => {
                format!("{at} does not answer through {proxy} ({})", cause(error))
            }
        };
        let fix = match proxy {
            Some(_) => format!("check the proxy, or name {} in NO_PROXY", at.host()),
            None if self.mirrored => {
                "check the network and VESTIBULE_REGISTRY_MIRROR, and HTTPS_PROXY if a proxy is needed"
                    .to_owned()
            }
            None => "check the network, set HTTPS_PROXY if a proxy is needed, or \
                     VESTIBULE_REGISTRY_MIRROR to a registry that can be reached, or give the images as \
                     files with --from (docs/IMAGES.md)"
                .to_owned(),
        };
        SourceError { what, fix, again: Again::Soon }
    }

    fn elsewhere(&self) -> &'static str {
        if self.mirrored {
            "set VESTIBULE_REGISTRY_MIRROR to another registry"
        } else {
            "set VESTIBULE_REGISTRY_MIRROR to a registry that has the image"
        }
    }
}

impl<R: Read> Read for Pieces<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.deadline.set(self.pause);
        self.body.read(into)
    }
}

impl Answer {
    /// A header's text, where there is one.
    pub fn header(&self, name: &str) -> Option<String> {
        self.headers(name).next()
    }

    /// Every header of that name.
    pub fn headers(&self, name: &str) -> impl Iterator<Item = String> {
        let values = self.headers.get_all(name).iter();
        values.filter_map(|value| Some(value.to_str().ok()?.trim().to_owned()))
    }

    /// The body, to be read as it comes.
    pub fn body(self) -> impl Read + 'static {
        let pause = self.limits.pause;
        Pieces { body: self.body.into_reader(), deadline: self.deadline, pause }
    }

    /// The whole body of `max` bytes at most, however many the server announces.
    ///
    /// # Errors
    /// It breaks off, it is longer, or it takes too long.
    pub fn document(self, max: u64) -> Result<Vec<u8>, SourceError> {
        let (from, limit, start) = (self.from, self.limits.document, Instant::now());
        self.deadline.set(limit);
        let (mut bytes, mut body) = (Vec::new(), self.body.into_reader().take(max + 1));
        let mut buffer = [0; 16 * 1024];
        loop {
            let broken = |why: &str| SourceError {
                what: format!("the answer of {from} broke off ({why})"),
                fix: "try again".to_owned(),
                again: Again::Soon,
            };
            match body.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => bytes.extend_from_slice(buffer.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if start.elapsed() < limit => return Err(broken(&body_error(&error))),
                Err(_) => {}
            }
            if start.elapsed() >= limit {
                return Err(broken(&format!("not all of it came within {} s", limit.as_secs())));
            }
        }
        if bytes.len() as u64 > max {
            return Err(SourceError {
                what: format!("the answer of {from} is larger than {max} bytes"),
                fix: "check the image's name: this is no image that can be used".to_owned(),
                again: Again::Never,
            });
        }
        Ok(bytes)
    }
}

/// Why a body ended early.
pub fn body_error(error: &io::Error) -> String {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<ureq::Error>()) {
        Some(inner) => cause(inner),
        None => escape::for_display(&error.to_string(), 200),
    }
}

fn tls_error(error: &ureq::Error) -> Option<&rustls::Error> {
    match error {
        ureq::Error::Rustls(error) => Some(error),
        ureq::Error::Io(error) => error.get_ref()?.downcast_ref(),
        _ => None,
    }
}

/// What the HTTP library says, without the addresses and header values that some of its texts hold.
fn cause(error: &ureq::Error) -> String {
    let text = match error {
        ureq::Error::Timeout(ureq::Timeout::Resolve | ureq::Timeout::Connect) => {
            format!("no connection within {} s", CONNECT.as_secs())
        }
        ureq::Error::Timeout(ureq::Timeout::RecvBody) => {
            format!("not all of it came within {} s", BODY.as_secs())
        }
        ureq::Error::Timeout(_) => format!("nothing came for {} s", QUIET.as_secs()),
        ureq::Error::Io(error) => error.to_string(),
        ureq::Error::Rustls(error) => error.to_string(),
        ureq::Error::Protocol(_) => "it does not speak HTTP as it should".to_owned(),
        ureq::Error::LargeResponseHeader(..) => "its headers are too large".to_owned(),
        ureq::Error::ConnectProxyFailed(text) => text.clone(),
        ureq::Error::Tls(text) => (*text).to_owned(),
        _ => "the connection failed".to_owned(),
    };
    escape::for_display(&text, 200)
}

fn untrusted(at: &Address, why: &rustls::CertificateError) -> SourceError {
    let unknown = matches!(why, rustls::CertificateError::UnknownIssuer);
    let (what, fix) = if unknown {
        (
            format!("the certificate of {at} is from an authority that is not trusted here"),
            "set SSL_CERT_FILE to a PEM file with the authority's certificate, if it is your \
             company's or your mirror's",
        )
    } else {
        let why = escape::for_display(&why.to_string(), 200);
        (
            format!("the certificate of {at} is not valid ({why})"),
            "check this machine's clock and the registry's name",
        )
    };
    SourceError { what, fix: fix.to_owned(), again: Again::Never }
}

fn astray(from: &Address, why: Refused) -> SourceError {
    SourceError {
        what: format!("{from} redirects {why}, which is not followed"),
        fix: "check the registry's or the mirror's setup".to_owned(),
        again: Again::Never,
    }
}
