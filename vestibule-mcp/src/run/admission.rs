//! Slots: how many runs may be under way at once.

use protocol::{Cause, Refusal, Retry};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// How long a call waits for a slot.
pub const WAIT: Duration = Duration::from_secs(5);

/// The slots of one server.
pub struct Admission {
    slots: Arc<Semaphore>,
    count: u32,
}

/// A taken slot. It is free again when the last clone is dropped: whoever still has something of
/// the run to clean up keeps one.
#[derive(Clone)]
pub struct Slot {
    _permit: Arc<OwnedSemaphorePermit>,
}

impl Admission {
    /// `count` free slots.
    pub fn new(count: u32) -> Admission {
        Admission { slots: Arc::new(Semaphore::new(count as usize)), count }
    }

    /// Takes a slot, waiting up to [`WAIT`] for one, first come first served.
    ///
    /// # Errors
    /// A refusal if none became free.
    pub async fn slot(&self) -> Result<Slot, Refusal> {
        let permit = tokio::time::timeout(WAIT, self.slots.clone().acquire_owned()).await;
        // The semaphore is never closed, so only time can run out.
        match permit {
            Ok(Ok(permit)) => Ok(Slot { _permit: Arc::new(permit) }),
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
        Refusal {
            what: format!("{taken} for {seconds} s (VESTIBULE_MAX_CONCURRENT)"),
            cause: Cause::Request,
            fix: "wait until another call has ended, or raise VESTIBULE_MAX_CONCURRENT".to_owned(),
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
