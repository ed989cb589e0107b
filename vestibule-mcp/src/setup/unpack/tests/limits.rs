//! What an image may take, and what is said when the system gives no more.

use super::*;
use crate::setup::unpack::{Step, error::BadName};
use crate::store::inventory::remove;
use nix::errno::Errno;
use std::ffi::OsStr;
use std::io::{self, Read};
use std::os::fd::AsFd;

const SMALL: Budget = Budget { bytes: 1000, entries: 10 };

#[test]
fn a_bomb_stops_before_it_writes() {
    let ground = Ground::new();
    let mut head = header(&file("zeros", ""));
    head.set_size(1 << 30);
    head.set_cksum();
    let mut read = 0;
    let bomb =
        Counted { inner: head.as_bytes().chain(io::repeat(0).take(1 << 30)), read: &mut read };
    let error = ground.unpacker(SMALL).layer(bomb, &Digest::of(b"")).unwrap_err();
    let expected = "it unpacks to more than 1000 bytes; the limit was reached at `zeros`";
    assert_eq!(error.to_string(), expected);
    assert_eq!(ground.tree(), Vec::<String>::new());
    assert!(read <= 64 << 10, "{read} bytes were decoded");
    ground.check();
}

struct Counted<'a, R> {
    inner: R,
    read: &'a mut u64,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(into)?;
        *self.read += count as u64;
        Ok(count)
    }
}

#[test]
fn a_bomb_that_writes_nothing_stops_as_well() {
    // Behind the end, in what is skipped, and in what has no content.
    let skipped = |kind, name: &str| {
        let mut head = header(&Entry::new(kind, name, 0o644));
        head.set_size(1 << 40);
        head.set_cksum();
        head.as_bytes().to_vec()
    };
    let heads =
        [vec![0; 1024], skipped(b'0', ".wh..wh.aufs"), skipped(b'3', "d"), skipped(b'5', "f")];
    for head in heads {
        let ground = Ground::new();
        let mut read = 0;
        let bomb = Counted { inner: head.as_slice().chain(io::repeat(0)), read: &mut read };
        let error = ground.unpacker(SMALL).layer(bomb, &Digest::of(b"")).unwrap_err();
        assert!(matches!(error, UnpackError::Decoded { limit: 41_960, .. }), "{error}");
        assert!(read <= 41_960 + (64 << 10), "{read} bytes were decoded");
    }
}

#[test]
fn the_budget_is_one_for_all_layers_and_exact() {
    let ground = Ground::new();
    let full = |name: &str| layer(&[file(name, vec![b'x'; 500])]);
    let layers = [full("a"), full("b")];
    assert_eq!(ground.raw(&layers, SMALL).unwrap().bytes, 1000);
    let layers = [full("a"), full("b"), layer(&[file("empty", ""), symlink("l", "t")])];
    let error = ground.raw(&layers, SMALL).unwrap_err();
    let expected = "it unpacks to more than 1000 bytes; the limit was reached at `l`";
    assert_eq!(error.to_string(), expected);
    // What is overwritten was written all the same.
    let error = ground.raw(&[full("a"), full("a"), full("a")], SMALL).unwrap_err();
    assert!(matches!(error, UnpackError::Bytes { .. }), "{error}");
}

#[test]
fn entries_are_counted_with_those_that_are_skipped_or_implied() {
    let names = |count| (0..count).map(|n| file(n.to_string(), "")).collect::<Vec<_>>();
    let ground = Ground::new();
    assert_eq!(ground.raw(&[layer(&names(10))], SMALL).unwrap().entries, 10);
    let elevenths = [file("x", ""), file(".wh.x", ""), Entry::new(b'6', "x", 0), folder(".")];
    for eleventh in elevenths {
        let name = String::from_utf8(eleventh.name.clone()).unwrap();
        let error = ground.raw(&[layer(&names(10)), layer(&[eleventh])], SMALL).unwrap_err();
        assert_eq!(error, UnpackError::Entries { name, limit: 10 });
    }
    let deep = layer(&[file("1/2/3/4/5/6/7/8/9/10/x", "")]);
    let error = Ground::new().raw(&[deep], SMALL).unwrap_err();
    assert!(error.to_string().starts_with("it has more than 10 entries; "), "{error}");
}

#[test]
fn depth_is_limited_links_followed() {
    let deep = |count: usize| "d/".repeat(count) + "x";
    let ground = Ground::new();
    ground.unpack(&[&[file(deep(127), "x")]]).unwrap();
    let error = ground.unpack(&[&[file(deep(128), "x")]]).unwrap_err();
    assert_eq!(error, UnpackError::Deep { name: shown(&deep(128)), limit: 128 });
    // Short names that start where others end.
    let through = [symlink("l", "d/".repeat(100)), file("l/".to_owned() + &deep(28), "x")];
    let error = ground.unpack(&[&through]).unwrap_err();
    assert!(matches!(error, UnpackError::Deep { limit: 128, .. }), "{error}");
}

fn shown(name: &str) -> String {
    crate::escape::for_display(name, 200)
}

#[test]
fn a_wrong_digest_and_a_cut_archive_are_errors() {
    let whole = layer(&[file("a", vec![b'x'; 2000]), file("b", "x")]);
    let ground = Ground::new();
    let wrong = Digest::of(b"something else");
    let error = ground.unpacker(PLENTY).layer(whole.as_slice(), &wrong).unwrap_err();
    let expected = format!("{} and not to {wrong}, which the image names", Digest::of(&whole));
    assert!(error.to_string().ends_with(&expected), "{error}");
    for length in [100, 600, 512 + 2000, 512 + 2048 + 100] {
        let cut = whole[..length].to_vec();
        let error = ground.raw(&[cut], PLENTY).unwrap_err();
        assert!(matches!(error, UnpackError::Archive { .. }), "{length}: {error}");
    }
    let mut torn = whole.clone();
    torn[2600] ^= 1;
    let error = ground.raw(&[torn], PLENTY).unwrap_err().to_string();
    let expected =
        "its layer cannot be read after the entry `a` (archive header checksum mismatch)";
    assert_eq!(error, expected);
}

#[test]
fn a_layer_by_sha512_is_checked_alike() {
    let whole = layer(&[file("a", "x")]);
    let mut hasher = crate::store::digest::Hasher::new(crate::store::digest::Algorithm::Sha512);
    hasher.update(&whole);
    let ground = Ground::new();
    ground.unpacker(PLENTY).layer(whole.as_slice(), &hasher.finish()).unwrap();
    assert_eq!(ground.tree(), ["f 644 a x"]);
}

#[test]
fn every_reason_of_the_system_has_the_step_the_name_and_a_remedy() {
    let error = UnpackError::os(Step::Write, "usr/bin/python3", Errno::ENOSPC);
    let text = "cannot write the file `usr/bin/python3` of the image: No space left on device";
    assert_eq!(error.to_string(), text);
    let fixes = [
        (Errno::ENOSPC, "make room on the disk"),
        (Errno::EDQUOT, "quota"),
        (Errno::EMFILE, "ulimit -n"),
        (Errno::EROFS, "can be written to"),
        (Errno::EFBIG, "ulimit -f"),
        (Errno::ENAMETOOLONG, "a file system of Linux"),
        (Errno::EINVAL, "a file system of Linux"),
    ];
    for (errno, part) in fixes {
        let fix = UnpackError::os(Step::File, "x", errno).fix();
        assert!(fix.contains(part) && !fix.ends_with('.'), "{errno}: {fix}");
    }
    let broken = UnpackError::name(b"..", BadName::Up).fix();
    assert!(broken.contains("another image"), "{broken}");
}

#[test]
fn a_folder_that_is_gone_is_the_systems_reason() {
    let ground = Ground::new();
    let mut unpacker = ground.unpacker(PLENTY);
    fs::remove_dir(ground.root()).unwrap();
    let whole = layer(&[file("a/b", "x")]);
    let error = unpacker.layer(whole.as_slice(), &Digest::of(&whole)).unwrap_err();
    fs::create_dir(ground.root()).unwrap();
    let text = "cannot make the folder `a/b` of the image: No such file or directory";
    assert_eq!(error.to_string(), text);
    assert!(error.fix().contains("find out what else writes"), "{}", error.fix());
}

#[test]
fn trees_are_removed_whatever_their_modes_and_depth_and_links_stay_links() {
    let ground = Ground::new();
    let root = ground.root();
    let mut deep = root.join("tree");
    fs::create_dir(&deep).unwrap();
    std::os::unix::fs::symlink(ground.canary(), deep.join("out")).unwrap();
    std::os::unix::fs::symlink(ground.canary(), root.join("out")).unwrap();
    // Deeper than most processes may open descriptors, and than a path can name.
    let name = "d".repeat(100);
    let mut place = File::open(&deep).unwrap();
    for _ in 0..1100 {
        nix::sys::stat::mkdirat(&place, name.as_str(), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let flags = nix::fcntl::OFlag::O_DIRECTORY;
        place = nix::fcntl::openat(&place, name.as_str(), flags, nix::sys::stat::Mode::empty())
            .unwrap()
            .into();
    }
    drop(place);
    deep = deep.join(&name).join(&name);
    for mode in [0o000, 0o444, 0o555, 0o300] {
        let folder = deep.join(format!("m{mode}"));
        fs::create_dir_all(folder.join("inner")).unwrap();
        fs::write(folder.join("inner/x"), "x").unwrap();
        for path in [folder.join("inner"), folder] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
    }
    let parent = File::open(&root).unwrap();
    for name in ["tree", "out", "none"] {
        remove(parent.as_fd(), OsStr::new(name)).unwrap();
    }
    assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
    ground.check();
}
