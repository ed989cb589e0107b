//! The policy as a table, for `--print-filter`.

use super::{ARCH, LIBSECCOMP, program, unknown_names};
use protocol::policy::{self, Action, Condition, Deviation, Rule, Test};
use std::io::{self, Write};

/// Columns of a line.
const WIDTH: usize = 100;

/// Columns of the action, at the start of a rule.
const INDENT: usize = 10;

/// Prints the whole policy: every rule with its action, calls, conditions and reason, then what
/// differs from Docker's profile, then what the compiled program is.
///
/// # Errors
/// What writing to `out` fails with.
pub fn print_table(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "System call policy of Vestibule on {}\n", ARCH.name())?;
    let equal = format!(
        "Equal in effect, for a process without capabilities, to {}. The differences are listed \
         below.",
        policy::SOURCE
    );
    paragraph(out, 0, "", &equal)?;
    writeln!(out)?;
    print_actions(out)?;
    for rule in policy::rules().filter(|rule| rule.is_for(ARCH)) {
        print_rule(out, rule)?;
    }
    writeln!(out, "Differences from Docker's profile\n")?;
    for deviation in policy::DEVIATIONS {
        print_deviation(out, deviation)?;
    }
    print_program(out)
}

fn print_actions(out: &mut impl Write) -> io::Result<()> {
    for action in Action::ALL {
        paragraph(out, INDENT, action.name(), action.meaning())?;
    }
    writeln!(out)?;
    for (calls, action) in [
        ("calls of another ABI than the native one", policy::FOREIGN),
        ("calls that no rule names", policy::UNLISTED),
        ("numbers that libseccomp can't name", policy::UNNAMED),
    ] {
        paragraph(out, INDENT, action.name(), calls)?;
    }
    writeln!(out)
}

fn print_rule(out: &mut impl Write, rule: &Rule) -> io::Result<()> {
    paragraph(out, INDENT, rule.action.name(), &rule.names.join(", "))?;
    for (index, condition) in rule.when.iter().enumerate() {
        let word = if index == 0 { "if" } else { "and" };
        let text = format!("{word} {} ({})", condition.meaning, formula(condition));
        paragraph(out, INDENT, "", &text)?;
    }
    if rule.when.is_empty() && is_otherwise(rule) {
        paragraph(out, INDENT, "", "otherwise")?;
    }
    paragraph(out, INDENT, "", &format!("# {}", rule.why))?;
    writeln!(out)
}

/// Whether other rules take some of the calls first.
fn is_otherwise(rule: &Rule) -> bool {
    policy::rules().any(|other| {
        other.is_for(ARCH)
            && !other.when.is_empty()
            && other.names.iter().any(|name| rule.names.contains(name))
    })
}

fn formula(condition: &Condition) -> String {
    let argument = match condition.mask {
        u64::MAX => format!("arg{}", condition.arg),
        mask => format!("arg{} & {mask:#x}", condition.arg),
    };
    match condition.test {
        Test::NotZero => format!("{argument} != 0"),
        Test::OneOf(values) => format!("{argument} == {}", alternatives(values)),
        Test::NoneOf(values) => format!("{argument} != {}", alternatives(values)),
    }
}

fn alternatives(values: &[u64]) -> String {
    values.iter().map(|value| format!("{value:#x}")).collect::<Vec<_>>().join(" | ")
}

fn print_deviation(out: &mut impl Write, deviation: &Deviation) -> io::Result<()> {
    let names = match deviation.names {
        [] => "all".to_string(),
        names => names.join(", "),
    };
    paragraph(out, INDENT, "calls", &names)?;
    paragraph(out, INDENT, "Docker", deviation.docker)?;
    paragraph(out, INDENT, "here", deviation.here)?;
    paragraph(out, INDENT, "because", deviation.why)?;
    writeln!(out)
}

fn print_program(out: &mut impl Write) -> io::Result<()> {
    let unknown = match unknown_names() {
        [] => "none".to_string(),
        names => names.join(", "),
    };
    writeln!(out, "Compiled by libseccomp {LIBSECCOMP}: {} instructions.", program().len())?;
    paragraph(out, 0, "", &format!("Named above and not known to that version: {unknown}."))
}

/// Writes a label and a text beside it, wrapped and indented.
fn paragraph(out: &mut impl Write, indent: usize, label: &str, text: &str) -> io::Result<()> {
    let mut line = format!("{label:indent$}");
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.len() + 1 + word.len() > WIDTH {
            writeln!(out, "{}", line.trim_end())?;
            line = " ".repeat(indent);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    writeln!(out, "{line}")
}
