//! A run has no privilege at all.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use tests::{Outcome, Place, host};

tests::tests![
    every_set_is_empty_and_nothing_can_be_gained,
    the_uid_is_the_servers_and_no_other_exists,
    privileged_calls_are_refused,
    a_setuid_program_gains_nothing,
];

fn every_set_is_empty_and_nothing_can_be_gained() -> Outcome {
    let place = Place::new();
    let code = "grep -E '^(Cap(Inh|Prm|Eff|Bnd|Amb)|NoNewPrivs|Seccomp):' /proc/self/status";
    let got = place.server().start().run("bash", code).success();
    let value = |name: &str| {
        let line = got.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.expect("the kernel names it").trim().to_owned()
    };
    for set in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        assert_eq!(value(set), "0000000000000000", "{set}");
    }
    assert_eq!(value("NoNewPrivs"), "1");
    assert_eq!(value("Seccomp"), "2");
    Ok(())
}

fn the_uid_is_the_servers_and_no_other_exists() -> Outcome {
    let place = Place::new();
    let code = "id -u; id -g; cat /proc/self/uid_map /proc/self/gid_map /proc/self/setgroups";
    let got = place.server().start().run("bash", code).success();
    let words: Vec<&str> = got.split_whitespace().collect();
    let uid = place.uid().to_string();
    let gid = words[1].to_owned();
    assert_eq!(words[0], uid);
    assert_eq!(words[2..8], [&uid, &uid, "1", &gid, &gid, "1"].map(|s: &str| s), "one id each");
    assert_eq!(words[8], "deny");
    Ok(())
}

fn privileged_calls_are_refused() -> Outcome {
    let place = Place::new();
    let code = r"
import os, socket
attempts = {
    'setuid': lambda: os.setuid(0),
    'setgroups': lambda: os.setgroups([0]),
    'chroot': lambda: os.chroot('/tmp'),
    'nice': lambda: os.setpriority(os.PRIO_PROCESS, 0, -5),
    'chown': lambda: os.chown('/tmp', 0, 0),
    'sethostname': lambda: socket.sethostname('x'),
}
for name, attempt in attempts.items():
    try: attempt(); print('allowed:', name)
    except OSError: pass
";
    assert_eq!(place.server().start().run("python", code).success(), "");
    Ok(())
}

fn a_setuid_program_gains_nothing() -> Outcome {
    host::root()?;
    let place = Place::new();
    let folder = place.folder("ws");
    // Root's own setuid program, put into the workspace from outside.
    let program = folder.join("id");
    fs::copy("/usr/bin/id", &program).expect("a copy of id");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).expect("root may");
    let mut server = place.server().set("VESTIBULE_WORKSPACE", &folder).start();
    let got = server.run("bash", "/workspace/id -u; /workspace/id -ru").success();
    let uid = place.uid();
    assert_eq!(got, format!("{uid}\n{uid}"));
    Ok(())
}
