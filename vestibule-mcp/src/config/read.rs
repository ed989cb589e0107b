//! From text to typed values: takes what is valid, notes what is not.

use super::table::{self, Kind, Setting};
use super::value::{self, Changed, HOME, ImageReference, Problem};
use crate::{escape, redact};
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// How many characters of a bad value are shown.
const SHOWN: usize = 200;

/// The variables of one process and what was found wrong with them.
pub(super) struct Reader {
    variables: HashMap<OsString, OsString>,
    /// The user's home folder, where one is known.
    pub home: Option<PathBuf>,
    /// What is wrong so far.
    pub problems: Vec<Problem>,
}

impl Reader {
    /// `fallback` is asked for the home folder where the variables name none.
    pub fn new(
        variables: impl IntoIterator<Item = (OsString, OsString)>,
        fallback: impl FnOnce() -> Option<PathBuf>,
    ) -> Reader {
        let variables: HashMap<_, _> = variables.into_iter().collect();
        let home = home(&variables).or_else(fallback);
        Reader { variables, home, problems: Vec::new() }
    }

    /// The raw value of a variable that is set and not blank.
    pub fn raw(&self, name: &str) -> Option<&OsString> {
        let value = self.variables.get(std::ffi::OsStr::new(name))?;
        let blank = value.as_encoded_bytes().trim_ascii().is_empty();
        (!blank).then_some(value)
    }

    /// Names that start like ours but are no setting.
    pub fn unknown(&self) -> Vec<String> {
        let names = self.variables.keys().map(|name| name.to_string_lossy());
        let known = |name: &str| table::ALL.iter().any(|setting| setting.name == name);
        let mut unknown: Vec<String> = names
            .filter(|name| name.starts_with("VESTIBULE_") && !known(name))
            .map(|name| escape::for_display(&name, SHOWN))
            .collect();
        unknown.sort();
        unknown
    }

    /// Settings that are set and that this version does not use.
    pub fn unused(&self) -> Vec<&'static str> {
        let names = table::UNUSED.map(|setting| setting.name);
        names.into_iter().filter(|name| self.raw(name).is_some()).collect()
    }

    /// Settings that are set to something else than their default.
    pub fn changed(&self) -> Vec<Changed> {
        let changed = |setting: &&'static Setting| {
            let raw = self.raw(setting.name)?.to_string_lossy();
            let text = raw.trim();
            let value = shown(setting, text);
            (!self.is_default(setting, text)).then_some(Changed { setting, value })
        };
        table::ALL.iter().filter_map(changed).collect()
    }

    /// Whether a text means what the setting means anyway, however it is written.
    fn is_default(&self, setting: &Setting, text: &str) -> bool {
        let same = |meaning: &dyn Fn(&str) -> Option<OsString>| {
            meaning(text).is_some_and(|given| Some(given) == meaning(setting.default))
        };
        let home = self.home.as_deref();
        match setting.kind {
            Kind::Number { min, max } => {
                same(&|text| Some(value::parse_number(text, min, max)?.to_string().into()))
            }
            Kind::Switch => same(&|text| Some(value::parse_switch(text)?.to_string().into())),
            Kind::Folder => same(&|text| absolute(text, home).map(PathBuf::into_os_string)),
            Kind::Choice(_) => text.eq_ignore_ascii_case(setting.default),
            Kind::Program | Kind::Image | Kind::Registry | Kind::LogFilter => {
                text == setting.default
            }
        }
    }

    /// The value of a setting that has a default.
    pub fn value<T>(&mut self, setting: &Setting, parse: impl Fn(&str) -> Option<T>) -> T {
        self.given(setting, &parse).unwrap_or_else(|| {
            // A test parses every default, so this is no path that input can reach.
            parse(setting.default).expect("a default that parses")
        })
    }

    /// The value of a setting, `None` where it is unset or invalid.
    pub fn given<T>(&mut self, setting: &Setting, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let raw = self.raw(setting.name)?.clone();
        let parsed = raw.to_str().and_then(|text| parse(text.trim()));
        if parsed.is_none() {
            self.problem(setting, setting.expected());
        }
        parsed
    }

    /// A number of a range-checked type.
    pub fn number<T: TryFrom<u32>>(&mut self, setting: &Setting) -> T {
        let Kind::Number { min, max } = setting.kind else {
            unreachable!("{} is no number in the table", setting.name)
        };
        let parse = |text: &str| T::try_from(value::parse_number(text, min, max)?).ok();
        self.value(setting, parse)
    }

    /// On or off.
    pub fn switch(&mut self, setting: &Setting) -> bool {
        self.value(setting, value::parse_switch)
    }

    /// An image reference.
    pub fn image(&mut self, setting: &Setting) -> ImageReference {
        self.value(setting, ImageReference::parse)
    }

    /// A folder; empty where its setting is invalid or no home folder is known to put it in.
    pub fn folder(&mut self, setting: &Setting) -> PathBuf {
        if let Some(path) = self.path(setting) {
            return path;
        }
        let default = absolute(setting.default, self.home.as_deref());
        if default.is_none() && self.raw(setting.name).is_none() {
            self.no_home();
        }
        default.unwrap_or_default()
    }

    /// The path of a program or a folder, `None` where it is unset or invalid.
    pub fn path(&mut self, setting: &Setting) -> Option<PathBuf> {
        let home = self.home.clone();
        let in_home = |raw: &OsString| raw.to_string_lossy().trim().starts_with('~');
        if home.is_none() && self.raw(setting.name).is_some_and(in_home) {
            self.no_home();
            return None;
        }
        self.given(setting, |text| absolute(text, home.as_deref()))
    }

    /// Notes, once, that the home folder is needed and unknown.
    fn no_home(&mut self) {
        let value = self.raw(HOME).map(|raw| escape::for_display(&raw.to_string_lossy(), SHOWN));
        let problem = Problem::NoHome { value };
        if !self.problems.contains(&problem) {
            self.problems.push(problem);
        }
    }

    /// Notes that a setting's value cannot be used.
    pub fn problem(&mut self, setting: &Setting, expected: String) {
        let raw = self.raw(setting.name).map(|raw| raw.to_string_lossy().into_owned());
        let value = raw.unwrap_or_else(|| setting.default.to_owned());
        let value = shown(setting, value.trim());
        self.problems.push(Problem::Setting { name: setting.name, value, expected });
    }
}

/// A value for display. What is secret goes before anything is cut, since a cut could take the `@` that
/// a password is known by.
fn shown(setting: &Setting, text: &str) -> String {
    let text = match setting.kind {
        Kind::Image | Kind::Registry => redact::bare_value(text),
        _ => redact::value(text),
    };
    escape::for_display(&text, SHOWN)
}

/// An absolute path without `.`, `..`, doubled and trailing slashes; `~` is the home folder.
fn absolute(text: &str, home: Option<&Path>) -> Option<PathBuf> {
    let path = match text.strip_prefix('~') {
        Some("") => home?.to_owned(),
        Some(rest) => home?.join(rest.strip_prefix(['/', std::path::MAIN_SEPARATOR])?),
        None => PathBuf::from(text),
    };
    let up = path.components().any(|part| part == Component::ParentDir);
    let usable = path.is_absolute() && !up && !text.contains('\0');
    usable.then(|| path.components().collect())
}

/// The home folder that the variables name.
fn home(variables: &HashMap<OsString, OsString>) -> Option<PathBuf> {
    let names = if cfg!(windows) { &[HOME, "HOME"][..] } else { &[HOME][..] };
    let named = names.iter().filter_map(|name| variables.get(std::ffi::OsStr::new(name)));
    named.map(PathBuf::from).find(|path| path.is_absolute())
}

/// The home folder of the user database.
#[cfg(unix)]
pub(crate) fn passwd_home() -> Option<PathBuf> {
    let user = nix::unistd::User::from_uid(nix::unistd::getuid()).ok()??;
    user.dir.is_absolute().then_some(user.dir)
}

/// Where there is no user database.
#[cfg(not(unix))]
pub(crate) fn passwd_home() -> Option<PathBuf> {
    None
}
