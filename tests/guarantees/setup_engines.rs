//! `vestibule-mcp setup` where a container engine pulls the images, with a stand-in for its command line.
//! Real engines and a registry have a check in the tier `container`.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};
use tests::programs::programs;
use tests::stand_in::{Done, Engine, NODE, PYTHON};
use tests::{Outcome, host};

tests::tests![
    each_missing_image_is_pulled_once_by_its_exact_name,
    the_default_images_are_pulled_by_their_digests,
    an_image_of_two_languages_is_pulled_once,
    an_image_that_is_there_is_left_alone,
    what_the_client_says_goes_to_standard_error,
    a_pull_that_fails_is_named_with_its_command,
    a_client_that_breaks_off_has_pulled_nothing,
    an_engine_that_does_not_run_is_asked_to_pull_nothing,
    an_engine_that_hangs_is_waited_for_once,
    an_engine_that_is_not_installed,
    where_native_is_refused_an_engine_pulls,
    the_host_setting_of_native_keeps_no_image_from_an_engine,
    where_nothing_works_every_reason_is_in_the_last_line,
    files_are_refused_where_nothing_takes_them,
    a_mirror_that_is_not_used_is_named,
    a_signal_ends_a_pull_and_what_it_started,
    a_client_that_ignores_the_signal_is_ended_all_the_same,
    a_signal_in_the_probe_leaves_no_container,
];

/// What the daemon's absence is told by.
const DOWN: &str = r#"{"ServerErrors":["Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?"]}"#;

fn each_missing_image_is_pulled_once_by_its_exact_name() -> Outcome {
    let engine = Engine::lacking();
    engine.setup(&[], &[]).is_ready();
    // Nothing but the name, which could change what is pulled.
    let both = [format!("pull {PYTHON}"), format!("pull {NODE}")];
    assert_eq!(engine.pulls(), both);
    engine.setup(&[], &[]).is_ready();
    assert_eq!(engine.pulls(), both, "pulled again");
    Ok(())
}

fn the_default_images_are_pulled_by_their_digests() -> Outcome {
    let engine = Engine::whole();
    let mut doctor = engine.place.command(programs().server());
    doctor.args(["doctor", "--json"]).env_remove("STAND_IN");
    let page = doctor.output().expect("doctor starts").stdout;
    let page = String::from_utf8_lossy(&page).into_owned();
    let name = |repository: &str| {
        let begin = format!("docker.io/library/{repository}@sha256:");
        let at = page.find(&begin).unwrap_or_else(|| panic!("no {begin} in {page}"));
        page[at..at + begin.len() + 64].to_owned()
    };
    let (python, node) = (name("python"), name("node"));
    let engine = engine.says("missing", &format!("{python}\n{node}\n"));
    let mut command = engine.command(&[], &[]);
    command.env_remove("VESTIBULE_IMAGE_PYTHON").env_remove("VESTIBULE_IMAGE_NODE");
    Done::from(command.output().expect("setup starts")).is_ready();
    assert_eq!(engine.pulls(), [format!("pull {node}"), format!("pull {python}")]);
    Ok(())
}

fn an_image_of_two_languages_is_pulled_once() -> Outcome {
    let engine = Engine::lacking();
    engine.setup(&[], &[("VESTIBULE_IMAGE_NODE", PYTHON)]).is_ready();
    assert_eq!(engine.pulls(), [format!("pull {PYTHON}")]);
    Ok(())
}

fn an_image_that_is_there_is_left_alone() -> Outcome {
    let engine = Engine::whole().says("missing", NODE);
    engine.setup(&[], &[]).is_ready();
    assert_eq!(engine.pulls(), [format!("pull {NODE}")]);
    // What is not known to be missing is not pulled either.
    let engine = Engine::whole().says("image", "Error: the disk is broken\n");
    engine.setup(&[], &[]).failed("Blocked: ", &["Docker says: Error: the disk is broken"]);
    assert!(engine.pulls().is_empty(), "{:?}", engine.pulls());
    Ok(())
}

fn what_the_client_says_goes_to_standard_error() -> Outcome {
    let engine = Engine::lacking().says("pulling", "a layer of it\n");
    let done = engine.setup(&[], &[]);
    done.is_ready();
    // On both of its streams, for both images.
    assert_eq!(done.stderr.matches("a layer of it\n").count(), 4, "{}", done.stderr);
    Ok(())
}

fn a_pull_that_fails_is_named_with_its_command() -> Outcome {
    let engine = Engine::lacking().says("unpulled", "Error: no route to host\n");
    let done = engine.setup(&[], &[]);
    done.failed("Blocked: ", &["Docker has no image ", PYTHON, &format!("`docker pull {PYTHON}`")]);
    assert!(done.stderr.contains("Error: no route to host\n"), "{}", done.stderr);
    // Each is tried, and named in one line.
    assert_eq!(engine.pulls(), [format!("pull {PYTHON}"), format!("pull {NODE}")]);
    let line = done.stderr.lines().find(|line| line.contains("could not pull")).expect("a line");
    for image in [PYTHON, NODE] {
        assert!(line.contains(&format!("Docker could not pull {image}")), "{line}");
        assert!(line.contains(&format!("`docker pull {image}`")), "{line}");
    }
    assert!(engine.asked().iter().all(|line| !line.starts_with("run")), "it ran something");
    // The other language has an image, and is said to work.
    let engine = Engine::whole().says("missing", NODE).says("unpulled", "Error: no\n");
    let done = engine.setup(&[], &[]);
    done.failed("Blocked: ", &[NODE]);
    assert!(done.stderr.contains("\npython: container\n"), "{}", done.stderr);
    Ok(())
}

fn a_client_that_breaks_off_has_pulled_nothing() -> Outcome {
    let script = "[ \"$1\" != pull ] || kill -KILL $$\nexec CLIENT \"$@\"";
    let engine = Engine::lacking().scripted(script);
    let done = engine.setup(&[], &[]);
    done.failed("Blocked: ", &["Docker has no image ", "`docker pull "]);
    assert!(done.stderr.contains("could not pull"), "{}", done.stderr);
    Ok(())
}

fn an_engine_that_does_not_run_is_asked_to_pull_nothing() -> Outcome {
    let engine = Engine::lacking().says("info", DOWN);
    engine.setup(&[], &[]).failed("Blocked: Docker does not run", &["Fix: start"]);
    assert_eq!(engine.asked().len(), 2, "its version and its state: {:?}", engine.asked());
    Ok(())
}

fn an_engine_that_hangs_is_waited_for_once() -> Outcome {
    let engine = Engine::lacking().scripted("exec sleep 3600");
    let start = Instant::now();
    engine.setup(&[], &[]).failed("Blocked: Docker did not answer within 10 s", &["Fix: "]);
    let took = start.elapsed();
    assert!(took < Duration::from_secs(19), "{took:?}");
    engine.place.assert_nothing_left();
    Ok(())
}

fn an_engine_that_is_not_installed() -> Outcome {
    let engine = Engine::lacking();
    fs::remove_file(engine.folder.join("docker")).expect("it is ours");
    // Where installers put it is looked at whatever the PATH, so that a real one has to be hidden.
    let places = ["/usr/bin/docker", "/usr/local/bin/docker"];
    let real: Vec<&str> = places.into_iter().filter(|file| Path::new(file).exists()).collect();
    let mut command = engine.command(&[], &[]);
    if !real.is_empty() {
        host::user_namespaces(&engine.place)?;
        host::program("/usr/bin/bwrap", "bubblewrap")?;
        command = engine.place.command("/usr/bin/bwrap");
        engine.prepare(&mut command, &[]);
        command.args(["--dev-bind", "/", "/"]);
        for file in real {
            command.args(["--dev-bind", "/dev/null", file]);
        }
        command.arg("--").arg(programs().server()).arg("setup");
    }
    let done = Done::from(command.output().expect("setup starts"));
    done.failed("Blocked: Docker is not installed", &["Fix: install Docker"]);
    Ok(())
}

fn where_native_is_refused_an_engine_pulls() -> Outcome {
    let engine = Engine::lacking();
    host::user_namespaces(&engine.place)?;
    let jail = engine.refused_jail();
    let done = engine.setup(&[], &[("VESTIBULE_BACKEND", "auto"), ("VESTIBULE_JAIL", &jail)]);
    done.is_ready();
    assert_eq!(engine.pulls().len(), 2);
    let line = done.stderr.lines().find(|line| line.starts_with("no native sandbox here: "));
    let line = line.unwrap_or_else(|| panic!("not a word of native: {}", done.stderr));
    assert!(line.contains("user namespace") && line.contains("Fix: "), "{line}");
    // Who wants no other backend gets none.
    let engine = Engine::lacking();
    let jail = engine.refused_jail();
    let done = engine.setup(&[], &[("VESTIBULE_BACKEND", "native"), ("VESTIBULE_JAIL", &jail)]);
    done.failed("Blocked: ", &["user namespace"]);
    assert!(engine.asked().is_empty(), "{:?}", engine.asked());
    Ok(())
}

fn the_host_setting_of_native_keeps_no_image_from_an_engine() -> Outcome {
    for backend in ["auto", "container"] {
        let engine = Engine::lacking();
        let jail = engine.refused_jail();
        let settings = [
            ("VESTIBULE_BACKEND", backend),
            ("VESTIBULE_ROOTFS", "host"),
            ("VESTIBULE_JAIL", &jail),
        ];
        engine.setup(&[], &settings).is_ready();
        assert_eq!(engine.pulls().len(), 2, "{backend}");
    }
    Ok(())
}

fn where_nothing_works_every_reason_is_in_the_last_line() -> Outcome {
    let engine = Engine::lacking().says("info", DOWN);
    let jail = engine.refused_jail();
    let done = engine.setup(&[], &[("VESTIBULE_BACKEND", "auto"), ("VESTIBULE_JAIL", &jail)]);
    done.failed("Blocked: ", &["native: ", "docker: Docker does not run", "Fix: start"]);
    assert_eq!(engine.asked().len(), 2, "{:?}", engine.asked());
    Ok(())
}

fn files_are_refused_where_nothing_takes_them() -> Outcome {
    let engine = Engine::lacking();
    let jail = engine.refused_jail();
    let load = ["--from", "`docker load -i PATH`", "VESTIBULE_IMAGE_PYTHON"];
    for (backend, rootfs, words) in [
        ("container", "auto", load.as_slice()),
        ("auto", "auto", &load),
        ("naive", "auto", &["--from", "VESTIBULE_BACKEND is naive"]),
    ] {
        let settings = [
            ("VESTIBULE_BACKEND", backend),
            ("VESTIBULE_ROOTFS", rootfs),
            ("VESTIBULE_JAIL", &jail),
        ];
        let done = engine.setup(&["--from", "images.tar"], &settings);
        done.failed("Blocked: ", words);
        // Nothing is fetched there, and nothing said of where from.
        let nowhere = done.stderr.contains("nowhere: VESTIBULE_BACKEND is naive");
        assert_eq!(nowhere, backend == "naive", "{}", done.stderr);
    }
    assert!(engine.asked().is_empty(), "{:?}", engine.asked());
    let either = [("VESTIBULE_RUNTIME", "auto")];
    let done = engine.setup(&["--from", "images.tar"], &either);
    done.failed("Blocked: ", &["`docker load -i PATH` or `podman load -i PATH`"]);
    host::user_namespaces(&engine.place)?;
    let native = [("VESTIBULE_BACKEND", "native"), ("VESTIBULE_ROOTFS", "host")];
    let done = engine.setup(&["--from", "images.tar"], &native);
    done.failed("Blocked: ", &["--from", "VESTIBULE_ROOTFS is host"]);
    Ok(())
}

fn a_mirror_that_is_not_used_is_named() -> Outcome {
    let engine = Engine::lacking();
    let done = engine.setup(&[], &[("VESTIBULE_REGISTRY_MIRROR", "https://mirror.example")]);
    done.is_ready();
    assert!(done.stderr.contains("VESTIBULE_REGISTRY_MIRROR is not used"), "{}", done.stderr);
    assert!(!done.stderr.contains("come from       https://mirror"), "{}", done.stderr);
    assert!(engine.pulls().contains(&format!("pull {PYTHON}")), "{:?}", engine.pulls());
    Ok(())
}

/// Sends a signal to `setup` alone, and waits for what it says of it.
#[track_caller]
fn stopped(child: Child, signal: Signal) -> Duration {
    let start = Instant::now();
    kill(Pid::from_raw(child.id().cast_signed()), signal).expect("setup lives");
    let done = Done::from(child.wait_with_output().expect("setup ends"));
    done.failed(&format!("setup: it was stopped by {signal}. Fix: "), &[]);
    start.elapsed()
}

fn a_signal_ends_a_pull_and_what_it_started() -> Outcome {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        // A client that is a script and waits for another, as some wrappers are.
        let engine = Engine::lacking().says("endless", "x").scripted("CLIENT \"$@\"\nexit $?");
        let child = engine.start();
        engine.await_asked("pull");
        let took = stopped(child, signal);
        engine.place.assert_nothing_left();
        assert!(took < Duration::from_secs(3), "it was not asked: {took:?}");
        assert_eq!(engine.pulls().len(), 1, "it went on with the next");
    }
    Ok(())
}

fn a_client_that_ignores_the_signal_is_ended_all_the_same() -> Outcome {
    let engine =
        Engine::lacking().says("endless", "x").scripted("trap '' TERM\nCLIENT \"$@\"\nexit $?");
    let child = engine.start();
    engine.await_asked("pull");
    let took = stopped(child, Signal::SIGTERM);
    engine.place.assert_nothing_left();
    assert!(took < Duration::from_secs(10), "{took:?}");
    Ok(())
}

fn a_signal_in_the_probe_leaves_no_container() -> Outcome {
    let engine = Engine::whole().says("hang", "x");
    let child = engine.start();
    engine.await_asked("run");
    stopped(child, Signal::SIGTERM);
    let asked = engine.asked();
    let run = asked.iter().find(|line| line.starts_with("run")).expect("it was asked for one");
    let name = run.split(' ').nth(2).expect("--name NAME comes first");
    let removed = |line: &&String| line.starts_with("rm") && line.ends_with(name);
    assert!(asked.iter().any(|line| removed(&line)), "{name} stays: {asked:?}");
    // Another process looks for a container that comes late.
    engine.place.assert_nothing_left_after(Duration::from_secs(20));
    Ok(())
}
