//! Tests of the settings as a whole.

use super::*;
use proptest::prelude::*;

fn config(variables: &[(&str, &str)]) -> Config {
    let home = [("HOME", "/home/ada")];
    let all = home.iter().chain(variables);
    Config::from_env(all.map(|(name, value)| (OsString::from(name), OsString::from(value))))
}

fn problem(variables: &[(&str, &str)]) -> String {
    let config = config(variables);
    assert_eq!(config.problems.len(), 1, "{:?}", config.problems);
    config.problems[0].to_string()
}

#[test]
fn an_empty_environment_gives_the_documented_defaults() {
    let config = config(&[]);
    assert_eq!(config.problems, []);
    assert_eq!(config.workspace, Path::new("/home/ada/.vestibule/workspace"));
    assert_eq!(config.default_timeout.get(), 10);
    assert_eq!(config.max_timeout.get(), 60);
    assert_eq!(config.max_code.get(), 262_144);
    assert_eq!(config.max_output.get(), 20_000);
    let limits = config.limits();
    assert_eq!(limits.memory_mib.get(), 256);
    assert_eq!(limits.cpu_percent.get(), 75);
    assert_eq!(limits.pids_max.get(), 128);
    assert_eq!(limits.tmpfs_mib.get(), 64);
    assert_eq!((config.max_concurrent, config.pool), (4, 1));
    assert!(!config.structured && !config.workspace_read_only);
    assert!(config.image_python.is_pinned() && config.image_node.is_pinned());
    assert!(config.usable().is_ok());
}

#[test]
fn blank_is_unset() {
    let config = config(&[("VESTIBULE_MEM_MB", ""), ("VESTIBULE_STRUCTURED", " \t")]);
    assert_eq!(config.problems, []);
    assert_eq!(config.memory.get(), 256);
}

#[test]
fn a_bad_value_is_named_with_what_it_may_be() {
    assert_eq!(
        problem(&[("VESTIBULE_MEM_MB", "-3")]),
        "VESTIBULE_MEM_MB is \"-3\": it must be a whole number from 1 to 1048576"
    );
    assert_eq!(
        problem(&[("VESTIBULE_BACKEND", "magic")]),
        "VESTIBULE_BACKEND is \"magic\": it must be one of auto, native, container, naive"
    );
    assert!(problem(&[("VESTIBULE_WORKSPACE_RO", "maybe")]).contains("yes"));
    assert!(problem(&[("VESTIBULE_AUDIT_DIR", "audit")]).contains("absolute"));
    assert!(problem(&[("VESTIBULE_WORKSPACE", "/a/../b")]).contains("`..`"));
    assert!(problem(&[("VESTIBULE_IMAGE_NODE", "node@sha256:12")]).contains("64 hexadecimal"));
    assert!(problem(&[("VESTIBULE_LOG", "a=b=c")]).contains("log filter"));
}

#[test]
fn the_refusal_names_setting_value_and_restart() {
    let refusal = config(&[("VESTIBULE_PIDS_MAX", "1")]).usable().unwrap_err().to_string();
    assert!(
        refusal.starts_with("VESTIBULE_PIDS_MAX is \"1\": it must be a whole number from 2 to")
    );
    assert!(refusal.ends_with("then restart your MCP client."), "{refusal}");
}

#[test]
fn a_value_is_shown_escaped_and_cut() {
    let long = format!("a\n\u{1b}[31m\u{202e}{}", "x".repeat(5000));
    let text = problem(&[("VESTIBULE_MEM_MB", &long)]);
    assert!(text.len() < 400, "{}", text.len());
    assert!(!text.contains(['\n', '\u{1b}', '\u{202e}']), "{text}");
}

#[test]
fn a_default_timeout_above_the_maximum_is_a_problem_only_when_written_down() {
    let lowered = config(&[("VESTIBULE_MAX_TIMEOUT_S", "5")]);
    assert_eq!((lowered.problems.len(), lowered.default_timeout.get()), (0, 5));
    let text = problem(&[("VESTIBULE_DEFAULT_TIMEOUT_S", "61")]);
    assert!(text.contains("at most VESTIBULE_MAX_TIMEOUT_S, which is 60"), "{text}");
}

#[test]
fn folders_lie_outside_one_another() {
    let inside = problem(&[("VESTIBULE_WORKSPACE", "/w"), ("VESTIBULE_AUDIT_DIR", "/w/audit")]);
    assert!(inside.starts_with("VESTIBULE_AUDIT_DIR is \"/w/audit\""), "{inside}");
    assert!(inside.contains("outside VESTIBULE_WORKSPACE (/w)"), "{inside}");
    for workspace in ["/", "/home", "~", "~/.vestibule"] {
        let around = problem(&[("VESTIBULE_WORKSPACE", workspace)]);
        assert!(around.contains("neither /, nor your home folder"), "{around}");
    }
    assert_eq!(
        config(&[("VESTIBULE_WORKSPACE", "/w"), ("VESTIBULE_AUDIT_DIR", "/wx")]).problems,
        []
    );
}

#[test]
fn a_tilde_is_the_home_folder_and_names_no_other_user() {
    assert_eq!(config(&[("VESTIBULE_WORKSPACE", "~/w/")]).workspace, Path::new("/home/ada/w"));
    assert!(problem(&[("VESTIBULE_WORKSPACE", "~bob/w")]).contains("~/"));
}

#[test]
fn the_workspace_lies_outside_the_folder_of_scripts() {
    for folder in ["~/.vestibule/run", "/home/ada/.vestibule/run/w"] {
        let text = problem(&[("VESTIBULE_WORKSPACE", folder)]);
        assert!(text.contains("outside ~/.vestibule/run"), "{text}");
    }
}

#[test]
fn misspelt_settings_are_noticed() {
    let config = config(&[("VESTIBULE_MEMORY_MB", "1"), ("VESTIBULE_MEM_MB", "9")]);
    assert_eq!(config.unknown, ["VESTIBULE_MEMORY_MB"]);
}

#[test]
fn what_is_set_and_not_used_yet_is_noticed() {
    let config = config(&[
        ("VESTIBULE_ROOTFS_DIR", "/a"),
        ("VESTIBULE_IMAGE_NODE", "node:22"),
        ("VESTIBULE_POOL", "2"),
        ("VESTIBULE_MEM_MB", "9"),
    ]);
    assert_eq!(config.unused, ["VESTIBULE_POOL"]);
    let doubts = config.doubts();
    assert_eq!(doubts.len(), 2, "{doubts:?}");
    assert_eq!(doubts[0].0, "VESTIBULE_POOL is set; this version does not use it yet");
    assert!(doubts[1].0.starts_with("VESTIBULE_IMAGE_NODE is node:22, without a digest"));
}

#[test]
fn a_setting_differs_if_it_means_something_else_than_its_default() {
    let changed = |variables: &[(&str, &str)]| -> Vec<(&str, String)> {
        let changed = config(variables).changed;
        changed.into_iter().map(|changed| (changed.setting.name, changed.value)).collect()
    };
    assert_eq!(changed(&[]), []);
    let default = [
        ("VESTIBULE_MEM_MB", "0256"),
        ("VESTIBULE_STRUCTURED", "No"),
        ("VESTIBULE_BACKEND", "AUTO"),
        ("VESTIBULE_WORKSPACE", "/home/ada/.vestibule/workspace/"),
        ("VESTIBULE_LOG", " warn "),
        ("VESTIBULE_POOL", " "),
    ];
    assert_eq!(changed(&default), []);
    let other = [
        ("VESTIBULE_MEM_MB", " 512 "),
        ("VESTIBULE_STRUCTURED", "maybe"),
        ("VESTIBULE_WORKSPACE", "~/a\n"),
        ("VESTIBULE_JAIL", "/j"),
    ];
    let expected = [
        ("VESTIBULE_WORKSPACE", "~/a"),
        ("VESTIBULE_MEM_MB", "512"),
        ("VESTIBULE_STRUCTURED", "maybe"),
        ("VESTIBULE_JAIL", "/j"),
    ];
    assert_eq!(changed(&other), expected.map(|(name, value)| (name, value.to_owned())));
}

#[test]
fn no_secret_of_an_address_is_shown_even_where_it_is_cut() {
    let secret = "hunter2".repeat(60);
    for value in [
        format!("https://ada:{secret}@mirror.example"),
        format!("ada:{secret}@mirror.example"),
        format!("https://mirror.example/?{secret}"),
    ] {
        let config = config(&[("VESTIBULE_REGISTRY_MIRROR", &value)]);
        let text = format!("{:?} {}", config.changed, config.problems[0]);
        assert!(!text.contains("hunter") && text.contains("mirror.example"), "{text}");
    }
}

/// The settings of a user whom the user database does not know.
fn homeless(variables: &[(&str, &str)]) -> Config {
    let all = variables.iter().map(|(name, value)| (name.into(), value.into()));
    Config::read(Reader::new(all, || None))
}

#[test]
fn an_unknown_home_folder_is_one_problem_with_its_own_fix() {
    for settings in [&[][..], &[("VESTIBULE_WORKSPACE", "~/w"), ("VESTIBULE_JAIL", "~/jail")]] {
        assert_eq!(
            homeless(settings).usable().unwrap_err().to_string(),
            format!(
                "no home folder is known ({0} is unset). Fix: set {0} where your MCP client sets \
                 this server's environment; then restart your MCP client.",
                value::HOME
            )
        );
    }
    let relative = homeless(&[(value::HOME, "here")]);
    assert!(relative.problems[0].to_string().contains("is \"here\", no absolute path"));
    let both = homeless(&[("VESTIBULE_MEM_MB", "-3")]).usable().unwrap_err();
    assert!(both.fix.starts_with("correct or remove it, and set "), "{}", both.fix);
}

#[test]
fn three_absolute_folders_need_no_home() {
    let folders = [
        ("VESTIBULE_WORKSPACE", "/w"),
        ("VESTIBULE_ROOTFS_DIR", "/r"),
        ("VESTIBULE_AUDIT_DIR", "/a"),
    ];
    assert_eq!(homeless(&folders).problems, []);
}

#[test]
fn the_page_has_a_row_for_every_setting() {
    let page = docs::markdown();
    for setting in table::ALL {
        assert!(page.contains(&format!("| `{}` |", setting.name)), "{}", setting.name);
    }
}

proptest! {
    #[test]
    fn no_environment_stops_the_server(index in 0..table::ALL.len(), value in ".{0,64}") {
        let name = table::ALL[index].name;
        let config = config(&[(name, &value.replace('\0', ""))]);
        prop_assert!(config.default_timeout <= config.max_timeout);
    }
}
