//! What holds of the source as a whole.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use tests::Outcome;
use tests::programs::repository;

tests::tests![
    no_file_is_longer_than_400_lines,
    no_file_is_empty,
    unsafe_code_lies_in_sys_alone,
    one_file_names_bincode,
    nothing_refers_to_one_machine,
    every_claim_names_a_test_that_exists,
    dependencies_point_one_way,
];

/// Tables that would not become clearer in parts.
const DATA: [&str; 3] = ["Cargo.lock", "tests/cases/cases.jsonl", "LICENSE"];

/// Every text file of the project, relative to its root.
fn files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(repository().join(&folder)).expect("a folder").flatten() {
            let path = folder.join(entry.file_name());
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if !["target", ".git", "__pycache__"].contains(&name.as_str()) {
                    folders.push(path);
                }
            } else if fs::read_to_string(repository().join(&path)).is_ok() {
                found.push(path);
            }
        }
    }
    assert!(found.len() > 50, "the project's files were not found");
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(repository().join(path)).expect("a text file")
}

fn no_file_is_longer_than_400_lines() -> Outcome {
    let data: BTreeSet<&str> = DATA.into();
    let long: Vec<String> = files()
        .iter()
        .filter(|path| !data.contains(path.to_string_lossy().as_ref()))
        .map(|path| (read(path).lines().count(), path))
        .filter(|(lines, _)| *lines > 400)
        .map(|(lines, path)| format!("{lines} {}", path.display()))
        .collect();
    assert!(long.is_empty(), "{long:#?}");
    Ok(())
}

fn no_file_is_empty() -> Outcome {
    let empty: Vec<_> = files().into_iter().filter(|path| read(path).is_empty()).collect();
    assert!(empty.is_empty(), "left by accident: {empty:#?}");
    Ok(())
}

fn unsafe_code_lies_in_sys_alone() -> Outcome {
    for path in files().iter().filter(|path| path.extension().is_some_and(|e| e == "rs")) {
        let allowed = path.starts_with("vestibule-jail/src/sys");
        for line in read(path).lines() {
            let code = line.split("//").next().unwrap_or_default();
            let mut words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
            let named = words.any(|word| word == "unsafe") && !code.contains('"');
            assert!(allowed || !named, "{}: {line}", path.display());
        }
    }
    for (name, forbidden) in
        [("protocol", true), ("vestibule-mcp", true), ("vestibule-jail", false)]
    {
        let root = read(&Path::new(name).join("src/lib.rs"));
        let word = if forbidden { "#![forbid(unsafe_code)]" } else { "#![deny(unsafe_code)]" };
        assert!(root.contains(word), "{name} lacks {word}");
    }
    Ok(())
}

fn one_file_names_bincode() -> Outcome {
    for path in files().iter().filter(|path| path.extension().is_some_and(|e| e == "rs")) {
        let named = read(path).contains("bincode::");
        let allowed =
            path.ends_with("protocol/src/frame.rs") || path.ends_with("guarantees/project.rs");
        assert!(allowed || !named, "{}", path.display());
    }
    Ok(())
}

fn nothing_refers_to_one_machine() -> Outcome {
    // In parts, so that this file itself is clean.
    let words = [["/wo", "rk/"], ["/home/us", "er"], [".libr", "ary"], ["artifac", "tory"]];
    for path in files() {
        let text = read(&path);
        for word in words.map(|parts| parts.concat()) {
            assert!(!text.contains(&word), "{} names {word}", path.display());
        }
    }
    Ok(())
}

/// The names of all tests, as `module::function`: what stands below a test attribute, and what
/// returns an `Outcome`.
fn test_names() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in files().iter().filter(|path| path.extension().is_some_and(|e| e == "rs")) {
        let module = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let module = module.unwrap_or_default();
        let mut below_attribute = false;
        for line in read(path).lines().map(str::trim_start) {
            let function = line.strip_prefix("fn ").or_else(|| line.strip_prefix("async fn "));
            let is_test = below_attribute || line.contains("-> Outcome");
            if let Some(name) = function.and_then(|rest| rest.split('(').next()).filter(|_| is_test)
            {
                found.insert(format!("{module}::{name}"));
            }
            below_attribute = line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        }
    }
    found
}

fn every_claim_names_a_test_that_exists() -> Outcome {
    let tests = test_names();
    let mut claims = 0;
    for page in ["SECURITY.md", "README.md"] {
        // A test is named as `module::function` between backticks.
        for name in read(Path::new(page)).split('`').skip(1).step_by(2) {
            let (module, function) = match name.split_once("::") {
                Some(parts) if !name.contains([' ', '/', '(']) => parts,
                _ => continue,
            };
            claims += 1;
            let last = function.rsplit("::").next().unwrap_or(function);
            let name = format!("{module}::{last}");
            assert!(tests.contains(&name), "{page} names {name}, which is no test");
        }
    }
    assert!(claims >= 20, "only {claims} claims name a test as `module::function`");
    Ok(())
}

/// The names below a manifest's dependency tables.
fn dependencies(package: &str) -> Vec<String> {
    let manifest = read(&Path::new(package).join("Cargo.toml"));
    let mut in_table = false;
    let mut found = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            in_table = line.contains("dependencies");
        } else if in_table && !line.starts_with('#') {
            found.extend(line.split(['.', ' ', '=']).next().map(str::to_owned));
        }
    }
    found
}

fn dependencies_point_one_way() -> Outcome {
    let ours = ["vestibule-mcp", "vestibule-jail", "tests", "packaging"];
    for package in ["protocol", "vestibule-mcp", "vestibule-jail"] {
        for name in dependencies(package) {
            assert!(!ours.contains(&name.as_str()), "{package} depends on {name}");
        }
    }
    assert!(dependencies("vestibule-mcp").iter().any(|name| name == "protocol"));
    Ok(())
}
