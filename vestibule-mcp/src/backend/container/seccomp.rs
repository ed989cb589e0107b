//! The system call policy as a profile for a container engine.

use protocol::policy::{self, Action, Arch, Clause, Comparison, Operator};
use serde_json::{Value, json};

/// The profile for an architecture, as engines read it (`seccomp` in the OCI runtime specification).
///
/// The same in effect as the helper's own filter, but for this: an engine has no reports, so that
/// what is reported there fails with EPERM alone; foreign ABIs kill the caller, which is what engines
/// do with an architecture that a profile does not name; and a limit that is pretended to be changed
/// there (`RLIMIT_CORE`, which is 1) is lowered here, where it stands at the engine's default.
pub fn profile(arch: Arch) -> Value {
    let (known, unnamed) = (action(policy::UNLISTED), action(policy::UNNAMED));
    let mut rules: Vec<Value> = policy::clauses(arch).map(|clause| rule(&clause)).collect();
    rules.push(json!({
        "names": policy::UNLISTED_NAMES, "action": known.0, "errnoRet": known.1,
    }));
    json!({
        "defaultAction": unnamed.0,
        "defaultErrnoRet": unnamed.1,
        "architectures": [match arch {
            Arch::X86_64 => "SCMP_ARCH_X86_64",
            Arch::Aarch64 => "SCMP_ARCH_AARCH64",
        }],
        "syscalls": rules,
    })
}

fn rule(clause: &Clause) -> Value {
    let (action, errno) = action(clause.action);
    let args: Vec<Value> = clause.comparisons.iter().map(argument).collect();
    let mut rule = json!({ "names": [clause.name], "action": action, "args": args });
    if let Some(errno) = errno {
        rule["errnoRet"] = errno.into();
    }
    rule
}

fn action(action: Action) -> (&'static str, Option<u16>) {
    match action {
        Action::Allow | Action::Pretend => ("SCMP_ACT_ALLOW", None),
        Action::Report | Action::Refuse | Action::Unknown => ("SCMP_ACT_ERRNO", action.errno()),
    }
}

fn argument(comparison: &Comparison) -> Value {
    let (op, value, value_two) = match comparison.operator {
        Operator::MaskedEqual { mask, value } => ("SCMP_CMP_MASKED_EQ", mask, value),
        Operator::NotEqual(value) => ("SCMP_CMP_NE", value, 0),
        Operator::AtLeast(value) => ("SCMP_CMP_GE", value, 0),
    };
    json!({ "index": comparison.arg, "value": value, "valueTwo": value_two, "op": op })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_clause_and_every_unlisted_name_has_its_rule() {
        for arch in Arch::ALL {
            let profile = profile(arch);
            assert_eq!(profile["defaultAction"], "SCMP_ACT_ERRNO");
            assert_eq!(profile["defaultErrnoRet"], 38);
            let rules = profile["syscalls"].as_array().unwrap();
            assert_eq!(rules.len(), policy::clauses(arch).count() + 1);
            let clone3 = rules.iter().find(|rule| rule["names"] == json!(["clone3"])).unwrap();
            assert_eq!(
                (&clone3["action"], &clone3["errnoRet"]),
                (&"SCMP_ACT_ERRNO".into(), &38.into())
            );
            let mount = rules.iter().find(|rule| rule["names"] == json!(["mount"])).unwrap();
            assert_eq!(mount["errnoRet"], 1);
        }
    }

    #[test]
    fn a_namespace_flag_of_clone_is_masked_as_engines_write_it() {
        let profile = profile(Arch::X86_64);
        let rules = profile["syscalls"].as_array().unwrap();
        let clone = rules
            .iter()
            .find(|rule| rule["names"] == json!(["clone"]) && rule["action"] == "SCMP_ACT_ALLOW");
        let expected = json!([
            { "index": 0, "value": 0x7e02_0000_u64, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ" }
        ]);
        assert_eq!(clone.unwrap()["args"], expected);
    }
}
