//! Tests of what a run makes of records.

use super::*;
use crate::engine::Progress;
use protocol::{Language, OutputBytes, TimeoutSeconds};
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
