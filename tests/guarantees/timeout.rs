//! Deadlines hold, whatever the program does.

use std::time::{Duration, Instant};
use tests::{Outcome, Place, Reply};

tests::tests![
    a_program_that_ignores_signals_is_ended,
    a_tree_of_processes_is_ended,
    a_timeout_above_the_maximum_is_lowered_and_said_so,
    the_default_applies,
    a_cancelled_call_ends_its_run_and_is_not_answered,
    a_stopped_program_is_ended,
    init_cannot_be_kept_from_dying,
];

const BUSY: &str = "import signal\n\
    for s in range(1, 65):\n    \
        try: signal.signal(s, signal.SIG_IGN)\n    \
        except (OSError, ValueError): pass\n\
    while True: pass";

#[track_caller]
fn assert_timed_out(reply: &Reply, seconds: u32, start: Instant) {
    let head = format!("[timed out after {seconds} s and was terminated]\nexit_code: -1");
    assert!(reply.text.starts_with(&head), "{}", reply.text);
    assert!(!reply.is_error, "a timeout is an ordinary result");
    let (least, most) =
        (Duration::from_secs(seconds.into()), Duration::from_secs(u64::from(seconds) + 2));
    let took = start.elapsed();
    assert!(took >= least && took < most, "took {took:?}");
}

fn a_program_that_ignores_signals_is_ended() -> Outcome {
    let place = Place::new();
    let mut server = place.server().start();
    let start = Instant::now();
    assert_timed_out(&server.run_for(1, "python", BUSY), 1, start);
    server.close();
    place.assert_nothing_left();
    Ok(())
}

fn a_tree_of_processes_is_ended() -> Outcome {
    let place = Place::new();
    let mut server = place.server().start();
    let start = Instant::now();
    let code = "for i in 1 2 3 4 5; do (setsid bash -c 'trap \"\" TERM; while :; do sleep 1; done' &); done; sleep 40";
    assert_timed_out(&server.run_for(1, "bash", code), 1, start);
    server.close();
    place.assert_nothing_left();
    Ok(())
}

fn a_timeout_above_the_maximum_is_lowered_and_said_so() -> Outcome {
    let place = Place::new();
    let mut server = place
        .server()
        .set("VESTIBULE_MAX_TIMEOUT_S", "2")
        .set("VESTIBULE_DEFAULT_TIMEOUT_S", "1")
        .start();
    let start = Instant::now();
    let reply = server.run_for(900, "bash", "sleep 30");
    assert_timed_out(&reply, 2, start);
    let note = "timeout_seconds 900 was lowered to the maximum of 2";
    assert_eq!(reply.line("note"), Some(note), "{}", reply.text);
    Ok(())
}

fn the_default_applies() -> Outcome {
    let place = Place::new();
    let mut server = place.server().set("VESTIBULE_DEFAULT_TIMEOUT_S", "1").start();
    let start = Instant::now();
    assert_timed_out(&server.run("bash", "sleep 30"), 1, start);
    Ok(())
}

fn a_cancelled_call_ends_its_run_and_is_not_answered() -> Outcome {
    let place = Place::new();
    let mut server = place.server().start();
    let id = server.start_run(30, "python", BUSY);
    server.await_descendant(|process| {
        process.depth > server.process().depth && process.name == "python3"
    });
    server.cancel(id);
    let end = Instant::now() + Duration::from_secs(2);
    while place.processes().len() > 1 {
        assert!(Instant::now() < end, "{:?}", place.processes());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(server.answer_within(id, Duration::from_millis(500)), None);
    server.run("bash", "true").success();
    Ok(())
}

fn a_stopped_program_is_ended() -> Outcome {
    let place = Place::new();
    let mut server = place.server().start();
    let start = Instant::now();
    assert_timed_out(&server.run_for(1, "bash", "kill -STOP $$"), 1, start);
    server.close();
    place.assert_nothing_left();
    Ok(())
}

/// SIGKILL takes effect when its target is scheduled: init must not be made idle behind others.
fn init_cannot_be_kept_from_dying() -> Outcome {
    let place = Place::new();
    let mut server = place.server().start();
    let code = r"
import os
os.sched_setaffinity(0, {0})
os.sched_setaffinity(1, {0})
tries = [lambda: os.setpriority(os.PRIO_PROCESS, 1, 19),
         lambda: os.setpriority(os.PRIO_USER, os.getuid(), 19),
         lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)),
         lambda: os.sched_setscheduler(1, os.SCHED_BATCH, os.sched_param(0)),
         lambda: os.sched_setparam(1, os.sched_param(0))]
for attempt in tries:
    try:
        attempt()
        print('done to init')
    except PermissionError:
        pass
os.setpriority(os.PRIO_PROCESS, 0, 1)
os.setpriority(os.PRIO_PROCESS, os.getpid(), 2)
print('nice', os.getpriority(os.PRIO_PROCESS, 0), flush=True)
for _ in range(110):
    if os.fork() == 0:
        os.setsid()
        while True: pass
while True: pass";
    let start = Instant::now();
    let reply = server.run_for(1, "python", code);
    assert!(
        reply.text.contains("nice 2") && !reply.text.contains("done to init"),
        "{}",
        reply.text
    );
    assert!(reply.text.starts_with("[timed out after 1 s"), "{}", reply.text);
    assert!(start.elapsed() < Duration::from_secs(8), "took {:?}", start.elapsed());
    server.close();
    place.assert_nothing_left();
    Ok(())
}
