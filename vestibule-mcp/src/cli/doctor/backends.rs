//! What the backends can do: each one that the settings allow is tried.

#[cfg(target_os = "linux")]
use super::native;
use super::{Check, State, container};
use crate::backend::Backend;
use crate::backend::naive::Naive;
use crate::backend::select::Selector;
use crate::config::Config;
use protocol::{Isolation, Language, Refusal, Sandbox};
use std::path::Path;

/// Probes every backend that the settings allow; the strongest isolation that was found.
pub async fn checks(config: &Config, sandbox: &Sandbox) -> (Vec<Check>, Option<Isolation>) {
    let selector = Selector::new(config);
    let backends = match selector.backends() {
        Ok(backends) => backends,
        Err(refusal) => return (vec![Check::missing("backend", &refusal)], None),
    };
    let mut checks = Vec::new();
    let mut best: Option<Isolation> = None;
    for backend in backends {
        let found = match backend {
            #[cfg(target_os = "linux")]
            Backend::Native(native) => native::probe(native, sandbox, &mut checks).await,
            Backend::Container(backend) => container::probe(backend, sandbox, &mut checks).await,
            Backend::Naive(backend) => naive(backend, &mut checks),
        };
        let stronger =
            |found: &Isolation| best.as_ref().is_none_or(|best| found.level < best.level);
        if let Some(found) = found.filter(stronger) {
            best = Some(found);
        }
    }
    (checks, best)
}

fn naive(backend: &Naive, checks: &mut Vec<Check>) -> Option<Isolation> {
    let detail = "no isolation at all: code runs as you, on this machine";
    checks.push(Check::new("naive", State::Note, detail));
    interpreters(checks, |language| backend.interpreter(language)).then(Isolation::none)
}

/// A check for every language; whether any of them can run.
pub(super) fn interpreters<P: AsRef<Path>>(
    checks: &mut Vec<Check>,
    find: impl Fn(Language) -> Result<P, Refusal>,
) -> bool {
    let found = Language::ALL.map(|language| {
        let path = find(language);
        let shown = |path: &P| path.as_ref().display().to_string();
        checks.push(Check::of(language.name(), &path, shown));
        path.is_ok()
    });
    found.contains(&true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::Interpreters;
    use std::path::PathBuf;

    #[test]
    fn one_interpreter_makes_ready_and_none_does_not() {
        let mut checks = Vec::new();
        let nothing = Interpreters::default();
        assert!(!interpreters(&mut checks, |language| nothing.path(language)));
        let missing = |check: &Check| check.state == State::Missing && check.fix.is_some();
        assert!(checks.len() == Language::ALL.len() && checks.iter().all(missing), "{checks:?}");
        let only_bash = |language| match language {
            Language::Bash => Ok(PathBuf::from("/bin/bash")),
            other => nothing.path(other).map(Path::to_owned),
        };
        assert!(interpreters(&mut Vec::new(), only_bash));
    }
}
