//! Blobs and documents over connections of every kind.

use super::*;
use crate::config::ImageReference;
use crate::setup::progress::tests::Screen;
use crate::setup::registry::fake::{Fake, Folder, Reply, Request, descriptor};
use crate::setup::registry::{Environment, Registry};
use crate::setup::source::Opened;
use std::cell::RefCell;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Some kilobytes, so that a cut falls somewhere.
fn bytes() -> Vec<u8> {
    (0..200_000u32).flat_map(|number| number.to_le_bytes()).collect()
}

/// One blob, a folder for it, and what was said and waited.
struct Bench {
    folder: Folder,
    blob: Descriptor,
    screen: Screen,
    waited: RefCell<Vec<u64>>,
}

impl Bench {
    fn new(name: &str) -> Bench {
        Bench {
            folder: Folder::new(name),
            blob: descriptor(&bytes()),
            screen: Screen::default(),
            waited: RefCell::default(),
        }
    }

    fn run<T>(&self, work: impl FnOnce(&Retry, &mut Progress) -> T) -> T {
        let wait = |pause: Duration| self.waited.borrow_mut().push(pause.as_secs());
        let retry = Retry { wait: &wait, ..Retry::default() };
        let mut progress = Progress::new(self.screen.clone(), false);
        progress.start("all", self.blob.size);
        work(&retry, &mut progress)
    }

    fn load(&self, fake: &Fake) -> Result<Vec<u8>, FetchError> {
        self.run(|retry, progress| {
            let path = self.folder.path();
            let file = blob(&registry(fake), &self.blob, path, retry, progress);
            let read = file.map(|mut file: File| {
                let mut read = Vec::new();
                file.read_to_end(&mut read).unwrap();
                read
            });
            if read.is_ok() {
                assert_eq!(progress.done(), self.blob.size);
                assert!(!self.part().exists());
            }
            read
        })
    }

    fn name(&self) -> PathBuf {
        self.folder.path().join(self.blob.digest.file_name())
    }

    fn part(&self) -> PathBuf {
        self.folder.path().join(format!("{}.part", self.blob.digest.file_name()))
    }

    fn said(&self) -> String {
        self.screen.text()
    }
}

fn registry(fake: &Fake) -> Registry {
    let image = ImageReference::parse("python").unwrap();
    Registry::new(&image, Some(&fake.url()), &Environment::default()).unwrap()
}

/// Answers the requests by their number, from 0.
fn numbered(script: impl Fn(usize, &Request) -> Reply + Send + 'static) -> Fake {
    let count = AtomicUsize::new(0);
    Fake::new(move |request| script(count.fetch_add(1, Ordering::SeqCst), request))
}

fn ranges(fake: &Fake) -> Vec<Option<String>> {
    let requests = fake.requests();
    requests.iter().map(|request| request.header("range").map(str::to_owned)).collect()
}

#[test]
fn a_blob_is_named_when_it_is_whole_and_taken_without_network_then() {
    let bench = Bench::new("whole");
    let fake = Fake::new(|request| Reply::ranged(&bytes(), request));
    assert_eq!(bench.load(&fake).unwrap(), bytes());
    assert_eq!(fs::metadata(bench.name()).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(bench.load(&fake).unwrap(), bytes());
    assert_eq!(fake.targets().len(), 1);
    // Unless the disk has changed it.
    let mut damaged = bytes();
    damaged[7] ^= 1;
    fs::write(bench.name(), damaged).unwrap();
    assert_eq!(bench.load(&fake).unwrap(), bytes());
    assert_eq!(fake.targets().len(), 2);
    assert!(bench.said().contains("was damaged on the disk"));
}

#[test]
fn a_transfer_that_breaks_off_goes_on_where_it_was() {
    let bench = Bench::new("cut");
    // Each of seven attempts brings something, so that five in a row never fail.
    let fake = numbered(|number, request| {
        let reply = Reply::ranged(&bytes(), request);
        if number < 7 { reply.cut(100_000) } else { reply }
    });
    assert_eq!(bench.load(&fake).unwrap(), bytes());
    assert_eq!(ranges(&fake)[..2], [None, Some("bytes=100000-".to_owned())]);
    assert_eq!(*bench.waited.borrow(), [1; 7]);
    assert!(bench.said().contains("trying again in 1 s"), "{}", bench.said());
}

#[test]
fn a_body_that_is_too_short_goes_on_too() {
    let bench = Bench::new("short");
    let fake = numbered(|number, request| match number {
        0 => Reply::new(200, &bytes()[..300_000]).unannounced(),
        1 => Reply::new(206, "").header("Content-Range", "bytes 300000-799999/800000"),
        _ => Reply::ranged(&bytes(), request),
    });
    assert_eq!(bench.load(&fake).unwrap(), bytes());
    assert_eq!(*bench.waited.borrow(), [1, 2]);
    assert_eq!(ranges(&fake)[2], Some("bytes=300000-".to_owned()));
}

#[test]
fn a_server_without_ranges_starts_over_and_not_for_ever() {
    let bench = Bench::new("over");
    let fake = numbered(|number, _| {
        let reply = Reply::new(200, bytes());
        if number < 2 { reply.cut(100_000) } else { reply }
    });
    assert_eq!(bench.load(&fake).unwrap(), bytes());
    let bench = Bench::new("ever");
    let fake = Fake::new(|_| Reply::new(200, bytes()).cut(100_000));
    let error = bench.load(&fake).unwrap_err();
    assert!(matches!(&error, FetchError::Source(error) if error.what.contains("broke off")));
    assert_eq!(*bench.waited.borrow(), [1, 2, 4, 8]);
}

#[test]
fn five_attempts_that_bring_nothing_are_the_end() {
    let bench = Bench::new("five");
    let fake = numbered(|number, request| match number {
        2 => Reply::ranged(&bytes(), request),
        _ => Reply::new(503, ""),
    });
    assert_eq!(bench.load(&fake).unwrap(), bytes());
    let down = Fake::new(|_| Reply::new(502, ""));
    let bench = Bench::new("down");
    let error = bench.load(&down).unwrap_err();
    assert!(error.to_string().contains("answered 502"), "{error}");
    assert_eq!(*bench.waited.borrow(), [1, 2, 4, 8]);
    assert_eq!(down.targets().len(), 5);
    let gone = Fake::new(|_| Reply::new(404, ""));
    assert!(Bench::new("gone").load(&gone).is_err());
    assert_eq!(gone.targets().len(), 1);
}

#[test]
fn a_server_may_ask_for_a_pause_of_a_minute_at_most() {
    let bench = Bench::new("pause");
    let fake = numbered(|number, request| match number {
        0 => Reply::new(429, "").header("Retry-After", "60"),
        _ => Reply::ranged(&bytes(), request),
    });
    assert_eq!(bench.load(&fake).unwrap(), bytes());
    assert_eq!(*bench.waited.borrow(), [60]);
    assert!(bench.said().contains("too many requests") && bench.said().contains("in 60 s"));
    let fake = Fake::new(|_| Reply::new(429, "").header("Retry-After", "61"));
    let bench = Bench::new("pauses");
    assert!(bench.load(&fake).unwrap_err().fix().contains("wait 61 s"));
    assert_eq!(*bench.waited.borrow(), [0; 0]);
}

#[test]
fn tampered_bytes_are_loaded_once_more_and_never_named() {
    let bench = Bench::new("tampered");
    let mut tampered = bytes();
    tampered[70_000] ^= 1;
    let got = Digest::of(&tampered);
    let fake = Fake::new(move |request| Reply::ranged(&tampered, request));
    let error = bench.load(&fake).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(&bench.blob.digest.to_string()), "{text}");
    assert!(text.contains(&got.to_string()) && text.contains("tampered"), "{text}");
    assert_eq!(ranges(&fake), [None, None]);
    assert_eq!(fs::read_dir(bench.folder.path()).unwrap().count(), 0);
}

#[test]
fn a_longer_body_is_no_blob_and_is_not_read_to_its_end() {
    let bench = Bench::new("longer");
    let longer = [bytes(), vec![0; 64 << 20]].concat();
    let fake = Fake::new(move |_| Reply::new(200, longer.clone()).unannounced());
    let error = bench.load(&fake).unwrap_err();
    assert!(error.to_string().contains("longer than its 800000 bytes"), "{error}");
    assert_eq!(fs::read_dir(bench.folder.path()).unwrap().count(), 0);
}

#[test]
fn what_a_killed_run_left_is_used_if_it_is_right() {
    let fake = || Fake::new(|request| Reply::ranged(&bytes(), request));
    let left = |name: &str, left: &[u8]| {
        let (bench, fake) = (Bench::new(name), fake());
        fs::write(bench.part(), left).unwrap();
        assert_eq!(bench.load(&fake).unwrap(), bytes(), "{name}");
        ranges(&fake)
    };
    let all = bytes();
    assert_eq!(left("part", &all[..123_456]), [Some("bytes=123456-".to_owned())]);
    assert_eq!(left("complete", &all), []);
    assert_eq!(left("empty", b""), [None]);
    let wrong = vec![0; 1000];
    assert_eq!(left("wrong", &wrong), [Some("bytes=1000-".to_owned()), None]);
    assert_eq!(left("wrong-whole", &vec![0; all.len()]), [None]);
    assert_eq!(left("too-much", &vec![0; all.len() + 1]), [None]);
}

#[test]
fn a_link_in_the_way_is_not_followed() {
    let fake = Fake::new(|request| Reply::ranged(&bytes(), request));
    for part in [true, false] {
        let bench = Bench::new("link");
        let target = bench.folder.path().join("target");
        fs::write(&target, "mine").unwrap();
        let link = if part { bench.part() } else { bench.name() };
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let error = bench.load(&fake).unwrap_err();
        assert!(matches!(error, FetchError::File { .. }), "{error}");
        assert_eq!(fs::read(&target).unwrap(), b"mine");
    }
    assert_eq!(fake.targets().len(), 0);
}

#[test]
fn a_blob_that_another_process_loads_is_waited_for_and_taken() {
    let bench = Bench::new("two");
    let fake = Fake::new(|request| Reply::ranged(&bytes(), request));
    let other = File::create(bench.part()).unwrap();
    other.lock().unwrap();
    let (part, name) = (bench.part(), bench.name());
    let (watched, said) = (std::sync::mpsc::channel::<()>(), bench.screen.clone());
    let finisher = std::thread::spawn(move || {
        // The other process finishes once we wait for it.
        watched.1.recv().unwrap();
        fs::write(&part, bytes()).unwrap();
        fs::rename(&part, &name).unwrap();
        other.unlock().unwrap();
    });
    struct Told(Screen, std::sync::mpsc::Sender<()>);
    impl Write for Told {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if String::from_utf8_lossy(bytes).contains("another process") {
                self.1.send(()).unwrap();
            }
            self.0.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut progress = Progress::new(Told(said, watched.0), false);
    let path = bench.folder.path();
    blob(&registry(&fake), &bench.blob, path, &Retry::default(), &mut progress).unwrap();
    finisher.join().unwrap();
    assert_eq!(fake.targets().len(), 0);
    assert!(!bench.part().exists());
}

#[test]
fn a_document_is_what_its_digest_names_or_an_error() {
    const TEXT: &[u8] = br#"{"manifests":[]}"#;
    let bench = Bench::new("document");
    let get = |fake: &Fake, wanted: Wanted| {
        bench.run(|retry, progress| document(&registry(fake), wanted, retry, progress))
    };
    let fake = numbered(|number, _| match number {
        0 => Reply::new(500, ""),
        1 => Reply::new(200, TEXT).cut(3),
        _ => Reply::new(200, TEXT),
    });
    let (named, digest) = (descriptor(TEXT), Digest::of(TEXT));
    for wanted in [
        Wanted::Pinned(&digest),
        Wanted::Manifest(&named),
        Wanted::Configuration(&named),
        Wanted::Tagged,
    ] {
        assert_eq!(get(&fake, wanted).unwrap(), TEXT);
    }
    assert_eq!(*bench.waited.borrow(), [1, 2]);
    assert!(fake.targets().last().unwrap().ends_with("/manifests/latest"));

    let tampered = Fake::new(|_| Reply::new(200, TEXT.to_ascii_uppercase()));
    for wanted in [Wanted::Pinned(&digest), Wanted::Configuration(&named)] {
        let error = get(&tampered, wanted).unwrap_err();
        assert!(
            matches!(&error, FetchError::Digest { expected, got, .. }
            if *expected == digest && *got == Digest::of(&TEXT.to_ascii_uppercase())),
            "{error}"
        );
    }
    let mut longer = named.clone();
    longer.size -= 1;
    for wanted in [Wanted::Manifest(&longer), Wanted::Configuration(&longer)] {
        let error = get(&fake, wanted).unwrap_err();
        assert!(error.to_string().contains("longer than its 15 bytes"), "{error}");
    }
    longer.size = DOCUMENT_MAX + 1;
    let count = fake.targets().len();
    assert!(matches!(get(&fake, Wanted::Manifest(&longer)), Err(FetchError::Large { .. })));
    assert_eq!(fake.targets().len(), count);
}

/// A blob that comes one byte at a time.
struct Drip {
    /// How long each byte takes.
    pause: Duration,
    /// How many come before the connection ends.
    bytes: u64,
}

impl Source for Drip {
    fn manifest(&self, _: Option<&Digest>) -> Result<Vec<u8>, SourceError> {
        unreachable!()
    }

    fn blob(&self, _: &Descriptor, offset: u64) -> Result<Opened, SourceError> {
        struct Bytes(Duration);
        impl Read for Bytes {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                thread::sleep(self.0);
                buffer[0] = 0;
                Ok(1)
            }
        }
        Ok(Opened { offset, bytes: Box::new(Bytes(self.pause).take(self.bytes)) })
    }

    fn origin(&self) -> Origin {
        Origin::Network
    }
}

#[test]
fn a_byte_for_each_connection_does_not_go_on_for_ever() {
    let bench = Bench::new("bytes");
    let source = Drip { pause: Duration::ZERO, bytes: 1 };
    let path = bench.folder.path();
    let error = bench.run(|retry, progress| blob(&source, &bench.blob, path, retry, progress));
    assert!(error.unwrap_err().to_string().contains("it ended too early"));
    assert_eq!(*bench.waited.borrow(), [1, 2, 4, 8]);
    assert_eq!(fs::metadata(bench.part()).unwrap().len(), 5, "what has come is kept");
}

#[test]
fn what_comes_too_slowly_is_broken_off() {
    let bench = Bench::new("slow");
    let source = Drip { pause: Duration::from_millis(5), bytes: u64::MAX };
    let path = bench.folder.path();
    let configuration = Wanted::Configuration(&bench.blob);
    let slow = Duration::from_millis(20);
    let layer = bench.run(|retry, progress| {
        blob(&source, &bench.blob, path, &Retry { slow, ..*retry }, progress).unwrap_err()
    });
    let document = bench.run(|retry, progress| {
        document(&source, configuration, &Retry { slow, ..*retry }, progress).unwrap_err()
    });
    assert!(layer.to_string().contains("bytes came in 0 s"), "{layer}");
    assert!(document.to_string().contains("not all of it came within"), "{document}");
    assert_eq!(*bench.waited.borrow(), [1, 2, 4, 8, 1, 2, 4, 8]);
}

#[test]
fn what_is_all_here_is_not_waited_for() {
    let bench = Bench::new("trailing");
    let fake = Fake::new(|_| Reply::new(200, bytes()).trailing());
    let start = Instant::now();
    assert_eq!(bench.load(&fake).unwrap(), bytes());
    let configuration = Wanted::Configuration(&bench.blob);
    let document = bench
        .run(|retry, progress| document(&registry(&fake), configuration, retry, progress).unwrap());
    assert_eq!(document, bytes());
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    assert_eq!(*bench.waited.borrow(), [0; 0]);
}
