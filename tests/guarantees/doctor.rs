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
    one_language_is_enough_to_be_ready_and_the_others_are_named,
    each_language_has_what_a_run_gets,
    an_engine_is_asked_once_and_an_image_probed_once,
    an_image_that_is_missing_is_asked_for_once,
    nothing_on_it_names_the_user_or_holds_a_secret,
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
        let is_row = |line: &str| {
            !line.starts_with(' ') && line.get(9..).is_some_and(|rest| rest.starts_with(name))
        };
        let row = text.lines().position(is_row);
        let row = row.unwrap_or_else(|| panic!("{name} is missing in {text}"));
        let mut lines = text.lines().skip(row);
        if lines.next().is_some_and(|line| line.starts_with("missing")) {
            // What does not fit into a line goes on below it.
            let fix = lines.take_while(|line| line.starts_with(' ')).any(|l| l.contains("fix: "));
            assert!(fix, "{name} in {text}");
        }
    }
    Ok(())
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("JSON alone")
}

fn the_same_as_json() -> Outcome {
    let place = Place::new();
    let page = json(&doctor(&place, &["--json"], &[]));
    assert_eq!(
        (&page["ready"], &page["protocol"]),
        (&Value::Bool(true), &page["versions"]["server"]["protocol"])
    );
    assert_eq!(page["versions"]["helper"]["version"], page["version"], "{page}");
    assert!(page["machine"]["kernel"].as_str().is_some_and(|name| name.starts_with("Linux ")));
    let text = text(&doctor(&place, &[], &[]));
    for check in page["checks"].as_array().expect("a list") {
        let (state, name) = (check["state"].as_str(), check["name"].as_str());
        let row = format!("{:<8} {:<26} ", state.expect("text"), name.expect("text"));
        assert!(text.lines().any(|line| line.starts_with(&row)), "{row} is missing in {text}");
    }
    let last = format!("ready: isolation {}", page["isolation"].as_str().expect("text"));
    assert!(text.lines().last().is_some_and(|line| line.starts_with(&last)), "{text}");
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

fn one_language_is_enough_to_be_ready_and_the_others_are_named() -> Outcome {
    let place = Place::new();
    let folder = place.folder("programs");
    std::os::unix::fs::symlink("/bin/bash", folder.join("bash")).expect("the folder is ours");
    let path = folder.to_str().expect("a plain path");
    let settings = [("VESTIBULE_BACKEND", "naive"), ("PATH", path)];
    let output = doctor(&place, &[], &settings);
    let text = text(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.ends_with("\nready: isolation none; python: blocked; node: blocked\n"), "{text}");
    let page = json(&doctor(&place, &["--json"], &settings));
    let languages = page["languages"].as_array().expect("a list");
    let backends: Vec<_> = languages.iter().map(|row| row["backend"].as_str()).collect();
    assert_eq!(backends, [None, Some("naive"), None], "{page}");
    let reason = &languages[0]["reasons"][0];
    assert_eq!(reason["check"], "naive python");
    assert!(reason["what"].as_str().is_some_and(|what| what.contains("no python3")), "{page}");
    Ok(())
}

fn each_language_has_what_a_run_gets() -> Outcome {
    let place = Place::new();
    let code = place.file("code", "1\n");
    let page = json(&doctor(&place, &["--json"], &[]));
    for row in page["languages"].as_array().expect("a list") {
        let language = row["language"].as_str().expect("a name");
        let mut command = place.command(programs().server());
        let output = command.args(["run", language]).arg(&code).stdin(Stdio::null()).output();
        let output = output.expect("the server starts");
        let report = String::from_utf8_lossy(&output.stderr).into_owned();
        let isolation = report.lines().find_map(|line| line.strip_prefix("isolation: "));
        assert_eq!(isolation, row["isolation"].as_str(), "{language}: {report}");
        let missing = row["state"] == "missing";
        assert_eq!(missing, report.contains("Blocked: "), "{language}: {report}");
    }
    Ok(())
}

/// A place whose Docker is the stand-in, and what the doctor says there.
fn with_stand_in(answers: &[(&str, &str)]) -> (Value, Vec<String>) {
    let place = Place::new();
    let folder = place.folder("engine");
    std::os::unix::fs::symlink(programs().stand_in(), folder.join("docker")).expect("ours");
    for (name, text) in answers {
        std::fs::write(folder.join(name), text).expect("the folder is ours");
    }
    let path = folder.to_str().expect("a plain path");
    let settings = [
        ("VESTIBULE_BACKEND", "container"),
        ("VESTIBULE_RUNTIME", "docker"),
        ("PATH", path),
        ("STAND_IN", path),
    ];
    let page = json(&doctor(&place, &["--json"], &settings));
    let asked = std::fs::read_to_string(folder.join("asked")).expect("it was asked");
    (page, asked.lines().map(str::to_owned).collect())
}

fn count(asked: &[String], question: &str) -> usize {
    asked.iter().filter(|line| line.starts_with(question)).count()
}

fn an_engine_is_asked_once_and_an_image_probed_once() -> Outcome {
    let (page, asked) = with_stand_in(&[]);
    for row in page["languages"].as_array().expect("a list") {
        assert_eq!((&row["backend"], &row["isolation"]), (&"docker".into(), &"container".into()));
    }
    let counts = ["info", "image\tinspect", "run"].map(|question| count(&asked, question));
    assert_eq!(counts, [1, 2, 2], "{asked:?}");
    Ok(())
}

fn an_image_that_is_missing_is_asked_for_once() -> Outcome {
    let (page, asked) = with_stand_in(&[("image", "Error: No such image: x")]);
    assert_eq!(page["ready"], false);
    assert_eq!(count(&asked, "image\tinspect"), 2, "{asked:?}");
    let checks = page["checks"].as_array().expect("a list");
    let engine = checks.iter().find(|check| check["name"] == "docker").expect("its row");
    let detail = engine["detail"].as_str().expect("text");
    assert!(detail.starts_with("Docker 28.2.2 "), "{detail}");
    for row in page["languages"].as_array().expect("a list") {
        let fix = row["reasons"][0]["fix"].as_str().expect("text");
        assert!(fix.contains("docker pull "), "{page}");
    }
    Ok(())
}

fn nothing_on_it_names_the_user_or_holds_a_secret() -> Outcome {
    let place = Place::new();
    let home = place.home().display().to_string();
    let audit = format!("{home}/notes");
    let settings = [
        ("VESTIBULE_AUDIT_DIR", audit.as_str()),
        ("VESTIBULE_REGISTRY_MIRROR", "https://tester:hunter2@mirror.example/?t=hunter2"),
        ("VESTIBULE_PASSWORD", "hunter2"),
        ("DOCKER_HOST", "tcp://tester:hunter2@localhost:1"),
        ("HTTPS_PROXY", "http://tester:hunter2@proxy.example"),
    ];
    let without_mirror: Vec<_> =
        settings.iter().filter(|(n, _)| !n.contains("MIRROR")).copied().collect();
    for settings in [&settings[..], &without_mirror] {
        for arguments in [&[][..], &["--json"]] {
            let output = doctor(&place, arguments, settings);
            let text = text(&output);
            for hidden in ["hunter2", "tester", home.as_str()] {
                assert!(!text.contains(hidden), "{hidden} in {text}");
            }
            for shown in ["~/notes", "VESTIBULE_PASSWORD", "tcp://…@localhost:1"] {
                assert!(text.contains(shown), "{shown} is missing in {text}");
            }
        }
    }
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
