//! Tests of what a run makes of records.

use super::*;
use crate::engine::Progress;
use protocol::{Language, Measured, OutputBytes, TimeoutSeconds};
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
    judged_with(record, None)
}

fn judged_with(record: Record, used: Option<Counters>) -> Outcome {
    let script = script();
    let mut output = Output::new(script.output_bytes, watch::Sender::new(Progress::Queued), None);
    judged(&record, used, 256, &Counter::new(&script, &mut output), Duration::from_millis(7))
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
fn what_the_kernel_counted_is_in_the_report_and_a_kill_it_saw_counts() {
    let used = Counters {
        cpu_us: Measured::Value(14000),
        mem_peak_bytes: Measured::Value(9 << 20),
        pids_peak: Measured::Missing("Linux 6.1+ needed".to_owned()),
        limits_hit: vec![LimitHit::Pids(128)],
        killed: true,
    };
    let child = judged_with(Record::exited(3), Some(used.clone()));
    assert_eq!(child.usage.cpu_us, Measured::Value(14000));
    assert_eq!(child.usage.pids_peak, used.pids_peak);
    assert_eq!(child.limits_hit, [LimitHit::Pids(128), LimitHit::Memory(256)]);
    assert_eq!(judged_with(Record::exited(137), Some(used)).ending, Ending::OutOfMemory);
}
