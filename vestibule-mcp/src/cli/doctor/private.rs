//! What a page that is pasted into a report must not hold: secrets of addresses, the user's name in the
//! path of the home folder, and whatever could drive a terminal. All in one place, over every text there
//! is on the page, so that no row can forget it.

use super::page::Page;
use crate::config::{self, Config};
use crate::escape::{for_display, is_hostile};
use crate::redact;
use serde_json::Value;
use std::ffi::OsString;
use std::path::PathBuf;

/// What must not stand on the page as it is.
#[derive(Debug, Default)]
pub struct Known {
    /// The names of the home folder, the longest first.
    homes: Vec<String>,
    /// Addresses of the environment: a password of theirs may hold what ends an address in a text.
    addresses: redact::Known,
}

impl Known {
    /// What is known of these settings and this environment.
    pub fn new(config: &Config, variable: impl Fn(&str) -> Option<OsString>) -> Known {
        Known { homes: homes(config), addresses: redact::Known::new(variable) }
    }
}

/// The page as it may be shown, as text and as JSON.
///
/// # Errors
/// If the page cannot be written as JSON and read again.
pub fn tidy(page: &Page, known: &Known) -> serde_json::Result<Page> {
    let mut value = serde_json::to_value(page)?;
    walk(&mut value, known);
    serde_json::from_value(value)
}

fn walk(value: &mut Value, known: &Known) {
    match value {
        Value::String(text) => *text = clean(text, known),
        Value::Array(items) => items.iter_mut().for_each(|item| walk(item, known)),
        Value::Object(members) => members.values_mut().for_each(|member| walk(member, known)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn clean(text: &str, known: &Known) -> String {
    let text = known.addresses.clean(text);
    let text = known.homes.iter().fold(text, |text, home| shorten(&text, home));
    // Backslashes stay: what was escaped where it was read must not be escaped again.
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_hostile(c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// The names of the home folder: as it is set, as it really is, and of the user database, each also as it
/// looks where it was escaped.
fn homes(config: &Config) -> Vec<String> {
    let named = [config.home.clone(), config::passwd_home()];
    let mut homes: Vec<PathBuf> = named.into_iter().flatten().collect();
    homes.extend(homes.clone().iter().filter_map(|home| home.canonicalize().ok()));
    // As text a home of `/` would be the start of every path.
    homes.retain(|home| home.parent().is_some());
    let texts = homes.iter().map(|home| home.to_string_lossy().trim_end_matches('/').to_owned());
    let mut texts: Vec<String> =
        texts.flat_map(|text| [for_display(&text, usize::MAX), text]).collect();
    // One home may lie in another.
    texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
    texts.dedup();
    texts
}

/// Writes `~` for a home folder wherever it stands as a whole path or at the start of one.
fn shorten(text: &str, home: &str) -> String {
    let part_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    let mut shown = String::with_capacity(text.len());
    let mut done = 0;
    for (start, _) in text.match_indices(home) {
        let (before, after) = (&text[..start], &text[start + home.len()..]);
        if !before.ends_with(part_of_name) && !after.starts_with(part_of_name) {
            shown.push_str(&text[done..start]);
            shown.push('~');
            done = start + home.len();
        }
    }
    shown + &text[done..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_home_folder_is_a_tilde_and_no_other_folder_is() {
        for (given, shown) in [
            ("/home/ada/w", "~/w"),
            ("in /home/ada, and \"/home/ada\"", "in ~, and \"~\""),
            ("unix:///home/ada/.docker/s.sock", "unix://~/.docker/s.sock"),
            ("/home/adam/w /mnt/home/ada", "/home/adam/w /mnt/home/ada"),
            ("/home/ada-old", "/home/ada-old"),
            ("/home/ada/home/ada.", "~/home/ada."),
        ] {
            assert_eq!(shorten(given, "/home/ada"), shown);
        }
    }

    #[test]
    fn every_name_of_the_home_folder_is_known() {
        let set = |home: &str| homes(&Config::from_env([("HOME".into(), home.into())]));
        assert!(set("/home/ada\\b/").contains(&"/home/ada\\\\b".to_owned()));
        assert!(set("/home/ada\\b/").contains(&"/home/ada\\b".to_owned()));
        assert!(set("/").iter().all(|home| home.len() > 1), "{:?}", set("/"));
    }

    #[cfg(unix)]
    #[test]
    fn a_home_behind_a_link_is_known_by_both_names() {
        let folder = std::env::temp_dir().join(format!("doctor-private-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("ada")).unwrap();
        std::os::unix::fs::symlink(folder.join("ada"), folder.join("link")).unwrap();
        let home = folder.join("link");
        let homes = homes(&Config::from_env([("HOME".into(), home.clone().into())]));
        let real = folder.canonicalize().unwrap().join("ada");
        for path in [home, real] {
            assert!(homes.contains(&path.to_string_lossy().into_owned()), "{homes:?}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn what_an_engine_says_is_redacted_like_everything_else() {
        let known = Known { homes: vec!["/home/ada".to_owned()], ..Known::default() };
        let said = "no answer at tcp://ada:hunter2@build.example?k=1 nor unix:///home/ada/d.sock";
        let shown = "no answer at tcp://…@build.example?… nor unix://~/d.sock";
        assert_eq!(clean(said, &known), shown);
    }

    #[test]
    fn an_address_that_is_known_is_redacted_whatever_its_password_holds() {
        let config = Config::from_env([("HOME".into(), "/home/ada".into())]);
        let host = "tcp://ada:p \"hunter2@build.example";
        let known = Known::new(&config, |name| (name == "DOCKER_HOST").then(|| host.into()));
        let said = format!("unable to parse {host:?}: parse {host}: invalid");
        let shown = clean(&said, &known);
        assert!(
            !shown.contains("hunter2") && shown.matches("tcp://…@build.example").count() == 2,
            "{shown}"
        );
    }

    #[test]
    fn nothing_drives_a_terminal_and_what_was_escaped_stays_so() {
        assert_eq!(
            clean("a\n\u{1b}[31m\u{202e}b\\n", &Known::default()),
            "a\\n\\u{1b}[31m\\u{202e}b\\n"
        );
    }
}
