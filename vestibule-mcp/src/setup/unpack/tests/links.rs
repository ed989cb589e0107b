//! Links, symbolic and hard, and the way that is found through them.

use super::*;
use crate::setup::unpack::name::Name;
use crate::setup::unpack::resolve::Missing;
use crate::store::inventory::cursor::id;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use proptest::prelude::*;
use std::ffi::OsString;

#[test]
fn a_hard_link_that_cannot_be_is_refused() {
    let cases: [(&[Entry], &str); 7] = [
        (&[hard_link("h", "f"), file("f", "x")], "`f`, which is not there before it"),
        (&[hard_link("h", "no/f")], "`no/f`, which is not there before it"),
        (&[file("f", "x"), hard_link("h", "f/g")], "`f/g`, which is not there before it"),
        (&[folder("d"), hard_link("h", "d")], "`d`, which is a folder"),
        (&[hard_link("h", "/")], "`/`, which is a folder"),
        (&[file("h", "x"), hard_link("h", "./h")], "`./h`, which is itself"),
        (
            &[folder("h"), file("h/f", "x"), hard_link("h", "h/f")],
            "`h/f`, which is not there before it",
        ),
    ];
    for (entries, why) in cases {
        fails(&[entries], &format!("the hard link `h` is to {why}"));
    }
    let itself = [folder("d"), symlink("l", "d"), file("d/h", "x"), hard_link("l/h", "d/h")];
    fails(&[&itself], "the hard link `l/h` is to `d/h`, which is itself");
}

#[test]
fn a_hard_link_finds_its_target_as_the_image_would() {
    let entries = [
        folder("a"),
        file("a/f", "x").mode(0o640),
        symlink("to-a", "/a"),
        folder("b"),
        hard_link("b/h", "/to-a/f"),
        folder("b/over"),
        hard_link("b/over", "a/f").mode(0o4777),
    ];
    let tree = ["d 755 a", "f 640 a/f x", "d 755 b", "f 640 b/h x", "f 640 b/over x", "l to-a /a"];
    becomes(&[&entries], &tree);
}

#[test]
fn symbolic_links_are_kept_as_they_are_and_replace_what_was_there() {
    let targets = ["../../../etc/passwd", "/", ".", "..", "a//b/", "\u{1b}"];
    for target in targets {
        let lower = [folder("l"), file("l/x", "x")];
        let expected = format!("l l {}", target.as_bytes().escape_ascii());
        becomes(&[&lower, &[symlink("l", target)]], &[&expected]);
    }
    fails(&[&[symlink("l", "")]], "the symbolic link `l` points nowhere");
    let nul = symlink("l", "x").pax("linkpath", b"a\0b");
    fails(&[&[nul]], "the symbolic link `l` points to a name with a NUL byte");
    let long = symlink("l", "x".repeat(4096));
    fails(&[&[long]], "the symbolic link `l` points to a name of more than 4095 bytes");
}

#[test]
fn a_link_to_what_is_missing_makes_it_in_the_root() {
    let entries = [symlink("lib", "../../usr/./lib/../lib64"), file("lib/x", "x")];
    let expected = [
        "l lib ../../usr/./lib/../lib64",
        "d 755 usr",
        "d 755 usr/lib",
        "d 755 usr/lib64",
        "f 644 usr/lib64/x x",
    ];
    becomes(&[&entries], &expected);
}

#[test]
fn ways_that_lead_nowhere_are_refused() {
    let round = [symlink("a", "b"), symlink("b", "a"), file("a/x", "x")];
    fails(&[&round], "the way to the entry `a/x` has too many symbolic links");
    let on_foot = "a/../".repeat(800) + ".";
    let few = [folder("a"), symlink("l", &on_foot), symlink("m", "l/l"), file("m/x", "x")];
    fails(&[&few], "the way to the entry `m/x` has more than 2048 parts, links followed");
    let file_on_way = [file("f", "x"), file("f/g", "x")];
    fails(&[&file_on_way], "the entry `f/g` is in something that is no folder");
    let link_to_file = [file("f", "x"), symlink("l", "f"), folder("l/g")];
    fails(&[&link_to_file], "the entry `l/g` is in something that is no folder");
}

/// Names few enough that they meet, and targets of all kinds.
fn random_links() -> impl Strategy<Value = Vec<(usize, String)>> {
    let part = prop_oneof![4 => "[a-c]", 1 => Just("..".to_owned()), 1 => Just(".".to_owned())];
    let target =
        (any::<bool>(), prop::collection::vec(part, 1..4)).prop_map(|(absolute, parts)| {
            format!("{}{}", if absolute { "/" } else { "" }, parts.join("/"))
        });
    prop::collection::vec((0..9_usize, target), 0..8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    /// The kernel's own resolution is the judge.
    #[test]
    fn the_way_is_the_one_that_the_kernel_finds_with_the_root_as_its_own(
        links in random_links(),
        ways in prop::collection::vec("[a-c](/[a-c]){0,4}", 8..40),
    ) {
        let ground = Ground::new();
        let mut entries = Vec::new();
        for (index, one) in ["a", "b", "c"].iter().enumerate() {
            entries.push(folder(one));
            entries.extend(["a", "b", "c"].map(|other| folder(format!("{one}/{other}"))));
            let here = links.iter().filter(|(place, _)| place / 3 == index);
            entries.extend(here.map(|(place, target)| {
                symlink(format!("{one}/{}", ["a", "b", "c"][place % 3]), target)
            }));
        }
        ground.unpack(&[&entries]).unwrap();
        let mut unpacker = ground.unpacker(PLENTY);
        let root = File::open(ground.root()).unwrap();
        for way in &ways {
            let resolve = ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS;
            let how = OpenHow::new().flags(OFlag::O_PATH | OFlag::O_DIRECTORY).resolve(resolve);
            let expected = match openat2(&root, way.as_str(), how) {
                Ok(folder) => Some(id(folder).unwrap()),
                // Where the kernel has no such call, or a container refuses it, nothing can judge.
                Err(nix::errno::Errno::ENOSYS | nix::errno::Errno::EPERM) => continue,
                Err(_) => None,
            };
            let name = Name::parse(way.as_bytes()).unwrap();
            let folders: Vec<OsString> = way.split('/').map(OsString::from).collect();
            let found = unpacker.reach(&name, &folders, Missing::Stop);
            let found = found.ok().flatten().map(|folder| id(folder).unwrap());
            prop_assert_eq!(found, expected, "{}", way);
        }
    }
}
