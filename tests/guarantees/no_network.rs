//! Nothing but `setup` opens a network connection: neither server nor jail, in serving, in a run, in
//! the `run` command or in `doctor`.

use std::path::Path;
use std::process::Stdio;
use tests::programs::programs;
use tests::{Outcome, Place, Skip, host};

tests::tests![serving_and_running_connects_to_nothing, the_commands_connect_to_nothing];

/// The calls by which a socket reaches another, and the sockets they are made on.
const CALLS: &str = "trace=connect,sendto,sendmsg,sendmmsg,bind,listen";

fn launcher(log: &Path) -> Vec<String> {
    let log = log.display().to_string();
    ["/usr/bin/strace", "-f", "-qq", "-yy", "-e", CALLS, "-o", &log].map(str::to_owned).to_vec()
}

fn needs(place: &Place) -> Result<(), Skip> {
    host::program("/usr/bin/strace", "strace")?;
    let traced = place.command("/usr/bin/strace").args(["-o", "/dev/null", "true"]).status();
    if traced.is_ok_and(|status| status.success()) {
        Ok(())
    } else {
        tests::skip("needs a machine that allows ptrace")
    }
}

/// Lines of the trace that name an address of the internet families.
#[track_caller]
fn assert_no_connection(log: &Path) {
    let trace = std::fs::read_to_string(log).expect("strace writes its log");
    let internet: Vec<&str> = trace
        .lines()
        .filter(|line| line.contains("AF_INET") || line.contains("<TCP") || line.contains("<UDP"))
        .collect();
    assert!(internet.is_empty(), "{internet:#?}");
}

fn serving_and_running_connects_to_nothing() -> Outcome {
    let place = Place::new();
    needs(&place)?;
    let log = place.file("trace", "");
    let mut server = place.server().through(launcher(&log)).start();
    // A python that connects shows that the trace would have seen it; the jail's own work is there too.
    assert_eq!(server.run_for(60, "bash", "echo ran").success(), "ran");
    server.call("read_workspace", serde_json::json!({}));
    server.close();
    assert_no_connection(&log);
    Ok(())
}

fn the_commands_connect_to_nothing() -> Outcome {
    let place = Place::new();
    needs(&place)?;
    let seen = place.file("seen", "");
    let line = launcher(&seen);
    let connect =
        "import socket\ntry: socket.create_connection(('127.0.0.1', 9), 1)\nexcept OSError: pass";
    let mut command = place.command(&line[0]);
    command.args(&line[1..]).args(["/usr/bin/python3", "-c", connect]).status().expect("strace");
    let trace = std::fs::read_to_string(&seen).expect("a log");
    assert!(trace.contains("AF_INET"), "the trace sees no connection at all: {trace}");
    for arguments in [&["doctor"][..], &["run", "bash", "/dev/null"], &["--version"]] {
        let log = place.file("trace", "");
        let line = launcher(&log);
        let mut command = place.command(&line[0]);
        command.args(&line[1..]).arg(programs().server()).args(arguments);
        command.stdin(Stdio::null()).output().expect("strace starts");
        assert_no_connection(&log);
    }
    Ok(())
}
