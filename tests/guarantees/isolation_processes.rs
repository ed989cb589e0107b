//! A run sees its own processes alone, and cannot touch anything else on the machine.

use std::fs;
use std::process::Stdio;
use tests::processes::Process;
use tests::{Outcome, Place, host};

tests::tests![
    every_namespace_is_its_own,
    only_its_own_processes_are_visible,
    init_is_out_of_reach,
    killing_everything_harms_nobody_else,
    nested_user_namespaces_are_impossible,
    a_session_without_terminal,
    the_sandbox_dies_first_under_memory_pressure,
    shared_memory_of_the_host_is_invisible,
    zombies_are_reaped,
];

fn every_namespace_is_its_own() -> Outcome {
    let place = Place::new();
    let code = "cd /proc/self/ns; for n in cgroup ipc mnt net pid user uts; do readlink $n; done";
    let inside = place.server().start().run("bash", code).success();
    let names = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"];
    assert_eq!(inside.lines().count(), names.len());
    for (name, inside) in names.iter().zip(inside.lines()) {
        let outside = fs::read_link(format!("/proc/self/ns/{name}")).expect("our own namespace");
        assert_ne!(outside.display().to_string(), inside, "the {name} namespace is shared");
    }
    Ok(())
}

fn only_its_own_processes_are_visible() -> Outcome {
    let place = Place::new();
    let code = "import os\nprint(os.getpid(), *sorted(int(p) for p in os.listdir('/proc') if p.isdigit()))";
    let got = place.server().start().run("python", code).success();
    let pids: Vec<u32> = got.split(' ').map(|pid| pid.parse().expect("a number")).collect();
    assert_eq!(pids.len(), 3, "init and the guest alone: {got}");
    assert!(pids[0] != 1 && pids[1] == 1 && pids[2] == pids[0], "{got}");
    Ok(())
}

fn init_is_out_of_reach() -> Outcome {
    let place = Place::new();
    let code = r"
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
for name in ('environ', 'fd', 'root', 'cwd', 'exe', 'mem', 'maps'):
    path = '/proc/1/' + name
    try:
        print('reached', path, os.listdir(path) if name == 'fd' else os.readlink(path) if name in ('root', 'cwd', 'exe') else open(path, 'rb').read(16))
    except OSError as e:
        if e.errno not in (errno.EACCES, errno.EPERM): print(path, e)
if libc.ptrace(16, 1, 0, 0) == 0: print('traced')
print(repr(open('/proc/1/cmdline', 'rb').read()))
";
    let mut server = place.server().set("SECRET_TOKEN", "planted").start();
    let got = server.run("python", code).success();
    assert_eq!(got, r"b'vestibule-jail\x00'", "nothing is reached, and no path of the host shown");
    Ok(())
}

fn killing_everything_harms_nobody_else() -> Outcome {
    let place = Place::new();
    let mut sleeper =
        place.command("/usr/bin/sleep").arg("60").stdin(Stdio::null()).spawn().expect("sleep");
    let mut server = place.server().start();
    let reply = server.run("bash", "sleep 50 & kill -9 -1; kill -9 1; echo survived");
    assert!(reply.exit_code() == 0 || reply.exit_code() == 137, "{}", reply.text);
    assert!(
        sleeper.try_wait().expect("our child").is_none(),
        "a process of the same user was killed"
    );
    server.run("python", "print(1)").success();
    sleeper.kill().expect("our child");
    sleeper.wait().expect("our child");
    server.close();
    place.assert_nothing_left();
    Ok(())
}

fn nested_user_namespaces_are_impossible() -> Outcome {
    let place = Place::new();
    let mut server = place.server().start();
    let reply =
        server.run("bash", "unshare -U true; echo $?; cat /proc/sys/user/max_user_namespaces");
    let stdout = reply.stdout();
    let (code, most) = stdout.split_once('\n').expect("two lines");
    assert_ne!(code, "0", "{}", reply.text);
    assert_eq!(most, "0", "the second wall is missing");
    assert!(
        reply.line("blocked syscalls").is_some_and(|line| line.contains("unshare")),
        "{}",
        reply.text
    );
    Ok(())
}

fn a_session_without_terminal() -> Outcome {
    let place = Place::new();
    let code = "import os\n\
                print(os.getsid(0) == os.getpid())\n\
                try: os.open('/dev/tty', os.O_RDWR); print('a terminal')\n\
                except OSError: print('none')";
    assert_eq!(place.server().start().run("python", code).success(), "True\nnone");
    Ok(())
}

fn the_sandbox_dies_first_under_memory_pressure() -> Outcome {
    let place = Place::new();
    let got = place.server().start().run("bash", "cat /proc/self/oom_score_adj").success();
    assert_eq!(got, "1000");
    Ok(())
}

fn shared_memory_of_the_host_is_invisible() -> Outcome {
    host::program("/usr/bin/ipcmk", "util-linux")?;
    let place = Place::new();
    let made = place.command("/usr/bin/ipcmk").args(["-M", "4096"]).output().expect("ipcmk");
    let made = String::from_utf8_lossy(&made.stdout).into_owned();
    let id = made.trim().rsplit(' ').next().expect("an id").to_owned();
    let got = place.server().start().run("bash", "cat /proc/sysvipc/shm | wc -l").success();
    let removed = place.command("/usr/bin/ipcrm").args(["-m", &id]).status().expect("ipcrm");
    assert!(removed.success(), "the host's segment was there to be seen: {made}");
    assert_eq!(got, "1", "only the heading");
    Ok(())
}

fn zombies_are_reaped() -> Outcome {
    let place = Place::new();
    let code = "import os, time\n\
                for _ in range(20):\n    \
                    if os.fork() == 0:\n        \
                        if os.fork() == 0: os._exit(0)\n        \
                        os._exit(0)\n    \
                    os.wait()\n\
                time.sleep(0.3)\n\
                print(len([p for p in os.listdir('/proc') if p.isdigit()]))";
    assert_eq!(place.server().start().run("python", code).success(), "2");
    assert!(Process::read(1).is_some(), "the machine's own init is another one");
    Ok(())
}
