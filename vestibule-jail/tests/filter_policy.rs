//! The system call filter, as compiled: the program is run by an interpreter and compared with an
//! oracle that states the policy a second time, for both architectures on whichever builds this.

#[path = "filter/bpf.rs"]
mod bpf;
#[path = "../src/filter/compile.rs"]
mod compile;
#[path = "filter/docker.rs"]
mod docker;
#[path = "filter/oracle.rs"]
mod oracle;
#[path = "filter/subject.rs"]
mod subject;

use oracle::{ENOSYS, REPORTED, REPORTED_BY_ARGUMENT, Verdict};
use proptest::prelude::*;
use protocol::policy::{Action, Arch, DEVIATIONS, UNLISTED_NAMES, rules};
use std::collections::BTreeSet;
use subject::{AUDIT_ARCH_AARCH64, AUDIT_ARCH_X86_64, GARBAGE, NUMBERS, SUBJECTS};
use vestibule_jail::filter;

/// 0, every single bit, every value of the low bits, and all ones.
fn bit_patterns() -> impl Iterator<Item = u64> {
    (0..64).map(|bit| 1 << bit).chain(0..64).chain([u64::MAX, u64::from(u32::MAX)])
}

#[test]
fn embedded_program_is_what_libseccomp_compiles() {
    let native = SUBJECTS
        .iter()
        .find(|subject| subject.arch.name() == std::env::consts::ARCH)
        .expect("the tests run on an architecture that has a policy");
    let embedded: Vec<u8> = filter::program()
        .iter()
        .flat_map(|instruction| {
            let [c0, c1] = instruction.code.to_le_bytes();
            let [k0, k1, k2, k3] = instruction.k.to_le_bytes();
            [c0, c1, instruction.jt, instruction.jf, k0, k1, k2, k3]
        })
        .collect();
    assert_eq!(filter::LIBSECCOMP, native.compiled.libseccomp, "rebuild: libseccomp has changed");
    assert_eq!(embedded, native.compiled.bytes);
    assert_eq!(size_of::<filter::Instruction>(), compile::INSTRUCTION_BYTES);
    assert_eq!(filter::unknown_names(), Vec::from_iter(native.compiled.unknown.iter().copied()));
    for number in -1..=1024 {
        let expected = native.compiled.reported.get(&number).copied();
        assert_eq!(filter::reported_name(number), expected, "{number}");
    }
}

/// A profile for a container engine has to name what no rule names.
#[test]
fn every_call_is_ruled_or_listed_as_unlisted() {
    let ruled: BTreeSet<&str> = rules().flat_map(|rule| rule.names).copied().collect();
    let unlisted: BTreeSet<&str> = UNLISTED_NAMES.iter().copied().collect();
    assert_eq!(ruled.intersection(&unlisted).count(), 0);
    for subject in SUBJECTS.iter() {
        for name in subject.names.values() {
            let known = ruled.contains(name.as_str()) || unlisted.contains(name.as_str());
            assert!(known, "{name} is not in UNLISTED_NAMES");
        }
    }
}

#[test]
fn every_number_gets_what_its_name_deserves() {
    for subject in SUBJECTS.iter() {
        assert!(subject.names.len() > 250, "libseccomp names the calls of {:?}", subject.arch);
        for number in NUMBERS.chain([1023, 1024, i32::MAX, -1, -2, i32::MIN]) {
            subject.check(number, [0; 6]);
            subject.check(number, [u64::MAX; 6]);
            subject.check(number, [0x0001_0203_0405_0607; 6]);
        }
    }
}

#[test]
fn sockets_by_family_type_and_protocol() {
    const FLAGS: [u64; 4] = [0, 0o4000, 0o2000000, 0o2004000];
    const PROTOCOLS: [u64; 12] = [0, 1, 2, 6, 15, 16, 17, 58, 132, 136, 255, 262];
    for subject in SUBJECTS.iter() {
        let numbers = ["socket", "socketpair"].map(|name| subject.number(name).expect(name));
        for family in 0..50 {
            for (socket_type, flags) in (0..16).flat_map(|t| FLAGS.map(|flags| (t, flags))) {
                for protocol in PROTOCOLS {
                    let args = [family, socket_type | flags, protocol, 0, 0, 0];
                    for number in numbers {
                        subject.check(number, args);
                        subject.check(number, args.map(|arg| arg | GARBAGE));
                    }
                }
            }
        }
        for pattern in bit_patterns() {
            for int_arg in 0..3 {
                let mut args = [2, 1, 6, 0, 0, 0];
                args[int_arg] = pattern;
                assert!(subject.check_int("socket", int_arg, args));
                assert!(subject.check_int("socketpair", int_arg, args));
            }
        }
    }
}

#[test]
fn socket_options_by_level_and_name() {
    for subject in SUBJECTS.iter() {
        let number = subject.number("setsockopt").expect("both architectures have it");
        for level in (0..64).chain(bit_patterns()) {
            for option in (0..300).chain(bit_patterns()) {
                let args = [3, level, option, 0, 0, 0];
                subject.check(number, args);
                subject.check(number, args.map(|arg| arg | GARBAGE));
            }
        }
    }
}

#[test]
fn clone_by_flags() {
    const SIGCHLD: u64 = 17;
    const THREAD: u64 = 0x003d_0f00; // what glibc passes for a thread
    for subject in SUBJECTS.iter() {
        let number = subject.number("clone").expect("both architectures have clone");
        for pattern in bit_patterns() {
            for base in [0, SIGCHLD, THREAD] {
                subject.check(number, [base | pattern, 0, 0, 0, 0, 0]);
            }
        }
    }
}

#[test]
fn file_modes_by_call() {
    const EVERYWHERE: [(&str, usize); 4] =
        [("fchmod", 1), ("fchmodat", 2), ("fchmodat2", 2), ("mknodat", 2)];
    const X86_64_ONLY: [(&str, usize); 3] = [("chmod", 1), ("creat", 1), ("mknod", 1)];
    for subject in SUBJECTS.iter() {
        let older: &[_] = if subject.arch == Arch::X86_64 { &X86_64_ONLY } else { &[] };
        for (name, arg) in EVERYWHERE.iter().chain(older).copied() {
            // 0o100644 is the mode of a regular file, as mknod takes it.
            for mode in bit_patterns().chain(0..0o10000).chain([0o100644, 0o104755]) {
                let mut args = [0; 6];
                args[arg] = mode;
                let known = !subject.compiled.unknown.contains(name);
                assert_eq!(subject.check_int(name, arg, args), known, "{name}");
            }
        }
    }
}

#[test]
fn open_by_flags_and_mode() {
    const CREATE: u64 = 0o100;
    const TMPFILE: u64 = 0o20200000; // with O_DIRECTORY, as programs pass it on x86_64
    for subject in SUBJECTS.iter() {
        for flags in bit_patterns().chain([CREATE | 2, TMPFILE | 2, CREATE | TMPFILE, 0o2000000]) {
            for mode in [0, 0o644, 0o1777, 0o2755, 0o4755, 0o6755, 0o2000, 0o4000, u64::MAX] {
                let open = [0, flags, mode, 0, 0, 0];
                let openat = [0, 0, flags, mode, 0, 0];
                assert_eq!(subject.check_int("open", 1, open), subject.arch == Arch::X86_64);
                assert!(subject.check_int("openat", 2, openat));
            }
        }
    }
}

#[test]
fn limits_by_resource() {
    for subject in SUBJECTS.iter() {
        for resource in (0..40).chain(bit_patterns()) {
            for new in [0, 1, 1 << 32, 0x7fff_0000_1000, u64::MAX] {
                assert!(subject.check_int("prlimit64", 1, [0, resource, new, 0, 0, 0]));
                assert!(subject.check_int("setrlimit", 0, [resource, new, 0, 0, 0, 0]));
            }
        }
    }
}

#[test]
fn what_reaches_init_or_out_of_the_filter() {
    const SNAP_CREATE: u64 = 0x5000_9401;
    const SNAP_CREATE_V2: u64 = 0x5000_9417;
    let known = [0, 1, 2, 3, 4, 8, 9, 42, SNAP_CREATE, SNAP_CREATE_V2, 0x5413, 0x4004_94fa];
    for subject in SUBJECTS.iter() {
        for value in known.into_iter().flat_map(|value| bit_patterns().map(move |p| p ^ value)) {
            assert!(subject.check_int("seccomp", 1, [1, value, 0, 0, 0, 0]));
            assert!(subject.check_int("ioctl", 1, [0, value, 0, 0, 0, 0]));
            for name in ["sched_setattr", "sched_setparam", "sched_setscheduler"] {
                assert!(subject.check_int(name, 0, [value, 0, 0, 0, 0, 0]));
            }
            for which in [0, 1, 2, 3, 1 << 32, u64::MAX] {
                assert!(subject.check_int("setpriority", 1, [which, value, 0, 0, 0, 0]));
                assert!(subject.check_int("setpriority", 0, [value, which, 0, 0, 0, 0]));
            }
        }
    }
}

#[test]
fn personality_by_value() {
    let docker = [0, 8, 0x20000, 0x20008, 0xffff_ffff];
    for subject in SUBJECTS.iter() {
        for persona in docker.into_iter().flat_map(|value| bit_patterns().map(move |p| p ^ value)) {
            assert!(subject.check_int("personality", 0, [persona, 0, 0, 0, 0, 0]));
        }
    }
}

#[test]
fn foreign_abis_get_enosys() {
    const AUDIT_ARCH_I386: u32 = 0x4000_0003;
    const AUDIT_ARCH_ARM: u32 = 0x4000_0028;
    const X32_BIT: i32 = 0x4000_0000;
    for subject in SUBJECTS.iter() {
        let all = [AUDIT_ARCH_I386, AUDIT_ARCH_ARM, AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64, 0, !0];
        for audit_arch in all.into_iter().filter(|&other| other != subject.audit_arch()) {
            for number in NUMBERS {
                let found = subject.run(audit_arch, number, [1, 1, 0, 0, 0, 0]).result;
                assert_eq!(Verdict::decode(found), ENOSYS, "{audit_arch:#x} {number}");
            }
        }
        for number in NUMBERS {
            let found = subject.run(subject.audit_arch(), number | X32_BIT, [1, 1, 0, 0, 0, 0]);
            assert_eq!(Verdict::decode(found.result), ENOSYS, "x32 {number}");
        }
    }
}

#[test]
fn every_report_has_a_name_and_every_name_a_report() {
    for subject in SUBJECTS.iter() {
        let expected: BTreeSet<&str> = REPORTED
            .split_whitespace()
            .chain(REPORTED_BY_ARGUMENT)
            .filter(|name| subject.number(name).is_some())
            .collect();
        let reported = &subject.compiled.reported;
        assert_eq!(reported.values().copied().collect::<BTreeSet<_>>(), expected);
        for (number, name) in reported {
            assert_eq!(subject.names.get(number).map(String::as_str), Some(*name));
            let found = subject.run(subject.audit_arch(), *number, [u64::MAX; 6]);
            assert_eq!(Verdict::decode(found.result), Verdict::Notify, "{name}");
        }
    }
}

#[test]
fn allowed_names_are_dockers_but_for_listed_deviations() {
    for arch in Arch::ALL {
        let ours: BTreeSet<&str> = rules()
            .filter(|rule| rule.is_for(arch) && rule.action == Action::Allow)
            .flat_map(|rule| rule.names.iter().copied())
            .collect();
        let mut docker = docker::allowed(arch);
        docker.extend(docker::BY_ARGUMENT);
        let missing: Vec<_> = docker.difference(&ours).copied().collect();
        let added: Vec<_> = ours.difference(&docker).copied().collect();
        assert_eq!((missing, added), (vec!["openat2"], vec![]), "{arch:?}");
        let mut by_argument: BTreeSet<&str> = rules()
            .filter(|rule| !rule.when.is_empty())
            .flat_map(|rule| rule.names.iter().copied())
            .collect();
        by_argument.insert("openat2");
        let deviating: BTreeSet<&str> =
            DEVIATIONS.iter().flat_map(|deviation| deviation.names.iter().copied()).collect();
        // Docker judges these two by their arguments as well, and alike.
        by_argument.retain(|name| !["clone", "personality"].contains(name));
        assert_eq!(by_argument, deviating);
    }
}

/// A name with a typing error would be taken for one that is too new.
#[test]
fn unknown_names_are_newer_than_libseccomp() {
    const NEWER_THAN_LIBSECCOMP_2_5_0: &str = "
        cachestat close_range epoll_pwait2 fchmodat2 futex_requeue futex_wait futex_waitv
        futex_wake getxattrat landlock_add_rule landlock_create_ruleset landlock_restrict_self
        listmount listxattrat map_shadow_stack memfd_secret mount_setattr mseal process_mrelease
        quotactl_fd removexattrat setxattrat statmount uretprobe
    ";
    for subject in SUBJECTS.iter() {
        for name in &subject.compiled.unknown {
            let newer = NEWER_THAN_LIBSECCOMP_2_5_0.split_whitespace().any(|newer| newer == *name);
            assert!(newer, "{:?}: libseccomp does not know {name}", subject.arch);
        }
    }
}

#[test]
fn common_calls_cost_few_instructions() {
    const BPF_MAXINSNS: usize = 4096;
    for subject in SUBJECTS.iter() {
        let total = subject.program.len();
        assert!(total <= BPF_MAXINSNS, "{total}");
        let cost = |name| {
            let number = subject.number(name).expect("both architectures have it");
            subject.run(subject.audit_arch(), number, [0; 6]).executed
        };
        let costs = ["read", "write", "futex", "mmap", "openat"].map(|name| (name, cost(name)));
        println!("{:?}: {total} instructions, executed: {costs:?}", subject.arch);
        // A list over some 350 calls would take hundreds.
        assert!(costs.iter().all(|(_, executed)| *executed <= 32), "{costs:?}");
    }
}

#[test]
fn printed_table_is_complete() {
    let mut bytes = Vec::new();
    filter::print_table(&mut bytes).expect("a Vec takes every byte");
    let table = String::from_utf8(bytes).expect("the table is UTF-8");
    let words: BTreeSet<&str> = table.split([' ', ',', '\n']).collect();
    let here = |arch: &Option<Arch>| arch.is_none_or(|a| a.name() == std::env::consts::ARCH);
    for name in rules().filter(|rule| here(&rule.arch)).flat_map(|rule| rule.names) {
        assert!(words.contains(name), "{name}");
    }
    let flat = table.split_whitespace().collect::<Vec<_>>().join(" ");
    for rule in rules().filter(|rule| here(&rule.arch)) {
        assert!(flat.contains(rule.why), "{}", rule.why);
        assert!(rule.when.iter().all(|condition| flat.contains(condition.meaning)));
    }
    for deviation in DEVIATIONS {
        assert!(flat.contains(deviation.here) && flat.contains(deviation.why));
    }
    assert!(flat.contains(protocol::policy::SOURCE));
    assert!(flat.contains(&format!("libseccomp {}", filter::LIBSECCOMP)));
    assert!(flat.contains(&format!("{} instructions", filter::program().len())));
    assert!(table.lines().all(|line| line.len() <= 100));
}

/// Small numbers, bits and arbitrary values, with and without garbage above 32 bits.
fn argument() -> impl Strategy<Value = u64> {
    prop_oneof![
        0u64..64,
        (0u32..64).prop_map(|bit| 1 << bit),
        any::<u64>(),
        any::<u32>().prop_map(u64::from)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 5_000,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn any_call_is_judged_as_the_oracle_says(
        number in prop_oneof![4 => NUMBERS, 1 => any::<i32>()],
        args in prop::array::uniform6(argument()),
    ) {
        for subject in SUBJECTS.iter() {
            subject.check(number, args);
        }
    }
}
