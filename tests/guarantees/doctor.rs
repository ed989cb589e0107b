//! `vestibule-mcp doctor`: for each prerequisite ok, missing, or the exact fix.

use serde_json::Value;
use std::process::{Output, Stdio};
use tests::programs::programs;
use tests::{Outcome, Place};

tests::tests![
    a_machine_that_works,
    the_same_as_json,
    a_missing_helper_is_named_with_its_fix,
    problems_of_settings_are_listed_together,
    a_setting_that_does_nothing_yet_is_a_note,
    naive_without_interpreters_is_not_ready,
    a_full_disk_is_no_crash,
    it_leaves_nothing,
];

fn doctor(place: &Place, arguments: &[&str], settings: &[(&str, &str)]) -> Output {
    let mut command = place.command(programs().server());
    command.arg("doctor").args(arguments).envs(settings.iter().copied());
    command.stdin(Stdio::null()).output().expect("the server starts")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn a_machine_that_works() -> Outcome {
    let output = doctor(&Place::new(), &[], &[]);
    let text = text(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for word in ["native", "python", "bash", "node", "vestibule-jail", "ok"] {
        assert!(text.contains(word), "{word} is missing in {text}");
    }
    // Each prerequisite has a row, whatever is there of it, and what is missing has a fix.
    let rows = ["kernel", "user namespaces", "/proc", "seccomp", "rootfs", "cgroup v2", "systemd"];
    for name in rows.iter().chain(&["cpu limit", "memory limit", "pids limit", "Landlock"]) {
        let row = text.lines().position(|line| line.get(9..).is_some_and(|l| l.starts_with(name)));
        let row = row.unwrap_or_else(|| panic!("{name} is missing in {text}"));
        let mut lines = text.lines().skip(row);
        if lines.next().is_some_and(|line| line.starts_with("missing")) {
            assert!(lines.next().is_some_and(|line| line.contains("fix: ")), "{name} in {text}");
        }
    }
    Ok(())
}

fn the_same_as_json() -> Outcome {
    let output = doctor(&Place::new(), &["--json"], &[]);
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON alone");
    assert!(json.to_string().contains("native"), "{json}");
    Ok(())
}

fn a_missing_helper_is_named_with_its_fix() -> Outcome {
    let output = doctor(&Place::new(), &[], &[("VESTIBULE_JAIL", "/nonexistent/jail")]);
    let text = text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("/nonexistent/jail") && text.to_lowercase().contains("fix"), "{text}");
    Ok(())
}

fn problems_of_settings_are_listed_together() -> Outcome {
    let settings = [("VESTIBULE_MEM_MB", "lots"), ("VESTIBULE_BACKEND", "magic")];
    let output = doctor(&Place::new(), &[], &settings);
    let text = text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    for word in ["VESTIBULE_MEM_MB", "lots", "VESTIBULE_BACKEND", "magic"] {
        assert!(text.contains(word), "{word} is missing in {text}");
    }
    Ok(())
}

fn a_setting_that_does_nothing_yet_is_a_note() -> Outcome {
    let settings = [("VESTIBULE_POOL", "2"), ("VESTIBULE_IMAGE_NODE", "node:22")];
    let output = doctor(&Place::new(), &[], &settings);
    let text = text(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for note in [
        "VESTIBULE_POOL is set; this version does not use it yet",
        "VESTIBULE_IMAGE_NODE is node:22, without a digest",
    ] {
        let line = text.lines().find(|line| line.contains(note));
        assert!(line.is_some_and(|line| line.starts_with("note ")), "{text}");
    }
    Ok(())
}

fn naive_without_interpreters_is_not_ready() -> Outcome {
    let settings = [("VESTIBULE_BACKEND", "naive"), ("PATH", "/nonexistent")];
    let output = doctor(&Place::new(), &[], &settings);
    let text = text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("no python3 on the server's PATH"), "{text}");
    assert!(text.contains("not ready"), "{text}");
    Ok(())
}

fn a_full_disk_is_no_crash() -> Outcome {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let place = Place::new();
    let mut command = place.command(programs().server());
    let output = command.arg("doctor").stdin(Stdio::null()).stdout(full).output();
    let output = output.expect("the server starts");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    Ok(())
}

fn it_leaves_nothing() -> Outcome {
    let place = Place::new();
    doctor(&place, &[], &[]);
    place.assert_nothing_left();
    Ok(())
}
