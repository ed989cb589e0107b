//! One thread that writes: a disk that does not answer holds it, and no run.

use super::Kept;
use super::log::Log;
use super::record::Record;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// How long a record may take until it is on the disk.
const PATIENCE: Duration = Duration::from_secs(2);
/// How many records may wait for a disk that does not answer.
const WAITING: usize = 256;

/// Writes records in the background.
pub struct Writer {
    folder: PathBuf,
    jobs: Mutex<Option<SyncSender<Job>>>,
}

struct Job {
    line: Vec<u8>,
    done: oneshot::Sender<Result<(), String>>,
}

impl Writer {
    /// A writer to a log in this folder. Its thread is started by the first record.
    pub fn new(folder: PathBuf) -> Writer {
        Writer { folder, jobs: Mutex::default() }
    }

    /// Writes a record, and waits for it two seconds at most.
    pub async fn write(&self, record: &Record<'_>) -> Kept {
        let done = match self.send(record) {
            Ok(done) => done,
            Err(why) => return Kept::NotRecorded(why),
        };
        match tokio::time::timeout(PATIENCE, done).await {
            Ok(Ok(Ok(()))) => Kept::Recorded,
            Ok(Ok(Err(why))) => Kept::NotRecorded(why),
            Ok(Err(_)) => Kept::NotRecorded("its writer has ended".to_owned()),
            Err(_) => Kept::NotConfirmed(format!(
                "the disk did not answer within {} s",
                PATIENCE.as_secs()
            )),
        }
    }

    /// Hands a record to the writer.
    ///
    /// # Errors
    /// Why it will not be written.
    pub fn send(
        &self,
        record: &Record<'_>,
    ) -> Result<oneshot::Receiver<Result<(), String>>, String> {
        let (done, receiver) = oneshot::channel();
        let job = Job { line: record.line(), done };
        // A channel is whole whatever panicked elsewhere.
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        let sender = match &*jobs {
            Some(sender) => sender,
            None => jobs.insert(start(&self.folder)?),
        };
        match sender.try_send(job) {
            Ok(()) => Ok(receiver),
            Err(TrySendError::Full(_)) => Err("the disk does not answer".to_owned()),
            Err(TrySendError::Disconnected(_)) => {
                *jobs = None;
                Err("its writer has ended".to_owned())
            }
        }
    }
}

fn start(folder: &std::path::Path) -> Result<SyncSender<Job>, String> {
    let (sender, jobs): (_, Receiver<Job>) = sync_channel(WAITING);
    let mut log = Log::new(folder);
    let work = move || {
        for Job { line, done } in jobs {
            // Whoever asked may have stopped waiting.
            let _ = done.send(log.append(&line).map_err(|error| plain(&error)));
        }
    };
    let thread = std::thread::Builder::new().name("audit".to_owned()).spawn(work);
    thread.map(|_| sender).map_err(|error| format!("its writer cannot be started: {error}"))
}

/// What went wrong, without the number.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or(&text);
    match error.kind() {
        std::io::ErrorKind::FileTooLarge => format!("{text}: see `ulimit -f`"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::Ask;
    use super::*;
    use crate::engine::Client;

    fn kept(writer: &Writer) -> Kept {
        let ask = Ask::new(&Client::default(), &serde_json::Map::new());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(writer.write(&Record::blocked(&ask, "x")))
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_cannot_be_written_is_told_and_tried_again() {
        let writer = Writer::new("/proc/vestibule".into());
        let Kept::NotRecorded(why) = kept(&writer) else { panic!() };
        assert!(!why.contains("os error"), "{why}");
        assert!(matches!(kept(&writer), Kept::NotRecorded(_)));
    }

    #[test]
    fn nothing_is_made_before_the_first_record() {
        let folder = std::env::temp_dir().join(format!("audit-lazy-{}", std::process::id()));
        let writer = Writer::new(folder.clone());
        assert!(!folder.exists() && writer.jobs.lock().unwrap().is_none());
        assert_eq!(kept(&writer), Kept::Recorded);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_disk_that_does_not_answer_is_waited_for_two_seconds() {
        let writer = Writer::new("/nowhere".into());
        // Nobody takes the jobs.
        let (sender, _jobs) = sync_channel(1);
        *writer.jobs.lock().unwrap() = Some(sender);
        let ask = Ask::new(&Client::default(), &serde_json::Map::new());
        let start = tokio::time::Instant::now();
        let kept = writer.write(&Record::blocked(&ask, "x")).await;
        assert_eq!(kept.words().unwrap(), "not confirmed (the disk did not answer within 2 s)");
        assert_eq!(start.elapsed(), PATIENCE);
        let kept = writer.write(&Record::blocked(&ask, "x")).await;
        assert_eq!(kept, Kept::NotRecorded("the disk does not answer".to_owned()));
    }
}
