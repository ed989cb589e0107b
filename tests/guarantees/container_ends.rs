//! How a container's run ends, with the stand-in of `container_backend`.

use super::container_backend::{Engine, STARTED};
use std::fs;
use std::time::{Duration, Instant};
use tests::Outcome;

tests::tests![
    the_record_and_no_exit_code_says_whether_anything_ran,
    a_kill_for_memory_is_told_from_a_childs,
    a_timeout_removes_the_container_and_waits_for_nobody,
    a_removal_that_fails_goes_on_when_the_server_ends,
    a_timeout_says_that_the_engine_was_not_waited_for,
];

fn the_record_and_no_exit_code_says_whether_anything_ran() -> Outcome {
    for code in [125, 126, 127] {
        let state = format!("{{\"Running\":false,\"ExitCode\":{code},{STARTED}}}");
        let engine = Engine::new();
        let mut server = engine.server(&[]);
        server.run("python", "1").success();
        let engine = engine.says("state", &state).says("code", &code.to_string());
        assert_eq!(server.run("python", "1").exit_code(), code);
        let never = r#"{"Running":false,"ExitCode":0,"Error":"no such file","StartedAt":"0001-01-01T00:00:00Z"}"#;
        let _engine = engine.says("state", never);
        let reply = server.run("python", "1");
        let none = "none (nothing was executed: Docker says: no such file)";
        assert!(reply.is_error && reply.isolation() == none, "{}", reply.text);
    }
    Ok(())
}

fn a_kill_for_memory_is_told_from_a_childs() -> Outcome {
    let state = |code: i32| format!("{{\"OOMKilled\":true,\"ExitCode\":{code},{STARTED}}}");
    let engine = Engine::new();
    let mut server = engine.server(&[]);
    server.run("python", "1").success();
    let engine = engine.says("state", &state(137));
    let reply = server.run("python", "1");
    assert!(reply.text.starts_with("[out of memory: the kernel ended the sandbox at its 256 MiB"));
    let _engine = engine.says("state", &state(3));
    let reply = server.run("python", "1");
    assert_eq!(reply.exit_code(), 3);
    assert_eq!(reply.line("limits hit"), Some("memory (a process was ended at 256 MiB)"));
    Ok(())
}

fn a_timeout_removes_the_container_and_waits_for_nobody() -> Outcome {
    let engine = Engine::new();
    let mut server = engine.server(&[]);
    server.run("python", "1").success();
    let engine = engine.says("hang", "x");
    let reply = server.run_for(1, "python", "1");
    assert!(reply.text.starts_with("[timed out after 1 s and was terminated]"), "{}", reply.text);
    server.close();
    let last = engine.last_run();
    let name = last.split(' ').nth(2).expect("--name NAME comes first").to_owned();
    let removed = engine.asked().into_iter().any(|call| call[0] == "rm" && call.contains(&name));
    assert!(removed, "{name} was not removed: {:?}", engine.asked());
    engine.place.assert_nothing_left();
    Ok(())
}

fn a_removal_that_fails_goes_on_when_the_server_ends() -> Outcome {
    let engine = Engine::new();
    let mut server = engine.server(&[]);
    server.run("python", "1").success();
    let engine = engine.says("hang", "x").says("unremoved", "Error: container state improper\n");
    server.run_for(1, "python", "1");
    let last = engine.last_run();
    let name = last.split(' ').nth(2).expect("--name NAME comes first");
    let removals = || {
        let asked = engine.asked();
        asked.iter().filter(|call| call[0] == "rm" && call.iter().any(|word| word == name)).count()
    };
    server.close();
    let before = removals();
    let end = Instant::now() + Duration::from_secs(20);
    // One that the server had begun comes to its end as well.
    while removals() < before + 2 {
        assert!(Instant::now() < end, "asked {before} times, and not again: {:?}", engine.asked());
        std::thread::sleep(Duration::from_millis(10));
    }
    fs::remove_file(engine.folder.join("unremoved")).expect("it is there");
    engine.place.assert_nothing_left();
    Ok(())
}

fn a_timeout_says_that_the_engine_was_not_waited_for() -> Outcome {
    let engine = Engine::new();
    let mut server = engine.server(&[]);
    server.run("python", "1").success();
    let _engine = engine.says("hang", "x");
    let reply = server.run_for(1, "python", "1");
    let note = "docker was told to end the container, and its answer was not waited for";
    assert_eq!(reply.line("note"), Some(note), "{}", reply.text);
    Ok(())
}
