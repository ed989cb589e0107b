//! What an engine has: it is asked, and one container is run for each image.

use super::{Check, State};
use crate::backend::Failure;
use crate::backend::container::Container;
use crate::run::admission::{Admission, Slot};
use protocol::{Cause, Isolation, Language, Sandbox};
use std::time::Duration;

/// How long the end waits for the containers of the probes to be gone.
const END: Duration = Duration::from_secs(15);

/// Probes the engine for every language; the isolation of the first that can run.
pub async fn probe(
    container: &Container,
    sandbox: &Sandbox,
    checks: &mut Vec<Check>,
) -> Option<Isolation> {
    // One slot of its own: the doctor shares nothing with a server.
    let admission = Admission::new(1);
    let slot = admission.slot().await.ok()?;
    let found = look(container, sandbox, &slot, checks).await;
    drop(slot);
    if tokio::time::timeout(END, admission.all_free()).await.is_err() {
        tracing::warn!("the containers of the probe are not gone within {} s", END.as_secs());
    }
    found
}

async fn look(
    container: &Container,
    sandbox: &Sandbox,
    slot: &Slot,
    checks: &mut Vec<Check>,
) -> Option<Isolation> {
    let engine = container.name();
    let mut found: Option<Isolation> = None;
    for language in Language::ALL {
        let name = format!("{engine} {language}");
        match container.prepare(sandbox, language, slot.clone()).await {
            Ok(prepared) => {
                let isolation = prepared.isolation();
                if found.is_none() {
                    checks.push(Check::new(engine, State::Ok, prepared.engine()));
                }
                checks.push(Check::new(&name, State::Ok, isolation.to_string()));
                found.get_or_insert_with(|| isolation.clone());
            }
            Err(Failure::Refused(refusal) | Failure::Broken(refusal)) => {
                // An engine that is not there is not there for every language.
                if found.is_none() && refusal.cause == Cause::Engine {
                    checks.push(Check::missing(engine, &refusal));
                    return None;
                }
                checks.push(Check::missing(&name, &refusal));
            }
        }
    }
    found
}
