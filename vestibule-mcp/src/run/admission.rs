//! Slots: how many runs may be under way at once.

use protocol::{Cause, Refusal, Retry};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long a call waits for a slot.
pub const WAIT: Duration = Duration::from_secs(5);

/// The slots of one server.
pub struct Admission {
    slots: Arc<Semaphore>,
    count: u32,
    given: AtomicU64,
    leftovers: Leftovers,
}

/// A taken slot. It is free again when the last clone is dropped: whoever still has something of
/// the run to clean up keeps one.
#[derive(Clone)]
pub struct Slot {
    held: Arc<Held>,
}

/// What is given back with the last clone of a slot.
struct Held {
    _permit: OwnedSemaphorePermit,
    number: u64,
    leftovers: Leftovers,
}

/// What holds slots whose runs are over, by the number of the slot.
type Leftovers = Arc<Mutex<BTreeMap<u64, &'static str>>>;

impl Slot {
    /// The run is over, and something of it cannot be removed: what, for whoever waits for a slot.
    pub fn is_held_by(&self, what: &'static str) {
        lock(&self.held.leftovers).insert(self.held.number, what);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        lock(&self.leftovers).remove(&self.number);
    }
}

/// The map is whole after every operation, so a panic elsewhere cannot have broken it.
fn lock(leftovers: &Leftovers) -> MutexGuard<'_, BTreeMap<u64, &'static str>> {
    leftovers.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Admission {
    /// `count` free slots.
    pub fn new(count: u32) -> Admission {
        Admission {
            slots: Arc::new(Semaphore::new(count as usize)),
            count,
            given: AtomicU64::new(0),
            leftovers: Leftovers::default(),
        }
    }

    /// Takes a slot, waiting up to [`WAIT`] for one, first come first served.
    ///
    /// # Errors
    /// A refusal if none became free.
    pub async fn slot(&self) -> Result<Slot, Refusal> {
        let permit = tokio::time::timeout(WAIT, self.slots.clone().acquire_owned()).await;
        // The semaphore is never closed, so only time can run out.
        match permit {
            Ok(Ok(permit)) => {
                let number = self.given.fetch_add(1, Ordering::Relaxed);
                let leftovers = self.leftovers.clone();
                Ok(Slot { held: Arc::new(Held { _permit: permit, number, leftovers }) })
            }
            Ok(Err(_)) | Err(_) => Err(self.busy()),
        }
    }

    /// Waits until every slot is free, that is until nothing of any run is left.
    pub async fn all_free(&self) {
        // An error would mean a closed semaphore, which nobody closes.
        let _ = self.slots.acquire_many(self.count).await;
    }

    fn busy(&self) -> Refusal {
        let (count, seconds) = (self.count, WAIT.as_secs());
        let taken = match count {
            1 => "the only slot was taken by another run".to_owned(),
            _ => format!("all {count} slots were taken by other runs"),
        };
        let (stuck, what) = {
            let leftovers = lock(&self.leftovers);
            (leftovers.len(), leftovers.values().next().copied())
        };
        let (over, fix) = match what {
            Some(what) => (
                format!("; {stuck} of them are over, each held by {what}"),
                "restart the engine (Docker or Podman) if it hangs",
            ),
            None => (String::new(), "wait until another call has ended"),
        };
        Refusal {
            what: format!("{taken} for {seconds} s (VESTIBULE_MAX_CONCURRENT){over}"),
            cause: Cause::Request,
            fix: format!("{fix}, or raise VESTIBULE_MAX_CONCURRENT"),
            retry: Retry::AfterFixOrRestart,
            at: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_call_without_a_slot_is_refused_after_five_seconds() {
        let admission = Admission::new(1);
        let held = admission.slot().await.unwrap();
        let start = tokio::time::Instant::now();
        let refusal = admission.slot().await.err().unwrap();
        assert_eq!(start.elapsed().as_secs(), 5);
        let text = refusal.to_string();
        assert!(text.starts_with("the only slot was taken by another run for 5 s (VEST"), "{text}");
        assert!(
            text.ends_with("(a changed setting needs a restart of your MCP client)."),
            "{text}"
        );
        drop(held);
        assert!(admission.slot().await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn what_holds_a_slot_beyond_its_run_is_named() {
        let admission = Admission::new(2);
        let (run, stuck) = (admission.slot().await.unwrap(), admission.slot().await.unwrap());
        stuck.is_held_by("a container");
        stuck.is_held_by("a container");
        let text = admission.slot().await.err().unwrap().to_string();
        assert!(text.contains("; 1 of them are over, each held by a container"), "{text}");
        assert!(text.contains("restart the engine"), "{text}");
        drop(stuck);
        let again = admission.slot().await.unwrap();
        assert!(!admission.slot().await.err().unwrap().to_string().contains("held by"));
        drop((run, again));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slot_stays_taken_until_its_last_clone_is_gone() {
        let admission = Admission::new(1);
        let slot = admission.slot().await.unwrap();
        let cleaning_up = slot.clone();
        drop(slot);
        assert!(admission.slot().await.is_err());
        drop(cleaning_up);
        admission.all_free().await;
    }
}
