//! Addresses without their secrets: for whatever is shown of what others have set.

mod known;

pub use known::{ADDRESSES, Known, engines_words, knows_secrets};

/// What stands where something was left out.
const LEFT_OUT: char = '…';

/// A value that is one address, or was meant to be: without the user and password before its `@`, and
/// without its query. Whatever the password holds, blanks and slashes too, nothing of it is left.
pub fn value(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let (user, rest) = match rest.rsplit_once('@') {
        Some((_, host)) => (true, host),
        None => (false, rest),
    };
    let end = rest.find(['?', '#']);
    let (place, query) = rest.split_at(end.unwrap_or(rest.len()));
    let mut shown = format!("{scheme}://");
    if user {
        shown.push(LEFT_OUT);
        shown.push('@');
    }
    shown.push_str(place);
    if let Some(mark) = query.chars().next() {
        shown.push(mark);
        shown.push(LEFT_OUT);
    }
    shown
}

/// A value whose address may lack its scheme: without everything before an `@`, but for that of a digest, and
/// without its query. What comes before `://` in a password is no scheme.
pub fn bare_value(text: &str) -> String {
    if has_scheme(text) {
        return value(text);
    }
    let (place, digest) = match text.rsplit_once('@') {
        Some((place, digest)) if is_digest(digest) => (place, format!("@{digest}")),
        _ => (text, String::new()),
    };
    // As an address with a scheme, which is then left out again.
    let shown = value(&format!("{SCHEME}{}", place));
    shown.trim_start_matches(SCHEME).to_owned() + &digest
}

/// Whether an address has a scheme, and not only a password with `://` in it.
fn has_scheme(text: &str) -> bool {
    let is_scheme =
        |scheme: &str| scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    text.split_once("://").is_some_and(|(scheme, _)| is_scheme(scheme))
}

/// What an address without a scheme is given while it is looked at.
const SCHEME: &str = "any://";

/// Whether this is a digest, or was meant to be: nothing else is shown behind the name of its algorithm.
fn is_digest(text: &str) -> bool {
    let algorithm = ["sha256:", "sha512:"].iter().find_map(|name| text.strip_prefix(name));
    algorithm.is_some_and(|hex| hex.chars().all(|c| c.is_ascii_hexdigit() || c == '…'))
}

/// A text with every address in it redacted as by [`value`]. An address ends at a blank or a quote.
pub fn text(text: &str) -> String {
    let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '`');
    text.split_inclusive(ends)
        .map(|part| {
            let word = part.trim_end_matches(ends);
            let (_, end) = part.split_at(word.len());
            value(word) + end
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn user_password_and_query_of_an_address_are_left_out() {
        for (given, shown) in [
            ("https://ada:hunter2@mirror.example/v2", "https://…@mirror.example/v2"),
            ("https://ada:p/w@x y@mirror.example", "https://…@mirror.example"),
            ("ssh://ada@build.example", "ssh://…@build.example"),
            ("https://m.example/v2?token=hunter2", "https://m.example/v2?…"),
            ("https://m.example/?user=a@b", "https://…@b"),
            ("unix:///run/user/1000/docker.sock", "unix:///run/user/1000/docker.sock"),
            ("256", "256"),
        ] {
            assert_eq!(value(given), shown);
        }
        let image = "docker.io/library/node@sha256:5ec2";
        assert_eq!(bare_value(image), image);
        assert_eq!(bare_value("ada:hunter2@m.example"), "…@m.example");
        assert_eq!(bare_value("https://ada:hunter2@m.example"), "https://…@m.example");
        assert_eq!(bare_value("ada:hunter://2@m.example"), "…@m.example");
        assert_eq!(
            bare_value("ada:hunter2@m.example/node@sha256:ab"),
            "…@m.example/node@sha256:ab"
        );
        assert_eq!(bare_value("ada:hunter2@sha512:m.example"), "…@sha512:m.example");
        assert_eq!(bare_value("m.example?token=hunter2"), "m.example?…");
        assert_eq!(bare_value("m.example/#hunter2"), "m.example/#…");
    }

    #[test]
    fn every_address_in_a_text_is_redacted_and_the_rest_stays() {
        assert_eq!(
            text("no answer from \"tcp://u:p@h:1\" nor  https://h/?q=1 (a@b)\n"),
            "no answer from \"tcp://…@h:1\" nor  https://h/?… (a@b)\n"
        );
    }

    proptest! {
        #[test]
        fn no_password_survives(before in "[a-z]{0,9}", password in "[!-~ ]{1,20}") {
            let secret = format!("SECRET{password}SECRET");
            for shown in [
                value(&format!("https://{before}:{secret}@host/p")),
                value(&format!("https://host/p?{before}={secret}")),
                bare_value(&format!("{before}:{secret}@host/p")),
            ] {
                // Of a query with an `@` in it the end may be left: no user's name or password.
                let shown = shown.rsplit_once('@').map_or(shown.as_str(), |(start, _)| start);
                prop_assert!(!shown.contains("SECRET"), "{shown}");
            }
        }
    }
}
