//! Settings: an invalid one never stops the server, and every call says which it is.

use std::os::unix::fs::symlink;
use tests::{Outcome, Place, Reply, host};

tests::tests![
    an_invalid_value_blocks_every_call_and_is_named,
    blank_counts_as_unset,
    the_caps_follow_their_settings,
    folders_must_lie_outside_one_another,
    a_workspace_that_must_not_be_shared_is_refused,
    a_workspace_of_another_user_is_refused,
    a_workspace_that_cannot_be_written_is_refused,
    a_tilde_is_the_home_folder,
    engines_are_named_with_what_they_lack,
    an_image_that_is_wanted_and_not_there_is_named_with_its_fix,
];

#[track_caller]
fn run_with(place: &Place, settings: &[(&str, &str)]) -> Reply {
    let mut server = place.server();
    for (name, value) in settings {
        server = server.set(name, *value);
    }
    server.start().run("bash", "echo ran")
}

fn an_invalid_value_blocks_every_call_and_is_named() -> Outcome {
    let place = Place::new();
    let cases = [
        ("VESTIBULE_MAX_TIMEOUT_S", "soon"),
        ("VESTIBULE_MAX_TIMEOUT_S", "0"),
        ("VESTIBULE_DEFAULT_TIMEOUT_S", "3600"),
        ("VESTIBULE_MEM_MB", "-3"),
        ("VESTIBULE_CPU_PCT", "1.5"),
        ("VESTIBULE_PIDS_MAX", "1"),
        ("VESTIBULE_TMPFS_MB", "99999999999999999999"),
        ("VESTIBULE_MAX_CONCURRENT", "0"),
        ("VESTIBULE_MAX_CODE_BYTES", "lots"),
        ("VESTIBULE_WORKSPACE_RO", "maybe"),
        ("VESTIBULE_STRUCTURED", "2"),
        ("VESTIBULE_BACKEND", "magic"),
        ("VESTIBULE_ROOTFS", "floppy"),
        ("VESTIBULE_RUNTIME", "lxc"),
        ("VESTIBULE_WORKSPACE", "relative/folder"),
        ("VESTIBULE_IMAGE_PYTHON", "not an image"),
        ("VESTIBULE_POOL", "many"),
        ("VESTIBULE_JAIL", "vestibule-jail"),
    ];
    for (name, value) in cases {
        let mut server = place.server().set(name, value).start();
        server.run("bash", "echo ran").assert_blocked(&[name, value]);
        server.call("read_workspace", serde_json::json!({})).assert_blocked(&[name, value]);
        let tools = server.request("tools/list", serde_json::json!({}));
        assert_eq!(tools["result"]["tools"].as_array().map(Vec::len), Some(2), "{tools}");
    }
    assert!(!place.home().join(".vestibule").exists(), "a refused call made a folder");
    Ok(())
}

fn blank_counts_as_unset() -> Outcome {
    let place = Place::new();
    let settings =
        [("VESTIBULE_MEM_MB", ""), ("VESTIBULE_BACKEND", "  "), ("VESTIBULE_WORKSPACE", "")];
    assert_eq!(run_with(&place, &settings).success(), "ran");
    Ok(())
}

fn the_caps_follow_their_settings() -> Outcome {
    let place = Place::new();
    let mut server = place
        .server()
        .set("VESTIBULE_MAX_CODE_BYTES", "100")
        .set("VESTIBULE_PIDS_MAX", "20")
        .start();
    server.run("bash", &"#".repeat(101)).assert_blocked(&["code", "100"]);
    let code = "for i in $(seq 60); do sleep 5 & done 2>/tmp/e; jobs -p | wc -l";
    let reply = server.run("bash", code);
    let started: u32 = reply.stdout().trim().parse().unwrap_or(0);
    assert!(started < 20, "{started} processes below a cap of 20: {}", reply.text);
    Ok(())
}

fn folders_must_lie_outside_one_another() -> Outcome {
    let place = Place::new();
    let outer = place.folder("outer").display().to_string();
    let inner = format!("{outer}/inner");
    let cases = [
        [("VESTIBULE_WORKSPACE", outer.as_str()), ("VESTIBULE_AUDIT_DIR", inner.as_str())],
        [("VESTIBULE_WORKSPACE", &inner), ("VESTIBULE_AUDIT_DIR", &outer)],
        [("VESTIBULE_WORKSPACE", &outer), ("VESTIBULE_ROOTFS_DIR", &outer)],
        [("VESTIBULE_AUDIT_DIR", &inner), ("VESTIBULE_ROOTFS_DIR", &outer)],
    ];
    for settings in cases {
        run_with(&place, &settings).assert_blocked(&["VESTIBULE_"]);
    }
    Ok(())
}

fn a_workspace_that_must_not_be_shared_is_refused() -> Outcome {
    let place = Place::new();
    let real = place.folder("real");
    let link = place.base().join("link");
    symlink(&real, &link).expect("a link");
    let file = place.file("file", "no folder");
    let home = place.home();
    let base = place.base().to_owned();
    for path in ["/".as_ref(), home.as_path(), base.as_path(), link.as_path(), file.as_path()] {
        let path = path.display().to_string();
        let reply = run_with(&place, &[("VESTIBULE_WORKSPACE", &path)]);
        reply.assert_blocked(&["VESTIBULE_WORKSPACE", &path]);
    }
    Ok(())
}

fn a_workspace_of_another_user_is_refused() -> Outcome {
    let place = Place::new();
    run_with(&place, &[("VESTIBULE_WORKSPACE", "/usr/lib")]).assert_blocked(&["/usr/lib"]);
    host::root()?;
    let theirs = place.base().join("theirs");
    std::fs::create_dir(&theirs).expect("root's folder");
    let theirs = theirs.display().to_string();
    run_with(&place, &[("VESTIBULE_WORKSPACE", &theirs)]).assert_blocked(&[&theirs]);
    Ok(())
}

fn a_workspace_that_cannot_be_written_is_refused() -> Outcome {
    use std::os::unix::fs::PermissionsExt;
    let place = Place::new();
    let folder = place.folder("ws");
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o500)).expect("ours");
    let path = folder.display().to_string();
    run_with(&place, &[("VESTIBULE_WORKSPACE", &path)]).assert_blocked(&[&path]);
    // A workspace that is only read need not be writable.
    let read_only = [("VESTIBULE_WORKSPACE", path.as_str()), ("VESTIBULE_WORKSPACE_RO", "1")];
    assert_eq!(run_with(&place, &read_only).success(), "ran");
    Ok(())
}

fn a_tilde_is_the_home_folder() -> Outcome {
    let place = Place::new();
    let mut server = place.server().set("VESTIBULE_WORKSPACE", "~/deep/er").start();
    server.run("bash", "touch here").success();
    assert!(place.home().join("deep/er/here").exists());
    Ok(())
}

fn engines_are_named_with_what_they_lack() -> Outcome {
    let place = Place::new();
    let nowhere = ("VESTIBULE_IMAGE_PYTHON", "localhost/vestibule-nowhere:1");
    let both = run_with(&place, &[("VESTIBULE_BACKEND", "container"), nowhere]);
    both.assert_blocked(&["docker: ", "podman: ", "Fix: "]);
    let one = [("VESTIBULE_BACKEND", "container"), ("VESTIBULE_RUNTIME", "podman"), nowhere];
    let text = run_with(&place, &one).text;
    assert!(text.starts_with("Blocked: Podman ") && !text.contains("ocker"), "{text}");
    Ok(())
}

fn an_image_that_is_wanted_and_not_there_is_named_with_its_fix() -> Outcome {
    let place = Place::new();
    let only = [("VESTIBULE_ROOTFS", "image"), ("VESTIBULE_BACKEND", "native")];
    let store = place.home().join(".vestibule/rootfs").display().to_string();
    run_with(&place, &only).assert_blocked(&[
        "VESTIBULE_ROOTFS is image",
        "docker.io/library/python@sha256:",
        &store,
        "vestibule-mcp setup",
    ]);
    // A container has its own images: it is asked all the same.
    let both = [("VESTIBULE_ROOTFS", "image"), ("VESTIBULE_IMAGE_PYTHON", "localhost/nowhere:1")];
    run_with(&place, &both).assert_blocked(&["native: VESTIBULE_ROOTFS is image", "docker: "]);
    Ok(())
}
