//! The arguments of `run_code`: checked before anything is started.

use crate::config::Config;
use crate::escape;
use protocol::{Cause, Language, Refusal, Retry, TimeoutSeconds};
use serde_json::{Map, Value};

/// The names of the arguments.
const ARGUMENTS: [&str; 3] = ["language", "code", "timeout_seconds"];
/// How many characters of a bad value are shown.
const SHOWN: usize = 60;

/// A call whose arguments are all usable.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RunRequest {
    /// What the code is written in.
    pub language: Language,
    /// The program text.
    pub code: String,
    /// When the run is ended.
    pub timeout: TimeoutSeconds,
    /// What the caller should know about how the arguments were taken.
    pub notes: Vec<String>,
}

impl RunRequest {
    /// Checks the arguments of a call.
    ///
    /// # Errors
    /// A refusal that names the argument and what it must be.
    pub fn parse(arguments: Map<String, Value>, config: &Config) -> Result<RunRequest, Refusal> {
        refuse_unknown("run_code", &ARGUMENTS, &arguments)?;
        let mut arguments = arguments;
        let language = language(arguments.get("language"))?;
        let code = code(arguments.remove("code"), config)?;
        let (timeout, note) = timeout(arguments.get("timeout_seconds"), config)?;
        Ok(RunRequest { language, code, timeout, notes: note.into_iter().collect() })
    }
}

/// A refusal of one argument: `what` says what it must be, and that is the fix.
pub fn bad_argument(what: String) -> Refusal {
    Refusal {
        what,
        cause: Cause::Request,
        fix: "correct the arguments".to_owned(),
        retry: Retry::Now,
        at: None,
    }
}

/// Refuses arguments that a tool does not take.
///
/// # Errors
/// A refusal that names the first such argument and the nearest one the tool takes.
pub fn refuse_unknown(
    tool: &str,
    known: &[&str],
    arguments: &Map<String, Value>,
) -> Result<(), Refusal> {
    let Some(name) = arguments.keys().find(|name| !known.contains(&name.as_str())) else {
        return Ok(());
    };
    let similarity = |known: &str| strsim::jaro_winkler(&name.to_lowercase(), known);
    let nearest = known.iter().max_by(|a, b| similarity(a).total_cmp(&similarity(b)));
    let hint = match nearest {
        Some(nearest) if similarity(nearest) > 0.7 => format!(" (did you mean {nearest}?)"),
        _ => format!("; it takes {} and no other argument", known.join(", ")),
    };
    let name = escape::for_display(name, SHOWN);
    Err(bad_argument(format!("{tool} has no argument \"{name}\"{hint}")))
}

/// A value for use in a refusal: its JSON, escaped and cut.
pub fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("\"{}\"", escape::for_display(text, SHOWN)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        other => escape::for_display(&other.to_string(), SHOWN),
    }
}

fn language(value: Option<&Value>) -> Result<Language, Refusal> {
    let found = value.and_then(Value::as_str).and_then(Language::from_name);
    found.ok_or_else(|| {
        let names = Language::ALL.map(Language::name).join(", ");
        bad_argument(match value {
            None => format!("language is missing; it must be one of {names}"),
            Some(value) => format!("language must be one of {names}, not {}", shown(value)),
        })
    })
}

fn code(value: Option<Value>, config: &Config) -> Result<String, Refusal> {
    let code = match value {
        Some(Value::String(code)) => code,
        None => {
            return Err(bad_argument("code is missing; it must be a non-blank string".to_owned()));
        }
        Some(other) => {
            return Err(bad_argument(format!(
                "code must be a non-blank string, not {}",
                shown(&other)
            )));
        }
    };
    if code.trim().is_empty() {
        return Err(bad_argument("code must be a non-blank string; it is blank".to_owned()));
    }
    let max = config.max_code;
    if code.len() > max.get() as usize {
        return Err(Refusal {
            fix: "send less code, or read data from a file in /workspace; the user can raise \
                  VESTIBULE_MAX_CODE_BYTES"
                .to_owned(),
            retry: Retry::AfterFixOrRestart,
            ..bad_argument(format!("code must be at most {max} bytes; it has {}", code.len()))
        });
    }
    Ok(code)
}

fn timeout(
    value: Option<&Value>,
    config: &Config,
) -> Result<(TimeoutSeconds, Option<String>), Refusal> {
    let max = config.max_timeout;
    let value = match value {
        None | Some(Value::Null) => return Ok((config.default_timeout, None)),
        Some(value) => value,
    };
    let seconds = value.as_number().and_then(whole_seconds).ok_or_else(|| {
        bad_argument(format!(
            "timeout_seconds must be a whole number from 1 to {max}, not {}",
            shown(value)
        ))
    })?;
    match TimeoutSeconds::new(seconds) {
        Ok(timeout) if timeout <= max => Ok((timeout, None)),
        _ => {
            let asked = escape::for_display(&value.to_string(), SHOWN);
            let note = format!("timeout_seconds {asked} was lowered to the maximum of {max}");
            Ok((max, Some(note)))
        }
    }
}

/// A whole number of seconds from 1, however JSON wrote it; what is beyond `u64` saturates.
fn whole_seconds(number: &serde_json::Number) -> Option<u64> {
    if let Some(seconds) = number.as_u64() {
        return (seconds >= 1).then_some(seconds);
    }
    let seconds = number.as_f64()?;
    // Float to integer saturates, so any number of digits is fine.
    (seconds >= 1.0 && seconds.fract() == 0.0).then_some(seconds as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn parse(arguments: Value) -> Result<RunRequest, String> {
        let config = Config::from_env([("HOME".into(), "/home/ada".into())]);
        let Value::Object(arguments) = arguments else { panic!("no object") };
        RunRequest::parse(arguments, &config).map_err(|refusal| refusal.to_string())
    }

    fn timeout_of(value: Value) -> Result<(u32, Vec<String>), String> {
        let call = json!({"language": "bash", "code": "true", "timeout_seconds": value});
        parse(call).map(|request| (request.timeout.get(), request.notes))
    }

    #[test]
    fn a_plain_call_gets_the_default_timeout() {
        let request = parse(json!({"language": "python", "code": "print(1)"})).unwrap();
        assert_eq!(request.language, Language::Python);
        assert_eq!((request.timeout.get(), request.notes), (10, vec![]));
    }

    #[test]
    fn every_refusal_names_its_argument() {
        let cases = [
            (json!({"code": "x"}), "language is missing; it must be one of python, bash, node"),
            (
                json!({"language": "ruby", "code": "x"}),
                "language must be one of python, bash, node, not \"ruby\"",
            ),
            (
                json!({"language": ["a"], "code": "x"}),
                "language must be one of python, bash, node, not a list",
            ),
            (
                json!({"language": null, "code": "x"}),
                "language must be one of python, bash, node, not null",
            ),
            (json!({"language": "node"}), "code is missing; it must be a non-blank string"),
            (
                json!({"language": "node", "code": " \n"}),
                "code must be a non-blank string; it is blank",
            ),
            (json!({"language": "node", "code": 5}), "code must be a non-blank string, not 5"),
            (
                json!({"language": "node", "code": "é".repeat(131_073)}),
                "code must be at most 262144 bytes; it has 262146",
            ),
            (
                json!({"language": "node", "code": "x", "timeout": 5}),
                "run_code has no argument \"timeout\" (did you mean timeout_seconds?)",
            ),
            (
                json!({"language": "node", "code": "x", "zzz": null}),
                "run_code has no argument \"zzz\"; it takes language, code, timeout_seconds and no other argument",
            ),
        ];
        for (arguments, want) in cases {
            let got = parse(arguments).unwrap_err();
            assert!(got.starts_with(&format!("{want}. Fix: ")), "{got}");
        }
    }

    #[test]
    fn timeouts_are_whole_seconds_from_one() {
        assert_eq!(timeout_of(json!(10.0)), Ok((10, vec![])));
        assert_eq!(timeout_of(Value::Null), Ok((10, vec![])));
        for bad in [
            json!(0),
            json!(-1),
            json!(-1e30),
            json!(1.5),
            json!("5"),
            json!(true),
            json!([]),
            json!(1e-3),
        ] {
            let text = timeout_of(bad.clone()).unwrap_err();
            assert!(
                text.starts_with("timeout_seconds must be a whole number from 1 to 60, not "),
                "{bad}: {text}"
            );
        }
    }

    #[test]
    fn a_longer_timeout_is_lowered_with_a_note() {
        for (value, shown) in [
            (json!(900), "900"),
            (json!(1_000_000_000_000_000_u64), "1000000000000000"),
            (json!(1e300), "1e+300"),
        ] {
            let note = format!("timeout_seconds {shown} was lowered to the maximum of 60");
            assert_eq!(timeout_of(value), Ok((60, vec![note])));
        }
    }

    proptest! {
        #[test]
        fn no_number_panics(value in any::<f64>()) {
            if let Ok((seconds, _)) = timeout_of(json!(value)) {
                prop_assert!((1..=60).contains(&seconds));
            }
        }
    }
}
