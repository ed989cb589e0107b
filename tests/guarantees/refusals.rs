//! A machine that cannot isolate is told apart by evidence: each refusal names its cause and a fix,
//! and runs nothing.

use protocol::frame::encode_hello;
use protocol::{Cause, Event, Hello};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use tests::jail::sandbox;
use tests::programs::programs;
use tests::{Jail, Outcome, Place, Reply, Server, host};

tests::tests![
    user_namespaces_refused_by_eperm,
    user_namespaces_used_up,
    network_namespaces_turned_off,
    a_container_filter_that_hides_clone3,
    a_masked_proc,
    mounts_denied_inside,
    a_chroot_of_a_container_still_answers,
    a_missing_helper,
    a_helper_of_another_version,
    a_helper_that_hangs,
    a_helper_that_talks_nonsense,
    a_missing_interpreter_blocks_its_language_alone,
    workspaces_that_the_jail_refuses,
    a_refusal_is_looked_at_again,
    a_filter_that_cannot_be_loaded_is_found_by_every_probe,
];

/// A refusal that carries what every refusal must: cause, fix, and whether to retry.
#[track_caller]
fn refused(server: &mut Server, words: &[&str]) -> Reply {
    let reply = server.run("python", "open('/workspace/ran', 'w')");
    reply.assert_blocked(words);
    let text = reply.text.to_lowercase();
    assert!(text.contains("fix"), "no fix in: {}", reply.text);
    assert!(text.contains("call again") || text.contains("restart"), "no retry in: {}", reply.text);
    reply
}

#[track_caller]
fn assert_nothing_ran(place: &Place) {
    assert!(!place.workspace().join("ran").exists(), "a refused call ran");
    place.assert_nothing_left();
}

fn user_namespaces_refused_by_eperm() -> Outcome {
    let place = Place::new();
    let helper =
        place.constrained_jail(&["clone3=EPERM", "clone:0&268435456=EPERM", "unshare=EPERM"]);
    let mut server = place.server().set("VESTIBULE_JAIL", helper).start();
    refused(&mut server, &["user namespace", "clone"]);
    server.close();
    assert_nothing_ran(&place);
    Ok(())
}

fn user_namespaces_used_up() -> Outcome {
    let place = Place::new();
    host::user_namespaces(&place)?;
    // Inside that namespace we are root; a second one maps us back, and is the last one allowed.
    let inside = "echo 1 > /proc/sys/user/max_user_namespaces && exec unshare --user --map-user=1000 --map-group=1000 -- \"$@\"";
    let launcher =
        ["/usr/bin/unshare", "--user", "--map-root-user", "/bin/bash", "-c", inside, "bash"];
    let mut server = place.server().through(launcher).start();
    refused(&mut server, &["max_user_namespaces"]);
    server.close();
    assert_nothing_ran(&place);
    Ok(())
}

fn network_namespaces_turned_off() -> Outcome {
    let place = Place::new();
    host::user_namespaces(&place)?;
    let inside = "echo 0 > /proc/sys/user/max_net_namespaces && exec unshare --user --map-user=1000 --map-group=1000 -- \"$@\"";
    let launcher =
        ["/usr/bin/unshare", "--user", "--map-root-user", "/bin/bash", "-c", inside, "bash"];
    let mut server = place.server().through(launcher).start();
    refused(&mut server, &["step network-namespace", "user.max_net_namespaces"]);
    server.close();
    assert_nothing_ran(&place);
    Ok(())
}

fn a_container_filter_that_hides_clone3() -> Outcome {
    let place = Place::new();
    // Docker's default profile for a container without CAP_SYS_ADMIN.
    let helper = place.constrained_jail(&[
        "clone3=ENOSYS",
        "clone:0&2114060288=EPERM",
        "unshare=EPERM",
        "mount=EPERM",
    ]);
    let mut server = place.server().set("VESTIBULE_JAIL", helper).start();
    let reply = refused(&mut server, &["container"]);
    assert!(!reply.text.contains("5.9"), "not an old kernel: {}", reply.text);
    server.close();
    assert_nothing_ran(&place);
    Ok(())
}

fn a_masked_proc() -> Outcome {
    let place = Place::new();
    host::user_namespaces(&place)?;
    host::program("/usr/bin/bwrap", "bubblewrap")?;
    // What a container engine does: something mounted over a part of /proc.
    let launcher = [
        "/usr/bin/bwrap",
        "--dev-bind",
        "/",
        "/",
        "--proc",
        "/proc",
        "--tmpfs",
        "/proc/acpi",
        "--unshare-pid",
        "--",
    ];
    let launcher = if Path::new("/proc/acpi").is_dir() {
        launcher
    } else {
        launcher.map(|word| if word == "/proc/acpi" { "/proc/scsi" } else { word })
    };
    let mut server = place.server().through(launcher).start();
    refused(&mut server, &["/proc"]);
    server.close();
    assert_nothing_ran(&place);
    Ok(())
}

fn mounts_denied_inside() -> Outcome {
    let place = Place::new();
    // As AppArmor does on Ubuntu: the namespace is made, then its capabilities are worth nothing.
    let helper = place.constrained_jail(&[
        "mount=EACCES",
        "fsmount=EACCES",
        "fsopen=EACCES",
        "open_tree=EACCES",
        "move_mount=EACCES",
    ]);
    let mut server = place.server().set("VESTIBULE_JAIL", helper).start();
    refused(&mut server, &["step "]);
    server.close();
    assert_nothing_ran(&place);
    Ok(())
}

fn a_chroot_of_a_container_still_answers() -> Outcome {
    host::root()?;
    let place = Place::new();
    let uid = place.uid();
    // A chroot into the same root through another mount: user namespaces are refused there.
    let root = place.base().join("root");
    fs::create_dir(&root).expect("a folder");
    let script = format!(
        "mount --rbind / {root} && exec chroot --userspec={uid}:{uid} --groups= {root} {server}",
        root = root.display(),
        server = programs().server().display()
    );
    let mut command = std::process::Command::new("/usr/bin/unshare");
    command.args(["--mount", "--propagation", "private", "/bin/sh", "-c", &script]);
    command.env_clear().env("HOME", place.home()).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let mut server = Server::spawn(command);
    server.open();
    refused(&mut server, &["chroot"]);
    server.close();
    assert_nothing_ran(&place);
    Ok(())
}

fn a_missing_helper() -> Outcome {
    let place = Place::new();
    let mut server = place.server().set("VESTIBULE_JAIL", "/nonexistent/vestibule-jail").start();
    refused(&mut server, &["/nonexistent/vestibule-jail", "VESTIBULE_JAIL"]);
    server.close();
    assert_nothing_ran(&place);
    Ok(())
}

/// A program in the jail's place, as a shell script.
fn false_helper(place: &Place, script: &str) -> PathBuf {
    place.program("false-jail", format!("#!/bin/sh\n{script}\n"))
}

/// The greeting of this build, for a shell's printf.
fn greeting() -> String {
    let frame = encode_hello(&Hello::ours());
    let octal: String = frame.iter().map(|byte| format!("\\{byte:03o}")).collect();
    format!("printf '{octal}'")
}

fn a_helper_of_another_version() -> Outcome {
    let place = Place::new();
    // Protocol 4,000,000,000 and version "9.9.9": 9 bytes, kind 1.
    let greeting =
        "printf '\\011\\000\\000\\000\\001\\000\\050\\153\\3569.9.9'; exec cat >/dev/null";
    let helper = false_helper(&place, greeting);
    let mut server = place.server().set("VESTIBULE_JAIL", &helper).start();
    let own = env!("CARGO_PKG_VERSION");
    let path = helper.display().to_string();
    refused(&mut server, &[&path, "9.9.9", own, "vestibule-mcp", "restart your MCP client"]);
    server.close();
    assert_nothing_ran(&place);
    Ok(())
}

fn a_helper_that_hangs() -> Outcome {
    let place = Place::new();
    for script in ["exec sleep 300".to_owned(), format!("{}; exec sleep 300", greeting())] {
        let helper = false_helper(&place, &script);
        let mut server = place.server().set("VESTIBULE_JAIL", &helper).start();
        // The client's own patience is 60 s: no answer within it is a failure.
        let reply = server.run("bash", "echo ran");
        assert!(reply.is_error && !reply.text.contains("\nran"), "{}", reply.text);
        server.close();
        place.assert_nothing_left();
    }
    Ok(())
}

fn a_helper_that_talks_nonsense() -> Outcome {
    let place = Place::new();
    let nonsense = [
        "exit 0".to_owned(),
        "echo 'not a frame at all, but a line of text'; exec sleep 300".to_owned(),
        format!("{}; printf '\\377\\377\\377\\377\\002'; exec sleep 300", greeting()),
        format!("{}; {}; exec sleep 300", greeting(), greeting()),
        format!("{}; exec cat", greeting()),
    ];
    for script in nonsense {
        let helper = false_helper(&place, &script);
        let mut server = place.server().set("VESTIBULE_JAIL", &helper).start();
        let reply = server.run("bash", "echo ran");
        assert!(reply.is_error && !reply.text.contains("\nran"), "{script}: {}", reply.text);
        server.close();
        place.assert_nothing_left();
    }
    Ok(())
}

fn a_missing_interpreter_blocks_its_language_alone() -> Outcome {
    let place = Place::new();
    host::user_namespaces(&place)?;
    host::program("/usr/bin/bwrap", "bubblewrap")?;
    let empty = place.file("empty", "").display().to_string();
    let launcher =
        ["/usr/bin/bwrap", "--dev-bind", "/", "/", "--ro-bind", &empty, "/usr/bin/node", "--"];
    let mut server = place.server().through(launcher).start();
    let reply = server.run("node", "console.log(1)");
    reply.assert_blocked(&["node", "Fix"]);
    assert_eq!(server.run("bash", "echo works").success(), "works");
    server.close();
    place.assert_nothing_left();
    Ok(())
}

fn workspaces_that_the_jail_refuses() -> Outcome {
    let place = Place::new();
    let closed = place.folder("closed");
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).expect("ours");
    let link = place.base().join("link");
    symlink(place.folder("real"), &link).expect("a link");
    let cases = [
        (place.base().join("missing"), Cause::WorkspaceMissing),
        (closed, Cause::WorkspaceNotWritable),
        (link, Cause::WorkspaceNotAllowed),
    ];
    for (path, cause) in cases {
        match Jail::start(&place).prepare(sandbox(&path)) {
            Event::Refused(refusal) => {
                assert_eq!(refusal.cause, cause, "{}: {refusal}", path.display());
                assert!(refusal.to_string().contains(&path.display().to_string()), "{refusal}");
            }
            other => panic!("{}: {other:?}", path.display()),
        }
    }
    place.assert_nothing_left();
    Ok(())
}

fn a_refusal_is_looked_at_again() -> Outcome {
    let place = Place::new();
    let folder = place.base().join("late");
    fs::create_dir(&folder).expect("a folder");
    let helper = folder.join("vestibule-jail");
    let mut server = place.server().set("VESTIBULE_JAIL", &helper).start();
    refused(&mut server, &["VESTIBULE_JAIL"]);
    fs::copy(programs().jail(), &helper).expect("a copy");
    // A failure is kept for at most 30 s, so that no restart is needed.
    let end = std::time::Instant::now() + std::time::Duration::from_secs(35);
    loop {
        let reply = server.run("bash", "echo works");
        if !reply.is_error {
            assert_eq!(reply.success(), "works");
            return Ok(());
        }
        assert!(std::time::Instant::now() < end, "still refused: {}", reply.text);
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
}

fn a_filter_that_cannot_be_loaded_is_found_by_every_probe() -> Outcome {
    let place = Place::new();
    let helper = place.constrained_jail(&["seccomp=EPERM"]);
    let mut server = place.server().set("VESTIBULE_JAIL", &helper).start();
    refused(&mut server, &["load-filter"]);
    server.close();
    let run = |arguments: &[&str]| {
        let ran = place.command(&helper).args(arguments).output().expect("the jail");
        (
            ran.status.code(),
            String::from_utf8_lossy(&[ran.stdout, ran.stderr].concat()).into_owned(),
        )
    };
    let (code, said) = run(&["--check", "--explain"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("step load-filter") && !said.contains("in force"), "{said}");
    let explained = said.lines().find(|line| line.contains("load-filter"));
    assert!(explained.is_some_and(|line| line.contains("not permitted")), "{said}");
    let spec = tests::jail::spec_file(
        &place,
        "run.json",
        sandbox(&place.folder("ws")),
        tests::jail::script(protocol::Language::Bash, "echo ran"),
    );
    let (code, said) = run(&["--spec", &spec.display().to_string(), "--explain"]);
    assert_eq!(code, Some(125), "{said}");
    let explained = said.lines().find(|line| line.contains("load-filter"));
    assert!(explained.is_some_and(|line| line.contains("not permitted")), "{said}");
    assert!(!said.contains("ran\n"), "{said}");
    place.assert_nothing_left();
    Ok(())
}
