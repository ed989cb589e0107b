//! What an engine has: it is asked, and one container is run for each image.

use super::languages::{Answers, Refused, Works, state};
use super::{Check, State};
use crate::backend::Failure;
use crate::backend::container::Container;
use crate::run::admission::{Admission, Slot};
use protocol::{Cause, Language, Refusal, Sandbox};
use std::collections::HashMap;
use std::time::Duration;

/// How long the end waits for the containers of the probes to be gone.
const END: Duration = Duration::from_secs(15);

/// Probes the engine for every language.
pub async fn probe(container: &Container, sandbox: &Sandbox, checks: &mut Vec<Check>) -> Answers {
    // One slot of its own: the doctor shares nothing with a server.
    let admission = Admission::new(1);
    let slot = match admission.slot().await {
        Ok(slot) => slot,
        Err(refusal) => return refused(container, &refusal, checks),
    };
    let answers = look(container, sandbox, &slot, checks).await;
    drop(slot);
    if tokio::time::timeout(END, admission.all_free()).await.is_err() {
        tracing::warn!("the containers of the probe are not gone within {} s", END.as_secs());
    }
    answers
}

/// An engine that is not there is not there for every language.
fn refused(container: &Container, refusal: &Refusal, checks: &mut Vec<Check>) -> Answers {
    checks.push(Check::missing(container.name(), refusal));
    Answers::refused(container.name(), container.name(), refusal)
}

async fn look(
    container: &Container,
    sandbox: &Sandbox,
    slot: &Slot,
    checks: &mut Vec<Check>,
) -> Answers {
    let backend = container.name();
    let mut rows = Vec::new();
    let mut of = HashMap::new();
    // Two languages share an image: it is asked for and probed once, whatever comes of it.
    let mut failed: HashMap<&str, Refusal> = HashMap::new();
    for language in Language::ALL {
        let name = format!("{backend} {language}");
        let image = container.image(language);
        let answer = match failed.get(image) {
            Some(refusal) => Err(refusal.clone()),
            None => container.prepare(sandbox, language, slot.clone()).await.map_err(reason),
        };
        match answer {
            Ok(prepared) => {
                let isolation = prepared.isolation().clone();
                rows.push(Check::new(&name, state(&isolation), isolation.to_string()));
                of.insert(language, Ok(Works { backend: prepared.backend(), isolation }));
            }
            Err(refusal) => {
                if of.is_empty() && refusal.cause == Cause::Engine {
                    return refused(container, &refusal, checks);
                }
                // A missing interpreter says nothing of the image's other one.
                if !matches!(refusal.cause, Cause::InterpreterMissing(_)) {
                    failed.insert(image, refusal.clone());
                }
                rows.push(Check::missing(&name, &refusal));
                of.insert(language, Err(Refused { check: name, refusal }));
            }
        }
    }
    if let Some(engine) = container.engine() {
        checks.push(Check::new(backend, State::Ok, engine));
    }
    checks.extend(rows);
    Answers { backend, of }
}

fn reason(failure: Failure) -> Refusal {
    match failure {
        Failure::Refused(refusal) | Failure::Broken(refusal) => refusal,
    }
}
