//! Descriptors: what a run inherits, what it may open, and what the server keeps.

use std::time::{Duration, Instant};
use tests::{Outcome, Place, processes};

tests::tests![
    only_the_three_streams_are_open,
    nothing_that_leaked_into_the_server_reaches_a_run,
    the_limits_are_1024_and_4096,
    the_server_keeps_no_descriptor_of_a_run,
];

/// Lists the open descriptors without the one of the listing itself.
const LIST: &str = "import os\n\
    found = {}\n\
    for n in os.listdir('/proc/self/fd'):\n    \
        try: found[int(n)] = os.readlink('/proc/self/fd/' + n)\n    \
        except OSError: pass\n\
    print(sorted(n for n, target in found.items() if not target.startswith('/proc/')))";

fn only_the_three_streams_are_open() -> Outcome {
    let place = Place::new();
    let mut server = place.server().start();
    assert_eq!(server.run("python", LIST).success(), "[0, 1, 2]");
    let types = "import os, stat\nprint(os.readlink('/proc/self/fd/0'), *[stat.S_ISFIFO(os.fstat(n).st_mode) for n in (1, 2)])";
    assert_eq!(server.run("python", types).success(), "/dev/null True True");
    Ok(())
}

fn nothing_that_leaked_into_the_server_reaches_a_run() -> Outcome {
    let place = Place::new();
    let secret = place.file("secret", "planted");
    let launcher = ["/bin/bash", "-c", "exec 7<\"$0\" 8<. 200<\"$0\"; exec \"$@\""];
    let launcher = launcher.map(str::to_owned).into_iter().chain([secret.display().to_string()]);
    let mut server = place.server().through(launcher).start();
    let leaked = std::fs::read_link(format!("/proc/{}/fd/200", server.pid()));
    assert_eq!(leaked.expect("it leaked into the server"), secret);
    assert_eq!(server.run("python", LIST).success(), "[0, 1, 2]");
    Ok(())
}

fn the_limits_are_1024_and_4096() -> Outcome {
    let place = Place::new();
    let code = "ulimit -Sn; ulimit -Hn; ulimit -f; ulimit -c";
    let got = place.server().start().run("bash", code).success();
    // bash counts cores and files in blocks: 1 byte of core is 0 of them.
    assert_eq!(got, "1024\n4096\nunlimited\n0");
    Ok(())
}

fn the_server_keeps_no_descriptor_of_a_run() -> Outcome {
    let place = Place::new();
    let mut server = place.server().start();
    server.run("bash", "true").success();
    let before = settled(server.pid());
    for _ in 0..30 {
        server.run("bash", "true").success();
    }
    assert_eq!(settled(server.pid()), before);
    Ok(())
}

/// The number of descriptors, once it has not changed for a while: a run's pidfd goes a moment after its
/// answer.
fn settled(pid: i32) -> usize {
    let (mut count, mut since) = (processes::descriptors(pid), Instant::now());
    let end = since + Duration::from_secs(5);
    while since.elapsed() < Duration::from_millis(300) && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
        let now = processes::descriptors(pid);
        if now != count {
            (count, since) = (now, Instant::now());
        }
    }
    count
}
