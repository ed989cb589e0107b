//! `vestibule-jail` by hand, for a person who debugs a sandbox.

use protocol::{Language, RunSpec, Step};
use serde_json::Value;
use std::process::{Command, Output};
use tests::jail::{by_hand, sandbox, script, spec_file};
use tests::{Outcome, Place};

tests::tests![
    the_printed_example_is_a_spec_that_runs,
    exit_codes_are_the_guests,
    output_goes_to_its_own_stream,
    explain_lists_every_step_in_order,
    json_gives_the_same_facts,
    a_wrong_spec_is_refused_by_field,
    the_check_runs_nothing,
    the_filter_is_printed_as_a_table,
    the_version_names_protocol_and_library,
    wrong_usage_is_2,
    the_spec_is_not_visible_inside,
    an_odd_parent_changes_nothing,
    closed_standard_descriptors_are_no_trap,
    the_guest_is_an_ordinary_task,
    output_that_is_lost_is_no_success,
    a_home_behind_a_link_is_no_workspace,
];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a script by hand with more arguments.
fn run(place: &Place, language: Language, code: &str, more: &[&str]) -> Output {
    let folder = place.base().join("ws");
    if !folder.exists() {
        place.folder("ws");
    }
    let path = spec_file(place, "run.json", sandbox(&folder), script(language, code));
    let path = path.display().to_string();
    by_hand(place, &[&["--spec", path.as_str()], more].concat())
}

fn the_printed_example_is_a_spec_that_runs() -> Outcome {
    let place = Place::new();
    let printed = by_hand(&place, &["--print-spec"]);
    assert!(printed.status.success(), "{}", text(&printed.stderr));
    let json: Value = serde_json::from_slice(&printed.stdout).expect("JSON");
    for name in ["language", "code", "timeout_seconds"] {
        assert!(json["execute"].get(name).is_some(), "{name} stands in execute: {json}");
    }
    let mut spec: RunSpec = serde_json::from_value(json).expect("a spec");
    spec.prepare.workspace = place.folder("ws");
    let path = spec_file(&place, "run.json", spec.prepare, spec.execute);
    let ran = by_hand(&place, &["--spec", &path.display().to_string()]);
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    place.assert_nothing_left();
    Ok(())
}

fn exit_codes_are_the_guests() -> Outcome {
    let place = Place::new();
    let cases = [
        ("exit 0", 0),
        ("exit 7", 7),
        ("exit 125", 125),
        ("kill -SEGV $$", 139),
        ("kill -TERM $$", 143),
    ];
    for (code, expected) in cases {
        let ran = run(&place, Language::Bash, code, &[]);
        assert_eq!(ran.status.code(), Some(expected), "{code}: {}", text(&ran.stderr));
    }
    let mut timed = script(Language::Bash, "sleep 30");
    timed.timeout_seconds = protocol::TimeoutSeconds::new(1).expect("in range");
    let path = spec_file(&place, "timed.json", sandbox(&place.base().join("ws")), timed);
    assert_eq!(by_hand(&place, &["--spec", &path.display().to_string()]).status.code(), Some(124));
    assert_eq!(run(&place, Language::Bash, "yes", &[]).status.code(), Some(124));
    place.assert_nothing_left();
    Ok(())
}

fn output_goes_to_its_own_stream() -> Outcome {
    let place = Place::new();
    let ran = run(
        &place,
        Language::Python,
        "import sys\nprint('out')\nprint('err', file=sys.stderr)",
        &[],
    );
    assert_eq!(text(&ran.stdout), "out\n");
    assert!(text(&ran.stderr).contains("err\n"), "{}", text(&ran.stderr));
    assert!(text(&ran.stderr).contains("isolation: native"), "{}", text(&ran.stderr));
    Ok(())
}

fn explain_lists_every_step_in_order() -> Outcome {
    let place = Place::new();
    let ran = run(&place, Language::Bash, "true", &["--explain"]);
    let text = [ran.stdout, ran.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let found = text.lines().find(|line| line.contains(Step::FindCgroup.name()));
    let has_cgroup = found.is_some_and(|line| line.ends_with("ok"));
    let only_with_cgroup = [Step::MakeCgroup, Step::CgroupNamespace];
    let mut from = 0;
    for step in Step::ALL {
        if !has_cgroup && only_with_cgroup.contains(step) {
            assert!(!text.contains(step.name()), "{text}");
            continue;
        }
        let at = text[from..].find(step.name());
        from +=
            at.unwrap_or_else(|| panic!("{} is missing or out of order in\n{text}", step.name()));
    }
    Ok(())
}

fn json_gives_the_same_facts() -> Outcome {
    let place = Place::new();
    let ran = run(&place, Language::Bash, "echo out; exit 3", &["--json"]);
    assert_eq!(ran.status.code(), Some(3));
    let all = [text(&ran.stdout), text(&ran.stderr)].concat();
    let line = all.lines().rev().find(|line| line.starts_with('{')).map(str::to_owned);
    let json: Value = match line {
        Some(line) if line.ends_with('}') => serde_json::from_str(&line).expect("JSON"),
        _ => serde_json::from_slice(&ran.stdout).expect("JSON on standard output"),
    };
    assert!(
        json.to_string().contains("NativeDegraded") || json.to_string().contains("native"),
        "{json}"
    );
    Ok(())
}

fn a_wrong_spec_is_refused_by_field() -> Outcome {
    let place = Place::new();
    let folder = place.folder("ws");
    let good = RunSpec { prepare: sandbox(&folder), execute: script(Language::Bash, "true") };
    let good = serde_json::to_value(&good).expect("JSON");
    let wrong = |change: fn(&mut Value)| {
        let mut spec = good.clone();
        change(&mut spec);
        spec.to_string()
    };
    let cases = [
        ("not json".to_owned(), ""),
        (wrong(|s| s["execute"]["language"] = "ruby".into()), "ruby"),
        (wrong(|s| s["execute"]["timeout_seconds"] = 0.into()), "timeout"),
        (wrong(|s| s["prepare"]["limits"]["pids_max"] = 0.into()), "processes"),
        (wrong(|s| s["prepare"]["workspace"] = "relative".into()), "workspace"),
        (wrong(|s| s["prepare"]["surprise"] = 1.into()), "surprise"),
        (wrong(|s| drop(s["execute"].as_object_mut().map(|e| e.remove("code")))), "code"),
    ];
    for (spec, word) in cases {
        let path = place.file("wrong.json", &spec).display().to_string();
        let ran = by_hand(&place, &["--spec", &path]);
        let said = text(&ran.stderr);
        assert!(matches!(ran.status.code(), Some(2 | 125)), "{spec}: {said}");
        assert!(said.contains(word), "{word:?} is not named: {said}");
    }
    Ok(())
}

fn the_check_runs_nothing() -> Outcome {
    let place = Place::new();
    let checked = by_hand(&place, &["--check"]);
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stderr));
    let said = text(&[checked.stdout, checked.stderr].concat());
    for word in ["isolation: native", "Capabilities: InForce", "python: /usr/bin/python3"] {
        assert!(said.contains(word), "{word} is missing in {said}");
    }
    let json = by_hand(&place, &["--check", "--json"]);
    serde_json::from_slice::<Value>(&json.stdout).expect("JSON");
    assert_eq!(std::fs::read_dir(place.home()).expect("home").count(), 0, "a check leaves a file");
    place.assert_nothing_left();
    Ok(())
}

fn the_filter_is_printed_as_a_table() -> Outcome {
    let printed = by_hand(&Place::new(), &["--print-filter"]);
    assert!(printed.status.success(), "{}", text(&printed.stderr));
    let table = text(&printed.stdout);
    for name in ["mount", "unshare", "bpf", "clone3", "libseccomp"] {
        assert!(table.contains(name), "{name} is missing");
    }
    Ok(())
}

fn the_version_names_protocol_and_library() -> Outcome {
    let printed = text(&by_hand(&Place::new(), &["--version"]).stdout);
    let protocol = format!("protocol {}", protocol::PROTOCOL_VERSION);
    for word in [env!("CARGO_PKG_VERSION"), &protocol, "libseccomp"] {
        assert!(printed.contains(word), "{word} is missing in {printed}");
    }
    Ok(())
}

fn wrong_usage_is_2() -> Outcome {
    let place = Place::new();
    assert_eq!(by_hand(&place, &["--no-such-option"]).status.code(), Some(2));
    assert_eq!(by_hand(&place, &["--spec", "/nonexistent.json"]).status.code(), Some(2));
    Ok(())
}

fn the_spec_is_not_visible_inside() -> Outcome {
    let place = Place::new();
    let code = "tr -d '\\0' </proc/1/cmdline";
    let seen = text(&run(&place, Language::Bash, code, &[]).stdout);
    assert_eq!(seen, "vestibule-jail", "neither the spec's path nor the program's");
    Ok(())
}

/// A parent that ignores SIGCHLD and has a strict umask, both of which an exec passes on.
fn an_odd_parent_changes_nothing() -> Outcome {
    let place = Place::new();
    let folder = place.folder("ws");
    let path = spec_file(&place, "run.json", sandbox(&folder), script(Language::Bash, "exit 3"));
    let jail = tests::programs::programs().jail();
    let code = "import os, signal, sys\n\
                signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n\
                os.umask(0o777)\n\
                os.execv(sys.argv[1], sys.argv[1:])";
    let mut command = place.command("/usr/bin/python3");
    command.args(["-c", code]).arg(jail).arg("--spec").arg(path);
    let ran = command.output().expect("python");
    assert_eq!(ran.status.code(), Some(3), "{}", text(&ran.stderr));
    Ok(())
}

/// Whoever starts it with 0 to 2 closed must not get pipes of the sandbox in their place.
fn closed_standard_descriptors_are_no_trap() -> Outcome {
    let place = Place::new();
    let folder = place.folder("ws");
    let code = "echo out; echo err >&2; cat; ls /proc/self/fd | wc -l >seen";
    let path = spec_file(&place, "run.json", sandbox(&folder), script(Language::Bash, code));
    let jail = tests::programs::programs().jail();
    for (closed, shown) in [("<&-", "out\n"), (">&-", ""), ("2>&-", "out\n"), ("<&- >&- 2>&-", "")]
    {
        let _ = std::fs::remove_file(folder.join("seen"));
        let mut command = place.command("/bin/sh");
        command.args(["-c", &format!("\"$0\" --spec \"$1\" {closed}")]).arg(&jail).arg(&path);
        let ran = command.output().expect("sh");
        assert_eq!(ran.status.code(), Some(0), "{closed}: {}", text(&ran.stderr));
        let seen = std::fs::read_to_string(folder.join("seen")).expect("a result");
        assert_eq!(seen.trim(), "4", "{closed}: 0 to 2, and the one that ls reads with");
        assert_eq!(text(&ran.stdout), shown, "{closed}");
    }
    Ok(())
}

/// Whoever starts it may have fixed addresses and, if this machine lets the tester have it, a real-time
/// policy.
fn the_guest_is_an_ordinary_task() -> Outcome {
    let place = Place::new();
    let code = "import os; print(os.sched_getscheduler(0), open('/proc/self/personality').read())";
    let execute = script(Language::Python, code);
    let spec = spec_file(&place, "run.json", sandbox(&place.folder("ws")), execute);
    let uid = place.uid().to_string();
    let real_time = ["chrt", "--fifo", "1"];
    let as_user =
        ["setpriv", "--reuid", &uid, "--regid", &uid, "--clear-groups", "--inh-caps=-all"];
    let allowed = Command::new("chrt").args(["--fifo", "1", "true"]).output();
    let allowed = allowed.is_ok_and(|ran| ran.status.success());
    let mut line: Vec<&str> = if allowed { real_time.to_vec() } else { Vec::new() };
    if nix::unistd::geteuid().is_root() {
        line.extend(as_user);
    }
    line.extend(["setarch", "-R"]);
    let jail = tests::programs::programs().jail();
    let mut command = Command::new("env");
    let ran = command.args(line).arg(jail).arg("--spec").arg(spec).env("HOME", place.home());
    let ran = ran.output().expect("env");
    assert_eq!(text(&ran.stdout), "0 00000000\n\n", "{}", text(&ran.stderr));
    Ok(())
}

fn output_that_is_lost_is_no_success() -> Outcome {
    let place = Place::new();
    let execute = script(Language::Bash, "echo lost");
    let path = spec_file(&place, "run.json", sandbox(&place.folder("ws")), execute);
    for (arguments, code) in
        [("--spec \"$1\"", 124), ("--spec \"$1\" --json", 124), ("--check", 1), ("--help", 1)]
    {
        let mut command = place.command("/bin/sh");
        command.args(["-c", &format!("\"$0\" {arguments} >/dev/full")]);
        let ran = command.arg(tests::programs::programs().jail()).arg(&path).output().expect("sh");
        assert_eq!(ran.status.code(), Some(code), "{arguments}: {}", text(&ran.stderr));
    }
    Ok(())
}

fn a_home_behind_a_link_is_no_workspace() -> Outcome {
    let place = Place::new();
    let (home, link) = (place.folder("real"), place.base().join("link"));
    std::os::unix::fs::symlink(&home, &link).expect("a link");
    let path = spec_file(&place, "run.json", sandbox(&home), script(Language::Bash, "true"));
    for home in [link, home.join("../real")] {
        let mut command = place.command(tests::programs::programs().jail());
        let ran = command.arg("--spec").arg(&path).env("HOME", home).output().expect("the jail");
        assert_eq!(ran.status.code(), Some(125), "{}", text(&ran.stderr));
        assert!(text(&ran.stderr).contains("it is the home folder"), "{}", text(&ran.stderr));
    }
    Ok(())
}
