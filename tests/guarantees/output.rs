//! Output: caps, cuts, floods, and who may hold it open.

use std::time::{Duration, Instant};
use tests::{Outcome, Place};

tests::tests![
    a_long_stream_is_cut_on_a_character_boundary,
    each_stream_has_its_own_cap,
    a_flood_ends_the_run,
    invalid_bytes_are_replaced,
    a_background_process_delays_nothing,
    a_daemon_that_holds_stdout_delays_nothing,
    what_was_printed_before_a_timeout_is_returned,
    no_output_is_lost_at_the_end,
];

fn a_long_stream_is_cut_on_a_character_boundary() -> Outcome {
    let place = Place::new();
    let mut server = place.server().set("VESTIBULE_MAX_OUTPUT_BYTES", "1000").start();
    let reply = server.run("python", "print('x' + 'é' * 700, end='')");
    assert_eq!(reply.exit_code(), 0);
    // 1 + 2 * 499 bytes are whole characters within 1,000; 1,401 - 999 are left out.
    assert_eq!(reply.text.matches('é').count(), 499, "{}", reply.text);
    assert!(reply.text.contains("…[402 bytes truncated]"), "{}", reply.text);
    Ok(())
}

fn each_stream_has_its_own_cap() -> Outcome {
    let place = Place::new();
    let mut server = place.server().set("VESTIBULE_MAX_OUTPUT_BYTES", "1000").start();
    let code = "import sys\nprint('a' * 1500)\nprint('b' * 900, file=sys.stderr)";
    let reply = server.run("python", code);
    assert_eq!(reply.text.matches("aaaaaaaaaa").count(), 100);
    assert_eq!(reply.stderr(), "b".repeat(900));
    Ok(())
}

fn a_flood_ends_the_run() -> Outcome {
    let place = Place::new();
    let mut server = place.server().start();
    for (language, code) in
        [("bash", "yes"), ("python", "import os\nwhile True: os.write(2, b'y' * 65536)")]
    {
        let start = Instant::now();
        let reply = server.run_for(30, language, code);
        assert!(start.elapsed() < Duration::from_secs(5), "the flood went on");
        assert_eq!(reply.exit_code(), -1, "{}", &reply.text[..200]);
        assert!(reply.head().starts_with('['), "{}", &reply.text[..200]);
        assert!(reply.text.len() < 24_000, "{}", reply.text.len());
    }
    server.close();
    place.assert_nothing_left();
    Ok(())
}

fn invalid_bytes_are_replaced() -> Outcome {
    let place = Place::new();
    let code = "import sys\nsys.stdout.buffer.write(b'a\\xff\\xfe\\xe2\\x82b\\x00c')";
    let got = place.server().start().run("python", code).success();
    assert_eq!(got, "a\u{fffd}\u{fffd}\u{fffd}b\0c");
    Ok(())
}

fn a_background_process_delays_nothing() -> Outcome {
    let place = Place::new();
    let mut server = place.server().start();
    let start = Instant::now();
    assert_eq!(server.run("bash", "sleep 50 & echo done").success(), "done");
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    server.close();
    place.assert_nothing_left();
    Ok(())
}

fn a_daemon_that_holds_stdout_delays_nothing() -> Outcome {
    let place = Place::new();
    let mut server = place.server().start();
    let code = "import os, signal, time\n\
                if os.fork() == 0:\n    \
                    os.setsid()\n    \
                    for s in (1, 2, 3, 15): signal.signal(s, signal.SIG_IGN)\n    \
                    if os.fork() == 0:\n        \
                        while True: time.sleep(1)\n    \
                    os._exit(0)\n\
                os.wait()\n\
                print('done')";
    let start = Instant::now();
    assert_eq!(server.run("python", code).success(), "done");
    assert!(start.elapsed() < Duration::from_secs(3), "{:?}", start.elapsed());
    server.close();
    place.assert_nothing_left();
    Ok(())
}

fn what_was_printed_before_a_timeout_is_returned() -> Outcome {
    let place = Place::new();
    let mut server = place.server().start();
    // Without a flush of its own: the interpreter must not keep it back.
    let cases = [
        ("python", "import time\nprint('until then')\ntime.sleep(30)"),
        ("bash", "echo until then; sleep 30"),
        ("node", "console.log('until then'); setTimeout(() => {}, 30000)"),
    ];
    for (language, code) in cases {
        let reply = server.run_for(1, language, code);
        assert_eq!(reply.stdout(), "until then", "{language}: {}", reply.text);
        assert_eq!(reply.exit_code(), -1);
    }
    Ok(())
}

fn no_output_is_lost_at_the_end() -> Outcome {
    let place = Place::new();
    let mut server = place.server().start();
    for count in [1, 4096, 19_999, 20_000] {
        let code =
            format!("import os, sys\nos.write(1, b'x' * {count}); os.write(2, b'y' * {count})");
        let reply = server.run("python", &code);
        assert_eq!((reply.stdout().len(), reply.stderr().len()), (count, count));
    }
    Ok(())
}
