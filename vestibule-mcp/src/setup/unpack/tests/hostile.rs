//! What other unpackers were found to get wrong, each case as an image of its own.

use super::*;

/// Where a path of the host lies within the root, with the folders on its way.
fn within(path: &str, last: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    for count in 1..=parts.len() {
        lines.push(format!("d 755 {}", parts[..count].join("/")));
    }
    lines.push(format!("f 644 {}/{last}", parts.join("/")));
    lines
}

fn up(canary: &str) -> String {
    format!("../../../../../../..{canary}")
}

fn sorted(mut lines: Vec<String>) -> Vec<String> {
    lines.sort_by(|one, other| path_of(one).cmp(path_of(other)));
    lines
}

fn path_of(line: &str) -> &str {
    let field = if line.starts_with('l') { 1 } else { 2 };
    line.split(' ').nth(field).unwrap()
}

#[test]
fn absolute_names_are_in_the_root_and_those_that_go_up_are_refused() {
    becomes(&[&[file("/abs.txt", "x")]], &["f 644 abs.txt x"]);
    let ground = Ground::new();
    let evil = up(&ground.canary()) + "/evil";
    let error = ground.unpack(&[&[file("ok", "x"), file(&evil, "x")]]).unwrap_err();
    assert_eq!(error.to_string(), format!("an entry's name `{evil}` has a part that is `..`"));
}

#[test]
fn a_parent_that_is_a_link_out_means_the_same_path_in_the_root() {
    for relative in [true, false] {
        for layers in [1, 2] {
            let ground = Ground::new();
            let canary = ground.canary();
            let to = if relative { up(&canary) } else { canary.clone() };
            let entries = [symlink("d", &to), file("d/evil", "x")];
            let layers: Vec<&[Entry]> = entries.chunks(3 - layers).collect();
            ground.unpack(&layers).unwrap();
            let mut expected = within(&canary, "evil x");
            expected.push(format!("l d {to}"));
            assert_eq!(ground.tree(), sorted(expected));
        }
    }
}

#[test]
fn a_folder_over_a_link_replaces_it_and_its_mode_is_the_folders_own() {
    let ground = Ground::new();
    let link = symlink("d", ground.canary());
    ground.unpack(&[&[link, folder("d").mode(0o777)]]).unwrap();
    assert_eq!(ground.tree(), ["d 755 d"]);
}

#[test]
fn a_file_over_a_link_replaces_the_link() {
    let ground = Ground::new();
    let link = symlink("s", ground.canary() + "/target");
    ground.unpack(&[&[link], &[file("s", "evil")]]).unwrap();
    assert_eq!(ground.tree(), ["f 644 s evil"]);
}

#[test]
fn a_hard_link_is_to_what_the_image_has_and_never_out() {
    let ground = Ground::new();
    let canary = ground.canary();
    let out = up(&canary) + "/secret";
    let error = ground.unpack(&[&[hard_link("h", &out)]]).unwrap_err();
    assert_eq!(error.to_string(), format!("an entry's name `{out}` has a part that is `..`"));

    let secret = canary.clone() + "/secret";
    let entries = [hard_link("h", &secret), file("h", "evil")];
    let error = ground.unpack(&[&entries]).unwrap_err().to_string();
    let missing = "which is not there before it";
    assert_eq!(error, format!("the hard link `h` is to `{secret}`, {missing}"));

    let entries = [symlink("s", &canary), hard_link("h", "s/secret")];
    let error = ground.unpack(&[&entries]).unwrap_err().to_string();
    assert_eq!(error, format!("the hard link `h` is to `s/secret`, {missing}"));
}

#[test]
fn a_hard_link_to_a_link_is_another_name_of_the_link_itself() {
    let ground = Ground::new();
    let secret = ground.canary() + "/secret";
    let entries = [symlink("s", &secret), hard_link("h", "s")];
    ground.unpack(&[&entries]).unwrap();
    assert_eq!(ground.tree(), [format!("l h {secret}"), format!("l s {secret}")]);
    let ino = |name: &str| fs::symlink_metadata(ground.root().join(name)).unwrap().ino();
    assert_eq!(ino("h"), ino("s"));
    ground.unpack(&[&[file("h", "evil")]]).unwrap();
    assert_eq!(ground.tree(), ["f 644 h evil".to_owned(), format!("l s {secret}")]);
}

#[test]
fn whiteouts_hide_files_folders_and_what_is_below_an_opaque_one() {
    let lower = [folder("a"), file("a/b", "x"), file("a/c", "x")];
    becomes(&[&lower, &[file("a/.wh.b", "")]], &["d 755 a", "f 644 a/c x"]);
    let lower = [folder("a"), folder("a/b"), file("a/b/c", "x"), file("a/k", "x")];
    becomes(&[&lower, &[file("a/.wh.b", "")]], &["d 755 a", "f 644 a/k x"]);
    let lower = [folder("a"), file("a/x", "x")];
    let first = [folder("a"), file("a/.wh..wh..opq", ""), file("a/y", "x")];
    becomes(&[&lower, &first], &["d 755 a", "f 644 a/y x"]);
    let last = [folder("a"), file("a/y", "x"), file("a/.wh..wh..opq", "")];
    let summary = becomes(&[&lower, &last], &["d 755 a", "f 644 a/y x"]);
    assert_eq!(summary.whiteouts, 1);
}

#[test]
fn whiteouts_of_a_folder_itself_or_the_one_above_are_refused() {
    let lower = [folder("a"), file("a/x", "x"), file("keep", "x")];
    for name in ["a/.wh..", "a/.wh...", "a/.wh.", ".wh..", ".wh..."] {
        let ground = Ground::new();
        let error = ground.unpack(&[&lower, &[file(name, "")]]).unwrap_err().to_string();
        let why = "is a whiteout that hides nothing which can be named";
        assert_eq!(error, format!("an entry's name `{name}` {why}"));
        assert_eq!(ground.tree(), ["d 755 a", "f 644 a/x x", "f 644 keep x"]);
    }
}

#[test]
fn whiteouts_through_a_link_out_hide_nothing_there() {
    for whiteout in ["d/.wh.secret", "d/.wh..wh..opq"] {
        let ground = Ground::new();
        let canary = ground.canary();
        ground.unpack(&[&[symlink("d", &canary)], &[file(whiteout, "")]]).unwrap();
        assert_eq!(ground.tree(), [format!("l d {canary}")]);
    }
}

#[test]
fn set_id_and_sticky_bits_are_dropped_and_counted() {
    let entries = [
        file("su", "x").mode(0o4755),
        file("sg", "x").mode(0o2755),
        folder("sticky").mode(0o1777),
        file("all", "x").mode(0o7777),
    ];
    let expected = ["f 755 all x", "f 755 sg x", "d 755 sticky", "f 755 su x"];
    assert_eq!(becomes(&[&entries], &expected).mode_bits, 4);
}

#[test]
fn devices_and_fifos_are_left_out_and_counted_and_hide_what_was_there() {
    let lower = [file("fifo", "x"), folder("block"), file("block/x", "x")];
    let upper = [
        folder("dev"),
        Entry::new(b'3', "dev/null", 0o666),
        Entry::new(b'6', "fifo", 0o644),
        Entry::new(b'4', "block", 0o4644),
        file("after", "x"),
    ];
    let summary = becomes(&[&lower, &upper], &["f 644 after x", "d 755 dev"]);
    assert_eq!((summary.devices, summary.fifos, summary.mode_bits), (2, 1, 0));
}

#[test]
fn folders_and_files_of_any_mode_can_be_changed_by_later_layers() {
    let lower = [folder("m").mode(0), file("m/f", "x"), folder("m/n").mode(0), file("m/n/g", "x")];
    let upper = [file("m/.wh.f", ""), file("m/n/h", "x")];
    let expected = ["d 700 m", "d 700 m/n", "f 644 m/n/g x", "f 644 m/n/h x"];
    becomes(&[&lower, &upper], &expected);
    let lower = [folder("m").mode(0o555), file("m/f", "x")];
    let upper = [file("m/g", "x"), file("m/f", "new")];
    becomes(&[&lower, &upper], &["d 755 m", "f 644 m/f new", "f 644 m/g x"]);
    let file_of_none = |data| file("f", data).mode(0);
    becomes(&[&[file_of_none("x")], &[file_of_none("new")]], &["f 600 f new"]);
}

#[test]
fn the_entry_of_the_root_sets_its_mode() {
    for (mode, is) in [(0, 0o700), (0o777, 0o755), (0o1750, 0o750)] {
        let ground = Ground::new();
        ground.unpack(&[&[folder(".").mode(mode), file("f", "x")]]).unwrap();
        assert_eq!(ground.tree(), ["f 644 f x"]);
        let root = fs::metadata(ground.root()).unwrap().mode() & 0o7777;
        assert_eq!(root, is);
    }
}

#[test]
fn of_two_entries_the_last_one_holds_whatever_they_are() {
    let entries = [file("x", "1"), file("x", "2"), folder("x"), file("x/y", "3")];
    becomes(&[&entries], &["d 755 x", "f 644 x/y 3"]);
    let lower = [file("a", "x"), folder("b"), file("b/c", "x")];
    let upper = [folder("a"), file("a/d", "x"), file("b", "now a file")];
    becomes(&[&lower, &upper], &["d 755 a", "f 644 a/d x", "f 644 b now a file"]);
}

#[test]
fn links_within_the_image_are_followed_for_what_is_below_them() {
    let lower = [
        folder("usr"),
        folder("usr/lib"),
        symlink("lib", "usr/lib"),
        symlink("abslib", "/usr/lib"),
    ];
    let upper = [file("lib/x", "x"), file("abslib/y", "x")];
    let links = ["l abslib /usr/lib", "l lib usr/lib"];
    let files = ["d 755 usr", "d 755 usr/lib", "f 644 usr/lib/x x", "f 644 usr/lib/y x"];
    becomes(&[&lower, &upper], &[&links[..], &files].concat());
    let lower = [folder("usr"), folder("usr/lib"), symlink("lib", "usr/lib")];
    let upper = [folder("lib"), file("lib/x", "x")];
    let expected = ["d 755 lib", "f 644 lib/x x", "d 755 usr", "d 755 usr/lib"];
    becomes(&[&lower, &upper], &expected);
}

#[test]
fn owners_become_the_user_and_attributes_are_dropped() {
    let ground = Ground::new();
    let capability = b"\x01\0\0\x02\0\x20\0\0\0\0\n\0\0\0\0\0\0\0\0\0";
    let entry = file("f", "x")
        .pax("SCHILY.xattr.user.foo", "bar")
        .pax("SCHILY.xattr.security.capability", capability)
        .pax("uid", "1234567890");
    let summary = ground.unpack(&[&[entry]]).unwrap();
    assert_eq!((ground.tree(), summary.attributes), (vec!["f 644 f x".to_owned()], 2));
    let owner = fs::metadata(ground.root().join("f")).unwrap().uid();
    assert_eq!(owner, nix::unistd::geteuid().as_raw());
}

#[test]
fn long_names_and_links_work() {
    let (d, f) = ("d".repeat(150), "f".repeat(200));
    let (l, h) = ("l".repeat(160), "h".repeat(160));
    let path = format!("{d}/{f}");
    let entries = [folder(&d), file(&path, "x"), symlink(&l, &path), hard_link(&h, &path)];
    let expected = [
        format!("d 755 {d}"),
        format!("f 644 {path} x"),
        format!("f 644 {h} x"),
        format!("l {l} {path}"),
    ];
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    becomes(&[&entries], &expected);
}

#[test]
fn a_file_over_one_of_two_names_leaves_the_other() {
    let lower = [file("a", "old"), hard_link("b", "a")];
    becomes(&[&lower, &[file("a", "new")]], &["f 644 a new", "f 644 b old"]);
}

#[test]
fn folders_without_an_entry_are_made() {
    let summary = becomes(&[&[file("p/q/r", "x")]], &["d 755 p", "d 755 p/q", "f 644 p/q/r x"]);
    assert_eq!(summary.entries, 3);
}

#[test]
fn a_layer_may_be_empty_or_have_anything_after_its_end() {
    let ground = Ground::new();
    let mut trailing = layer(&[file("f", "x")]);
    trailing.extend_from_slice(&b"garbage".repeat(100));
    let layers = [Vec::new(), vec![0; 1024], trailing.clone()];
    let summary = ground.raw(&layers, PLENTY).unwrap();
    assert_eq!(ground.tree(), ["f 644 f x"]);
    assert_eq!((summary.entries, summary.bytes), (1, 1));
    // What follows the end counts for the digest.
    let mut unpacker = ground.unpacker(PLENTY);
    let without = Digest::of(&layer(&[file("f", "x")]));
    let error = unpacker.layer(trailing.as_slice(), &without).unwrap_err();
    let (expected, found) = (without, Digest::of(&trailing));
    assert_eq!(error, UnpackError::DiffId { expected, found });
}
