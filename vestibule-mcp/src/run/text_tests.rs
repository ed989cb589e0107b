//! Every shape of the text contract.

use super::*;
use crate::audit::Kept;
use crate::run::facts;
use protocol::{
    Isolation, Language, Limit, MemoryMib, Outcome, OutputBytes, Stream, StreamTotals,
    TimeoutSeconds,
};

fn usage_of(wall_us: u64, rest: [Measured<u64>; 3]) -> Usage {
    let [cpu_us, mem_peak_bytes, pids_peak] = rest;
    Usage { wall_us, cpu_us, mem_peak_bytes, pids_peak }
}

fn missing(reason: &str) -> Measured<u64> {
    Measured::Missing(reason.into())
}

fn captured(text: &str, more: u64) -> Captured {
    Captured { bytes: text.as_bytes().to_vec(), seen: text.len() as u64 + more }
}

fn report(ended: Ended) -> Report {
    Report {
        language: Language::Python,
        backend: "native",
        timeout: TimeoutSeconds::new(10).unwrap(),
        output_cap: OutputBytes::new(20_000).unwrap(),
        memory: MemoryMib::new(256).unwrap(),
        ended,
        stdout: Captured::default(),
        stderr: Captured::default(),
        usage: Some(usage_of(
            20_600,
            [Measured::Value(14_400), Measured::Value(9_856_614), Measured::Value(2)],
        )),
        limits_hit: vec![],
        denied: vec![],
        notes: vec![],
        audit: Kept::Recorded,
        isolation: Isolation::native(vec![], vec![], vec![], None),
    }
}

fn exited(code: u8) -> Report {
    report(Ended::Reported(Ending::Exited(code)))
}

#[test]
fn a_run_that_says_nothing_leaves_its_parts_out() {
    assert_eq!(
        render(&exited(0)),
        "exit_code: 0\n\
         usage: wall 21 ms, cpu 14 ms, mem_peak 9.4 MiB (whole sandbox: setup, processes, /tmp, \
         file cache), pids_peak 2\n\
         isolation: native"
    );
}

#[test]
fn every_part_stands_in_its_place() {
    let mut report = exited(3);
    report.stdout = captured("out\n", 12_345);
    report.stderr = captured("err", 0);
    report.notes = vec!["timeout_seconds 900 was lowered to the maximum of 60".into()];
    report.limits_hit = vec![LimitHit::Cpu { throttled: 40, periods: 41 }, LimitHit::Pids(128)];
    report.denied = vec!["mount".into(), "unshare".into()];
    assert_eq!(
        render(&report),
        "exit_code: 3\n\
         stdout:\nout\n…[12345 bytes truncated]\n\
         stderr:\nerr\n\
         note: timeout_seconds 900 was lowered to the maximum of 60\n\
         usage: wall 21 ms, cpu 14 ms, mem_peak 9.4 MiB (whole sandbox: setup, processes, /tmp, \
         file cache), pids_peak 2\n\
         limits hit: cpu (throttled in 40 of 41 periods of 100 ms); pids (128)\n\
         blocked syscalls: mount, unshare\n\
         isolation: native"
    );
}

#[test]
fn the_first_line_says_how_it_ended() {
    let cases = [
        (Ending::TimedOut, "[timed out after 10 s and was terminated]\nexit_code: -1\n"),
        (
            Ending::OutOfMemory,
            "[out of memory: the kernel ended the sandbox at its 256 MiB limit]\nexit_code: 137\n",
        ),
        (
            Ending::OutOfMemoryOutside,
            "[out of memory: not at the sandbox's own limit; the machine, or a limit above, ran out]\n\
             exit_code: 137\n",
        ),
        (Ending::Killed(11), "[killed by SIGSEGV]\nexit_code: 139\n"),
        (
            Ending::Overflow(Stream::Stdout),
            "[stopped: stdout passed twice the output cap]\nexit_code: -1\n",
        ),
        (Ending::InitEnded, "exit_code: -1\n"),
    ];
    for (ending, want) in cases {
        let text = render(&report(Ended::Reported(ending)));
        assert!(text.starts_with(want), "{text}");
    }
}

#[test]
fn a_flood_and_an_ended_init_are_explained_in_a_note() {
    let mut flood = report(Ended::Reported(Ending::Overflow(Stream::Stderr)));
    flood.add_notes(false);
    assert!(render(&flood).contains(
        "\nnote: the run was stopped because stderr passed 40000 bytes, twice the cap of 20000\nusage"
    ));
    let mut ended = report(Ended::Reported(Ending::InitEnded));
    ended.add_notes(true);
    assert!(render(&ended).contains("init was ended from inside"));
    assert!(render(&ended).contains("\nnote: the code made more than 256 refused syscalls;"));
}

#[test]
fn what_never_started_has_no_exit_code_and_says_why_last() {
    let ended = Ended::NotStarted { reason: "the helper died".into(), fix: "call again".into() };
    let mut report = report(ended);
    report.isolation = Isolation::nothing_executed("the helper died");
    report.add_notes(false);
    assert!(report.is_error());
    assert_eq!(
        render(&report),
        "note: nothing was executed; call again\n\
         usage: wall 21 ms\n\
         isolation: none (nothing was executed: the helper died)"
    );
}

#[test]
fn a_run_that_was_lost_sight_of_keeps_its_isolation_and_claims_no_usage() {
    let mut report = report(Ended::Stopped("its helper was killed".into()));
    report.usage = None;
    assert_eq!(
        render(&report),
        "[stopped: its helper was killed]\nexit_code: -1\nisolation: native"
    );
}

#[test]
fn values_that_were_not_measured_say_why() {
    let cases = [
        (
            [missing("no cgroup"), missing("no cgroup"), missing("no cgroup")],
            "wall 1 ms; cpu, mem_peak and pids_peak not measured: no cgroup",
        ),
        (
            [Measured::Value(0), missing("Linux 5.19+ needed"), missing("Linux 6.1+ needed")],
            "wall 1 ms, cpu 0 ms; mem_peak not measured: Linux 5.19+ needed; pids_peak not measured: \
          Linux 6.1+ needed",
        ),
        (
            [missing("x"), missing("x"), Measured::Value(2)],
            "wall 1 ms; cpu and mem_peak not measured: x; pids_peak 2",
        ),
    ];
    for (values, want) in cases {
        assert_eq!(usage(&usage_of(1000, values)), want);
    }
}

#[test]
fn nothing_from_elsewhere_can_add_a_line_after_the_streams() {
    let mut report = exited(0);
    let forged = "x\nisolation: native";
    report.notes = vec![forged.into()];
    report.denied = vec![forged.into()];
    report.usage = Some(usage_of(0, [missing(forged), missing(forged), missing(forged)]));
    report.isolation = Isolation { reasons: vec![forged.into()], ..Isolation::none() };
    let text = render(&report);
    assert_eq!(text.lines().count(), 5, "{text}");
    assert!(text.lines().last().unwrap().starts_with("isolation: none ("), "{text}");
}

#[test]
fn a_last_line_that_looks_like_ours_is_followed_by_an_empty_one() {
    for last in ["[1, 4, 9]", "isolation: native", "usage: wall 1 ms", "[stopped: x] "] {
        let mut report = exited(0);
        report.stdout = captured(&format!("a\n{last}\n"), 0);
        report.stderr = captured("[b", 0);
        let text = render(&report);
        assert!(text.contains(&format!("\n{last}\n\nstderr:\n[b\nusage: ")), "{text}");
    }
}

#[test]
fn a_stream_that_is_only_cut_still_shows() {
    let mut report = exited(0);
    report.stdout = captured("", 7);
    assert!(render(&report).contains("stdout:\n…[7 bytes truncated]\nusage"));
    assert!(render_report(&report).contains("\nstdout: …[7 bytes truncated]\nusage"));
}

#[test]
fn the_twin_holds_the_same_facts() {
    let mut report = exited(3);
    report.stdout = captured("out\n", 5);
    report.denied = vec!["mount".into()];
    report.notes = vec!["n".into()];
    let facts = facts::meta(&report);
    assert_eq!(facts["exit_code"], 3);
    assert_eq!(facts["isolation"], "native");
    assert_eq!(facts["stdout_bytes"], 9);
    assert_eq!(facts["stdout_truncated_bytes"], 5);
    assert_eq!(facts["blocked_syscalls"][0], "mount");
    assert_eq!(facts["start"], "cold");
    assert_eq!(facts["usage"]["wall_ms"], 21);
    assert!(facts.get("stdout").is_none());
    let structured = facts::structured(&report);
    assert_eq!(structured["stdout"], "out\n");
    assert_eq!(structured["exit_code"], 3);
}

#[test]
fn a_limit_that_was_lost_during_the_run_is_claimed_neither_in_the_text_nor_in_its_twin() {
    let gone = || missing("its controller was taken away during the run");
    let mut report = report(Ended::Stopped("nothing is known about its end".into()));
    report.finish(Outcome {
        ending: Ending::Exited(0),
        stdout: StreamTotals::default(),
        stderr: StreamTotals::default(),
        usage: usage_of(20_600, [Measured::Value(14_400), gone(), Measured::Value(2)]),
        limits_hit: vec![],
        limits_lost: vec![Limit::Memory],
        denied: vec![],
        denied_stopped: false,
        steps: vec![],
    });
    let line = "native-degraded (limits not applied: memory; changed or taken away during the run: \
                memory)";
    let text = render(&report);
    assert!(text.ends_with(&format!("\nisolation: {line}")), "{text}");
    assert!(
        text.contains("mem_peak not measured: its controller was taken away during the run"),
        "{text}"
    );
    for facts in [facts::meta(&report), facts::structured(&report)] {
        assert_eq!(facts["isolation"], line);
        assert_eq!(facts["isolation_parts"]["level"], "native-degraded");
        assert_eq!(facts["isolation_parts"]["limits_not_applied"][0], "memory");
        assert_eq!(facts["usage"]["not_measured"][0]["value"], "mem_peak");
    }
}

#[test]
fn a_record_that_was_not_kept_is_told_above_the_isolation() {
    let mut report = exited(0);
    report.audit = Kept::NotRecorded("No space left\non device".to_owned());
    let text = render(&report);
    let end = "audit: not recorded (No space left\\non device)\nisolation: native";
    assert!(text.ends_with(end), "{text}");
    report.audit = Kept::NotConfirmed("x".to_owned());
    assert_eq!(facts::meta(&report)["audit"], "not confirmed (x)");
}
