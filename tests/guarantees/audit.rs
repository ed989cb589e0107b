//! The audit log: a record of every call, and no run that waits or fails for it.

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use tests::programs::programs;
use tests::{Outcome, Place, host};

tests::tests![
    a_run_has_a_start_and_an_end,
    every_way_to_end_has_its_word,
    a_refused_call_has_a_record_with_its_reason,
    output_and_read_workspace_are_not_recorded,
    nothing_is_recorded_while_a_setting_is_invalid,
    two_servers_write_side_by_side,
    a_disk_that_is_full_stops_no_run_and_is_told,
    a_folder_that_was_removed_is_made_anew,
    the_last_calls_are_printed,
    a_hundred_thousand_records_are_read_with_little_memory,
];

fn folder(place: &Place) -> PathBuf {
    place.home().join(".vestibule/audit")
}

/// Every record of a folder, in the order of the files' names.
fn records(folder: &Path) -> Vec<Value> {
    let mut files: Vec<_> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.sort();
    let mut records = Vec::new();
    for file in files {
        let text = fs::read_to_string(file).expect("root may read it");
        records.extend(text.lines().map(|line| serde_json::from_str::<Value>(line).expect(line)));
    }
    records
}

fn audit_of(place: &Place, folder: &Path, arguments: &[&str]) -> Output {
    let mut command = place.command(programs().server());
    command.arg("audit").args(arguments).env("VESTIBULE_AUDIT_DIR", folder);
    command.output().expect("the server starts")
}

fn audit(place: &Place, arguments: &[&str]) -> Output {
    audit_of(place, &folder(place), arguments)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn a_run_has_a_start_and_an_end() -> Outcome {
    let place = Place::new();
    let mut server = place.server().start();
    assert!(!folder(&place).exists(), "something was made before the first call");
    let code = format!("print('{}')\n", "x".repeat(5000));
    let reply = server.run_for(7, "python", &code);
    reply.success();
    let [start, end] = &records(&folder(&place))[..] else { panic!() };
    assert_eq!((&start["event"], &end["event"]), (&json!("start"), &json!("end")));
    assert_eq!(start["id"], end["id"]);
    assert_eq!(start["language"], "python");
    assert_eq!((&start["timeout_seconds"], &start["code_bytes"]), (&json!(7), &json!(code.len())));
    assert_eq!(start["code"].as_str().map(str::len), Some(4096));
    assert_eq!(start["code_sha256"].as_str().map(str::len), Some(64));
    assert_eq!(start["backend"], "native");
    for record in [start, end] {
        assert_eq!(record["isolation"], reply.isolation());
    }
    assert_eq!((&end["outcome"], &end["exit_code"]), (&json!("ran"), &json!(0)));
    assert_eq!((&end["stdout_bytes"], &end["stderr_bytes"]), (&json!(5001), &json!(0)));
    assert_eq!(end["usage"], reply.facts()["usage"]);
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    let file = fs::read_dir(folder(&place)).expect("it is there").next().expect("a file");
    assert_eq!((mode(&folder(&place)), mode(&file.expect("a file").path())), (0o700, 0o600));
    Ok(())
}

fn every_way_to_end_has_its_word() -> Outcome {
    let place = Place::new();
    let mut server = place.server().start();
    server.run("bash", "exit 3");
    server.run_for(1, "bash", "sleep 60");
    server.run("bash", "yes");
    let cancelled = server.start_run(60, "bash", "sleep 60");
    server.await_descendant(|process| process.name == "sleep");
    server.cancel(cancelled);
    let wait = Instant::now();
    while records(&folder(&place)).len() < 8 && wait.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(20));
    }
    server.start_run(60, "bash", "sleep 60");
    server.await_descendant(|process| process.name == "sleep");
    server.close();
    let outcomes: Vec<_> = records(&folder(&place))
        .into_iter()
        .filter(|record| record["event"] == "end")
        .map(|record| record["outcome"].as_str().expect("a word").to_owned())
        .collect();
    assert_eq!(outcomes, ["ran", "timed out", "overflow", "cancelled", "stopped"]);
    Ok(())
}

fn a_refused_call_has_a_record_with_its_reason() -> Outcome {
    let place = Place::new();
    let mut server = place.server().start();
    server.call("run_code", json!({"language": "perl", "code": "marker"})).assert_blocked(&[]);
    server.call("run_code", json!({"language": 7, "code": ["x"], "zzz": 1})).assert_blocked(&[]);
    let [first, second] = &records(&folder(&place))[..] else { panic!() };
    for record in [first, second] {
        assert_eq!((&record["event"], &record["outcome"]), (&json!("blocked"), &json!("refused")));
    }
    assert_eq!((&first["language"], &first["code"]), (&json!("perl"), &json!("marker")));
    assert!(first["reason"].as_str().is_some_and(|why| why.contains("language must be one of")));
    assert_eq!((&second["language"], &second["code"]), (&Value::Null, &Value::Null));
    Ok(())
}

fn output_and_read_workspace_are_not_recorded() -> Outcome {
    let place = Place::new();
    let mut server = place.server().start();
    server.run("bash", "echo s3cr''et; echo s3cr''et >&2; echo s3cr''et >file").success();
    server.call("read_workspace", json!({"path": "file"}));
    assert_eq!(records(&folder(&place)).len(), 2);
    for record in records(&folder(&place)) {
        assert!(!record.to_string().contains("s3cret"), "{record}");
    }
    Ok(())
}

fn nothing_is_recorded_while_a_setting_is_invalid() -> Outcome {
    let place = Place::new();
    let mut server = place.server().set("VESTIBULE_MEM_MB", "lots").start();
    server.run("bash", "true").assert_blocked(&["VESTIBULE_MEM_MB"]);
    assert!(!folder(&place).exists());
    Ok(())
}

fn two_servers_write_side_by_side() -> Outcome {
    let place = Place::new();
    let (mut first, mut second) = (place.server().start(), place.server().start());
    for _ in 0..3 {
        first.run("bash", "true").success();
        second.run("bash", "true").success();
    }
    assert_eq!(fs::read_dir(folder(&place)).expect("it is there").count(), 2);
    assert_eq!(records(&folder(&place)).len(), 12);
    Ok(())
}

fn a_disk_that_is_full_stops_no_run_and_is_told() -> Outcome {
    host::root()?;
    let place = Place::new();
    let disk = place.folder("disk");
    let options = format!("size=64k,mode=0700,uid={0},gid={0}", place.uid());
    let none = None::<&str>;
    mount(none, &disk, Some("tmpfs"), MsFlags::empty(), Some(options.as_str())).expect("root may");
    let fill = disk.join("fill");
    let mut server = place.server().set("VESTIBULE_AUDIT_DIR", &disk).start();
    server.run("bash", "true").success();
    fs::write(&fill, vec![0; 64 << 10]).expect_err("it is full now");
    // What is left of the last page takes a part of the record.
    let full = server.run("bash", &format!("echo x #{}", "y".repeat(5000)));
    // The kernel keeps a file system that is written to from becoming read-only.
    server.close();
    let read_only = MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
    mount(none, &disk, none, read_only, none).expect("root may");
    let mut server = place.server().set("VESTIBULE_AUDIT_DIR", &disk).start();
    let locked = server.run("bash", "echo x");
    mount(none, &disk, none, MsFlags::MS_REMOUNT, Some(options.as_str())).expect("root may");
    fs::remove_file(&fill).expect("it can be written again");
    let after = server.run("bash", "echo x");
    let shown = audit_of(&place, &disk, &[]);
    let (kept, torn) = (text(&shown.stdout), text(&shown.stderr));
    drop(server);
    umount2(&disk, MntFlags::MNT_DETACH).expect("root may");
    assert_eq!(full.success(), "x");
    assert_eq!(full.line("audit"), Some("not recorded (No space left on device)"), "{}", full.text);
    let lines: Vec<&str> = full.text.lines().rev().take(2).collect();
    assert!(
        lines[0].starts_with("isolation: ") && lines[1].starts_with("audit: "),
        "{}",
        full.text
    );
    assert_eq!(full.facts()["audit"], "not recorded (No space left on device)");
    assert_eq!(locked.success(), "x");
    assert_eq!(
        locked.line("audit"),
        Some("not recorded (Read-only file system)"),
        "{}",
        locked.text
    );
    assert_eq!(after.line("audit"), None, "{}", after.text);
    assert!(kept.lines().count() == 2 && kept.lines().all(|line| line.contains("ran")), "{kept}");
    assert!(torn.contains("no whole record"), "{torn}");
    Ok(())
}

fn a_folder_that_was_removed_is_made_anew() -> Outcome {
    let place = Place::new();
    // Its records are taken away here.
    place.tally().leave_out();
    let mut server = place.server().start();
    server.run("bash", "true").success();
    fs::remove_dir_all(folder(&place)).expect("it is there");
    let reply = server.run("bash", "true");
    assert_eq!((reply.line("audit"), records(&folder(&place)).len()), (None, 2));
    Ok(())
}

fn the_last_calls_are_printed() -> Outcome {
    let place = Place::new();
    // Its log is damaged here.
    place.tally().leave_out();
    let none = audit(&place, &[]);
    assert!(none.status.success() && none.stdout.is_empty(), "{none:?}");
    assert!(text(&none.stderr).contains("no calls in "), "{none:?}");
    let mut server = place.server().start();
    server.run("bash", "\necho first").success();
    server.run("bash", "printf '\\e]0;x\\a' # \u{1b}]0;evil\u{7}");
    server.call("run_code", json!({"language": "perl", "code": "x"}));
    let printed = text(&audit(&place, &[]).stdout);
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), 3, "{printed}");
    assert!(lines[0].contains("  bash    ran              exit 0  wall "), "{printed}");
    assert!(lines[0].ends_with("| echo first"), "{printed}");
    assert!(lines[1].contains("\\u{1b}]0;evil") && !printed.contains('\u{1b}'), "{printed}");
    assert!(lines[2].contains("refused") && lines[2].contains("language must be"), "{printed}");
    let json = text(&audit(&place, &["1", "--json"]).stdout);
    let call: Value = serde_json::from_str(&json).expect("one object");
    assert_eq!(call["language"], "perl");
    // What was never ended, and what somebody tore.
    let file = folder(&place).join("made-by-hand.jsonl");
    let start = r#"{"event":"start","time":"2999-01-01T00:00:00.000Z","id":"x","language":"node"}"#;
    fs::write(&file, format!("{start}\n{{\"event\n")).expect("root may");
    place.give(&file);
    let by_hand = audit(&place, &["1"]);
    assert!(text(&by_hand.stdout).contains("node    no end"), "{by_hand:?}");
    assert!(text(&by_hand.stderr).contains("1 line was no whole record"), "{by_hand:?}");
    Ok(())
}

fn a_hundred_thousand_records_are_read_with_little_memory() -> Outcome {
    let place = Place::new();
    let folder = place.folder("log");
    let mut lines = String::new();
    for number in 0..50_000 {
        let time = format!(
            "2026-11-30T12:{:02}:{:02}.{:03}Z",
            number / 60_000,
            number / 1000,
            number % 1000
        );
        let code = "x".repeat(1000);
        lines += &format!(
            "{{\"event\":\"start\",\"time\":\"{time}\",\"id\":\"{number}\",\"language\":\"bash\",\"code\":\"{code}\"}}\n"
        );
        lines += &format!(
            "{{\"event\":\"end\",\"time\":\"{time}\",\"id\":\"{number}\",\"outcome\":\"ran\"}}\n"
        );
    }
    let file = folder.join("1.jsonl");
    fs::write(&file, lines).expect("the folder is ours");
    place.give(&file);
    // Less memory than the log has: what is not shown is not held.
    let line = format!("ulimit -v 100000; exec {} audit", programs().server().display());
    let mut command: Command = place.command("/bin/bash");
    command.args(["-c", &line]).env("VESTIBULE_AUDIT_DIR", &folder);
    let printed = command.output().expect("it starts");
    assert!(printed.status.success(), "{printed:?}");
    assert_eq!(text(&printed.stdout).lines().count(), 20);
    assert!(text(&printed.stdout).lines().all(|line| line.contains("ran")), "{printed:?}");
    Ok(())
}
