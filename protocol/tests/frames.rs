//! Frames: what is encoded comes back as it was, and no bytes whatever make a reader panic, hang or
//! take more memory than their direction's limit.

use proptest::prelude::*;
use protocol::frame::{
    self, Direction, FrameError, HEADER_LEN, Header, MAX_EVENT, MAX_OUTPUT, MAX_REQUEST, ToJail,
    ToServer,
};
use protocol::*;
use std::io::{self, Cursor, Read};
use std::path::PathBuf;

fn limits() -> impl Strategy<Value = Limits> {
    (1..=1_048_576u32, 1..=102_400u32, 2..=4_194_304u32, 1..=1_048_576u32).prop_map(
        |(memory, cpu, pids, tmpfs)| Limits {
            memory_mib: MemoryMib::try_from(memory).unwrap(),
            cpu_percent: CpuPercent::try_from(cpu).unwrap(),
            pids_max: PidsMax::try_from(pids).unwrap(),
            tmpfs_mib: TmpfsMib::try_from(tmpfs).unwrap(),
        },
    )
}

fn path() -> impl Strategy<Value = PathBuf> {
    "[ -~é]{0,40}".prop_map(|text| PathBuf::from(format!("/{text}")))
}

fn sandbox() -> impl Strategy<Value = Sandbox> {
    let rootfs = prop_oneof![Just(Rootfs::Host), path().prop_map(Rootfs::Image)];
    let environment = prop::collection::vec(("[A-Z_]{1,9}", "\\PC{0,30}"), 0..5);
    let bytecode = prop::option::of(path());
    (rootfs, path(), any::<bool>(), limits(), environment, bytecode, cgroup()).prop_map(
        |(rootfs, workspace, workspace_read_only, limits, environment, bytecode, cgroup)| Sandbox {
            rootfs,
            workspace,
            workspace_read_only,
            limits,
            environment,
            bytecode,
            cgroup,
        },
    )
}

fn no_cgroup() -> impl Strategy<Value = NoCgroup> {
    prop_oneof![
        Just(NoCgroup::NoHierarchy),
        Just(NoCgroup::Hybrid),
        Just(NoCgroup::NoControllers),
        Just(NoCgroup::NoUserManager),
        any::<u64>().prop_map(|seconds| NoCgroup::NoAnswer { seconds }),
        "\\PC{0,40}".prop_map(NoCgroup::NoScope),
        "\\PC{0,40}".prop_map(NoCgroup::Unusable),
    ]
}

fn share() -> impl Strategy<Value = ServerShare> {
    any::<(u32, u64)>().prop_map(|(process, memory_mib)| ServerShare { process, memory_mib })
}

fn cgroup() -> impl Strategy<Value = CgroupSource> {
    prop_oneof![
        Just(CgroupSource::Find),
        share().prop_map(CgroupSource::FindWith),
        (path(), share()).prop_map(|(home, server)| CgroupSource::Below { home, server }),
        no_cgroup().prop_map(CgroupSource::Without),
    ]
}

fn script() -> impl Strategy<Value = Script> {
    (0..3usize, any::<String>(), 1..=86_400u32, 1..=8_388_608u32).prop_map(
        |(language, code, timeout, output)| Script {
            language: Language::ALL[language],
            code,
            timeout_seconds: TimeoutSeconds::try_from(timeout).unwrap(),
            output_bytes: OutputBytes::try_from(output).unwrap(),
        },
    )
}

fn measured() -> impl Strategy<Value = Measured<u64>> {
    prop_oneof![any::<u64>().prop_map(Measured::Value), "\\PC{0,40}".prop_map(Measured::Missing)]
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let ending = prop_oneof![
        any::<u8>().prop_map(Ending::Exited),
        (1..65i32).prop_map(Ending::Killed),
        Just(Ending::TimedOut),
        Just(Ending::Overflow(Stream::Stderr)),
        Just(Ending::OutOfMemory),
        Just(Ending::InitEnded),
    ];
    let usage = (any::<u64>(), measured(), measured(), measured());
    let denied = prop::collection::vec("[a-z0-9_]{1,20}", 0..10);
    let taken = (0..Step::ALL.len(), any::<u64>(), any::<i32>());
    let steps = prop::collection::vec(taken, 0..60);
    (ending, any::<[u64; 4]>(), usage, denied, any::<bool>(), steps).prop_map(
        |(ending, [a, b, c, d], usage, denied, denied_stopped, steps)| Outcome {
            ending,
            stdout: StreamTotals { seen: a, forwarded: b },
            stderr: StreamTotals { seen: c, forwarded: d },
            usage: Usage {
                wall_us: usage.0,
                cpu_us: usage.1,
                mem_peak_bytes: usage.2,
                pids_peak: usage.3,
            },
            limits_hit: vec![LimitHit::Pids(7), LimitHit::Cpu { throttled: a, periods: b }],
            limits_lost: if denied_stopped { vec![Limit::Memory, Limit::Cpu] } else { vec![] },
            denied,
            denied_stopped,
            steps: steps
                .into_iter()
                .map(|(step, nanoseconds, errno)| TimedStep {
                    step: Step::ALL[step],
                    nanoseconds,
                    errno,
                })
                .collect(),
        },
    )
}

/// Counts what is asked of it: a reader that asks for more than a frame holds would hang on a pipe.
struct Pipe<'a> {
    bytes: Cursor<&'a [u8]>,
    largest_read: usize,
}

impl Read for Pipe<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.largest_read = self.largest_read.max(buffer.len());
        self.bytes.read(buffer)
    }
}

fn pipe(bytes: &[u8]) -> Pipe<'_> {
    Pipe { bytes: Cursor::new(bytes), largest_read: 0 }
}

proptest! {
    #[test]
    fn requests_come_back_in_both_encodings(sandbox in sandbox(), script in script()) {
        let spec = RunSpec { prepare: sandbox.clone(), execute: script.clone() };
        let json = serde_json::to_string(&spec).unwrap();
        prop_assert_eq!(serde_json::from_str::<RunSpec>(&json).unwrap(), spec);
        for request in [Request::Prepare(sandbox), Request::Execute(script)] {
            let bytes = frame::encode_request(&request).unwrap();
            prop_assert_eq!(ToJail::read(&mut &bytes[..]).unwrap(), Some(ToJail::Request(request)));
        }
    }

    #[test]
    fn events_come_back(outcome in outcome()) {
        let event = Event::Finished(outcome);
        let bytes = frame::encode_event(&event).unwrap();
        prop_assert_eq!(ToServer::read(&mut &bytes[..]).unwrap(), Some(ToServer::Event(event)));
    }

    #[test]
    fn output_comes_back(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
        let frame = frame::encode_output(Stream::Stderr, &bytes);
        let read = ToServer::read(&mut &frame[..]).unwrap();
        prop_assert_eq!(read, Some(ToServer::Output(Stream::Stderr, bytes)));
    }

    #[test]
    fn any_bytes_are_an_error_or_a_frame(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut input = pipe(&bytes);
        while let Ok(Some(_)) = ToJail::read(&mut input) {}
        prop_assert!(input.largest_read <= MAX_REQUEST);
        let mut input = pipe(&bytes);
        while let Ok(Some(_)) = ToServer::read(&mut input) {}
        prop_assert!(input.largest_read <= MAX_EVENT);
    }

    #[test]
    fn any_payload_is_an_error_or_a_message(payload in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut bytes = (payload.len() as u32).to_le_bytes().to_vec();
        bytes.push(2);
        bytes.extend_from_slice(&payload);
        let _ = ToJail::read(&mut &bytes[..]);
        let _ = ToServer::read(&mut &bytes[..]);
    }

    #[test]
    fn damaged_messages_never_panic(
        outcome in outcome(), at in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut bytes = frame::encode_event(&Event::Finished(outcome)).unwrap();
        let at = HEADER_LEN + at.index(bytes.len() - HEADER_LEN);
        bytes[at] = byte;
        let _ = ToServer::read(&mut &bytes[..]);
    }

    #[test]
    fn a_frame_cut_short_is_an_error(outcome in outcome(), at in any::<prop::sample::Index>()) {
        let bytes = frame::encode_event(&Event::Finished(outcome)).unwrap();
        let cut = &bytes[..1 + at.index(bytes.len() - 1)];
        prop_assume!(cut.len() < bytes.len());
        prop_assert!(matches!(ToServer::read(&mut &cut[..]), Err(FrameError::Io(_))));
    }
}

#[test]
fn an_announced_size_is_checked_before_anything_is_read() {
    let mut bytes = u32::MAX.to_le_bytes().to_vec();
    bytes.push(2);
    let mut input = pipe(&bytes);
    assert!(matches!(ToJail::read(&mut input), Err(FrameError::Size { .. })));
    assert!(input.largest_read < HEADER_LEN);
}

#[test]
fn each_direction_has_its_own_kinds_and_limits() {
    let header = |length: usize, kind: u8| {
        let [a, b, c, d] = (length as u32).to_le_bytes();
        [a, b, c, d, kind]
    };
    let parse = |length, kind, direction| Header::parse(header(length, kind), direction).is_ok();
    assert!(
        parse(MAX_REQUEST, 2, Direction::ToJail) && !parse(MAX_REQUEST + 1, 2, Direction::ToJail)
    );
    assert!(
        parse(MAX_EVENT, 2, Direction::ToServer) && !parse(MAX_EVENT + 1, 2, Direction::ToServer)
    );
    assert!(parse(MAX_OUTPUT, 3, Direction::ToServer));
    assert!(!parse(MAX_OUTPUT + 1, 4, Direction::ToServer));
    assert!(!parse(1, 3, Direction::ToJail) && !parse(1, 4, Direction::ToJail));
    for kind in (0..=255).filter(|kind| !(1..=4).contains(kind)) {
        assert!(!parse(0, kind, Direction::ToServer), "kind {kind}");
    }
}

#[test]
fn a_length_inside_a_message_cannot_ask_for_more_than_the_frame_holds() {
    // A `Prepare` whose workspace path claims 2^40 bytes.
    let mut payload = vec![0, 0];
    payload.push(253);
    payload.extend_from_slice(&(1u64 << 40).to_le_bytes());
    let mut bytes = (payload.len() as u32).to_le_bytes().to_vec();
    bytes.push(2);
    bytes.extend_from_slice(&payload);
    assert!(matches!(ToJail::read(&mut &bytes[..]), Err(FrameError::Decode(_))));
}

#[test]
fn bytes_after_a_message_are_an_error() {
    let event = Event::Refused(Refusal {
        what: "x".into(),
        cause: Cause::Other,
        fix: "y".into(),
        retry: Retry::Now,
        at: None,
    });
    let mut bytes = frame::encode_event(&event).unwrap();
    bytes.push(0);
    let length = (bytes.len() - HEADER_LEN) as u32;
    bytes[..4].copy_from_slice(&length.to_le_bytes());
    assert!(matches!(ToServer::read(&mut &bytes[..]), Err(FrameError::Decode(_))));
}

#[test]
fn greetings_of_other_versions_are_understood() {
    let hello = Hello { protocol: 77, version: "9.9.9-\u{1b}[31m".into() };
    let bytes = frame::encode_hello(&hello);
    let Some(ToJail::Hello(read)) = ToJail::read(&mut &bytes[..]).unwrap() else { panic!() };
    assert_eq!(read.protocol, 77);
    assert_eq!(read.version, "9.9.9-?[31m");
}

#[test]
fn what_is_out_of_range_is_no_value_in_either_encoding() {
    let spec =
        serde_json::json!({"memory_mib": 0, "cpu_percent": 1, "pids_max": 2, "tmpfs_mib": 1});
    let error = serde_json::from_value::<Limits>(spec).unwrap_err().to_string();
    assert!(
        error.contains("memory_mib (a memory cap in MiB) must be a whole number from 1 to 1048576"),
        "{error}"
    );
    let unknown = serde_json::json!({"memory": 1});
    assert!(serde_json::from_value::<Limits>(unknown).is_err());
}

#[test]
fn a_spec_with_an_unusable_field_is_refused_by_name() {
    let limits =
        serde_json::json!({"memory_mib": 1, "cpu_percent": 1, "pids_max": 2, "tmpfs_mib": 1});
    let sandbox = Sandbox {
        rootfs: Rootfs::Host,
        workspace: "/w".into(),
        workspace_read_only: false,
        limits: serde_json::from_value(limits).unwrap(),
        environment: Vec::new(),
        bytecode: None,
        cgroup: CgroupSource::Find,
    };
    assert_eq!(sandbox.check(), Ok(()));
    for workspace in ["w", "", "/a/../b", "/a\0b"] {
        let error = Sandbox { workspace: workspace.into(), ..sandbox.clone() }.check().unwrap_err();
        assert!(error.to_string().contains("workspace"), "{error}");
    }
    for (name, value) in [("", "x"), ("1A", "x"), ("A=B", "x"), ("A", "a\0b"), ("A B", "x")] {
        let environment = vec![(name.to_owned(), value.to_owned())];
        assert!(Sandbox { environment, ..sandbox.clone() }.check().is_err(), "{name:?}={value:?}");
    }
    let environment = (0..65).map(|n| (format!("V{n}"), String::new())).collect();
    assert!(Sandbox { environment, ..sandbox }.check().is_err());
}
