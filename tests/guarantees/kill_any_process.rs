//! SIGKILL of any one process of the tree leaves nothing behind.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::time::{Duration, Instant};
use tests::processes::{self, Process};
use tests::programs::programs;
use tests::{Outcome, Place, Reply, Server, host, tracer};

tests::tests![
    the_server_at_any_moment,
    the_supervisor_at_any_moment,
    init_at_any_moment,
    the_guest_at_any_moment,
    the_server_in_the_middle_of_a_busy_run,
    an_init_that_is_stopped_as_it_is_born,
    a_guest_that_ends_init_from_inside,
];

/// Two processes, one in a session of its own, deaf to everything but SIGKILL.
const BUSY: &str = "import os, signal, time\n\
    for s in (1, 2, 3, 13, 15): signal.signal(s, signal.SIG_IGN)\n\
    if os.fork() == 0: os.setsid()\n\
    while True: time.sleep(1)";

/// Milliseconds into a run: before, while and after the sandbox is built.
const MOMENTS: [u64; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 30, 60, 150];

fn strike(process: &Process) {
    // It may have ended by itself a moment ago.
    let _ = kill(Pid::from_raw(process.pid), Signal::SIGKILL);
}

/// A process of the tree by its place below the server: the supervisor is the child, init its
/// child, the builder and then the guest init's child.
fn below(server: &Server, generation: usize) -> Option<Process> {
    let all = processes::all();
    let mut parent = server.pid();
    let mut found = None;
    for _ in 0..generation {
        found = all.iter().find(|process| process.parent == parent).cloned();
        parent = found.as_ref()?.pid;
    }
    found
}

/// Kills a process of that generation at each moment; the server must answer and go on.
fn strike_at_moments(generation: usize) {
    let place = Place::new();
    let mut server = place.server().start();
    for moment in MOMENTS {
        let id = server.start_run(30, "python", BUSY);
        std::thread::sleep(Duration::from_millis(moment));
        let end = Instant::now() + Duration::from_secs(10);
        let struck = loop {
            if let Some(process) = below(&server, generation) {
                break process;
            }
            assert!(Instant::now() < end, "no process of generation {generation}");
        };
        strike(&struck);
        let reply = Reply::new(&server.answer(id));
        assert!(!reply.text.contains("exit_code: 0"), "killed at {moment} ms: {}", reply.text);
        assert_eq!(server.run("bash", "echo next").success(), "next");
        assert_only_the_server(&place, &server);
    }
    server.close();
    place.assert_nothing_left();
}

#[track_caller]
fn assert_only_the_server(place: &Place, server: &Server) {
    let end = Instant::now() + Duration::from_secs(2);
    loop {
        let left: Vec<_> =
            place.processes().into_iter().filter(|p| p.pid != server.pid()).collect();
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < end, "left behind: {left:#?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn the_supervisor_at_any_moment() -> Outcome {
    strike_at_moments(1);
    Ok(())
}

fn init_at_any_moment() -> Outcome {
    strike_at_moments(2);
    Ok(())
}

fn the_guest_at_any_moment() -> Outcome {
    strike_at_moments(3);
    Ok(())
}

fn the_server_at_any_moment() -> Outcome {
    for moment in MOMENTS {
        let place = Place::new();
        let mut server = place.server().start();
        server.start_run(30, "python", BUSY);
        std::thread::sleep(Duration::from_millis(moment));
        server.signal(Signal::SIGKILL);
        server.wait();
        place.assert_nothing_left();
    }
    Ok(())
}

fn the_server_in_the_middle_of_a_busy_run() -> Outcome {
    let place = Place::new();
    let mut server = place.server().start();
    for _ in 0..4 {
        server.start_run(30, "python", BUSY);
    }
    let deadline = Instant::now() + Duration::from_secs(10);
    while place.processes().len() < 17 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    // The server, and four times supervisor, init and two processes.
    assert_eq!(place.processes().len(), 17);
    server.signal(Signal::SIGKILL);
    server.wait();
    place.assert_nothing_left();
    Ok(())
}

/// Init asks to die with its supervisor in its first instruction. One that was stopped before that,
/// after the supervisor's death, has not asked, and holds the supervisor's end of our pipe.
fn an_init_that_is_stopped_as_it_is_born() -> Outcome {
    let place = Place::new();
    host::tracing(&place)?;
    let jail = programs().jail();
    let script = format!("#!/bin/sh\nkill -STOP $$\nexec {}\n", jail.display());
    let helper = place.program("stopped-jail", script);
    let mut server = place.server().set("VESTIBULE_JAIL", helper).start();
    let id = server.start_run(30, "python", BUSY);
    let start = Instant::now();
    let supervisor = loop {
        match below(&server, 1) {
            Some(process) if process.stopped => break Pid::from_raw(process.pid),
            _ => std::thread::sleep(Duration::from_millis(2)),
        }
        assert!(start.elapsed() < Duration::from_secs(10), "no stopped helper");
    };
    let init = tracer::hold_at_birth(supervisor).expect("tracing was tried above");
    tracer::kill_held(supervisor).expect("it is ours");
    // Whether the server is quicker than we are is its own affair.
    let _ = tracer::leave_stopped(init);
    let start = Instant::now();
    let reply = Reply::new(&server.answer(id));
    reply.assert_blocked(&["it ended before a sandbox stood"]);
    // An answer that waited for init would come after 15 s.
    assert!(start.elapsed() < Duration::from_secs(10), "after {:?}", start.elapsed());
    assert_only_the_server(&place, &server);
    server.close();
    place.assert_nothing_left();
    Ok(())
}

fn a_guest_that_ends_init_from_inside() -> Outcome {
    let place = Place::new();
    let mut server = place.server().start();
    // A limit on another process's CPU time is the one way to reach init. Orphans keep it busy.
    let code = "import os, resource, time\n\
                try: resource.prlimit(1, resource.RLIMIT_CPU, (0, 0))\n\
                except OSError as e: print('refused', e.errno)\n\
                for _ in range(1000):\n    \
                    if os.fork() == 0:\n        \
                        os.fork()\n        \
                        os._exit(0)\n    \
                    os.wait()\n\
                print('survived', flush=True)\n\
                time.sleep(2)";
    let reply = server.run("python", code);
    // Whether the kernel charges init enough time to end it is its own business: what counts is
    // that the result is defined and nothing stays.
    let ended = reply.exit_code() == -1 && reply.line("note").is_some();
    assert!(ended || reply.exit_code() == 0, "{}", reply.text);
    assert_eq!(server.run("bash", "echo next").success(), "next");
    server.close();
    place.assert_nothing_left();
    Ok(())
}
