//! The container backend with a stand-in for the engine's command line, which runs nothing: what an
//! engine is asked, and what its answers are taken for. Real engines have a tier of their own.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use tests::programs::programs;
use tests::{Outcome, Place, Reply, Server};

tests::tests![
    a_run_gets_the_whole_profile,
    nothing_of_the_servers_environment_is_passed_on,
    an_engines_words_are_not_the_codes,
    a_limit_that_is_off_is_named,
    a_wall_that_is_missing_blocks,
    rootless_docker_is_told_who_we_are,
    podman_under_the_name_of_docker_gets_podmans_options,
    under_selinux_podman_labels_what_is_shared,
    a_container_without_bash_has_run_nothing,
    a_missing_image_is_named_with_its_command,
    the_stronger_of_two_backends_is_taken,
    a_read_only_workspace_is_one,
    a_podman_that_was_never_used_is_not_woken_whatever_it_is_called,
    an_engine_on_a_machine_of_its_own_carries_a_file_there_and_back,
    a_run_is_of_the_image_that_was_probed,
    a_container_that_is_not_as_the_probe_found_it_runs_nothing,
    calls_that_wait_for_one_answer_share_it,
];

pub const STARTED: &str = "\"StartedAt\":\"2026-11-30T08:12:50Z\"";

/// A place with an engine that is none.
pub struct Engine {
    pub place: Place,
    pub folder: PathBuf,
}

impl Engine {
    pub fn new() -> Engine {
        let place = Place::new();
        let folder = place.folder("engine");
        symlink(programs().stand_in(), folder.join("docker")).expect("the folder is ours");
        Engine { place, folder }
    }

    /// One that is called docker and is Podman, which its person has used before.
    pub fn podman() -> Engine {
        let engine = Engine::new().says("version", "podman version 4.3.1\n");
        let settings = engine.place.home().join(".config/containers");
        fs::create_dir_all(&settings).expect("the home is ours");
        engine.place.give(&settings);
        engine
    }

    /// What it is to answer.
    pub fn says(self, name: &str, text: &str) -> Engine {
        fs::write(self.folder.join(name), text).expect("the folder is ours");
        self
    }

    pub fn server(&self, settings: &[(&str, &str)]) -> Server {
        let mut builder = self.place.server().set("PATH", &self.folder);
        let ours = [("VESTIBULE_BACKEND", "container"), ("VESTIBULE_RUNTIME", "docker")];
        for (name, value) in ours.iter().chain(settings) {
            builder = builder.set(name, *value);
        }
        builder.set("STAND_IN", &self.folder).start()
    }

    pub fn run(&self, settings: &[(&str, &str)]) -> Reply {
        self.server(settings).run("python", "print('hello')")
    }

    /// Everything it was asked, call by call.
    pub fn asked(&self) -> Vec<Vec<String>> {
        let text = fs::read_to_string(self.folder.join("asked")).unwrap_or_default();
        text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect()
    }

    /// The last `run` that it was asked for, in one line.
    pub fn last_run(&self) -> String {
        let mut runs = self.asked().into_iter().filter(|call| call[0] == "run");
        runs.next_back().expect("it was asked to run something").join(" ")
    }
}

fn a_run_gets_the_whole_profile() -> Outcome {
    let engine = Engine::new();
    let reply = engine.run(&[]);
    assert_eq!(reply.success(), "python3 was given 14 bytes");
    assert_eq!(reply.isolation(), "container");
    assert_eq!(reply.facts()["backend"], "docker");
    let (line, uid) = (engine.last_run(), engine.place.uid());
    for part in [
        "--network none",
        "--cap-drop ALL",
        "--security-opt no-new-privileges",
        "--security-opt seccomp=",
        "--read-only",
        &format!("--user {uid}:"),
        "--memory 256m --memory-swap 256m",
        "--cpus 0.75",
        "--pids-limit 128",
        "--tmpfs /tmp:rw,exec,nosuid,nodev,mode=1777,size=64m",
        "--init",
        "--pull never",
        "--log-driver none",
        "--label vestibule.run=1",
        &format!("src={},dst=/workspace ", engine.place.workspace().display()),
        ",dst=/sandbox,readonly",
    ] {
        assert!(line.contains(part), "{part} is missing in {line}");
    }
    assert!(!line.contains(" -v ") && !line.contains("--rm "), "{line}");
    Ok(())
}

fn nothing_of_the_servers_environment_is_passed_on() -> Outcome {
    let engine = Engine::new();
    engine
        .run(&[("SECRET_TOKEN", "s3cret"), ("HTTPS_PROXY", "http://user:s3cret@proxy")])
        .success();
    let line = engine.last_run();
    assert!(!line.contains("s3cret") && !line.contains("SECRET_TOKEN"), "{line}");
    // Docker's client would pass on the proxy of its own settings, but for these.
    assert!(line.contains("--env HTTPS_PROXY= ") && line.contains("--env https_proxy= "), "{line}");
    Ok(())
}

fn an_engines_words_are_not_the_codes() -> Outcome {
    let warning = "Resource limits are not supported and ignored\n";
    let reply = Engine::new().says("chatter", warning).run(&[]);
    assert_eq!(reply.success(), "python3 was given 14 bytes");
    assert_eq!(reply.stderr(), "");
    Ok(())
}

fn a_limit_that_is_off_is_named() -> Outcome {
    let probe = "cgroup memory.max max\ncgroup pids.max max\n";
    let reply = Engine::new().says("probe", probe).run(&[]);
    reply.success();
    assert_eq!(
        reply.isolation(),
        "container-degraded (limits not applied: memory, pids; Docker was asked for them and did not \
         apply them)"
    );
    Ok(())
}

fn a_wall_that_is_missing_blocks() -> Outcome {
    for (probe, what) in [
        ("route lo\nroute eth0\n", "network"),
        ("status CapBnd: 00000000a80425fb\n", "capability"),
        ("status NoNewPrivs: 0\n", "no_new_privs"),
        ("status Seccomp: 0\n", "syscall policy"),
        ("root-writable /etc\n", "read-only root"),
        ("status Uid: 0 0 0 0\n", "ordinary user"),
        ("device null\ndevice kvm\n", "there is kvm"),
        ("variable LEAKED\n", "there is LEAKED"),
        ("mount /data rw ext4\n", "there is /data"),
        ("mount /workspace/inner rw ext4\n", "there is /workspace/inner"),
        ("workspace 1:2\n", "the workspace that was mounted"),
    ] {
        let engine = Engine::new().says("probe", probe);
        engine.run(&[]).assert_blocked(&["ran a probe without", what, "Fix: "]);
        let runs = engine.asked().iter().filter(|call| call[0] == "run").count();
        assert_eq!(runs, 1, "the probe, and nothing after it");
    }
    Ok(())
}

fn rootless_docker_is_told_who_we_are() -> Outcome {
    let info = r#"{"OSType":"linux","Architecture":"x86_64","ServerVersion":"28","SecurityOptions":["name=seccomp","name=rootless"]}"#;
    let engine =
        Engine::new().says("info", info).says("probe", "status Uid: 0 0 0 0\nuid-map 0 1000 1\n");
    engine.run(&[]).success();
    assert!(engine.last_run().contains("--user 0:0 "), "{}", engine.last_run());
    Ok(())
}

fn podman_under_the_name_of_docker_gets_podmans_options() -> Outcome {
    let info =
        r#"{"host":{"arch":"amd64","security":{"rootless":true}},"version":{"Version":"4.3.1"}}"#;
    let engine = Engine::podman().says("info", info);
    let reply = engine.run(&[]);
    reply.success();
    assert_eq!(reply.facts()["backend"], "podman");
    let line = engine.last_run();
    assert!(line.contains("--userns keep-id") && line.contains("--image-volume ignore"), "{line}");
    assert!(!line.contains("nr_inodes"), "{line}");
    Ok(())
}

fn under_selinux_podman_labels_what_is_shared() -> Outcome {
    let info = r#"{"host":{"arch":"amd64","security":{"rootless":true,"selinuxEnabled":true}},"version":{"Version":"4.3.1"}}"#;
    let engine = Engine::podman().says("info", info);
    engine.run(&[]).success();
    assert_eq!(engine.last_run().matches(",relabel=shared").count(), 6, "{}", engine.last_run());
    Ok(())
}

fn a_container_without_bash_has_run_nothing() -> Outcome {
    // Its init was started and found no first program: the record alone does not tell that.
    let state = format!("{{\"Running\":false,\"ExitCode\":127,{STARTED}}}");
    let engine = Engine::new();
    let mut server = engine.server(&[]);
    server.run("python", "1").success();
    let _engine = engine.says("mute", "x").says("state", &state);
    let reply = server.run("python", "1");
    let none = "none (nothing was executed: ";
    assert!(reply.is_error && reply.isolation().starts_with(none), "{}", reply.text);
    server.run("python", "1").assert_blocked(&["lacks bash", "coreutils"]);
    Ok(())
}

fn a_missing_image_is_named_with_its_command() -> Outcome {
    let engine = Engine::new().says("image", "Error: No such image: x\n");
    let settings = [("VESTIBULE_IMAGE_PYTHON", "example.org/python:3")];
    let reply = engine.run(&settings);
    reply.assert_blocked(&["no image", "`docker pull example.org/python:3`", "no restart"]);
    assert!(engine.asked().iter().all(|call| call[0] != "run"), "it ran something");
    Ok(())
}

fn the_stronger_of_two_backends_is_taken() -> Outcome {
    let engine = Engine::new();
    let native = engine.place.server().start().run("bash", "true");
    let reply = engine.run(&[("VESTIBULE_BACKEND", "auto")]);
    let best =
        if native.isolation().starts_with("native (") { native.isolation() } else { "container" };
    assert_eq!(reply.isolation(), best);
    // A container that lacks a limit is weaker than a sandbox that does.
    let engine = engine.says("probe", "cgroup pids.max max\n");
    assert_eq!(engine.run(&[("VESTIBULE_BACKEND", "auto")]).isolation(), native.isolation());
    Ok(())
}

fn a_read_only_workspace_is_one() -> Outcome {
    let engine = Engine::new();
    // The stand-in mounts it to be written all the same, as an engine would that ignores the option.
    let read_only = [("VESTIBULE_WORKSPACE_RO", "1")];
    engine.run(&read_only).assert_blocked(&["a workspace that refuses writes"]);
    let engine = engine.says("boot", "another");
    engine.run(&read_only).assert_blocked(&["a workspace that refuses writes"]);
    let engine = engine.says("probe", "mount /workspace ro ext4\nmount /workspace/inner rw ext4\n");
    let reply = engine.run(&read_only);
    reply.assert_blocked(&["a read-only /workspace/inner", "unmount it"]);
    assert!(engine.last_run().contains(",dst=/workspace,readonly "), "{}", engine.last_run());
    assert_eq!(fs::read_dir(engine.place.workspace()).expect("it is there").count(), 0);
    Ok(())
}

fn an_engine_on_a_machine_of_its_own_carries_a_file_there_and_back() -> Outcome {
    let runs = |engine: &Engine| engine.asked().iter().filter(|call| call[0] == "run").count();
    let near = Engine::new();
    near.run(&[]).success();
    assert_eq!(runs(&near), 2, "a probe and the run");
    let far = Engine::new().says("boot", "another");
    far.run(&[]).success();
    assert_eq!(runs(&far), 3, "two probes and the run");
    for engine in [near, far] {
        assert_eq!(fs::read_dir(engine.place.workspace()).expect("it is there").count(), 0);
    }
    Ok(())
}

fn a_run_is_of_the_image_that_was_probed() -> Outcome {
    let engine = Engine::new().says("id", "sha256:first");
    let mut server = engine.server(&[("VESTIBULE_IMAGE_PYTHON", "example.org/python:3")]);
    server.run("python", "1").success();
    assert!(engine.last_run().contains(" sha256:first -p -c "), "{}", engine.last_run());
    assert!(
        engine
            .asked()
            .iter()
            .any(|call| call.last().is_some_and(|name| name == "example.org/python:3"))
    );
    // Of the variables the image's own are left to the code, and no others.
    assert!(
        engine.last_run().contains(" PATH OWN HOSTNAME container HTTP_PROXY "),
        "{}",
        engine.last_run()
    );
    Ok(())
}

fn a_container_that_is_not_as_the_probe_found_it_runs_nothing() -> Outcome {
    let engine = Engine::new();
    let mut server = engine.server(&[]);
    server.run("python", "1").success();
    let state = format!("{{\"Running\":false,\"ExitCode\":1,{STARTED}}}");
    let engine = engine.says("differs", "cgroup pids.max max\n").says("state", &state);
    let reply = server.run("python", "1");
    let none = "none (nothing was executed: a container of Docker is no longer what a probe of it has \
                shown (cgroup pids.max max))";
    assert!(reply.is_error && reply.isolation() == none, "{}", reply.text);
    // The next call looks anew.
    fs::remove_file(engine.folder.join("differs")).expect("it is there");
    let engine = engine.says("probe", "cgroup pids.max max\n");
    assert!(server.run("python", "1").isolation().contains("limits not applied: pids"));
    drop(engine);
    Ok(())
}

fn calls_that_wait_for_one_answer_share_it() -> Outcome {
    let info = r#"{"OSType":"windows"}"#;
    let engine = Engine::new().says("info", info).says("slow", "x");
    let mut server = engine.server(&[]);
    let calls: Vec<_> = (0..4).map(|_| server.start_run(10, "python", "1")).collect();
    for call in calls {
        Reply::new(&server.answer(call)).assert_blocked(&["runs windows containers"]);
    }
    let asked = engine.asked().iter().filter(|call| call[0] == "info").count();
    assert_eq!(asked, 1, "{:?}", engine.asked());
    Ok(())
}

fn a_podman_that_was_never_used_is_not_woken_whatever_it_is_called() -> Outcome {
    let engine = Engine::new().says("version", "podman version 4.3.1\n");
    engine.run(&[]).assert_blocked(&["Podman has no image", "run `docker pull "]);
    assert_eq!(engine.asked(), [["--version"]]);
    // One whose file tells what it is, as distributions have it, is not even asked for its version.
    let script = engine.place.program("script", "#!/bin/sh\nexec podman \"$@\"\n".to_owned());
    fs::remove_file(engine.folder.join("docker")).expect("it is ours");
    symlink(script, engine.folder.join("docker")).expect("the folder is ours");
    engine.run(&[]).assert_blocked(&["Podman has no image"]);
    assert_eq!(engine.asked().len(), 1);
    Ok(())
}
