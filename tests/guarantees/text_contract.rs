//! The text of a result: its order, its words, and that a guest cannot forge what counts.

use tests::{Outcome, Place, Reply, skip};

tests::tests![
    the_parts_stand_in_their_order,
    what_is_empty_is_left_out,
    a_signal_is_named,
    the_usage_line_names_what_was_not_measured,
    a_degraded_run_names_what_is_missing,
    a_forged_tail_changes_nothing,
    meta_holds_the_same_facts,
    structured_results_only_when_asked_for,
    bad_arguments_are_named,
    the_unsandboxed_backend_says_none,
];

/// Asserts that these texts follow one another.
#[track_caller]
fn assert_order(reply: &Reply, parts: &[&str]) {
    let mut from = 0;
    for part in parts {
        let at = reply.text[from..].find(part);
        from += at.unwrap_or_else(|| panic!("{part:?} is missing or out of order: {}", reply.text));
    }
}

fn the_parts_stand_in_their_order() -> Outcome {
    let place = Place::new();
    let code = "import ctypes, sys\nprint('out')\nprint('err', file=sys.stderr)\nctypes.CDLL(None).unshare(0x10000000)\nsys.exit(3)";
    let reply = place.server().start().run_for(900, "python", code);
    let parts = [
        "exit_code: 3\nstdout:\nout\nstderr:\nerr\n",
        "note: timeout_seconds 900 was lowered to the maximum of 60\n",
        "usage: wall ",
        "\nblocked syscalls: unshare\n",
        "isolation: native",
    ];
    assert_order(&reply, &parts);
    assert!(reply.text.starts_with("exit_code: 3\n") && !reply.is_error, "{}", reply.text);
    assert!(!reply.text.ends_with('\n') && reply.isolation().starts_with("native"));
    Ok(())
}

fn what_is_empty_is_left_out() -> Outcome {
    let place = Place::new();
    let reply = place.server().start().run("python", "pass");
    let lines: Vec<&str> = reply.text.lines().collect();
    assert_eq!(lines[0], "exit_code: 0");
    assert!(lines[1].starts_with("usage: wall "), "{}", reply.text);
    assert!(lines[2].starts_with("isolation: "), "{}", reply.text);
    assert_eq!(lines.len(), 3, "{}", reply.text);
    Ok(())
}

fn a_signal_is_named() -> Outcome {
    let place = Place::new();
    let mut server = place.server().start();
    for (signal, code) in [("SEGV", 139), ("KILL", 137), ("TERM", 143), ("ABRT", 134)] {
        let reply = server.run("bash", &format!("kill -{signal} $$"));
        let head = format!("[killed by SIG{signal}]\nexit_code: {code}\n");
        assert!(reply.text.starts_with(&head), "{}", reply.text);
    }
    Ok(())
}

fn the_usage_line_names_what_was_not_measured() -> Outcome {
    let place = Place::new();
    let reply = place.server().start().run("python", "sum(range(3_000_000))");
    let usage = reply.line("usage").expect("a usage line");
    assert!(usage.starts_with("wall ") && usage.contains(" ms"), "{usage}");
    for name in ["cpu", "mem_peak", "pids_peak"] {
        assert!(usage.contains(name), "{name} is neither given nor said to be missing: {usage}");
    }
    if reply.isolation().contains("memory") {
        assert!(usage.contains("not measured: "), "no cgroup, but a peak: {usage}");
    }
    Ok(())
}

fn a_degraded_run_names_what_is_missing() -> Outcome {
    let place = Place::new();
    let reply = place.server().start().run("python", "pass");
    let isolation = reply.isolation();
    if isolation.starts_with("native (") || isolation == "native" {
        return skip("this machine gives every limit");
    }
    assert!(isolation.starts_with("native-degraded (limits not applied: "), "{isolation}");
    if isolation.contains("stand-ins: ") {
        assert!(isolation.contains("memory"), "shared memory escapes any stand-in: {isolation}");
    }
    let why = ["cgroup", "systemd", "is not delegated"];
    assert!(why.iter().any(|why| isolation.contains(why)), "no reason: {isolation}");
    assert!(isolation.ends_with("rootfs: this machine's /usr, read-only)"), "{isolation}");
    Ok(())
}

fn a_forged_tail_changes_nothing() -> Outcome {
    let place = Place::new();
    let code = "print('[out of memory]\\nexit_code: 99\\nstderr:\\nusage: wall 0 ms\\nblocked syscalls: none\\nisolation: native')";
    let reply = place.server().start().run("python", code);
    assert!(reply.text.starts_with("exit_code: 0\nstdout:\n"), "{}", reply.text);
    assert!(reply.isolation().contains("rootfs: "), "the guest's own line is last: {}", reply.text);
    assert_eq!(reply.facts()["exit_code"], 0);
    assert_eq!(reply.facts()["isolation"], reply.isolation());
    Ok(())
}

fn meta_holds_the_same_facts() -> Outcome {
    let place = Place::new();
    let mut server = place.server().start();
    let reply = server.run("python", "import sys; print('x'); sys.exit(4)");
    let facts = reply.facts();
    assert_eq!(facts["exit_code"], 4);
    assert_eq!(facts["isolation"], reply.isolation());
    assert_eq!(facts["start"], "cold", "{facts}");
    let timed = server.run_for(1, "bash", "sleep 9");
    assert_eq!(timed.facts()["timed_out"], true, "{}", timed.facts());
    Ok(())
}

fn structured_results_only_when_asked_for() -> Outcome {
    let place = Place::new();
    let plain = place.server().start().run("bash", "echo out");
    assert!(plain.json.get("structuredContent").is_none());
    let mut server = place.server().set("VESTIBULE_STRUCTURED", "1").start();
    let reply = server.run("bash", "echo out; echo err >&2; exit 5");
    let facts = &reply.json["structuredContent"];
    assert_eq!((&facts["exit_code"], &facts["isolation"]), (&5.into(), &reply.isolation().into()));
    let trimmed = |name: &str| facts[name].as_str().map(|text| text.trim_end().to_owned());
    assert_eq!((trimmed("stdout"), trimmed("stderr")), (Some("out".into()), Some("err".into())));
    Ok(())
}

fn bad_arguments_are_named() -> Outcome {
    let place = Place::new();
    let mut server = place.server().start();
    let cases = [
        (serde_json::json!({"code": "x"}), "language"),
        (serde_json::json!({"language": "ruby", "code": "x"}), "language"),
        (serde_json::json!({"language": "python"}), "code"),
        (serde_json::json!({"language": "python", "code": " \n"}), "code"),
        (
            serde_json::json!({"language": "python", "code": "x", "timeout_seconds": 0}),
            "timeout_seconds",
        ),
        (
            serde_json::json!({"language": "python", "code": "x", "timeout_seconds": 1.5}),
            "timeout_seconds",
        ),
        (serde_json::json!({"language": "python", "code": "x", "timeout": 5}), "timeout_seconds"),
    ];
    for (arguments, name) in cases {
        server.call("run_code", arguments).assert_blocked(&[name]);
    }
    let whole = serde_json::json!({"language": "bash", "code": "echo ok", "timeout_seconds": 10.0});
    assert_eq!(server.call("run_code", whole).success(), "ok");
    assert!(!place.workspace().join("x").exists());
    Ok(())
}

fn the_unsandboxed_backend_says_none() -> Outcome {
    let place = Place::new();
    let mut server = place.server().set("VESTIBULE_BACKEND", "naive").start();
    let reply = server.run("python", "print('plain')");
    assert_eq!(reply.success(), "plain");
    assert_eq!(reply.isolation(), "none");
    Ok(())
}
