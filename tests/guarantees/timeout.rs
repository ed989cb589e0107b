//! Deadlines hold, whatever the program does.

use nix::sys::signal::Signal;
use protocol::{Language, OutputBytes, Script, TimeoutSeconds};
use std::time::{Duration, Instant};
use tests::jail::{sandbox, script, spec_file};
use tests::programs::programs;
use tests::{Outcome, Place, Reply};

tests::tests![
    a_program_that_ignores_signals_is_ended,
    a_tree_of_processes_is_ended,
    a_timeout_above_the_maximum_is_lowered_and_said_so,
    the_default_applies,
    a_cancelled_call_ends_its_run_and_is_not_answered,
    a_stopped_program_is_ended,
    init_cannot_be_kept_from_dying,
    a_terminal_that_takes_nothing_holds_no_deadline_up,
    a_stop_from_the_terminal_stops_no_deadline,
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

/// A spec of bash with a timeout of one second, run by hand.
fn one_second(place: &Place, code: &str) -> std::path::PathBuf {
    let script = Script {
        timeout_seconds: TimeoutSeconds::new(1).expect("in range"),
        output_bytes: OutputBytes::new(250_000).expect("in range"),
        ..script(Language::Bash, code)
    };
    spec_file(place, "run.json", sandbox(&place.folder("ws")), script)
}

/// Waits for a process that must end by itself.
#[track_caller]
fn assert_ends(child: &mut std::process::Child, within: Duration) -> Option<i32> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child") {
            return status.code();
        }
        assert!(start.elapsed() < within, "it still runs after {within:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn a_terminal_that_takes_nothing_holds_no_deadline_up() -> Outcome {
    let place = Place::new();
    // More than a terminal holds, and less than would end the run.
    let spec = one_second(&place, "printf '%0100d\\n' {1..2000}; while :; do sleep 0.1; done");
    // The other end of the terminal is open and is never read. What still waits at the end is written
    // as long as there is a reader, so the terminal goes when the sandbox has ended.
    let code = "import os, pty, subprocess, sys, time\n\
                ours, theirs = pty.openpty()\n\
                jail = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=theirs, stderr=subprocess.DEVNULL)\n\
                os.close(theirs)\n\
                def children(): return open(f'/proc/{jail.pid}/task/{jail.pid}/children').read().split()\n\
                time.sleep(0.3)\n\
                print('runs', len(children()))\n\
                end = time.time() + 5\n\
                while children() and time.time() < end: time.sleep(0.05)\n\
                print('left', len(children()))\n\
                os.close(ours)\n\
                jail.wait(5)";
    let mut command = place.command("/usr/bin/python3");
    let ran = command.args(["-c", code]).arg(programs().jail()).arg("--spec").arg(spec);
    let ran = ran.output().expect("python");
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "runs 1\nleft 0\n", "{ran:?}");
    place.assert_nothing_left();
    Ok(())
}

fn a_stop_from_the_terminal_stops_no_deadline() -> Outcome {
    let place = Place::new();
    let spec = one_second(&place, "echo > started; while :; do sleep 0.1; done");
    let mut command = place.command(programs().jail());
    let mut jail = command.arg("--spec").arg(spec).spawn().expect("the jail");
    let started = place.base().join("ws/started");
    let start = Instant::now();
    while !started.exists() && start.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let pid = nix::unistd::Pid::from_raw(jail.id().cast_signed());
    for signal in [Signal::SIGTSTP, Signal::SIGTTIN, Signal::SIGTTOU] {
        nix::sys::signal::kill(pid, signal).expect("it runs");
    }
    assert_eq!(assert_ends(&mut jail, Duration::from_secs(5)), Some(124));
    place.assert_nothing_left();
    Ok(())
}
