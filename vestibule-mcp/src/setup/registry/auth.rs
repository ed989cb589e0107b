//! How a registry is convinced: a token for each repository, or a password.

use super::address::Address;
use super::challenge::{self, Challenge};
use super::credentials::{self, Credentials, Found, Kept};
use super::environment::Environment;
use super::refusal::{self, Asked, Login};
use super::transport::{Answer, Transport};
use crate::setup::source::{Again, SourceError};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use ureq::http::HeaderValue;

/// The most that is read of a token service's answer, in bytes.
const ANSWER: u64 = 1 << 20;

/// Whom to convince, and of what.
pub struct Auth<'a> {
    /// Makes the requests.
    pub transport: &'a Transport,
    /// Where the logins are.
    pub environment: &'a Environment,
    /// The registry.
    pub registry: &'a Address,
    /// The host, as logins know it.
    pub host: &'a str,
    /// What is to be read.
    pub asked: &'a Asked,
}

/// What is sent along.
#[derive(Clone)]
pub struct Proof {
    /// The header's value.
    pub header: HeaderValue,
    /// What became of a login on the way to it.
    pub login: Login,
}

#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

impl Auth<'_> {
    /// What to send along, after a registry has answered 401, and the file of the login that was tried.
    ///
    /// # Errors
    /// It asks for a login that is not there, or its token service gives none.
    pub fn answer(&self, refused: Answer) -> Result<Proof, SourceError> {
        let challenges: Vec<Challenge> = refused
            .headers("www-authenticate")
            .flat_map(|header| challenge::parse(&header))
            .collect();
        let of = |scheme: &str| challenges.iter().find(|challenge| challenge.scheme == scheme);
        let bearer = of("bearer").and_then(|bearer| Some((bearer, bearer.get("realm")?)));
        if bearer.is_none() && of("basic").is_none() {
            return Err(refusal::of(refused, self.asked));
        }
        // A mirror that is set as plain HTTP proves as little who listens there.
        let unproven = !self.registry.is_https();
        let repository = &self.asked.repository;
        let found = credentials::find(self.environment, self.host, repository, unproven);
        let (credentials, kept) = match found {
            Found::Login(Kept { credentials, file }) => (Some(credentials), Login::Sent(file)),
            Found::Withheld(file) => (None, Login::Withheld(file)),
            Found::Nothing => (None, Login::None),
        };
        let asked = Asked { kept: kept.clone(), ..self.asked.clone() };
        match (bearer, credentials) {
            (Some((bearer, realm)), login) => {
                let header = self.token(bearer, realm, login.as_ref(), &asked)?;
                Ok(Proof { header, login: kept })
            }
            (None, Some(Credentials::Password { user, password })) => {
                Ok(Proof { header: basic(&user, &password)?, login: kept })
            }
            // A token of a token service is none for the registry itself, and stays here.
            (None, Some(Credentials::Identity(_))) => Err(refusal::of(refused, self.asked)),
            (None, None) => Err(refusal::of(refused, &asked)),
        }
    }

    fn token(
        &self,
        challenge: &Challenge,
        realm: &str,
        login: Option<&Credentials>,
        asked: &Asked,
    ) -> Result<HeaderValue, SourceError> {
        let realm = self.registry.follow(realm).map_err(|why| SourceError {
            what: format!(
                "{} names a token service that is not asked ({})",
                self.registry,
                why.reason()
            ),
            fix: "check the registry's or the mirror's setup".to_owned(),
            again: Again::Never,
        })?;
        let scope = challenge
            .get("scope")
            .map_or_else(|| format!("repository:{}:pull", self.asked.repository), str::to_owned);
        let service = challenge.get("service");
        let mut answer = self.ask(&realm, service, &scope, login)?;
        if answer.status == 401 && login.is_some() {
            // A login that has run out must not stand in the way of an image that is for everybody.
            tracing::warn!("{realm} does not accept the login for {}, asking without", self.host);
            answer = self.ask(&realm, service, &scope, None)?;
        }
        if answer.status != 200 {
            let (host, thing) = (realm.to_string(), "a token".to_owned());
            return Err(refusal::of(answer, &Asked { host, thing, ..asked.clone() }));
        }
        let unclear = |again| SourceError {
            what: format!("{realm} answers with no token that can be used"),
            fix: "check the registry's or the mirror's setup".to_owned(),
            again,
        };
        let token: Token =
            serde_json::from_slice(&answer.document(ANSWER)?).map_err(|_| unclear(Again::Soon))?;
        let known = [token.token, token.access_token].into_iter().flatten();
        let token = known.into_iter().find(|token| !token.is_empty());
        let header = token.and_then(|token| secret(&format!("Bearer {token}")));
        header.ok_or_else(|| unclear(Again::Never))
    }

    fn ask(
        &self,
        realm: &Address,
        service: Option<&str>,
        scope: &str,
        login: Option<&Credentials>,
    ) -> Result<Answer, SourceError> {
        let (account, header) = match login {
            Some(Credentials::Identity(token)) => {
                let form = [
                    ("grant_type", "refresh_token"),
                    ("service", service.unwrap_or_default()),
                    ("client_id", "vestibule"),
                    ("scope", scope),
                    ("refresh_token", token),
                ];
                return self.transport.post(realm, &form);
            }
            Some(Credentials::Password { user, password }) => {
                (Some(user.as_str()), Some(basic(user, password)?))
            }
            None => (None, None),
        };
        let service = service.map(|service| ("service", service));
        let scopes = scope.split(' ').filter(|scope| !scope.is_empty());
        let scopes = scopes.map(|scope| ("scope", scope));
        let account = account.map(|account| ("account", account));
        let query: Vec<_> = service.into_iter().chain(scopes).chain(account).collect();
        let realm = realm.with_query(&query).ok_or_else(|| SourceError {
            what: format!("{} names a token service that is too long", self.registry),
            fix: "check the registry's or the mirror's setup".to_owned(),
            again: Again::Never,
        })?;
        self.transport.get(&realm, &[], header.as_ref())
    }
}

fn basic(user: &str, password: &str) -> Result<HeaderValue, SourceError> {
    let encoded = STANDARD.encode(format!("{user}:{password}"));
    secret(&format!("Basic {encoded}")).ok_or_else(|| SourceError {
        what: "the login that is kept for the registry cannot be sent".to_owned(),
        fix: "log in again".to_owned(),
        again: Again::Never,
    })
}

/// A header's value that no debug text shows.
fn secret(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}
