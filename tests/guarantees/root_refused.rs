//! Server and jail refuse every privilege that they could lend to a guest.

use std::process::{Command, Stdio};
use tests::programs::programs;
use tests::{Outcome, Place, Server, host};

tests::tests![
    the_server_refuses_root,
    the_server_refuses_a_real_uid_of_0,
    the_server_refuses_a_capability,
    the_naive_backend_refuses_root_too,
    the_jail_refuses_root,
    the_jail_refuses_a_capability,
    the_run_command_refuses_root,
];

/// A server started by root itself, through a launcher that may keep a part of root's privileges.
fn start(place: &Place, launcher: &[&str], settings: &[(&str, &str)]) -> Server {
    let program = programs().server().display().to_string();
    let line: Vec<&str> = launcher.iter().copied().chain([program.as_str()]).collect();
    let mut command = Command::new(line[0]);
    command.args(&line[1..]).env_clear().env("HOME", place.home()).env("PATH", "/usr/bin:/bin");
    command.envs(settings.iter().copied());
    let mut server = Server::spawn(command);
    server.open();
    server
}

fn keep_capability(uid: u32) -> Vec<String> {
    let words = format!(
        "/usr/bin/setpriv --reuid {uid} --regid {uid} --clear-groups --inh-caps=-all,+net_raw --ambient-caps=-all,+net_raw --"
    );
    words.split(' ').map(str::to_owned).collect()
}

fn the_server_refuses_root() -> Outcome {
    host::root()?;
    let place = Place::new();
    let mut server = start(&place, &[], &[]);
    server.run("python", "print(1)").assert_blocked(&["root", "Fix"]);
    Ok(())
}

fn the_server_refuses_a_real_uid_of_0() -> Outcome {
    host::root()?;
    let place = Place::new();
    let uid = place.uid().to_string();
    let become_other = "import os, sys; u = int(sys.argv[1]); os.setresgid(u, u, u); os.setgroups([]); os.setresuid(0, u, u); os.execv(sys.argv[2], sys.argv[2:])";
    let launcher = ["/usr/bin/python3", "-c", become_other, &uid];
    start(&place, &launcher, &[]).run("python", "print(1)").assert_blocked(&["root"]);
    Ok(())
}

fn the_server_refuses_a_capability() -> Outcome {
    host::root()?;
    let place = Place::new();
    let launcher = keep_capability(place.uid());
    let launcher: Vec<&str> = launcher.iter().map(String::as_str).collect();
    start(&place, &launcher, &[]).run("python", "print(1)").assert_blocked(&["capabilit"]);
    Ok(())
}

fn the_naive_backend_refuses_root_too() -> Outcome {
    host::root()?;
    let place = Place::new();
    let mut server = start(&place, &[], &[("VESTIBULE_BACKEND", "naive")]);
    server.run("python", "print(1)").assert_blocked(&["root"]);
    Ok(())
}

/// Runs the jail's own check through a launcher: exit code and all it printed.
fn check(launcher: &[&str]) -> (Option<i32>, String) {
    let program = programs().jail().display().to_string();
    let line: Vec<&str> = launcher.iter().copied().chain([program.as_str(), "--check"]).collect();
    let mut command = Command::new(line[0]);
    command.args(&line[1..]).current_dir("/").stdin(Stdio::null());
    let output = command.output().expect("the jail starts");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

fn the_jail_refuses_root() -> Outcome {
    host::root()?;
    let (code, text) = check(&[]);
    assert_ne!(code, Some(0), "{text}");
    assert!(text.contains("check-privileges") || text.contains("root"), "{text}");
    Ok(())
}

fn the_jail_refuses_a_capability() -> Outcome {
    host::root()?;
    let launcher = keep_capability(Place::new().uid());
    let launcher: Vec<&str> = launcher.iter().map(String::as_str).collect();
    let (code, text) = check(&launcher);
    assert_ne!(code, Some(0), "{text}");
    assert!(text.contains("capabilit"), "{text}");
    Ok(())
}

fn the_run_command_refuses_root() -> Outcome {
    host::root()?;
    let place = Place::new();
    let mut command = Command::new(programs().server());
    command.env_clear().env("HOME", place.home()).args(["run", "bash"]);
    command.arg(place.file("program.sh", "echo ran"));
    let output = command.stdin(Stdio::null()).output().expect("the server starts");
    assert_eq!(output.status.code(), Some(125));
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("Blocked:") && text.contains("root"), "{text}");
    Ok(())
}
