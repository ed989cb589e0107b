//! The argument `path` of `read_workspace`, before the file system is asked.

use crate::run::request::{bad_argument, shown};
use protocol::Refusal;
use serde_json::Value;

/// The longest path, in bytes. Linux takes no longer one.
const MAX: usize = 4096;
/// Names that mean a device on Windows, whatever stands behind their first dot.
const RESERVED: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];

/// A path below the workspace: plain names, none of them `.` or `..`. Empty is the workspace itself.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RelativePath(Vec<String>);

impl RelativePath {
    /// Checks the argument; absent and null mean the workspace itself.
    ///
    /// # Errors
    /// A refusal that says what the path must be.
    pub fn parse(value: Option<&Value>) -> Result<RelativePath, Refusal> {
        let text = match value {
            None | Some(Value::Null) => ".",
            Some(Value::String(text)) => text,
            Some(other) => {
                return Err(bad_argument(format!("path must be a string, not {}", shown(other))));
            }
        };
        check_text(text, cfg!(windows)).map_err(|why| {
            let shown = shown(&Value::from(text));
            bad_argument(format!("path must be relative to the workspace and plain: {shown} {why}"))
        })?;
        let names = text.split('/').filter(|name| !name.is_empty() && *name != ".");
        Ok(RelativePath(names.map(str::to_owned).collect()))
    }

    /// The names, outermost first: for systems that must open them one by one.
    #[cfg(any(test, not(target_os = "linux")))]
    pub fn names(&self) -> &[String] {
        &self.0
    }

    /// The path for use with the system's calls and in texts.
    pub fn joined(&self) -> String {
        if self.0.is_empty() { ".".to_owned() } else { self.0.join("/") }
    }
}

fn check_text(text: &str, windows: bool) -> Result<(), &'static str> {
    if text.len() > MAX {
        return Err("is too long (4096 bytes at most)");
    }
    if text.starts_with('/') {
        return Err("is absolute; leave out /workspace/ or whatever it begins with");
    }
    if text.contains('\0') {
        return Err("holds a NUL character");
    }
    if text.contains('\\') {
        return Err("holds a backslash; separate names with /");
    }
    if text.split('/').any(|name| name == "..") {
        return Err("holds `..`");
    }
    if text.starts_with('~') {
        return Err("starts with ~, which is not expanded");
    }
    if windows && text.split('/').any(|name| name.contains(':') || reserved(name)) {
        return Err("holds a drive letter, a stream name or a name that Windows reserves");
    }
    Ok(())
}

fn reserved(name: &str) -> bool {
    // Windows drops dots and spaces at the end of a name: what is left may be another name.
    let trimmed = name.trim_end_matches(['.', ' ']);
    if trimmed.len() != name.len() && name != "." {
        return true;
    }
    let stem = trimmed.split('.').next().unwrap_or_default().trim_end().to_lowercase();
    let numbered = ["com", "lpt"].iter().any(|port| {
        stem.strip_prefix(port).is_some_and(|rest| {
            let mut digits = rest.chars();
            matches!(digits.next(), Some('0'..='9' | '¹' | '²' | '³')) && digits.next().is_none()
        })
    });
    numbered || RESERVED.contains(&stem.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    #[test]
    fn plain_paths_become_names() {
        let names = |value| RelativePath::parse(Some(&value)).unwrap().0;
        assert_eq!(names(json!(".")), Vec::<String>::new());
        assert_eq!(names(json!(null)), Vec::<String>::new());
        assert_eq!(names(json!("./a//b/./c/")), ["a", "b", "c"]);
        assert_eq!(names(json!("naïve—漢字🎉.txt")), ["naïve—漢字🎉.txt"]);
        assert_eq!(names(json!("..a/b..")), ["..a", "b.."]);
    }

    #[test]
    fn what_leads_out_or_is_no_path_is_refused_by_name() {
        let bad = [
            json!(5),
            json!(["."]),
            json!({}),
            json!(true),
            json!(".."),
            json!("../x"),
            json!("a/../../x"),
            json!("/etc/passwd"),
            json!("/"),
            json!("a\0b"),
            json!("..\\x"),
            json!("C:\\x"),
            json!("~/x"),
            json!("d/".repeat(3000)),
        ];
        for value in bad {
            let text = RelativePath::parse(Some(&value)).unwrap_err().to_string();
            assert!(text.starts_with("path must be "), "{text}");
            assert!(text.len() < 400, "{}", text.len());
        }
    }

    #[test]
    fn windows_names_that_are_no_files_are_refused_there() {
        for text in
            ["a:b", "nul", "CON", "x/Aux.txt", "com1", "LPT³.log", "a.", "b ", "nul .txt", "conin$"]
        {
            assert!(check_text(text, true).is_err(), "{text}");
        }
        for text in ["console", "com", "com10", "nulx", ".", "a.b", "лпт1"] {
            assert!(check_text(text, true).is_ok(), "{text}");
        }
        assert!(check_text("a:b", false).is_ok());
    }

    proptest! {
        #[test]
        fn no_name_ever_leads_up_or_out(text in ".{0,40}") {
            if let Ok(path) = RelativePath::parse(Some(&json!(text))) {
                for name in path.names() {
                    prop_assert!(!name.is_empty() && name != "." && name != "..");
                    prop_assert!(!name.contains(['/', '\\', '\0']));
                }
            }
        }
    }
}
