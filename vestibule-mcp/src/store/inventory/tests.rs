use super::*;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// A tree with one of everything, and names of all kinds.
struct Tree(PathBuf);

impl Tree {
    fn new() -> Tree {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let root = std::env::temp_dir().join(format!("inventory-{}-{count}", std::process::id()));
        fs::create_dir_all(root.join("a/empty")).unwrap();
        fs::create_dir_all(root.join("a b")).unwrap();
        let tree = Tree(root);
        tree.put("a/file", b"hello", 0o644);
        tree.put("a/tool", b"#!/bin/sh\n", 0o755);
        tree.put("a.txt", b"", 0o600);
        tree.put("a b/100%\n", b"x", 0o644);
        tree.put(OsStr::from_bytes(b"z\xff"), &[0xff; 300_000], 0o644);
        fs::hard_link(tree.0.join("a/file"), tree.0.join("again")).unwrap();
        symlink("../etc/passwd", tree.0.join("a/link")).unwrap();
        symlink("/nowhere at all", tree.0.join("dangling")).unwrap();
        for folder in ["", "a", "a/empty", "a b"] {
            fs::set_permissions(tree.0.join(folder), Permissions::from_mode(0o755)).unwrap();
        }
        tree
    }

    fn put(&self, name: impl AsRef<Path>, content: &[u8], mode: u32) {
        let path = self.0.join(name);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        File::options().append(true).open(&path).unwrap().set_modified(time).unwrap();
    }

    fn open(&self) -> File {
        File::open(&self.0).unwrap()
    }

    fn listing(&self) -> Vec<u8> {
        let mut listing = Vec::new();
        write(self.open().as_fd(), &mut listing).unwrap();
        listing
    }

    fn check(&self, listing: &[u8]) -> Result<Totals, InventoryError> {
        check(self.open().as_fd(), listing)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_listing_has_a_line_for_every_entry_in_the_order_of_names() {
    let tree = Tree::new();
    let hello = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    let listing = String::from_utf8(tree.listing()).unwrap();
    let lines: Vec<&str> = listing.lines().collect();
    let hash = |content: &[u8]| crate::store::digest::Digest::of(content).hex().to_owned();
    let file = |mode: &str, size: u64, content: &str, name: &str| {
        format!("f {mode} {size} 1700000000 {content} {name}")
    };
    let expected = [
        "vestibule-inventory 1".to_owned(),
        "d 0755 - - - .".to_owned(),
        "d 0755 - - - a".to_owned(),
        "d 0755 - - - a/empty".to_owned(),
        file("0644", 5, hello, "a/file"),
        "l 0777 - - ../etc/passwd a/link".to_owned(),
        file("0755", 10, &hash(b"#!/bin/sh\n"), "a/tool"),
        "d 0755 - - - a%20b".to_owned(),
        file("0644", 1, &hash(b"x"), "a%20b/100%25%0A"),
        file("0600", 0, &hash(b""), "a.txt"),
        file("0644", 5, hello, "again"),
        "l 0777 - - /nowhere%20at%20all dangling".to_owned(),
        file("0644", 300_000, &hash(&[0xff; 300_000]), "z%FF"),
    ];
    assert_eq!(lines[..lines.len() - 1], expected);
    let before = listing.find("total ").unwrap();
    let digest = crate::store::digest::Digest::of(&listing.as_bytes()[..before]);
    assert_eq!(lines[lines.len() - 1], format!("total 4 6 2 300021 {digest}"));
    let totals = Totals { folders: 4, files: 6, links: 2, bytes: 300_021 };
    assert_eq!(tree.check(listing.as_bytes()).unwrap(), totals);
}

#[test]
fn every_kind_of_change_is_found_and_named() {
    type Change = fn(&Tree);
    let cases: [(Change, &str); 14] = [
        (|tree| fs::remove_file(tree.0.join("a/file")).unwrap(), "`a/file` is missing"),
        (|tree| fs::remove_dir(tree.0.join("a/empty")).unwrap(), "`a/empty` is missing"),
        (|tree| fs::remove_dir_all(tree.0.join("a b")).unwrap(), "`a b` is missing"),
        (|tree| fs::remove_file(tree.0.join("dangling")).unwrap(), "`dangling` is missing"),
        (|tree| tree.put("a/empty/new", b"", 0o644), "`a/empty/new` was not there before"),
        (|tree| tree.put("zz", b"", 0o644), "`zz` was not there before"),
        (
            |tree| {
                fs::remove_file(tree.0.join("a/file")).unwrap();
                symlink("tool", tree.0.join("a/file")).unwrap();
            },
            "`a/file` was a file and is a symbolic link",
        ),
        (
            |tree| {
                fs::remove_dir(tree.0.join("a/empty")).unwrap();
                tree.put("a/empty", b"", 0o755);
            },
            "`a/empty` was a folder and is a file",
        ),
        (|tree| tree.put("a/tool", b"#!/bin/sh\n", 0o644), "`a/tool` had mode 0755 and has 0644"),
        (|tree| tree.put("a/file", b"hello!", 0o644), "`a/file` had 5 bytes and has 6"),
        (|tree| tree.put("a/file", b"hellO", 0o644), "`a/file` has other content than before"),
        (
            |tree| {
                let file = File::options().append(true).open(tree.0.join("a.txt")).unwrap();
                file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(5)).unwrap();
            },
            "`a.txt` was of second 1700000000 and is of 5",
        ),
        (
            |tree| {
                fs::remove_file(tree.0.join("dangling")).unwrap();
                symlink("/etc", tree.0.join("dangling")).unwrap();
            },
            "`dangling` pointed to `/nowhere at all` and points to `/etc`",
        ),
        (
            |tree| fs::set_permissions(&tree.0, Permissions::from_mode(0o700)).unwrap(),
            "`.` had mode 0755 and has 0700",
        ),
    ];
    for (change, expected) in cases {
        let tree = Tree::new();
        let listing = tree.listing();
        change(&tree);
        let error = tree.check(&listing).unwrap_err();
        assert!(matches!(error, InventoryError::Differs { .. }), "{error:?}");
        assert_eq!(error.to_string(), expected);
        assert_eq!(error.fix(), "run `vestibule-mcp setup` again to unpack it anew");
    }
}

#[test]
fn what_no_image_may_have_is_an_error_to_both() {
    type Change = fn(&Tree);
    let special = "has a set-user-id, set-group-id or sticky bit";
    let cases: [(Change, String); 5] = [
        (
            |tree| mkfifo(&tree.0.join("a/pipe"), Mode::S_IRWXU).unwrap(),
            "`a/pipe` is a fifo".to_owned(),
        ),
        (
            |tree| drop(std::os::unix::net::UnixListener::bind(tree.0.join("a/sock")).unwrap()),
            "`a/sock` is a socket".to_owned(),
        ),
        (|tree| tree.put("a/tool", b"", 0o4755), format!("`a/tool` {special}")),
        (|tree| tree.put("a/tool", b"", 0o2755), format!("`a/tool` {special}")),
        (
            |tree| fs::set_permissions(tree.0.join("a b"), Permissions::from_mode(0o1755)).unwrap(),
            format!("`a b` {special}"),
        ),
    ];
    for (change, expected) in cases {
        let tree = Tree::new();
        let listing = tree.listing();
        change(&tree);
        assert_eq!(tree.check(&listing).unwrap_err().to_string(), expected);
        let error = write(tree.open().as_fd(), &mut Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn another_owner_is_an_error() {
    let tree = Tree::new();
    let listing = tree.listing();
    // Only root can give a file away, and every other user has those of root's to look at.
    let expected = match std::os::unix::fs::chown(tree.0.join("a/tool"), Some(12345), None) {
        Ok(()) => "`a/tool` belongs to another user",
        Err(_) => {
            let error = write(File::open("/proc/sys").unwrap().as_fd(), &mut Vec::new());
            assert_eq!(error.unwrap_err().to_string(), "`.` belongs to another user");
            return;
        }
    };
    assert_eq!(tree.check(&listing).unwrap_err().to_string(), expected);
}

#[test]
fn a_listing_that_was_cut_or_damaged_is_told_from_a_tree_that_changed() {
    let tree = Tree::new();
    let listing = tree.listing();
    for length in 0..listing.len() {
        let error = tree.check(&listing[..length]).unwrap_err();
        assert!(matches!(error, InventoryError::Damaged(_)), "{length}: {error}");
    }
    for position in 0..listing.len() {
        let mut damaged = listing.clone();
        damaged[position] ^= 1;
        let error = tree.check(&damaged).unwrap_err();
        assert!(matches!(error, InventoryError::Damaged(_)), "{position}: {error}");
    }
    let twice = listing.repeat(2);
    assert!(matches!(tree.check(&twice).unwrap_err(), InventoryError::Damaged(_)));
}

#[test]
fn a_listing_that_no_program_wrote_is_damaged_even_with_a_right_digest() {
    let tree = Tree::new();
    let listing = String::from_utf8(tree.listing()).unwrap();
    let end = listing.find("total ").unwrap();
    let sealed = |lines: &str, counts: &str| {
        format!("{lines}{counts} {}\n", crate::store::digest::Digest::of(lines.as_bytes()))
    };
    let right = "total 4 6 2 300021";
    assert!(tree.check(sealed(&listing[..end], right).as_bytes()).is_ok());
    let wrong = sealed(&listing[..end], "total 4 6 2 300022");
    let changed = listing[..end].replace("a/empty", "a/%65mpty");
    for text in [wrong, sealed(&changed, right)] {
        let error = tree.check(text.as_bytes()).unwrap_err();
        assert!(matches!(error, InventoryError::Damaged(_)), "{error}");
    }
}

#[test]
fn a_tree_of_any_depth_is_walked() {
    let tree = Tree::new();
    let mut place = tree.open();
    for _ in 0..1100 {
        nix::sys::stat::mkdirat(&place, "d", Mode::S_IRWXU).unwrap();
        let flags = nix::fcntl::OFlag::O_DIRECTORY;
        place = nix::fcntl::openat(&place, "d", flags, Mode::empty()).unwrap().into();
    }
    let listing = tree.listing();
    assert_eq!(tree.check(&listing).unwrap().folders, 1104);
    remove(tree.open().as_fd(), OsStr::new("d")).unwrap();
    assert_eq!(tree.check(&listing).unwrap_err().to_string(), "`d` is missing");
}

#[test]
fn a_listing_that_cannot_be_written_says_so() {
    let tree = Tree::new();
    let mut full = File::options().write(true).open("/dev/full").unwrap();
    let error = write(tree.open().as_fd(), &mut full).unwrap_err();
    assert!(matches!(error, InventoryError::Write { .. }), "{error}");
    assert!(error.fix().starts_with("make room"), "{}", error.fix());
    let limited = InventoryError::write(&std::io::ErrorKind::FileTooLarge.into());
    assert!(limited.fix().contains("`ulimit -f`"), "{}", limited.fix());
}

#[test]
fn no_more_is_written_than_would_be_read() {
    let tree = Tree::new();
    let size = tree.listing().len() as u64;
    let written = |limit| write_within(tree.open().as_fd(), &mut Vec::new(), limit);
    assert!(written(size + 200).is_ok());
    assert_eq!(written(size / 2), Err(InventoryError::Long(size / 2)));
}
