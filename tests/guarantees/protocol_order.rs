//! A peer that breaks the pipe protocol is ended, not tolerated; a peer that hangs up cancels.

use protocol::frame::{ToServer, encode_hello, encode_request};
use protocol::{Control, ControlState, Event, Hello, Language, PROTOCOL_VERSION, Request};
use std::time::{Duration, Instant};
use tests::jail::{sandbox, script};
use tests::{Jail, Outcome, Place};

tests::tests![
    one_run_by_frames,
    a_probe_is_prepare_and_a_hang_up,
    requests_out_of_order_end_the_jail,
    hostile_bytes_end_the_jail,
    another_version_is_told_and_ended,
    a_hang_up_ends_the_run,
    a_half_frame_ends_the_jail,
];

fn one_run_by_frames() -> Outcome {
    let place = Place::new();
    let mut jail = Jail::start(&place);
    let event = jail.prepare(sandbox(&place.folder("ws")));
    let Event::Ready(applied) = event else { panic!("not ready: {event:?}") };
    assert!(applied.isolation.to_string().starts_with("native"), "{}", applied.isolation);
    for language in Language::ALL {
        applied.interpreters.path(language).expect("it is installed");
    }
    // What no machine may lack: without one of these the sandbox is refused.
    let hard = [
        Control::Namespaces,
        Control::Root,
        Control::Proc,
        Control::Capabilities,
        Control::NoNewPrivs,
        Control::SyscallFilter,
    ];
    for control in hard {
        let in_force = (control, ControlState::InForce);
        assert!(applied.controls.contains(&in_force), "{control:?}: {:?}", applied.controls);
    }
    let (stdout, stderr, outcome) = jail.execute(script(Language::Python, "print('by frames')"));
    assert_eq!((stdout.as_slice(), stderr.as_slice()), (&b"by frames\n"[..], &b""[..]));
    assert_eq!(outcome.ending, protocol::Ending::Exited(0));
    assert_eq!((outcome.stdout.seen, outcome.stdout.forwarded), (10, 10));
    jail.close_input();
    assert_eq!(jail.wait(), 0);
    place.assert_nothing_left();
    Ok(())
}

fn a_probe_is_prepare_and_a_hang_up() -> Outcome {
    let place = Place::new();
    let mut jail = Jail::start(&place);
    assert!(matches!(jail.prepare(sandbox(&place.folder("ws"))), Event::Ready(_)));
    jail.close_input();
    jail.wait();
    place.assert_nothing_left();
    Ok(())
}

/// Sends bytes after the greeting; the jail must end by itself, soon, and leave nothing.
#[track_caller]
fn assert_ends(place: &Place, what: &str, bytes: &[u8]) {
    let mut jail = Jail::start(place);
    jail.greet();
    jail.send(bytes);
    let start = Instant::now();
    loop {
        match jail.next() {
            Some(ToServer::Event(Event::Finished(outcome))) => panic!("{what} ran: {outcome:?}"),
            Some(_) => continue,
            None => break,
        }
    }
    assert!(start.elapsed() < Duration::from_secs(2), "{what}: still there");
    assert_ne!(jail.wait(), 0, "{what} is no success");
    place.assert_nothing_left();
}

fn requests_out_of_order_end_the_jail() -> Outcome {
    let place = Place::new();
    let prepare = encode_request(&Request::Prepare(sandbox(&place.folder("ws")))).expect("small");
    let execute = encode_request(&Request::Execute(script(Language::Bash, "true"))).expect("small");
    assert_ends(&place, "execute first", &execute);
    assert_ends(&place, "prepare twice", &[prepare.clone(), prepare].concat());
    assert_ends(&place, "a second greeting", &encode_hello(&Hello::ours()));
    Ok(())
}

fn hostile_bytes_end_the_jail() -> Outcome {
    let place = Place::new();
    assert_ends(&place, "a frame of 4 GiB", &[0xff, 0xff, 0xff, 0xff, 2]);
    assert_ends(&place, "an unknown kind", &[1, 0, 0, 0, 77, 0]);
    assert_ends(&place, "output towards the jail", &[1, 0, 0, 0, 3, 0]);
    assert_ends(&place, "a message that does not decode", &[4, 0, 0, 0, 2, 9, 9, 9, 9]);
    Ok(())
}

fn another_version_is_told_and_ended() -> Outcome {
    let place = Place::new();
    let mut jail = Jail::start(&place);
    jail.send(&encode_hello(&Hello { protocol: PROTOCOL_VERSION + 1, version: "9.9.9".into() }));
    // Its own greeting comes in any case, so that the other side can name both versions.
    assert!(matches!(jail.next(), Some(ToServer::Hello(hello)) if hello == Hello::ours()));
    // It reads nothing that another version wrote.
    assert_eq!(jail.next(), None);
    jail.wait();
    place.assert_nothing_left();
    Ok(())
}

fn a_hang_up_ends_the_run() -> Outcome {
    let place = Place::new();
    for moment in [0, 1, 3, 5, 8, 20, 100] {
        let mut jail = Jail::start(&place);
        let folder = place.base().join("ws");
        if !folder.exists() {
            place.folder("ws");
        }
        assert!(matches!(jail.prepare(sandbox(&folder)), Event::Ready(_)));
        jail.request(&Request::Execute(script(Language::Bash, "sleep 60 & sleep 60")));
        std::thread::sleep(Duration::from_millis(moment));
        let start = Instant::now();
        jail.close_input();
        jail.wait();
        assert!(start.elapsed() < Duration::from_secs(1), "{moment} ms: {:?}", start.elapsed());
        place.assert_nothing_left();
    }
    Ok(())
}

fn a_half_frame_ends_the_jail() -> Outcome {
    let place = Place::new();
    let mut jail = Jail::start(&place);
    jail.greet();
    let prepare = encode_request(&Request::Prepare(sandbox(&place.folder("ws")))).expect("small");
    jail.send(&prepare[..prepare.len() / 2]);
    jail.close_input();
    assert_ne!(jail.wait(), 0, "half a frame is no success");
    place.assert_nothing_left();
    Ok(())
}
