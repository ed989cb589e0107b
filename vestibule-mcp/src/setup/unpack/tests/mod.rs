//! Layers, honest and hostile, and what becomes of them. Beside every root lies a folder that must be
//! the same afterwards, whatever a layer says.

mod hostile;
mod limits;
mod links;
mod names;
mod random;
mod whiteouts;

use super::{Budget, Summary, UnpackError, Unpacker};
use crate::store::digest::Digest;
use std::fs::{self, File};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// More than any test needs but those of the limits.
const PLENTY: Budget = Budget { bytes: 1 << 30, entries: 10_000 };

/// One entry of a layer.
#[derive(Clone, Debug)]
struct Entry {
    kind: u8,
    name: Vec<u8>,
    link: Vec<u8>,
    data: Vec<u8>,
    mode: u32,
    time: u64,
    pax: Vec<(String, Vec<u8>)>,
}

impl Entry {
    fn new(kind: u8, name: impl AsRef<[u8]>, mode: u32) -> Entry {
        let name = name.as_ref().to_vec();
        Entry { kind, name, link: vec![], data: vec![], mode, time: 1, pax: vec![] }
    }

    fn mode(self, mode: u32) -> Entry {
        Entry { mode, ..self }
    }

    fn time(self, time: u64) -> Entry {
        Entry { time, ..self }
    }

    fn pax(mut self, key: &str, value: impl AsRef<[u8]>) -> Entry {
        self.pax.push((key.to_owned(), value.as_ref().to_vec()));
        self
    }
}

fn file(name: impl AsRef<[u8]>, data: impl AsRef<[u8]>) -> Entry {
    Entry { data: data.as_ref().to_vec(), ..Entry::new(b'0', name, 0o644) }
}

fn folder(name: impl AsRef<[u8]>) -> Entry {
    Entry::new(b'5', name, 0o755)
}

fn symlink(name: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Entry {
    Entry { link: to.as_ref().to_vec(), ..Entry::new(b'2', name, 0o777) }
}

fn hard_link(name: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Entry {
    Entry { link: to.as_ref().to_vec(), ..Entry::new(b'1', name, 0o644) }
}

/// A header as it is written, names and all.
fn header(entry: &Entry) -> tar::Header {
    let mut header = tar::Header::new_ustar();
    header.set_mode(entry.mode);
    header.set_uid(1234);
    header.set_gid(5678);
    header.set_size(entry.data.len() as u64);
    header.set_mtime(entry.time);
    let old = header.as_old_mut();
    old.linkflag = [entry.kind];
    for (field, text) in [(&mut old.name, &entry.name), (&mut old.linkname, &entry.link)] {
        let length = text.len().min(100);
        field[..length].copy_from_slice(&text[..length]);
    }
    header.set_cksum();
    header
}

fn record(key: &str, value: &[u8]) -> Vec<u8> {
    let rest = [b" ", key.as_bytes(), b"=", value, b"\n"].concat();
    let fits = |length: &usize| length.to_string().len() + rest.len() == *length;
    let length = (rest.len()..).find(fits).unwrap();
    [length.to_string().as_bytes(), &rest].concat()
}

/// The archive of these entries, in the format that python's `tarfile` calls PAX.
fn layer(entries: &[Entry]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for entry in entries {
        let mut pax = entry.pax.clone();
        for (key, text) in [("path", &entry.name), ("linkpath", &entry.link)] {
            if text.len() > 100 {
                pax.push((key.to_owned(), text.clone()));
            }
        }
        if !pax.is_empty() {
            let data = pax.iter().flat_map(|(key, value)| record(key, value)).collect();
            let before = Entry { data, ..Entry::new(b'x', "PaxHeader", 0o644) };
            builder.append(&header(&before), before.data.as_slice()).unwrap();
        }
        builder.append(&header(entry), entry.data.as_slice()).unwrap();
    }
    builder.into_inner().unwrap()
}

/// A folder to unpack into, and one beside it that nothing may touch.
struct Ground {
    base: PathBuf,
    before: Vec<String>,
}

impl Ground {
    fn new() -> Ground {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("unpack-{}-{count}", std::process::id());
        let base = std::env::temp_dir().join(name);
        fs::create_dir_all(base.join("root")).unwrap();
        fs::create_dir_all(base.join("canary/inner")).unwrap();
        for (path, mode) in [("secret", 0o600), ("target", 0o640), ("inner/x", 0o444)] {
            let path = base.join("canary").join(path);
            fs::write(&path, path.as_os_str().as_bytes()).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let before = snapshot(&base.join("canary"));
        Ground { base, before }
    }

    fn root(&self) -> PathBuf {
        self.base.join("root")
    }

    /// The path of the folder beside the root.
    fn canary(&self) -> String {
        self.base.join("canary").to_str().unwrap().to_owned()
    }

    fn unpacker(&self, budget: Budget) -> Unpacker {
        Unpacker::new(File::open(self.root()).unwrap().into(), budget)
    }

    fn raw(&self, layers: &[Vec<u8>], budget: Budget) -> Result<Summary, UnpackError> {
        let mut unpacker = self.unpacker(budget);
        let done = layers
            .iter()
            .try_for_each(|layer| unpacker.layer(layer.as_slice(), &Digest::of(layer)));
        self.check();
        done.map(|()| unpacker.summary())
    }

    fn unpack(&self, layers: &[&[Entry]]) -> Result<Summary, UnpackError> {
        let layers: Vec<_> = layers.iter().map(|entries| layer(entries)).collect();
        self.raw(&layers, PLENTY)
    }

    /// What must hold after anything.
    fn check(&self) {
        assert_eq!(snapshot(&self.base.join("canary")), self.before);
        let beside = fs::read_dir(&self.base).unwrap().count();
        assert_eq!(beside, 2, "something is new beside the root");
        visit(&self.root(), &mut |path| {
            let metadata = fs::symlink_metadata(path).unwrap();
            let kind = metadata.file_type();
            assert!(kind.is_dir() || kind.is_file() || kind.is_symlink(), "{path:?}");
            let mode = metadata.mode() & 0o7777;
            if kind.is_symlink() {
                return;
            }
            let own = if kind.is_dir() { 0o700 } else { 0o600 };
            assert_eq!((mode & 0o7022, mode & own), (0, own), "{path:?} has {mode:o}");
        });
    }

    /// The tree, one line an entry: type, mode, path, content.
    fn tree(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let root = self.root();
        visit(&root, &mut |path| {
            let name = path.strip_prefix(&root).unwrap().as_os_str().as_bytes().escape_ascii();
            let metadata = fs::symlink_metadata(path).unwrap();
            let mode = metadata.mode() & 0o7777;
            lines.push(match metadata.file_type() {
                kind if kind.is_dir() => format!("d {mode:o} {name}"),
                kind if kind.is_symlink() => {
                    let target = fs::read_link(path).unwrap().into_os_string().into_vec();
                    format!("l {name} {}", target.escape_ascii())
                }
                _ => format!("f {mode:o} {name} {}", fs::read(path).unwrap().escape_ascii()),
            });
        });
        lines
    }
}

impl Drop for Ground {
    /// Any ordinary user can do that: folders keep all rights of their owner.
    fn drop(&mut self) {
        let removed = fs::remove_dir_all(&self.base);
        if !std::thread::panicking() {
            removed.unwrap();
        }
    }
}

/// Calls for everything below `folder`, in the order of names.
fn visit(folder: &Path, call: &mut dyn FnMut(&Path)) {
    let mut paths: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        call(&path);
        if fs::symlink_metadata(&path).unwrap().is_dir() {
            visit(&path, call);
        }
    }
}

/// Everything that a layer could have changed in a folder.
fn snapshot(folder: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let mut add = |path: &Path| {
        let m = fs::symlink_metadata(path).unwrap();
        let content = if m.is_file() { fs::read(path).unwrap() } else { Vec::new() };
        let times = (m.mtime(), m.mtime_nsec(), m.ctime(), m.ctime_nsec());
        let rest = (m.mode(), m.uid(), m.gid(), m.nlink(), m.ino(), m.size());
        lines.push(format!("{path:?} {times:?} {rest:?} {content:?}"));
    };
    add(folder);
    visit(folder, &mut add);
    lines
}

/// Unpacks layers that must work, and compares the tree.
fn becomes(layers: &[&[Entry]], expected: &[&str]) -> Summary {
    let ground = Ground::new();
    let summary = ground.unpack(layers).unwrap();
    assert_eq!(ground.tree(), expected);
    summary
}

/// Unpacks layers that must not work, and compares the error.
fn fails(layers: &[&[Entry]], expected: &str) {
    let error = Ground::new().unpack(layers).unwrap_err();
    assert_eq!(error.to_string(), expected);
    assert!(!error.fix().is_empty());
}
