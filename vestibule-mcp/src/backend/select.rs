//! Which backend runs a language: found by trying, kept while it works.

use super::choice::Choice;
use super::container::Container;
use super::naive::Naive;
#[cfg(target_os = "linux")]
use super::native::Native;
use super::{Backend, Failure, Prepared};
use crate::config::{BackendChoice, Config};
use crate::run::admission::Slot;
use protocol::{Cause, Language, Refusal, Retry, Sandbox};
use std::collections::HashMap;
use std::fmt::Display;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long a refusal that lies in the machine is believed before it is looked into again.
const RECHECK: Duration = Duration::from_secs(30);

/// The backends that the settings allow, and what was learnt about them.
pub struct Selector {
    backends: Result<Vec<Backend>, Refusal>,
    learnt: Mutex<HashMap<Language, Learnt>>,
}

/// What follows the fix of one backend of several, where it takes a restart.
pub const THEN_RESTART: &str = ", then restart your MCP client";

/// What the last call in a language taught.
#[derive(Clone)]
enum Learnt {
    /// The backend of this index works.
    Works(usize),
    /// None does.
    Fails { since: Instant, refusal: Refusal },
}

/// Why nothing was prepared.
#[derive(Clone, Debug, PartialEq)]
pub enum NotPrepared {
    /// No backend can run this.
    Blocked(Refusal),
    /// The backend that worked before broke.
    Broke {
        /// The backend's name.
        backend: &'static str,
        /// How it broke.
        refusal: Refusal,
    },
}

impl Selector {
    /// The backends of these settings, in the order in which they are tried.
    pub fn new(config: &Config) -> Selector {
        Selector { backends: allowed(config), learnt: Mutex::default() }
    }

    /// The backends, for those who look at each of them.
    ///
    /// # Errors
    /// A refusal if the settings allow none.
    pub fn backends(&self) -> Result<&[Backend], Refusal> {
        self.backends.as_deref().map_err(Refusal::clone)
    }

    /// Prepares a run with the strongest backend that works.
    ///
    /// # Errors
    /// [`NotPrepared`].
    pub async fn prepare(
        &self,
        sandbox: &Sandbox,
        language: Language,
        slot: &Slot,
    ) -> Result<Prepared, NotPrepared> {
        let backends = self.backends().map_err(NotPrepared::Blocked)?;
        match self.recall(language) {
            Some(Learnt::Works(index)) => {
                let Some(backend) = backends.get(index) else {
                    return self.choose(backends, sandbox, language, slot).await;
                };
                match backend.prepare(sandbox, language, slot.clone()).await {
                    Ok(prepared) => return Ok(prepared),
                    Err(Failure::Broken(refusal)) => {
                        self.forget(language);
                        return Err(NotPrepared::Broke { backend: backend.name(), refusal });
                    }
                    Err(Failure::Refused(_)) => self.forget(language),
                }
            }
            Some(Learnt::Fails { since, refusal }) if since.elapsed() < RECHECK => {
                return Err(NotPrepared::Blocked(still(refusal, since.elapsed())));
            }
            Some(Learnt::Fails { .. }) | None => {}
        }
        self.choose(backends, sandbox, language, slot).await
    }

    /// Tries the backends in order until the choice is made.
    async fn choose(
        &self,
        backends: &[Backend],
        sandbox: &Sandbox,
        language: Language,
        slot: &Slot,
    ) -> Result<Prepared, NotPrepared> {
        let mut choice = Choice::new();
        for (index, backend) in backends.iter().enumerate() {
            let answer = match backend.prepare(sandbox, language, slot.clone()).await {
                Ok(prepared) => Ok((prepared.isolation().level, prepared)),
                Err(Failure::Refused(refusal) | Failure::Broken(refusal)) => Err(refusal),
            };
            choice.add(index, backend.name(), answer);
            if choice.is_settled() {
                break;
            }
        }
        match choice.made() {
            Ok((index, prepared)) => {
                self.learn(language, Learnt::Works(index));
                Ok(prepared)
            }
            Err(refusals) => Err(NotPrepared::Blocked(self.refuse(language, refusals))),
        }
    }

    /// Puts every backend's reason and fix into one refusal, and keeps it where it lies in the
    /// machine and not in the call.
    fn refuse(&self, language: Language, refusals: Vec<(&'static str, Refusal)>) -> Refusal {
        let lasting = refusals.iter().all(|(_, refusal)| is_lasting(refusal));
        let refusal = merge(language, refusals);
        if lasting {
            let since = Instant::now();
            self.learn(language, Learnt::Fails { since, refusal: refusal.clone() });
        }
        refusal
    }

    fn recall(&self, language: Language) -> Option<Learnt> {
        self.lock().get(&language).cloned()
    }

    fn learn(&self, language: Language, learnt: Learnt) {
        self.lock().insert(language, learnt);
    }

    fn forget(&self, language: Language) {
        self.lock().remove(&language);
    }

    /// The map is whole after every operation, so a panic elsewhere cannot have broken it.
    fn lock(&self) -> MutexGuard<'_, HashMap<Language, Learnt>> {
        self.learnt.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The backends that the settings allow.
fn allowed(config: &Config) -> Result<Vec<Backend>, Refusal> {
    let containers = Container::allowed(config).into_iter().map(Backend::Container);
    match config.backend {
        BackendChoice::Naive => Ok(vec![Backend::Naive(Naive)]),
        BackendChoice::Container => Ok(containers.collect()),
        BackendChoice::Native => native(config),
        BackendChoice::Auto if cfg!(target_os = "linux") => {
            let mut backends = native(config)?;
            backends.extend(containers);
            Ok(backends)
        }
        BackendChoice::Auto => Ok(containers.collect()),
    }
}

#[cfg(target_os = "linux")]
fn native(config: &Config) -> Result<Vec<Backend>, Refusal> {
    Ok(vec![Backend::Native(Native::new(config))])
}

#[cfg(not(target_os = "linux"))]
fn native(_config: &Config) -> Result<Vec<Backend>, Refusal> {
    let fix = "set VESTIBULE_BACKEND to auto or container, or run vestibule-mcp on Linux 5.9 or newer (on \
         Windows: inside WSL 2)";
    Err(Refusal {
        what: "the native sandbox needs Linux".to_owned(),
        cause: Cause::Request,
        fix: fix.to_owned(),
        retry: Retry::AfterRestart,
        at: None,
    })
}

/// Whether a refusal will hold until something on the machine changes, whatever the next call is.
fn is_lasting(refusal: &Refusal) -> bool {
    match refusal.cause {
        Cause::Privileged
        | Cause::KernelTooOld
        | Cause::UserNamespacesOff
        | Cause::NamespaceLimit
        | Cause::SecurityModule
        | Cause::ContainerFilter
        | Cause::MaskedProc
        | Cause::Chroot
        | Cause::Engine
        | Cause::Image => refusal.retry != Retry::Now,
        Cause::Rootfs
        | Cause::InterpreterMissing(_)
        | Cause::WorkspaceMissing
        | Cause::WorkspaceNotWritable
        | Cause::WorkspaceNotAllowed
        | Cause::Request
        | Cause::Version
        | Cause::Other => false,
    }
}

/// One refusal of several: a single one stands for itself.
///
/// `what` is what none of them can run.
pub fn merge(what: impl Display, mut refusals: Vec<(&'static str, Refusal)>) -> Refusal {
    if refusals.len() == 1
        && let Some((_, refusal)) = refusals.pop()
    {
        return refusal;
    }
    let restart = |retry| matches!(retry, Retry::AfterRestart | Retry::AfterFixOrRestart);
    let some_restart = refusals.iter().any(|(_, refusal)| restart(refusal.retry));
    let reasons: Vec<String> = refusals
        .iter()
        .map(|(name, refusal)| {
            let at = refusal.at.map(|at| format!(" ({at})")).unwrap_or_default();
            let then = match refusal.retry {
                Retry::AfterRestart => THEN_RESTART,
                Retry::Now | Retry::AfterFix | Retry::AfterFixOrRestart => "",
            };
            format!("{name}: {}{at}. Fix: {}{then}", refusal.what, refusal.fix)
        })
        .collect();
    Refusal {
        what: format!("no backend can run {what} here. {}", reasons.join(". ")),
        cause: Cause::Other,
        fix: "do one of these".to_owned(),
        retry: if some_restart { Retry::AfterFixOrRestart } else { Retry::AfterFix },
        at: None,
    }
}

/// A refusal that is repeated without having been looked into again.
fn still(mut refusal: Refusal, age: Duration) -> Refusal {
    let left = RECHECK.saturating_sub(age).as_secs().max(1);
    refusal.what.push_str(&format!(" (found {} s ago)", age.as_secs()));
    refusal.fix.push_str(&format!(", and wait {left} s for the next check"));
    refusal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(cause: Cause, what: &str) -> Refusal {
        let fix = format!("fix {what}");
        Refusal { what: what.to_owned(), cause, fix, retry: Retry::AfterFix, at: None }
    }

    fn selector(variables: &[(&str, &str)]) -> Selector {
        let all = [("HOME", "/home/ada")].iter().chain(variables);
        Selector::new(&Config::from_env(all.map(|(name, value)| (name.into(), value.into()))))
    }

    #[test]
    fn naive_is_used_only_when_named() {
        let naive = selector(&[("VESTIBULE_BACKEND", "naive")]);
        assert_eq!(naive.backends().unwrap()[0].name(), "naive");
        let auto = selector(&[]);
        if let Ok(backends) = auto.backends() {
            assert!(backends.iter().all(|backend| backend.name() != "naive"));
        }
    }

    #[test]
    fn the_engines_follow_native_and_a_runtime_picks_one_of_them() {
        let names = |variables: &[(&str, &str)]| -> Vec<&str> {
            selector(variables).backends().unwrap().iter().map(Backend::name).collect()
        };
        assert!(names(&[]).ends_with(&["docker", "podman"]));
        assert_eq!(names(&[]).len(), if cfg!(target_os = "linux") { 3 } else { 2 });
        assert_eq!(names(&[("VESTIBULE_BACKEND", "container")]), ["docker", "podman"]);
        let podman = [("VESTIBULE_BACKEND", "container"), ("VESTIBULE_RUNTIME", "podman")];
        assert_eq!(names(&podman), ["podman"]);
    }

    #[test]
    fn a_refusal_of_all_names_each_with_its_fix() {
        let both = vec![
            ("native", refusal(Cause::UserNamespacesOff, "no namespaces")),
            ("container", refusal(Cause::Other, "no engine")),
        ];
        let text = merge(Language::Bash, both).to_string();
        for part in ["native: no namespaces. Fix: fix no namespaces", "container: no engine. Fix:"]
        {
            assert!(text.contains(part), "{text}");
        }
        let old = Refusal { retry: Retry::AfterRestart, ..refusal(Cause::Version, "old") };
        let text =
            merge(Language::Bash, vec![("native", old), ("docker", refusal(Cause::Engine, "x"))]);
        assert!(text.to_string().contains("fix old, then restart your MCP client"), "{text}");
        let one = refusal(Cause::Other, "w");
        assert_eq!(merge(Language::Bash, vec![("native", one.clone())]), one);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_of_the_machine_is_kept_for_thirty_seconds_and_one_of_the_call_is_not() {
        let selector = selector(&[]);
        let kept = |cause| {
            selector.refuse(Language::Node, vec![("native", refusal(cause, "w"))]);
            let recalled = selector.recall(Language::Node);
            selector.forget(Language::Node);
            matches!(recalled, Some(Learnt::Fails { .. }))
        };
        assert!(kept(Cause::UserNamespacesOff));
        assert!(!kept(Cause::WorkspaceMissing));
        assert!(!kept(Cause::Other));
        let text = still(refusal(Cause::Chroot, "w"), Duration::from_secs(10)).to_string();
        assert!(text.contains("(found 10 s ago)") && text.contains("wait 20 s"), "{text}");
    }
}
