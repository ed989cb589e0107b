//! The server's own life: a start without side effects, an end without delay, many runs without
//! growth.

use nix::sys::signal::Signal;
use std::time::{Duration, Instant};
use tests::{Outcome, Place, Reply, Server, processes};

tests::tests![
    initialize_is_answered_at_once,
    a_start_makes_nothing,
    every_kind_of_end_is_quick,
    a_run_in_flight_is_answered_as_stopped,
    calls_that_come_at_the_end_keep_nothing_from_ending,
    an_unread_log_blocks_nothing,
    a_thousand_runs_leave_nothing_and_grow_nothing,
];

/// The promise is 10 ms; a machine that runs other tests at the same time gets ten times that.
const QUICK: Duration = Duration::from_millis(100);

fn initialize_is_answered_at_once() -> Outcome {
    let place = Place::new();
    let mut times: Vec<Duration> = (0..15)
        .map(|_| {
            let start = Instant::now();
            let mut server = Server::spawn(place.server().command());
            server.open();
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    assert!(times[0] < Duration::from_millis(10), "the fastest start of 15 took {:?}", times[0]);
    assert!(times[7] < QUICK, "the median start took {:?}", times[7]);
    Ok(())
}

fn a_start_makes_nothing() -> Outcome {
    let place = Place::new();
    let mut server = place.server().start();
    server.request("tools/list", serde_json::json!({}));
    assert_eq!(processes::descendants(server.pid()), []);
    assert_eq!(std::fs::read_dir(place.home()).expect("home").count(), 0);
    server.close();
    place.assert_nothing_left();
    Ok(())
}

const BUSY: &str = "import signal, time\n\
    for s in (1, 2, 3, 15): signal.signal(s, signal.SIG_IGN)\n\
    while True: time.sleep(1)";

type End = fn(&mut Server);

fn every_kind_of_end_is_quick() -> Outcome {
    let ends: [(&str, End); 4] = [
        ("end of input", Server::close_input),
        ("SIGINT", |server| server.signal(Signal::SIGINT)),
        ("SIGTERM", |server| server.signal(Signal::SIGTERM)),
        ("SIGHUP", |server| server.signal(Signal::SIGHUP)),
    ];
    for (name, end) in ends {
        for busy in [false, true] {
            let place = Place::new();
            let mut server = place.server().start();
            if busy {
                for _ in 0..4 {
                    server.start_run(30, "python", BUSY);
                }
                std::thread::sleep(Duration::from_millis(300));
            }
            end(&mut server);
            let (status, took) = server.wait();
            assert_eq!(status.code(), Some(0), "{name}, busy: {busy}");
            // 300 ms, and as much again for a machine that runs other tests at the same time.
            assert!(took < Duration::from_millis(600), "{name}, busy: {busy}: {took:?}");
            place.assert_nothing_left();
        }
    }
    Ok(())
}

fn a_run_in_flight_is_answered_as_stopped() -> Outcome {
    let place = Place::new();
    let mut server = place.server().start();
    let id = server.start_run(30, "python", BUSY);
    std::thread::sleep(Duration::from_millis(300));
    server.close_input();
    let reply = Reply::new(&server.answer(id));
    assert!(reply.is_error && reply.text.contains("stopped"), "{}", reply.text);
    Ok(())
}

fn calls_that_come_at_the_end_keep_nothing_from_ending() -> Outcome {
    let place = Place::new();
    for round in 0..10 {
        let mut server = place.server().start();
        for _ in 0..3 {
            server.start_run(30, "bash", "trap '' TERM; sleep 30");
        }
        std::thread::sleep(Duration::from_millis(100));
        server.signal(Signal::SIGTERM);
        // Fewer bytes than a pipe holds: a server that reads no more must not hold this test.
        for late in 0..250 {
            server.start_run(5, "bash", &format!("echo {round} {late}"));
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(server.wait().0.code(), Some(0), "round {round}");
    }
    place.assert_nothing_left();
    Ok(())
}

fn an_unread_log_blocks_nothing() -> Outcome {
    let place = Place::new();
    // The launcher keeps the other end of stderr open and never reads it.
    let launcher =
        ["/bin/bash", "-c", "exec 2> >(exec sleep 60 >/dev/null 2>&1 0<&0); exec \"$@\"", "bash"];
    let mut server = place.server().set("VESTIBULE_LOG", "trace").through(launcher).start();
    for _ in 0..150 {
        server.run("bash", "true").success();
    }
    drop(server);
    Ok(())
}

/// Runs four at a time until `count` were made, each with an answer of its own.
fn runs(server: &mut Server, count: usize) {
    let languages = [("python", "print({})"), ("bash", "echo {}"), ("node", "console.log({})")];
    for first in (0..count).step_by(4) {
        let ids: Vec<_> = (first..first + 4)
            .map(|number| {
                // node is the slowest by far: a tenth of the runs is enough to see it work.
                let language = if number % 10 == 9 { 2 } else { number % 2 };
                let (language, code) = languages[language];
                let code = code.replace("{}", &number.to_string());
                (number, server.start_run(30, language, &code))
            })
            .collect();
        for (number, id) in ids {
            assert_eq!(Reply::new(&server.answer(id)).success(), number.to_string());
        }
    }
}

fn a_thousand_runs_leave_nothing_and_grow_nothing() -> Outcome {
    let place = Place::new();
    let mut server = place.server().start();
    // A helper is waited for after its answer has been passed on.
    let settle = || {
        let end = Instant::now() + Duration::from_secs(2);
        while place.processes().len() > 1 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    runs(&mut server, 200);
    settle();
    let early = (server.process().rss_kib, processes::descriptors(server.pid()));
    runs(&mut server, 800);
    settle();
    let late = (server.process().rss_kib, processes::descriptors(server.pid()));
    assert!(early.0 <= 12 * 1024, "{} KiB after 200 runs", early.0);
    assert!(late.0 <= early.0 + 1024, "from {} to {} KiB in 800 runs", early.0, late.0);
    assert_eq!(late.1, early.1, "descriptors grow");
    assert_eq!(place.processes().len(), 1, "{:?}", place.processes());
    assert_eq!(std::fs::read_dir(place.workspace()).expect("the workspace").count(), 0);
    server.close();
    place.assert_nothing_left();
    Ok(())
}
