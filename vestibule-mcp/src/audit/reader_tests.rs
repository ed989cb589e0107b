//! Tests of reading logs, the damaged among them.

use super::*;
use std::io::Write;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("audit-read-{name}-{}", std::process::id()));
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    fn add(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        let mut file = File::options().append(true).create(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn record(event: &str, id: &str, second: u32) -> String {
    format!(
        "{{\"event\":\"{event}\",\"time\":\"2026-11-30T12:00:{second:02}.000Z\",\"id\":\"{id}\"}}\n"
    )
}

fn ids(calls: &[Call]) -> Vec<String> {
    let id = |call: &Call| call.merged()["id"].as_str().unwrap().to_owned();
    calls.iter().map(id).collect()
}

#[test]
fn the_last_calls_of_all_files_are_found_by_their_time() {
    let folder = Folder::new("order");
    folder.add("b.jsonl", &(record("start", "1", 1) + &record("end", "1", 9)));
    folder.add("a.jsonl", &(record("start", "4", 4) + &record("blocked", "2", 2)));
    folder.add("notes.txt", "not read\n");
    assert_eq!(ids(&Reader::new(&folder.0).last(20).unwrap()), ["1", "2", "4"]);
    let last = Reader::new(&folder.0).last(2).unwrap();
    assert_eq!(ids(&last), ["2", "4"]);
    assert_eq!(last[0].merged().get("outcome"), None);
    assert_eq!(last[1].merged()["outcome"], "no end");
    assert!(Reader::new(&folder.0).last(0).unwrap().is_empty());
}

#[test]
fn an_end_stands_with_its_start() {
    let folder = Folder::new("ends");
    let end = "{\"event\":\"end\",\"time\":\"2026-11-30T12:00:05.000Z\",\"id\":\"1\",\"outcome\":\"ran\"}\n";
    folder.add("a.jsonl", &(record("start", "1", 1) + end + &record("end", "nobody", 6)));
    let [call] = &Reader::new(&folder.0).last(20).unwrap()[..] else { panic!() };
    let merged = call.merged();
    assert_eq!(merged["outcome"], "ran");
    assert_eq!(merged["time"], "2026-11-30T12:00:01.000Z");
    assert_eq!(merged["ended"], "2026-11-30T12:00:05.000Z");
}

#[test]
fn torn_lines_are_counted_and_touch_no_other() {
    let folder = Folder::new("torn");
    let torn =
        "{\"event\":\"sta\n\n\u{fffd}\n{}\n[1]\n{\"event\":\"other\",\"time\":\"\",\"id\":\"\"}\n";
    folder.add("a.jsonl", &(torn.to_owned() + &record("start", "1", 1) + "{\"event\":"));
    let long = "x".repeat(LINE as usize + 5) + "\n" + &record("start", "2", 2);
    folder.add("b.jsonl", &long);
    let mut reader = Reader::new(&folder.0);
    assert_eq!(ids(&reader.last(20).unwrap()), ["1", "2"]);
    // Of the long line the rest counts as one more.
    assert_eq!((reader.torn, reader.unfinished()), (7, 1));
}

#[test]
fn what_is_added_is_read_once() {
    let folder = Folder::new("follow");
    folder.add("a.jsonl", &(record("start", "1", 1) + "{\"event\":\"start\",\"time\":\"x\","));
    let mut reader = Reader::new(&folder.0);
    assert_eq!(ids(&reader.last(20).unwrap()), ["1"]);
    assert!(reader.last(20).unwrap().is_empty());
    folder.add("a.jsonl", "\"id\":\"2\"}\n");
    folder.add("c.jsonl", &record("blocked", "3", 3));
    assert_eq!(ids(&reader.last(20).unwrap()), ["3", "2"]);
    assert_eq!((reader.torn, reader.unfinished()), (0, 0));
}

#[test]
fn every_open_call_is_kept_until_its_end_however_old_it_is() {
    let folder = Folder::new("open");
    folder.add("b.jsonl", &(record("start", "3", 3) + &record("end", "3", 4)));
    folder.add("b.jsonl", &record("blocked", "4", 5));
    for count in [0, 1, 20] {
        folder.add("a.jsonl", &record("start", "1", 1));
        let mut reader = Reader::new(&folder.0);
        let (last, mut open) = reader.last_and_open(count).unwrap();
        assert_eq!(last, Reader::new(&folder.0).last(count).unwrap());
        assert_eq!(open.keys().collect::<Vec<_>>(), ["1"]);
        folder.add("a.jsonl", &record("end", "1", 7));
        let ended = reader.ended(&mut open).unwrap();
        assert_eq!((ids(&ended), open.len()), (vec!["1".to_owned()], 0));
        assert_eq!(ended[0].merged()["ended"], "2026-11-30T12:00:07.000Z");
    }
}

#[test]
fn a_log_that_was_never_written_is_empty() {
    assert!(Reader::new(Path::new("/nonexistent/audit")).last(20).unwrap().is_empty());
}

#[test]
fn what_only_looks_like_a_record_is_counted_as_torn() {
    let folder = Folder::new("forged");
    let deep = "[".repeat(200) + &"]".repeat(200);
    let with = |event: &str, id: &str, second: u32, value: &str| {
        record(event, id, second).replace("}\n", &format!(",\"code_bytes\":{value}}}\n"))
    };
    folder.add("a.jsonl", &(with("start", "1", 1, &deep) + &record("end", "1", 2)));
    folder.add("a.jsonl", &(record("start", "2", 3) + &with("end", "2", 4, "1e999")));
    folder.add("a.jsonl", &with("blocked", "3", 5, "\"\\ud800\""));
    let mut reader = Reader::new(&folder.0);
    let calls = reader.last(20).unwrap();
    assert_eq!((ids(&calls), reader.torn), (vec!["2".to_owned()], 3));
    assert_eq!(calls[0].merged()["outcome"], NO_END);
    let mut reader = Reader::new(&folder.0);
    assert_eq!(ids(&reader.ended(&mut HashMap::new()).unwrap()), ["2"]);
    assert_eq!(reader.torn, 3);
}
