//! Tests of the page as a whole.

use super::*;
use protocol::{Cause, Retry};
use serde_json::Value;

fn config(variables: &[(&str, &str)]) -> Config {
    let all = [("HOME", "/home/ada")].iter().chain(variables);
    Config::from_env(all.map(|(name, value)| (name.into(), value.into())))
}

/// The page of settings, one of which is always invalid: no backend is asked.
async fn page(variables: &[(&str, &str)]) -> Page {
    let invalid = [("VESTIBULE_MEM_MB", "lots")];
    let all: Vec<_> = invalid.iter().chain(variables).copied().collect();
    let config = config(&all);
    private::tidy(&diagnose(&config).await, &private::Known::new(&config, |_| None)).unwrap()
}

fn both(page: &Page) -> String {
    let mut whole = Vec::new();
    print(page, false, &mut whole).unwrap();
    print(page, true, &mut whole).unwrap();
    String::from_utf8(whole).unwrap()
}

#[test]
fn every_setting_in_doubt_is_listed_with_its_fix() {
    let config = config(&[("VESTIBULE_MEM_MB", "lots"), ("VESTIBULE_MEMORY", "1")]);
    let checks = settings::checks(&config);
    let states: Vec<State> = checks.iter().map(|check| check.state).collect();
    assert_eq!(states, [State::Missing, State::Note]);
    assert!(checks.iter().all(|check| check.fix.is_some()), "{checks:?}");
    assert_eq!(settings::checks(&self::config(&[]))[0].state, State::Ok);
}

#[tokio::test]
async fn a_full_disk_or_a_closed_pipe_is_an_error_and_no_panic() {
    let page = page(&[]).await;
    for json in [false, true] {
        assert!(print(&page, json, &mut [0; 8].as_mut_slice()).is_err());
        let mut whole = Vec::new();
        print(&page, json, &mut whole).unwrap();
        assert!(whole.ends_with(b"\n"));
    }
}

#[tokio::test]
async fn an_invalid_setting_is_no_crash_but_a_diagnosis() {
    let page = page(&[]).await;
    assert!(!page.ready);
    let text = page.to_string();
    assert!(
        text.contains("missing  settings") && text.contains("fix: set it to a whole"),
        "{text}"
    );
    assert!(text.contains("not ready"), "{text}");
    assert!(page.languages.iter().all(|row| row.reasons.len() == 1), "{page:?}");
    assert!(page.languages.iter().all(|row| row.state == State::Missing), "{page:?}");
}

#[tokio::test]
async fn settings_that_differ_are_told_with_their_value_and_unknown_ones_by_their_name() {
    let page = page(&[
        ("VESTIBULE_CPU_PCT", "50"),
        ("VESTIBULE_PIDS_MAX", "128"),
        ("VESTIBULE_TOKEN", "hunter2"),
    ])
    .await;
    let json = serde_json::to_value(&page).unwrap();
    let setting = |name: &str, value: &str, default: &str, valid: bool| serde_json::json!({"name": name, "value": value, "default": default, "valid": valid});
    let invalid = setting("VESTIBULE_MEM_MB", "lots", "256", false);
    let expected = Value::Array(vec![invalid, setting("VESTIBULE_CPU_PCT", "50", "75", true)]);
    assert_eq!(json["settings"], expected);
    assert_eq!(json["unknown_settings"], serde_json::json!(["VESTIBULE_TOKEN"]));
    let both = both(&page);
    assert!(both.contains("VESTIBULE_CPU_PCT          50 (default 75)"), "{both}");
    assert!(!both.contains("hunter2"), "{both}");
}

#[tokio::test]
async fn neither_a_secret_nor_the_home_folder_is_on_the_page() {
    let page = page(&[
        ("VESTIBULE_REGISTRY_MIRROR", "https://bob:hunter2@mirror.example/?token=hunter2"),
        ("VESTIBULE_IMAGE_NODE", "bob:hunter2@registry.example/node"),
        ("VESTIBULE_AUDIT_DIR", "/home/ada/audit"),
        ("VESTIBULE_WORKSPACE", "/home/ada/audit/w"),
        ("VESTIBULE_JAIL", "/home/ada/bin/jail"),
        ("VESTIBULE_\u{1b}[31m", "x"),
    ])
    .await;
    let both = both(&page);
    for hidden in ["hunter2", "bob", "/home/ada", "\u{1b}"] {
        assert!(!both.contains(hidden), "{hidden} in {both}");
    }
    for shown in ["https://…@mirror.example/?…", "~/audit/w", "~/bin/jail"] {
        assert!(both.contains(shown), "{shown} is missing in {both}");
    }
}

#[tokio::test]
async fn the_names_of_the_json_are_those_of_the_documentation() {
    let json = serde_json::to_value(page(&[]).await).unwrap();
    let names =
        |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    assert_eq!(
        names(&json).join(" "),
        "checks environment images isolation languages machine protocol ready settings \
         unknown_settings version versions"
    );
    assert_eq!(names(&json["versions"]).join(" "), "helper server");
    assert_eq!(names(&json["versions"]["server"]).join(" "), "build protocol target version");
    assert_eq!(
        names(&json["machine"]).join(" "),
        "architecture cgroups init kernel runtime_folder security_modules surroundings sysctls system"
    );
    assert_eq!(names(&json["settings"][0]).join(" "), "default name valid value");
    assert_eq!(
        names(&json["images"][0]).join(" "),
        "age_days default languages pinned reference setting unpacked"
    );
    assert_eq!(
        names(&json["languages"][0]).join(" "),
        "backend isolation language level reasons state"
    );
    assert_eq!(names(&json["languages"][0]["reasons"][0]).join(" "), "check fix what");
    let page = include_str!("../../../../docs/DOCTOR.md");
    let mut documented = names(&json);
    for (object, member) in [
        ("versions", "helper"),
        ("languages", "reasons"),
        ("images", "age_days"),
        ("settings", "valid"),
    ] {
        assert!(json[object].to_string().contains(&format!("\"{member}\"")), "{json}");
        documented.push(member.to_owned());
    }
    documented.extend(names(&json["machine"]));
    for name in documented {
        assert!(page.contains(&format!("`{name}`")), "{name} is not documented");
    }
}

#[tokio::test]
async fn what_two_rows_say_is_read_once() {
    let mut page = page(&[]).await;
    let (what, fix) = ("turned off".to_owned(), "turn it on".to_owned());
    let cause = Cause::UserNamespacesOff;
    let refusal = Refusal { what, cause, fix, retry: Retry::AfterFix, at: None };
    let rows = ["native", "user namespaces"].map(|name| Check::missing(name, &refusal));
    page.add(Group::Backends, rows);
    let text = page.to_string();
    assert_eq!(text.matches("turned off").count(), 1, "{text}");
    assert_eq!(text.matches("turn it on").count(), 1, "{text}");
    let second = format!(
        "missing  {:<26} as native says\n{:36}fix: that of native\n",
        "user namespaces", ""
    );
    assert!(text.contains(&second), "{text}");
}

#[tokio::test]
async fn the_last_line_names_the_languages_that_have_less() {
    let mut page = page(&[]).await;
    let isolation = "native (rootfs: this machine's /usr, read-only)".to_owned();
    page.isolation = Some(isolation.clone());
    page.languages[0].isolation = Some(isolation);
    page.languages[1].isolation = Some("container".to_owned());
    page.languages[1].level = Some("container".to_owned());
    let text = page.to_string();
    let last = "ready: isolation native (rootfs: this machine's /usr, read-only); bash: container; node: blocked\n";
    assert!(text.ends_with(last), "{text}");
}
