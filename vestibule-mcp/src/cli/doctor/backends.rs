//! What the backends can do: each one that the settings allow is tried, once.

use super::languages::{Answer, Answers, Refused, Works};
#[cfg(target_os = "linux")]
use super::native;
use super::{Check, State, container};
use crate::backend::Backend;
use crate::backend::naive::Naive;
use crate::backend::select::Selector;
use crate::config::Config;
use protocol::{Isolation, Language, Refusal, Sandbox};
use std::collections::HashMap;
use std::path::Path;

/// Probes every backend that the settings allow: the rows, and what each answers for every language.
///
/// # Errors
/// Beside the row that says so, a refusal if the settings allow no backend.
pub async fn look(
    config: &Config,
    sandbox: &Sandbox,
) -> (Vec<Check>, Result<Vec<Answers>, Refusal>) {
    let selector = Selector::new(config);
    let backends = match selector.backends() {
        Ok(backends) => backends,
        Err(refusal) => return (vec![Check::missing("backend", &refusal)], Err(refusal)),
    };
    let mut checks = Vec::new();
    let mut answers = Vec::new();
    for backend in backends {
        answers.push(match backend {
            #[cfg(target_os = "linux")]
            Backend::Native(native) => native::probe(native, sandbox, &mut checks).await,
            Backend::Container(backend) => container::probe(backend, sandbox, &mut checks).await,
            Backend::Naive(backend) => naive(backend, &mut checks),
        });
    }
    (checks, Ok(answers))
}

fn naive(backend: &Naive, checks: &mut Vec<Check>) -> Answers {
    let detail = "no isolation at all: code runs as you, on this machine";
    checks.push(Check::new("naive", State::Note, detail));
    let find = |language| backend.interpreter(language);
    Answers { backend: "naive", of: interpreters(checks, "naive", &Isolation::none(), find) }
}

/// A check for the interpreter of every language, and what follows from it.
pub(super) fn interpreters<P: AsRef<Path>>(
    checks: &mut Vec<Check>,
    backend: &'static str,
    isolation: &Isolation,
    find: impl Fn(Language) -> Result<P, Refusal>,
) -> HashMap<Language, Answer> {
    let answers = Language::ALL.map(|language| {
        let name = format!("{backend} {language}");
        let path = find(language);
        let shown = |path: &P| path.as_ref().display().to_string();
        checks.push(Check::of(&name, &path, shown));
        let answer = match path {
            Ok(_) => Ok(Works { backend, isolation: isolation.clone() }),
            Err(refusal) => Err(Refused { check: name, refusal }),
        };
        (language, answer)
    });
    answers.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::Interpreters;
    use std::path::PathBuf;

    #[test]
    fn each_language_stands_or_falls_with_its_own_interpreter() {
        let mut checks = Vec::new();
        let nothing = Interpreters::default();
        let only_bash = |language| match language {
            Language::Bash => Ok(PathBuf::from("/bin/bash")),
            other => nothing.path(other).map(Path::to_owned),
        };
        let answers = interpreters(&mut checks, "native", &Isolation::none(), only_bash);
        let states: Vec<State> = checks.iter().map(|check| check.state).collect();
        assert_eq!(states, [State::Missing, State::Ok, State::Missing]);
        for (language, check) in Language::ALL.into_iter().zip(&checks) {
            assert_eq!(answers[&language].is_ok(), check.state == State::Ok);
            if let Err(refused) = &answers[&language] {
                assert_eq!(refused.check, check.name);
                assert_eq!(Some(&refused.refusal.fix), check.fix.as_ref());
            }
        }
    }
}
