//! The policy is data: these tests hold what a reader, and the code that compiles it, take for
//! granted. What the compiled filter does is tested in `vestibule-jail`.

use super::*;
use std::collections::{BTreeMap, BTreeSet};

fn by_name(arch: Arch) -> BTreeMap<&'static str, Vec<Clause>> {
    let mut calls: BTreeMap<&'static str, Vec<Clause>> = BTreeMap::new();
    for clause in clauses(arch) {
        calls.entry(clause.name).or_default().push(clause);
    }
    calls
}

/// Whether no value of an argument satisfies both.
fn exclude_each_other(a: Operator, b: Operator) -> bool {
    use Operator::{MaskedEqual, NotEqual};
    match (a, b) {
        (MaskedEqual { mask, value }, MaskedEqual { mask: other_mask, value: other }) => {
            (value ^ other) & mask & other_mask != 0
        }
        (NotEqual(unequal), MaskedEqual { mask: u64::MAX, value })
        | (MaskedEqual { mask: u64::MAX, value }, NotEqual(unequal)) => value == unequal,
        _ => false,
    }
}

fn disjoint(a: &Clause, b: &Clause) -> bool {
    a.comparisons.iter().any(|x| {
        b.comparisons.iter().any(|y| x.arg == y.arg && exclude_each_other(x.operator, y.operator))
    })
}

#[test]
fn every_call_has_one_rule_or_ends_with_otherwise() {
    for arch in Arch::ALL {
        let mut unconditional = BTreeMap::new();
        for rule in rules().filter(|rule| rule.is_for(arch)) {
            for &name in rule.names {
                if rule.when.is_empty() {
                    assert_eq!(unconditional.insert(name, rule.action), None, "{name}");
                } else {
                    assert!(!unconditional.contains_key(name), "{name}: otherwise comes last");
                }
            }
        }
        let all: BTreeSet<_> = clauses(arch).map(|clause| clause.name).collect();
        assert_eq!(all, unconditional.into_keys().collect(), "{arch:?}");
    }
}

#[test]
fn nothing_is_allowed_by_otherwise() {
    for arch in Arch::ALL {
        for (name, clauses) in by_name(arch) {
            for clause in clauses.iter().filter(|_| clauses.len() > 1) {
                assert!(!clause.comparisons.is_empty(), "{name} has a rule that hides the others");
                let otherwise = clause
                    .comparisons
                    .iter()
                    .any(|comparison| matches!(comparison.operator, Operator::AtLeast(_)));
                assert!(!otherwise || clause.action != Action::Allow, "{name}");
            }
        }
    }
}

#[test]
fn conditional_rules_with_different_actions_never_overlap() {
    let mut pairs = 0;
    for arch in Arch::ALL {
        for (name, clauses) in by_name(arch) {
            let Some((_otherwise, conditional)) = clauses.split_last() else { continue };
            for a in conditional {
                for b in conditional.iter().filter(|b| a.action != b.action) {
                    assert!(disjoint(a, b), "{name}: {a:?} and {b:?}");
                    pairs += 1;
                }
            }
        }
    }
    assert!(pairs > 0, "setrlimit has such rules");
}

#[test]
fn comparisons_can_hold_and_can_be_compiled() {
    for rule in rules() {
        let mut args = BTreeSet::new();
        for condition in rule.when {
            assert!(condition.arg < 6, "{:?}", rule.names);
            assert!(args.insert(condition.arg), "{:?}: one test per argument", rule.names);
            match condition.test {
                Test::NotZero => assert_eq!(condition.mask, u64::MAX, "{:?}", rule.names),
                Test::OneOf(values) | Test::NoneOf(values) => {
                    assert!(!values.is_empty(), "{:?}", rule.names);
                    assert!(values.iter().all(|value| value & !condition.mask == 0));
                }
            }
        }
    }
}

#[test]
fn texts_and_names_are_in_order() {
    for rule in rules() {
        assert!(!rule.why.is_empty() && !rule.why.ends_with('.'), "{:?}", rule.names);
        assert!(rule.names.is_sorted_by(|a, b| a < b), "{:?}", rule.names);
        assert!(rule.when.iter().all(|condition| !condition.meaning.is_empty()));
    }
    for deviation in DEVIATIONS {
        for text in [deviation.docker, deviation.here, deviation.why] {
            assert!(!text.is_empty() && !text.ends_with('.'), "{:?}", deviation.names);
        }
        for name in deviation.names {
            assert!(rules().any(|rule| rule.names.contains(name)), "{name} is in no rule");
        }
    }
}

#[test]
fn clauses_multiply_out_values_and_mark_otherwise() {
    let socketpair: Vec<Clause> =
        clauses(Arch::X86_64).filter(|clause| clause.name == "socketpair").collect();
    let family = Operator::MaskedEqual { mask: 0xffff_ffff, value: 1 };
    assert_eq!(
        socketpair,
        [
            Clause {
                name: "socketpair",
                action: Action::Allow,
                comparisons: vec![Comparison { arg: 0, operator: family }],
            },
            Clause {
                name: "socketpair",
                action: Action::Report,
                comparisons: vec![Comparison { arg: 0, operator: Operator::AtLeast(0) }],
            },
        ]
    );
    // AF_UNIX with three types; two families with two protocols of TCP and of UDP; AF_NETLINK with
    // two types; otherwise.
    let sockets = clauses(Arch::Aarch64).filter(|clause| clause.name == "socket");
    assert_eq!(sockets.count(), 3 + 2 * 2 + 2 * 2 + 2 + 1);
}

#[test]
fn what_none_of_some_values_means_is_multiplied_out() {
    let operators: Vec<Operator> = clauses(Arch::X86_64)
        .filter(|clause| clause.name == "setsockopt" && clause.comparisons.len() == 2)
        .filter_map(|clause| clause.comparisons.iter().find(|c| c.arg == 2).map(|c| c.operator))
        .collect();
    // 26 shared bits above, and then five for each of the two values that differ from there on.
    assert_eq!(operators.len(), 26 + 2 * 5);
    let holds = |number: u64| {
        operators.iter().any(|operator| match operator {
            Operator::MaskedEqual { mask, value } => number & mask == *value,
            _ => false,
        })
    };
    for number in (0..300).chain([1 << 31 | 26, 0xffff_ffff, 1 << 6 | 51]) {
        assert_eq!(holds(number), number != 26 && number != 51, "{number}");
    }
    // The kernel reads an int: what stands above does not matter.
    assert!(!holds(1 << 32 | 26) && !holds(u64::MAX << 32 | 51));
}

#[test]
fn older_calls_are_for_x86_64_only() {
    let aarch64 = by_name(Arch::Aarch64);
    let x86_64 = by_name(Arch::X86_64);
    for name in ["open", "fork", "mkdir", "chmod", "arch_prctl", "iopl"] {
        assert!(x86_64.contains_key(name) && !aarch64.contains_key(name), "{name}");
    }
    assert!(aarch64.keys().all(|name| x86_64.contains_key(name)));
}

#[test]
fn names_of_architectures_are_read_back() {
    for arch in Arch::ALL {
        assert_eq!(Arch::from_name(arch.name()), Some(arch));
    }
    assert_eq!(Arch::from_name("riscv64"), None);
}
