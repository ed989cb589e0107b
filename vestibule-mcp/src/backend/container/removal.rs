//! Removing what a run has left.

use super::cli::Cli;
use super::engine::Engine;
use super::heirs::UnderWay;
use super::record;
use crate::backend::scratch::Scratch;
use crate::run::admission::Slot;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(20);
/// How long a container that the engine does not know may still come into being: its client was
/// killed, and the engine may be at work on what it had asked for.
const LATE_BIRTH: Duration = Duration::from_secs(10);
/// How long is waited between attempts, at most.
const PAUSE: Duration = Duration::from_secs(30);

/// What a run leaves behind. Dropping it removes the script at once and the container in the
/// background; the slot is kept until the container is gone.
pub struct Remains {
    left: Option<Left>,
}

struct Left {
    engine: Arc<Engine>,
    name: String,
    scratch: Scratch,
    slot: Slot,
    is_known: bool,
}

impl Remains {
    /// The remains of a run whose client has been started.
    pub fn new(engine: Arc<Engine>, name: String, scratch: Scratch, slot: Slot) -> Remains {
        Remains { left: Some(Left { engine, name, scratch, slot, is_known: false }) }
    }

    /// The engine has made the container: once it is removed, none of its name will come.
    pub fn container_is_known(&mut self) {
        if let Some(left) = &mut self.left {
            left.is_known = true;
        }
    }

    /// The container's name.
    pub fn name(&self) -> &str {
        self.left.as_ref().map_or("", |left| &left.name)
    }
}

impl Drop for Remains {
    fn drop(&mut self) {
        let Some(Left { engine, name, scratch, slot, is_known }) = self.left.take() else {
            return;
        };
        drop(scratch);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            // From here on: the process may end before the task has its turn.
            let under_way = UnderWay::new(&engine.cli, &name, !is_known);
            runtime.spawn(async move {
                remove(&engine.cli, &name, !is_known, |what| slot.is_held_by(what)).await;
                drop((under_way, slot));
            });
        }
    }
}

/// Removes a container, and goes on until it is gone. One that `may_come_late` is looked for again.
/// Says what takes time.
pub(super) async fn remove(
    cli: &Cli,
    name: &str,
    may_come_late: bool,
    mut waits: impl FnMut(&'static str),
) {
    let born_by = Instant::now() + LATE_BIRTH;
    let mut pause = Duration::from_millis(100);
    loop {
        match remove_once(cli, name).await {
            Ok(()) if !may_come_late || Instant::now() > born_by => return,
            Ok(()) => waits("a run that was ended before its container was seen"),
            Err(why) => {
                waits("a container that its engine does not remove");
                tracing::warn!("the container {name} is not removed yet: {why}");
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(PAUSE);
    }
}

/// Success means that there is none of that name now.
pub(super) async fn remove_once(cli: &Cli, name: &str) -> Result<(), String> {
    match cli.tell(&["rm", "--force", "--volumes", name], ATTEMPT).await {
        Ok(answer) if answer.status.success() => Ok(()),
        Ok(answer) if record::no_such_container(&answer.stderr) => Ok(()),
        Ok(answer) => Err(answer.stderr.trim().to_owned()),
        Err(no_answer) => Err(no_answer.to_string()),
    }
}
