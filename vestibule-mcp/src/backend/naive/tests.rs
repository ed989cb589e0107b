//! Tests of the naive backend with this machine's own interpreters.

use super::*;
use crate::engine::Progress;
use crate::run::admission::Admission;
use protocol::{
    Limits, MemoryMib, Outcome, OutputBytes, PidsMax, Rootfs, Stream, TimeoutSeconds, TmpfsMib,
};
use tokio::sync::watch;

const CAP: u64 = 1000;

fn sandbox() -> Sandbox {
    Sandbox {
        rootfs: Rootfs::Host,
        workspace: std::env::temp_dir(),
        workspace_read_only: false,
        limits: Limits {
            memory_mib: MemoryMib::new(64).unwrap(),
            cpu_percent: protocol::CpuPercent::new(100).unwrap(),
            pids_max: PidsMax::new(8).unwrap(),
            tmpfs_mib: TmpfsMib::new(1).unwrap(),
        },
        environment: vec![],
        bytecode: None,
        cgroup: protocol::CgroupSource::default(),
    }
}

async fn run_until(code: &str, seconds: u64, stop: CancellationToken) -> (Finish, String) {
    let slot = Admission::new(1).slot().await.unwrap();
    let prepared = Naive.prepare(&sandbox(), Language::Bash, slot).unwrap();
    let script = Script {
        language: Language::Bash,
        code: code.to_owned(),
        timeout_seconds: TimeoutSeconds::new(seconds).unwrap(),
        output_bytes: OutputBytes::new(CAP).unwrap(),
    };
    let progress = watch::Sender::new(Progress::Queued);
    let mut output = Output::new(script.output_bytes, progress, None);
    let finish = prepared.execute(script, &mut output, &stop).await;
    (finish, String::from_utf8_lossy(&output.stdout.bytes).into_owned())
}

async fn run(code: &str) -> (Outcome, String) {
    match run_until(code, 10, CancellationToken::new()).await {
        (Finish::Finished(outcome), printed) => (outcome, printed),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn exit_codes_and_signals_are_the_programs_own() {
    assert_eq!(run("echo hi; exit 7").await.0.ending, Ending::Exited(7));
    assert_eq!(run("kill -SEGV $$").await.0.ending, Ending::Killed(11));
}

#[tokio::test]
async fn nothing_of_the_servers_environment_is_passed_on() {
    let (_, printed) = run("env").await;
    assert!(!printed.contains("CARGO"), "{printed}");
    assert!(printed.contains("TERM=dumb"), "{printed}");
}

#[tokio::test]
async fn a_timeout_keeps_what_was_printed() {
    let (finish, printed) = run_until("echo a; sleep 60", 1, CancellationToken::new()).await;
    let Finish::Finished(outcome) = finish else { panic!("{finish:?}") };
    assert_eq!((outcome.ending, printed.as_str()), (Ending::TimedOut, "a\n"));
}

#[tokio::test]
async fn a_flood_is_stopped_and_cut_at_the_cap() {
    let (outcome, printed) = run("while :; do echo yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy; done").await;
    assert_eq!(outcome.ending, Ending::Overflow(Stream::Stdout));
    assert_eq!(printed.len() as u64, CAP);
    assert!(outcome.stdout.seen > 2 * CAP);
}

#[tokio::test]
async fn a_background_process_neither_delays_the_result_nor_survives_it() {
    let marker = format!("60{}", std::process::id());
    let started = Instant::now();
    let (_, printed) =
        run(&format!("sleep {marker} & (setsid sleep {marker} &) ; echo done")).await;
    assert_eq!(printed, "done\n");
    assert!(started.elapsed() < Duration::from_secs(5));
    let alive =
        std::process::Command::new("pgrep").args(["-f", &format!("^sleep {marker}$")]).output();
    assert!(alive.unwrap().stdout.is_empty());
}

#[tokio::test]
async fn stop_ends_it_at_once() {
    let stop = CancellationToken::new();
    let stopper = stop.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(200)).await;
        stopper.cancel();
    });
    let started = Instant::now();
    assert_eq!(run_until("sleep 60", 50, stop).await.0, Finish::Stopped);
    assert!(started.elapsed() < Duration::from_secs(5));
}
