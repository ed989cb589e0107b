//! Tests with helpers that do what a good one never does. Each is a shell script that plays frames
//! from a file.

use super::*;
use crate::engine::Progress;
use crate::run::admission::Admission;
use protocol::{
    CpuPercent, Ending, Interpreter, Interpreters, Limits, Measured, MemoryMib, Outcome,
    OutputBytes, PidsMax, Rootfs, Stream, StreamTotals, TimeoutSeconds, TmpfsMib, Usage,
};
use std::os::unix::fs::PermissionsExt;
use tokio::sync::watch;
use tokio::time::Instant;

/// A helper made of frames and a last deed, in a folder of its own.
struct Fake {
    folder: PathBuf,
    admission: Admission,
}

/// What a fake does once its frames are out.
const END: &str = "exit 0";
const HANG: &str = "exec /bin/sleep 600";
const DIE: &str = "kill -KILL $$";

impl Fake {
    fn new(name: &str, frames: &[Vec<u8>], deed: &str) -> Fake {
        let folder = std::env::temp_dir().join(format!("fake-jail-{name}-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("frames"), frames.concat()).unwrap();
        let jail = folder.join("vestibule-jail");
        // Written under another name and renamed: a file that is open for writing cannot be executed,
        // and a test that forks at the wrong moment would hold it open.
        let script = format!("#!/bin/sh\n/bin/cat {}/frames\n{deed}\n", folder.display());
        std::fs::write(&jail, script).unwrap();
        std::fs::set_permissions(&jail, std::fs::Permissions::from_mode(0o755)).unwrap();
        Fake { folder, admission: Admission::new(1) }
    }

    async fn prepare(&self) -> Result<Prepared, Failure> {
        let native = Native {
            jail: Some(self.folder.join("vestibule-jail")),
            environment: vec![("XDG_RUNTIME_DIR", "/run/user/1".into())],
            cgroups: Arc::new(Cgroups::new(512)),
            images: images(&self.folder),
        };
        let slot = self.admission.slot().await.unwrap();
        native.prepare(&sandbox(), Language::Bash, slot).await
    }

    async fn run(&self) -> (Finish, Vec<u8>) {
        self.run_until(&CancellationToken::new()).await
    }

    async fn run_until(&self, stop: &CancellationToken) -> (Finish, Vec<u8>) {
        let prepared = self.prepare().await.unwrap();
        let script = Script {
            language: Language::Bash,
            code: "true".to_owned(),
            timeout_seconds: TimeoutSeconds::new(1).unwrap(),
            output_bytes: OutputBytes::new(8).unwrap(),
        };
        let progress = watch::Sender::new(Progress::Queued);
        let mut output = Output::new(script.output_bytes, progress, None);
        let finish = prepared.execute(script, &mut output, stop).await;
        (finish, output.stdout.bytes)
    }

    /// What a failed preparation says.
    async fn failure(&self) -> String {
        match self.prepare().await {
            Err(Failure::Broken(refusal) | Failure::Refused(refusal)) => refusal.to_string(),
            Ok(_) => panic!("prepared"),
        }
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// No images at all.
fn images(home: &Path) -> Images {
    Images::new(&Config::from_env([("HOME".into(), home.into())]))
}

pub fn sandbox() -> Sandbox {
    Sandbox {
        rootfs: Rootfs::Host,
        workspace: PathBuf::from("/w"),
        workspace_read_only: false,
        limits: Limits {
            memory_mib: MemoryMib::new(64).unwrap(),
            cpu_percent: CpuPercent::new(100).unwrap(),
            pids_max: PidsMax::new(8).unwrap(),
            tmpfs_mib: TmpfsMib::new(1).unwrap(),
        },
        environment: vec![],
        bytecode: None,
        cgroup: protocol::CgroupSource::default(),
    }
}

fn hello() -> Vec<u8> {
    frame::encode_hello(&Hello::ours())
}

fn ready() -> Vec<u8> {
    let bash = Interpreter {
        language: Language::Bash,
        path: Measured::Value(PathBuf::from("/usr/bin/bash")),
    };
    frame::encode_event(&Event::Ready(Box::new(Applied {
        isolation: Isolation::native(vec![], vec![], vec![], None),
        controls: vec![],
        interpreters: Interpreters(vec![bash]),
        cgroup: Err(protocol::NoCgroup::NoUserManager),
        steps: vec![],
    })))
    .unwrap()
}

fn refused() -> Vec<u8> {
    frame::encode_event(&Event::Refused(helper_fault("the reason", PROGRAM))).unwrap()
}

fn outcome() -> Outcome {
    let missing = || Measured::Missing("no cgroup".to_owned());
    Outcome {
        ending: Ending::Exited(3),
        stdout: StreamTotals { seen: 2, forwarded: 2 },
        stderr: StreamTotals::default(),
        usage: Usage {
            wall_us: 1,
            cpu_us: missing(),
            mem_peak_bytes: missing(),
            pids_peak: missing(),
        },
        limits_hit: vec![],
        limits_lost: vec![],
        denied: vec![],
        denied_stopped: false,
        steps: vec![],
    }
}

fn finished() -> Vec<u8> {
    frame::encode_event(&Event::Finished(outcome())).unwrap()
}

fn printed(bytes: &[u8]) -> Vec<u8> {
    frame::encode_output(Stream::Stdout, bytes)
}

#[tokio::test]
async fn a_run_is_read_to_its_report() {
    let frames = [hello(), ready(), printed(b"o"), printed(b"k"), finished()];
    let fake = Fake::new("good", &frames, END);
    let (finish, output) = fake.run().await;
    assert_eq!(finish, Finish::Finished(outcome()));
    assert_eq!(output, b"ok");
    fake.admission.all_free().await;
}

#[tokio::test]
async fn the_helper_gets_no_arguments_and_no_environment_but_for_the_bus() {
    let fake =
        Fake::new("bare", &[], "{ echo $#; tr '\\0' '\\n' </proc/$$/environ; } >\"${0%/*}/seen\"");
    let _ = fake.prepare().await.err().unwrap();
    let seen = std::fs::read_to_string(fake.folder.join("seen")).unwrap();
    assert_eq!(seen, "0\nXDG_RUNTIME_DIR=/run/user/1\n");
}

#[tokio::test]
async fn a_helper_that_dies_before_there_is_a_sandbox_is_told_from_one_that_refuses() {
    let died = Fake::new("died", &[hello()], DIE).failure().await;
    assert!(died.contains("it ended before a sandbox stood (signal: 9 (SIGKILL))"), "{died}");
    let refused = Fake::new("refused", &[hello(), refused()], HANG).failure().await;
    assert!(refused.starts_with("the reason. Fix: "), "{refused}");
}

#[tokio::test]
async fn what_breaks_the_protocol_is_not_tolerated() {
    let cases = [
        ("garbage", b"Usage: no such thing\n".to_vec(), "is not allowed here"),
        ("order", ready(), "unexpected Ready, a greeting was due"),
        ("early", [hello(), finished()].concat(), "unexpected Finished, Ready or Refused was due"),
        ("size", [hello(), vec![0xff, 0xff, 0xff, 0x7f, 2]].concat(), "over its limit"),
        ("decode", [hello(), vec![1, 0, 0, 0, 2, 0xff]].concat(), "does not decode: a value in it"),
    ];
    for (name, frames, want) in cases {
        let text = Fake::new(name, &[frames], HANG).failure().await;
        assert!(text.contains(want), "{name}: {text}");
        assert!(text.contains("vestibule-jail --check --explain`"), "{name}: {text}");
    }
}

#[tokio::test]
async fn another_version_is_refused() {
    let hello = frame::encode_hello(&Hello { protocol: 9999, version: "9.9.9".into() });
    let text = Fake::new("version", &[hello, ready()], HANG).failure().await;
    assert!(text.contains("has version 9.9.9 (protocol 9999)"), "{text}");
    assert!(text.ends_with("then restart your MCP client."), "{text}");
}

#[tokio::test]
async fn a_language_without_interpreter_is_refused() {
    let fake = Fake::new("interpreter", &[hello(), ready()], HANG);
    let native = Native {
        jail: Some(fake.folder.join("vestibule-jail")),
        environment: vec![],
        cgroups: Arc::new(Cgroups::new(512)),
        images: images(&fake.folder),
    };
    let slot = fake.admission.slot().await.unwrap();
    match native.prepare(&sandbox(), Language::Node, slot).await {
        Err(Failure::Refused(refusal)) => {
            assert_eq!(refusal.cause, Cause::InterpreterMissing(Language::Node));
        }
        _ => panic!("node was found"),
    }
}

#[tokio::test]
async fn a_helper_lost_under_way_keeps_what_was_printed() {
    for (name, deed) in [("lost", DIE), ("gone", END)] {
        let fake = Fake::new(name, &[hello(), ready(), printed(b"some")], deed);
        let (finish, output) = fake.run().await;
        assert!(
            matches!(&finish, Finish::Lost(what) if what.contains("without a report")),
            "{finish:?}"
        );
        assert_eq!(output, b"some");
    }
}

#[tokio::test]
async fn only_a_helper_that_has_passed_on_nothing_can_say_that_nothing_was_executed() {
    let honest = Fake::new("honest", &[hello(), ready(), refused()], HANG);
    assert_eq!(honest.run().await.0, Finish::NotStarted(helper_fault("the reason", PROGRAM)));
    let lying = Fake::new("lying", &[hello(), ready(), printed(b"x"), refused()], HANG);
    assert!(matches!(lying.run().await.0, Finish::Lost(_)));
}

#[tokio::test]
async fn a_helper_that_passes_on_more_than_the_cap_is_ended() {
    let fake = Fake::new("flood", &[hello(), ready(), printed(b"123456789")], HANG);
    let (finish, output) = fake.run().await;
    assert!(matches!(finish, Finish::Lost(what) if what.contains("more output than the cap")));
    assert_eq!(output, b"");
}

#[tokio::test]
async fn stop_ends_a_run_at_once_and_the_slot_is_free_when_the_helper_is_gone() {
    // A good helper ends when its standard input does.
    let fake = Fake::new("stop", &[hello(), ready()], "/bin/cat >/dev/null");
    let stop = CancellationToken::new();
    let stopper = stop.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(100)).await;
        stopper.cancel();
    });
    let started = Instant::now();
    assert_eq!(fake.run_until(&stop).await.0, Finish::Stopped);
    fake.admission.all_free().await;
    assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_helper_that_ignores_the_end_of_its_input_is_killed() {
    let fake = Fake::new("stubborn", &[hello(), ready(), finished()], HANG);
    assert_eq!(fake.run().await.0, Finish::Finished(outcome()));
    let started = Instant::now();
    fake.admission.all_free().await;
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}
