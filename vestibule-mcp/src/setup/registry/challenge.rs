//! `WWW-Authenticate`: how a registry wants to be asked (RFC 9110, section 11.6.1).

use std::collections::HashMap;

/// One way to prove who asks.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Challenge {
    /// `bearer` or `basic`, in lower case.
    pub scheme: String,
    /// Its parameters, names in lower case.
    pub parameters: HashMap<String, String>,
}

impl Challenge {
    /// A parameter that is there and not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

/// Reads the challenges of one header. What cannot be read is left out.
pub fn parse(header: &str) -> Vec<Challenge> {
    let mut challenges: Vec<Challenge> = Vec::new();
    let mut rest = header;
    loop {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let end = rest.find([' ', '\t', ',', '=', '"']).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if word.is_empty() {
            return challenges;
        }
        let word = word.to_ascii_lowercase();
        // A parameter has an equals sign, perhaps after blanks; a scheme has none.
        match after.trim_start_matches([' ', '\t']).strip_prefix('=') {
            Some(after) => {
                let (value, after) = value(after.trim_start_matches([' ', '\t']));
                if let Some(challenge) = challenges.last_mut() {
                    challenge.parameters.insert(word, value);
                }
                rest = after;
            }
            None => {
                challenges.push(Challenge { scheme: word, ..Challenge::default() });
                rest = after;
            }
        }
    }
}

/// A word or a quoted string, and what follows it.
fn value(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let (word, rest) = text.split_at(text.find([',', ' ', '\t']).unwrap_or(text.len()));
        return (word.to_owned(), rest);
    };
    let mut value = String::new();
    let mut escaped = false;
    for (at, c) in quoted.char_indices() {
        match c {
            _ if escaped => {
                value.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => return (value, quoted.get(at + 1..).unwrap_or_default()),
            _ => value.push(c),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quoted_strings_hold_commas_and_quotes() {
        let header = r#"Bearer realm="https://a.example/t?x=1,2",service = reg ,scope="repository:a:pull,push", error="a \"b\"""#;
        let challenges = parse(header);
        let [challenge] = challenges.as_slice() else { panic!("{challenges:?}") };
        assert_eq!(challenge.scheme, "bearer");
        assert_eq!(challenge.get("realm"), Some("https://a.example/t?x=1,2"));
        assert_eq!(challenge.get("service"), Some("reg"));
        assert_eq!(challenge.get("scope"), Some("repository:a:pull,push"));
        assert_eq!(challenge.get("error"), Some("a \"b\""));
    }

    #[test]
    fn one_header_may_hold_several() {
        let challenges = parse(r#"Negotiate, Basic realm="x, y", BEARER Realm=z"#);
        let schemes: Vec<_> =
            challenges.iter().map(|c| (c.scheme.as_str(), c.get("realm"))).collect();
        let expected = [("negotiate", None), ("basic", Some("x, y")), ("bearer", Some("z"))];
        assert_eq!(schemes, expected);
        assert_eq!(parse(r#"realm="x""#), []);
        assert_eq!(parse(r#"Bearer realm="#)[0].get("realm"), None);
    }

    proptest! {
        #[test]
        fn whatever_a_server_sends_has_an_end(header in r#"[a-z =",\\]{0,60}"#) {
            prop_assert!(parse(&header).len() <= header.len());
        }
    }
}
