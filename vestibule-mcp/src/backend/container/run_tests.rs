//! Tests of what a run makes of paths and records.

use super::*;
use crate::engine::Progress;
use protocol::{OutputBytes, TimeoutSeconds};
use tokio::sync::watch;

fn script() -> Script {
    Script {
        language: Language::Bash,
        code: String::new(),
        timeout_seconds: TimeoutSeconds::new(5).unwrap(),
        output_bytes: OutputBytes::new(100).unwrap(),
    }
}

fn outcome(record: Record) -> Outcome {
    let script = script();
    let mut output = Output::new(script.output_bytes, watch::Sender::new(Progress::Queued), None);
    judged(&record, 256, &Counter::new(&script, &mut output), Duration::from_millis(7))
}

#[test]
fn a_windows_path_loses_its_prefix_and_what_mount_would_misread_is_refused() {
    assert_eq!(mountable(Path::new(r"\\?\C:\Users\Ada\w")).unwrap(), r"C:\Users\Ada\w");
    assert_eq!(mountable(Path::new("/home/ada/my work")).unwrap(), "/home/ada/my work");
    for path in ["/a,b", "/a\"b", "/a\nb"] {
        let refusal = mountable(Path::new(path)).unwrap_err();
        assert!(refusal.fix.contains("VESTIBULE_WORKSPACE"), "{refusal}");
    }
}

#[test]
fn root_inside_stands_for_us_only_where_we_say_so() {
    assert_eq!(user(true), "0:0");
    #[cfg(unix)]
    assert_eq!(user(false), format!("{}:{}", nix::unistd::getuid(), nix::unistd::getgid()));
    #[cfg(not(unix))]
    assert_eq!(user(false), "1000:1000");
}

#[test]
fn a_record_of_a_kill_for_memory_is_told_from_the_codes_own_exit() {
    let record = |exit_code, oom_killed| Record { exit_code, oom_killed, ..Record::default() };
    assert_eq!(outcome(record(3, false)).ending, Ending::Exited(3));
    assert_eq!(outcome(record(137, false)).ending, Ending::Exited(137));
    assert_eq!(outcome(record(137, true)).ending, Ending::OutOfMemory);
    let child = outcome(record(3, true));
    assert_eq!(child.ending, Ending::Exited(3));
    assert_eq!(child.limits_hit, [LimitHit::Memory(256)]);
    assert_eq!(child.usage.wall_us, 7000);
}

#[test]
fn the_time_counts_from_the_start_of_the_code_and_an_engine_has_ten_seconds_until_then() {
    let called = Instant::now();
    let mut clock = Clock { called, begun: None, timeout: Duration::from_secs(2) };
    assert_eq!(clock.deadline(), called + START);
    clock.begun = Some(called + Duration::from_secs(3));
    assert_eq!(clock.deadline(), called + Duration::from_secs(5));
    let patient = Clock { called, begun: None, timeout: Duration::from_secs(60) };
    assert_eq!(patient.deadline(), called + Duration::from_secs(60));
}
