//! The rules, multiplied out into what a seccomp library takes: per clause one system call, one
//! action and comparisons that must all hold, at most one per argument.

use super::{Action, Arch, Condition, Rule, Test, rules};

/// One system call, what happens to it, and when.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Clause {
    /// The kernel's name of the system call.
    pub name: &'static str,
    /// What happens to it.
    pub action: Action,
    /// All of these must hold; none means always. At most one per argument.
    pub comparisons: Vec<Comparison>,
}

/// A comparison of one argument with a constant.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Comparison {
    /// Which argument, 0 to 5.
    pub arg: u32,
    /// The comparison, with its constants.
    pub operator: Operator,
}

/// The comparisons that the policy needs; each is one of libseccomp's.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Operator {
    /// `argument & mask == value`
    MaskedEqual {
        /// The bits to look at.
        mask: u64,
        /// What they must be.
        value: u64,
    },
    /// `argument != value`, all 64 bits
    NotEqual(u64),
    /// `argument >= value`, unsigned, all 64 bits
    AtLeast(u64),
}

/// Always true, and the last comparison that libseccomp (2.4 and later) tries of all those made on
/// a call: it sorts them by argument, from the highest, and on the same argument tries equality
/// before order. This is how "otherwise" is written without a second default: a rule without any
/// comparison would replace the others instead.
const OTHERWISE: Comparison = Comparison { arg: 0, operator: Operator::AtLeast(0) };

/// Every clause of the policy for an architecture, in the order of the rules.
///
/// Clauses of one call never contradict each other, apart from the "otherwise" clause (always true,
/// never [`Action::Allow`]). A library that would try that one first would refuse more, never less.
pub fn clauses(arch: Arch) -> impl Iterator<Item = Clause> {
    rules().filter(move |rule| rule.is_for(arch)).flat_map(move |rule| rule_clauses(rule, arch))
}

fn rule_clauses(rule: &'static Rule, arch: Arch) -> impl Iterator<Item = Clause> {
    let combinations = combinations(rule.when);
    rule.names.iter().flat_map(move |&name| {
        let otherwise = rule.when.is_empty() && is_conditional(name, arch);
        combinations.clone().into_iter().map(move |mut comparisons| {
            if otherwise {
                comparisons.push(OTHERWISE);
            }
            Clause { name, action: rule.action, comparisons }
        })
    })
}

fn is_conditional(name: &str, arch: Arch) -> bool {
    rules().any(|rule| rule.is_for(arch) && !rule.when.is_empty() && rule.names.contains(&name))
}

/// Every way to pick one value per condition; a single empty one if there is no condition.
fn combinations(conditions: &[Condition]) -> Vec<Vec<Comparison>> {
    let mut all = vec![Vec::new()];
    for condition in conditions {
        all = all
            .iter()
            .flat_map(|chosen| {
                operators(condition).into_iter().map(|operator| {
                    let mut next: Vec<Comparison> = chosen.clone();
                    next.push(Comparison { arg: condition.arg, operator });
                    next
                })
            })
            .collect();
    }
    all
}

/// Every beginning of a number, from its highest bit on, that no value has and that is one bit longer
/// than a beginning that some value has: one of them holds for each number but the values.
fn none_of(mask: u64, values: &[u64]) -> Vec<Operator> {
    let mut operators = Vec::new();
    let mut beginnings = vec![0];
    let mut seen = 0;
    for bit in (0..64).rev().map(|bit| 1 << bit).filter(|bit| mask & bit != 0) {
        seen |= bit;
        let longer = beginnings.iter().flat_map(|&value| [value, value | bit]);
        let (shared, free): (Vec<u64>, Vec<u64>) =
            longer.partition(|&beginning| values.iter().any(|value| value & seen == beginning));
        operators.extend(free.iter().map(|&value| Operator::MaskedEqual { mask: seen, value }));
        beginnings = shared;
    }
    operators
}

fn operators(condition: &Condition) -> Vec<Operator> {
    match condition.test {
        Test::OneOf(values) => values
            .iter()
            .map(|&value| Operator::MaskedEqual { mask: condition.mask, value })
            .collect(),
        Test::NoneOf(values) => none_of(condition.mask, values),
        Test::NotZero => vec![Operator::NotEqual(0)],
    }
}
