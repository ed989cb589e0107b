//! What `run_code` would pick for each language. Chosen by the same code as a call's backend, from what
//! the rows of the backends have found out: nothing is probed for it.

use super::State;
use crate::backend::choice::Choice;
use crate::cli::for_terminal;
use protocol::{Isolation, Language, Level, Refusal};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// What one backend answered.
pub struct Answers {
    /// Its name.
    pub backend: &'static str,
    /// An answer for each language.
    pub of: HashMap<Language, Answer>,
}

/// What a backend answered for one language.
pub type Answer = Result<Works, Refused>;

/// It can run.
#[derive(Clone, Debug)]
pub struct Works {
    /// What would run it, by the name that a result has for it.
    pub backend: &'static str,
    /// What would protect it.
    pub isolation: Isolation,
}

/// It cannot run.
#[derive(Clone, Debug)]
pub struct Refused {
    /// The row that says so.
    pub check: String,
    /// Why.
    pub refusal: Refusal,
}

/// A language.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub language: String,
    /// Missing if it is blocked, a note if less than every limit is in force.
    pub state: State,
    /// What would run it.
    pub backend: Option<String>,
    /// The level, without what is in brackets.
    pub level: Option<String>,
    /// The `isolation:` line of a result.
    pub isolation: Option<String>,
    /// Why it is blocked: the reason of each backend.
    pub reasons: Vec<Reason>,
}

/// Why a language is blocked.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Reason {
    /// The name of the check that says so.
    pub check: String,
    /// What is missing.
    pub what: String,
    /// What to do about it.
    pub fix: String,
}

impl Answers {
    /// The same refusal for every language.
    pub fn refused(backend: &'static str, check: &str, refusal: &Refusal) -> Answers {
        let refused = Refused { check: check.to_owned(), refusal: refusal.clone() };
        Answers { backend, of: Language::ALL.map(|l| (l, Err(refused.clone()))).into() }
    }
}

/// What is picked for each language, of backends in the order in which a call asks them, and the strongest
/// isolation among that.
pub fn choose(backends: &[Answers]) -> (Vec<Row>, Option<Isolation>) {
    let picked = Language::ALL.map(|language| (language, pick(language, backends)));
    let isolations = picked.iter().filter_map(|(_, picked)| Some(&(*picked)?.isolation));
    let strongest = isolations.min_by_key(|isolation| isolation.level).cloned();
    let rows = picked.map(|(language, picked)| match picked {
        Some(works) => Row::works(language, works),
        None => {
            let answers = backends.iter().filter_map(|backend| backend.of.get(&language));
            Row::blocked(language, answers.filter_map(|answer| answer.as_ref().err()))
        }
    });
    (rows.into(), strongest)
}

/// As a call picks, without its probes.
fn pick(language: Language, backends: &[Answers]) -> Option<&Works> {
    let mut choice = Choice::new();
    for (index, backend) in backends.iter().enumerate() {
        let Some(answer) = backend.of.get(&language) else { continue };
        let answer = match answer {
            Ok(works) => Ok((works.isolation.level, works)),
            Err(refused) => Err(refused.refusal.clone()),
        };
        choice.add(index, backend.backend, answer);
        if choice.is_settled() {
            break;
        }
    }
    choice.made().ok().map(|(_, works)| works)
}

/// Every language blocked by what was found before any backend was asked.
pub fn blocked(check: &str, refusal: &Refusal) -> Vec<Row> {
    let refused = Refused { check: check.to_owned(), refusal: refusal.clone() };
    Language::ALL.map(|language| Row::blocked(language, [&refused])).into()
}

/// How a row stands that tells this isolation: what lacks something is worth knowing.
pub fn state(isolation: &Isolation) -> State {
    if isolation.level <= Level::Container { State::Ok } else { State::Note }
}

impl Row {
    fn works(language: Language, works: &Works) -> Row {
        let isolation = &works.isolation;
        Row {
            language: language.to_string(),
            state: state(isolation),
            backend: Some(works.backend.to_owned()),
            level: Some(isolation.level.to_string()),
            isolation: Some(isolation.to_string()),
            reasons: Vec::new(),
        }
    }

    fn blocked<'a>(language: Language, refused: impl IntoIterator<Item = &'a Refused>) -> Row {
        let reason = |Refused { check, refusal }: &Refused| Reason {
            check: check.clone(),
            what: refusal.what.clone(),
            fix: for_terminal(&refusal.fix),
        };
        Row {
            language: language.to_string(),
            state: State::Missing,
            backend: None,
            level: None,
            isolation: None,
            reasons: refused.into_iter().map(reason).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{Cause, Limit, Retry};

    fn works(backend: &'static str, isolation: Isolation) -> Answer {
        Ok(Works { backend, isolation })
    }

    fn native(missing: &[Limit]) -> Answer {
        works("native", Isolation::native(missing.to_vec(), vec![], vec![], None))
    }

    fn container(backend: &'static str, missing: &[Limit]) -> Answer {
        works(backend, Isolation::container(missing.to_vec(), vec![]))
    }

    fn refused(check: &str) -> Answer {
        let (what, fix) = (format!("no {check}"), format!("install {check}"));
        let refusal = Refusal { what, cause: Cause::Other, fix, retry: Retry::AfterFix, at: None };
        Err(Refused { check: check.to_owned(), refusal })
    }

    fn answers(backend: &'static str, of: [Answer; 3]) -> Answers {
        Answers { backend, of: Language::ALL.into_iter().zip(of).collect() }
    }

    #[test]
    fn each_language_has_what_a_call_would_get() {
        let cpu = [Limit::Cpu];
        let backends = [
            answers("native", [native(&[]), native(&cpu), refused("native node")]),
            answers("docker", [refused("docker"), container("docker", &cpu), refused("docker")]),
            answers("podman", [container("podman", &[]), container("podman", &[]), refused("x")]),
        ];
        let (rows, strongest) = choose(&backends);
        let picked = |row: &Row| (row.backend.clone(), row.level.clone(), row.state);
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(picked(&rows[0]), (some("native"), some("native"), State::Ok));
        // A full container beats a native sandbox that lacks a limit.
        assert_eq!(picked(&rows[1]), (some("podman"), some("container"), State::Ok));
        assert_eq!(picked(&rows[2]), (None, None, State::Missing));
        let reasons: Vec<&str> = rows[2].reasons.iter().map(|r| r.check.as_str()).collect();
        assert_eq!(reasons, ["native node", "docker", "x"]);
        assert_eq!(rows[2].reasons[0].fix, "install native node");
        assert_eq!(strongest.map(|isolation| isolation.level), Some(Level::Native));
    }

    #[test]
    fn what_is_weaker_is_a_note_with_its_whole_text() {
        let backends = [answers("native", [1, 2, 3].map(|_| native(&[Limit::Cpu])))];
        let (rows, _) = choose(&backends);
        let text = "native-degraded (limits not applied: cpu)";
        assert!(rows.iter().all(|row| row.isolation.as_deref() == Some(text)), "{rows:?}");
        assert!(rows.iter().all(|row| row.state == State::Note), "{rows:?}");
    }

    #[test]
    fn where_no_backend_was_asked_or_works_nothing_is_claimed() {
        let Err(refused) = refused("user") else { unreachable!() };
        let rows = blocked("user", &refused.refusal);
        let (none, strongest) = choose(&[Answers::refused("native", "user", &refused.refusal)]);
        assert_eq!(rows, none);
        assert!(strongest.is_none() && rows.iter().all(|row| row.state == State::Missing));
    }
}
