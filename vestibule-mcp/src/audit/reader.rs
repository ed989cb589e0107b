//! Reading the log: every file of the folder, line by line, none of them trusted.

use serde::Deserialize;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The longest line that is taken for a record, in bytes: some times what the longest has.
const LINE: u64 = 1 << 20;
/// How the names of the log's files end.
const EXTENSION: &str = "jsonl";

/// The outcome of a run whose end is not in the log.
pub const NO_END: &str = "no end";

/// What every record has.
#[derive(Debug, Deserialize)]
struct Head<'a> {
    #[serde(borrow)]
    event: Cow<'a, str>,
    #[serde(borrow)]
    id: Cow<'a, str>,
    #[serde(borrow)]
    time: Cow<'a, str>,
}

/// The records of one call: the first, and the last if there is one.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Call {
    /// A start, or a refusal.
    pub first: String,
    /// An end.
    pub last: Option<String>,
}

impl Call {
    /// The call without what only looks like a record, and how many of its lines do.
    fn readable(self) -> (Option<Call>, u64) {
        let is_record = |text: &String| serde_json::from_str::<Map<String, Value>>(text).is_ok();
        if !is_record(&self.first) {
            return (None, 1);
        }
        let torn = self.last.as_ref().is_some_and(|last| !is_record(last));
        let last = self.last.filter(|_| !torn);
        (Some(Call { last, ..self }), u64::from(torn))
    }

    /// Both records as one object, the moment of the end as `ended`. A run without an end says so.
    pub fn merged(&self) -> Map<String, Value> {
        let object =
            |text: &str| serde_json::from_str::<Map<String, Value>>(text).unwrap_or_default();
        let mut all = object(&self.first);
        let refused = all.remove("event").is_some_and(|event| event == "blocked");
        match &self.last {
            Some(last) => {
                let mut last = object(last);
                last.remove("event");
                if let Some(time) = last.remove("time") {
                    all.insert("ended".to_owned(), time);
                }
                all.extend(last);
            }
            None if !refused => {
                all.insert("outcome".to_owned(), NO_END.into());
            }
            None => {}
        }
        all
    }
}

/// The last calls of a log while it is read.
struct Last {
    count: usize,
    /// By the moment of their beginning, and their id.
    calls: BTreeMap<(String, String), Call>,
    /// The moment for each id.
    begun: HashMap<String, String>,
}

impl Last {
    fn new(count: usize) -> Last {
        Last { count, calls: BTreeMap::new(), begun: HashMap::new() }
    }

    fn take(&mut self, head: &Head<'_>, line: &str) {
        if head.event == "end" {
            let Some(time) = self.begun.get(head.id.as_ref()) else { return };
            if let Some(call) = self.calls.get_mut(&(time.clone(), head.id.to_string())) {
                call.last = Some(line.to_owned());
            }
            return;
        }
        let key = (head.time.to_string(), head.id.to_string());
        let full = self.calls.len() >= self.count;
        if full && self.calls.first_key_value().is_none_or(|(first, _)| key < *first) {
            return;
        }
        self.begun.insert(key.1.clone(), key.0.clone());
        self.calls.insert(key, Call { first: line.to_owned(), last: None });
        if full && let Some(((_, id), _)) = self.calls.pop_first() {
            self.begun.remove(&id);
        }
    }
}

/// The log of a folder, as far as it was read.
pub struct Reader {
    folder: PathBuf,
    offsets: HashMap<PathBuf, u64>,
    /// Lines that are no records.
    pub torn: u64,
}

impl Reader {
    /// Nothing is read yet.
    pub fn new(folder: &Path) -> Reader {
        Reader { folder: folder.to_owned(), offsets: HashMap::new(), torn: 0 }
    }

    /// Where the log is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Reads what is there and was not read before, and returns the last `count` calls, by the moment of
    /// their beginning. Holds no more than these.
    ///
    /// # Errors
    /// The folder cannot be read. A log that was never written is empty.
    pub fn last(&mut self, count: usize) -> io::Result<Vec<Call>> {
        let mut last = Last::new(count);
        self.read(|head, line| last.take(&head, line))?;
        Ok(self.readable(last.calls.into_values()))
    }

    /// The same, and every call that has no end yet, by its id, however long ago it began: it may still
    /// end. Holds these and the last ones.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn last_and_open(
        &mut self,
        count: usize,
    ) -> io::Result<(Vec<Call>, HashMap<String, Call>)> {
        let (mut last, mut open) = (Last::new(count), HashMap::new());
        self.read(|head, line| {
            let id = head.id.as_ref();
            match head.event.as_ref() {
                "start" => {
                    open.insert(id.to_owned(), Call { first: line.to_owned(), last: None });
                }
                "end" => {
                    open.remove(id);
                }
                _ => {}
            }
            last.take(&head, line);
        })?;
        Ok((self.readable(last.calls.into_values()), open))
    }

    /// Reads what was added, and returns each call that has come to its end. `pending` are those that have
    /// not yet.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn ended(&mut self, pending: &mut HashMap<String, Call>) -> io::Result<Vec<Call>> {
        let mut ended = Vec::new();
        self.read(|head, line| {
            let first = || Call { first: line.to_owned(), last: None };
            match head.event.as_ref() {
                "start" => {
                    pending.insert(head.id.into_owned(), first());
                }
                "end" => {
                    let last = Some(line.to_owned());
                    ended
                        .extend(pending.remove(head.id.as_ref()).map(|call| Call { last, ..call }));
                }
                _ => ended.push(first()),
            }
        })?;
        Ok(self.readable(ended))
    }

    /// Those whose every value can be had: of a line only three are looked at while the log is read.
    fn readable(&mut self, calls: impl IntoIterator<Item = Call>) -> Vec<Call> {
        let readable = |call: Call| {
            let (call, torn) = call.readable();
            self.torn += torn;
            call
        };
        calls.into_iter().filter_map(readable).collect()
    }

    /// Hands on every record that was not read before.
    fn read(&mut self, mut take: impl FnMut(Head<'_>, &str)) -> io::Result<()> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == EXTENSION));
        files.sort();
        for path in files {
            let offset = self.offsets.get(&path).copied().unwrap_or(0);
            // One that cannot be opened is another user's, or gone meanwhile.
            if let Ok(end) = self.read_file(&path, offset, &mut take) {
                self.offsets.insert(path, end);
            }
        }
        Ok(())
    }

    /// Reads whole lines from `offset` on; where the next one begins.
    fn read_file(
        &mut self,
        path: &Path,
        mut offset: u64,
        take: &mut impl FnMut(Head<'_>, &str),
    ) -> io::Result<u64> {
        let file = open(path)?;
        let length = file.metadata()?.len();
        // A file that is read for the first time from its beginning, or has grown.
        let mut lines = BufReader::with_capacity(1 << 16, file);
        lines.seek(SeekFrom::Start(offset))?;
        let mut line = Vec::new();
        while offset < length {
            line.clear();
            let read = lines.by_ref().take(LINE).read_until(b'\n', &mut line)? as u64;
            let whole = line.pop_if(|byte| *byte == b'\n').is_some();
            if !whole && read < LINE {
                // Its end may still be written.
                break;
            }
            offset += read;
            let text = std::str::from_utf8(&line).unwrap_or_default();
            match serde_json::from_str::<Head<'_>>(text) {
                Ok(head) if is_known(&head.event) => take(head, text),
                // A record that was torn is followed by a new line.
                _ if line.is_empty() => {}
                _ => self.torn += 1,
            }
        }
        Ok(offset)
    }

    /// Whether the last line of some file has no end.
    pub fn unfinished(&self) -> u64 {
        let cut = |(path, offset): (&PathBuf, &u64)| {
            fs::metadata(path).is_ok_and(|metadata| metadata.len() > *offset)
        };
        self.offsets.iter().filter(|file| cut(*file)).count() as u64
    }
}

fn is_known(event: &str) -> bool {
    matches!(event, "start" | "end" | "blocked")
}

/// Opens a file of the log, and nothing that would wait or is elsewhere.
fn open(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.read(true);
    #[cfg(unix)]
    {
        let flags = nix::fcntl::OFlag::O_NOFOLLOW | nix::fcntl::OFlag::O_NONBLOCK;
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags.bits());
    }
    let file = options.open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
