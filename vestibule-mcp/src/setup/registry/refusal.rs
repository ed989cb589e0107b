//! What a registry's refusals mean and what to do about them.

use super::transport::Answer;
use crate::escape;
use crate::setup::source::{Again, SourceError};
use serde::Deserialize;
use std::time::Duration;

/// The most that is read of a refusal, in bytes.
const BODY: u64 = 64 * 1024;

/// What was asked for.
#[derive(Clone)]
pub struct Asked {
    /// The host that was asked, escaped for display.
    pub host: String,
    /// The thing: `the manifest sha256:5e2bdb1b0d54`.
    pub thing: String,
    /// The repository that it is in.
    pub repository: String,
    /// The name for `docker login`, empty for Docker Hub.
    pub login: String,
    /// What became of the login that is kept for the host.
    pub kept: Login,
    /// Whether the host is a mirror that a setting names.
    pub mirrored: bool,
}

/// What became of a login. Each file is the one that has or names it, escaped for display.
#[derive(Clone, Default)]
pub enum Login {
    /// There is none.
    #[default]
    None,
    /// It was sent.
    Sent(String),
    /// It was not, since it is for HTTPS.
    Withheld(String),
}

impl Asked {
    fn command(&self) -> String {
        format!("docker login {}", self.login).trim_end().to_owned()
    }
}

#[derive(Default, Deserialize)]
struct Body {
    #[serde(default)]
    errors: Vec<Entry>,
}

#[derive(Default, Deserialize)]
struct Entry {
    #[serde(default)]
    code: String,
    #[serde(default)]
    message: String,
}

/// Makes an error of an answer that is none of the good ones.
pub fn of(answer: Answer, asked: &Asked) -> SourceError {
    let status = answer.status;
    let from = answer.from.to_string();
    let limit = answer.header("ratelimit-limit");
    let wait = answer.header("retry-after").and_then(|text| retry_after(&text, now()));
    let body = answer.document(BODY).unwrap_or_default();
    let body: Body = serde_json::from_slice(&body).unwrap_or_default();
    let entry = body.errors.into_iter().next().unwrap_or_default();
    match status {
        // A store of blobs that the registry sends to; what it was given with the address has run out.
        401 | 403 if from != asked.host => SourceError {
            what: format!("{from}, where {} sends us, answered {status}", asked.host),
            fix: "try again".to_owned(),
            again: Again::Soon,
        },
        401 | 403 => denied(status, &entry, asked),
        404 => missing(&entry, asked),
        429 => too_many(limit.as_deref(), wait, &entry, asked),
        408 | 500.. => SourceError {
            what: format!("{from} answered {status}{}", said(&entry)),
            fix: "try again later".to_owned(),
            again: wait.map_or(Again::Soon, Again::After),
        },
        _ => SourceError {
            what: format!(
                "{from} answered {status} to the request for {} of {}{}",
                asked.thing,
                asked.repository,
                said(&entry)
            ),
            fix: match asked.mirrored {
                true => "check that VESTIBULE_REGISTRY_MIRROR names a registry",
                false => "check the image's name",
            }
            .to_owned(),
            again: Again::Never,
        },
    }
}

fn said(entry: &Entry) -> String {
    let text = match (entry.code.as_str(), entry.message.as_str()) {
        ("", "") => return String::new(),
        (code, "") => code.to_owned(),
        ("", message) => message.to_owned(),
        (code, message) => format!("{code}: {message}"),
    };
    format!(" ({})", escape::for_display(&text, 200))
}

/// Docker Hub answers so to repositories that do not exist, too.
fn denied(status: u16, entry: &Entry, asked: &Asked) -> SourceError {
    let (Asked { host, repository, .. }, login) = (asked, asked.command());
    let said = said(entry);
    let (what, fix) = match &asked.kept {
        Login::Sent(file) => (
            format!(
                "{host} gives no access to {repository} with the login that {file} has or names: \
                 {status}{said}"
            ),
            format!("log in again with `{login}`, or check the image's name"),
        ),
        Login::Withheld(file) => (
            format!(
                "{host} gives no access to {repository}: {status}{said}; the login that {file} has or names \
                 was not sent, since it is for https:// and plain HTTP is spoken there"
            ),
            format!("find out who listens there; if it is your registry, log in with `{login}`"),
        ),
        Login::None => (
            format!(
                "{host} gives no access to {repository}: {status}{said}, which also means that there is no \
                 such repository"
            ),
            format!("check the image's name, or log in with `{login}`"),
        ),
    };
    SourceError { what, fix, again: Again::Never }
}

fn missing(entry: &Entry, asked: &Asked) -> SourceError {
    let Asked { host, thing, repository, .. } = asked;
    let what = match entry.code.as_str() {
        "NAME_UNKNOWN" => format!("{host} has no repository {repository}"),
        _ => format!("{host} does not have {thing} of {repository}{}", said(entry)),
    };
    let fix = match asked.mirrored {
        true => "set VESTIBULE_REGISTRY_MIRROR to a registry that has the image, or remove it",
        false => "check the image's name, tag and digest",
    };
    SourceError { what, fix: fix.to_owned(), again: Again::Never }
}

fn too_many(
    limit: Option<&str>,
    wait: Option<Duration>,
    entry: &Entry,
    asked: &Asked,
) -> SourceError {
    let limit_text = limit.map(|limit| format!(", the limit being {}", rate(limit)));
    let when = wait.map_or_else(|| "a while".to_owned(), |wait| format!("{} s", wait.as_secs()));
    let mirror = match asked.mirrored {
        true => "another registry",
        false => "a mirror",
    };
    SourceError {
        what: format!(
            "{} has had too many requests from here{}{}",
            asked.host,
            limit_text.unwrap_or_default(),
            said(entry)
        ),
        fix: format!(
            "wait {when}, log in with `{}`, or set VESTIBULE_REGISTRY_MIRROR to {mirror}",
            asked.command()
        ),
        // A limit on pulls counts hours, so that the usual pauses would only use it up further.
        again: match (wait, limit) {
            (Some(wait), _) => Again::After(wait),
            (None, Some(_)) => Again::Never,
            (None, None) => Again::Soon,
        },
    }
}

/// `100;w=21600` in words: 100 pulls in 6 hours.
fn rate(limit: &str) -> String {
    let parts = limit.split_once(";w=");
    let numbers = parts.and_then(|(count, window)| {
        Some((count.parse::<u64>().ok()?, window.parse::<u64>().ok()?))
    });
    match numbers {
        Some((count, window)) if window >= 3600 && window.is_multiple_of(3600) => {
            format!("{count} in {} h", window / 3600)
        }
        Some((count, window)) => format!("{count} in {window} s"),
        None => escape::for_display(limit, 50),
    }
}

fn now() -> i64 {
    chrono::Utc::now().timestamp()
}

/// Seconds, or a moment as HTTP writes it (RFC 9110, section 10.2.3).
fn retry_after(text: &str, now: i64) -> Option<Duration> {
    let seconds = match text.parse::<u64>() {
        Ok(seconds) => seconds,
        Err(_) => {
            let moment = chrono::DateTime::parse_from_rfc2822(text).ok()?.timestamp();
            u64::try_from(moment.saturating_sub(now)).unwrap_or(0)
        }
    };
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn when_to_come_back_is_seconds_or_a_moment() {
        let after = |text| retry_after(text, 784_111_777).map(|wait| wait.as_secs());
        assert_eq!(after("120"), Some(120));
        assert_eq!(after("Sun, 06 Nov 1994 08:49:57 GMT"), Some(20));
        assert_eq!(after("Sun, 06 Nov 1994 08:49:07 GMT"), Some(0));
        assert_eq!(after("soon"), None);
    }

    #[test]
    fn limits_are_told_in_words() {
        assert_eq!(rate("100;w=21600"), "100 in 6 h");
        assert_eq!(rate("5;w=90"), "5 in 90 s");
        assert_eq!(rate("\u{1b}x"), "\\u{1b}x");
    }
}
