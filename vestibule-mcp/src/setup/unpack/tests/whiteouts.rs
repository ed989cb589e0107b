//! Whiteouts: what they hide, and what they must not.

use super::*;

fn lower() -> Vec<Entry> {
    vec![
        folder("a"),
        file("a/x", "low"),
        folder("a/sub"),
        file("a/sub/deep", "low"),
        symlink("a/link", "x"),
        file("b", "low"),
    ]
}

#[test]
fn a_folder_that_the_layer_made_again_loses_only_what_is_from_below() {
    // The whiteout may come before, between and after what the layer has itself.
    let own =
        [folder("a").mode(0o700), file("a/y", "up"), folder("a/sub"), file("a/sub/new", "up")];
    for position in 0..=own.len() {
        for whiteout in [".wh.a", "a/.wh..wh..opq"] {
            let mut upper = own.to_vec();
            upper.insert(position, file(whiteout, ""));
            let expected =
                ["d 700 a", "d 755 a/sub", "f 644 a/sub/new up", "f 644 a/y up", "f 644 b low"];
            becomes(&[&lower(), &upper], &expected);
        }
    }
}

#[test]
fn a_folder_stays_when_something_in_it_is_the_layers_own() {
    let upper = [file("a/sub/new", "up"), file("a/.wh.sub", ""), file(".wh.a", "")];
    becomes(&[&lower(), &upper], &["d 755 a", "d 755 a/sub", "f 644 a/sub/new up", "f 644 b low"]);
}

#[test]
fn what_the_layer_replaced_is_its_own() {
    let upper = [
        file("b", "up"),
        file(".wh.b", ""),
        symlink("a/x", "y"),
        file("a/.wh.x", ""),
        hard_link("a/link", "b"),
        file("a/sub", "up"),
        file("a/.wh..wh..opq", ""),
    ];
    let expected = ["d 755 a", "f 644 a/link up", "f 644 a/sub up", "l a/x y", "f 644 b up"];
    becomes(&[&lower(), &upper], &expected);
}

#[test]
fn a_hard_link_to_a_lower_file_does_not_keep_that_file() {
    let upper = [hard_link("h", "b"), file(".wh.b", "")];
    becomes(&[&lower()[5..], &upper], &["f 644 h low"]);
}

#[test]
fn an_opaque_root_hides_everything_below() {
    let upper = [file("new/x", "up"), file(".wh..wh..opq", "")];
    becomes(&[&lower(), &upper], &["d 755 new", "f 644 new/x up"]);
}

#[test]
fn whiteouts_work_through_links_within_the_image() {
    let mut below = lower();
    below.push(symlink("to", "/a"));
    let upper = [file("to/.wh.x", ""), file("to/sub/.wh..wh..opq", ""), file("to/sub/new", "up")];
    let expected =
        ["d 755 a", "l a/link x", "d 755 a/sub", "f 644 a/sub/new up", "f 644 b low", "l to /a"];
    becomes(&[&below, &upper], &expected);
    // A link is hidden itself, and not what it points to.
    becomes(
        &[&below, &[file(".wh.to", ""), file(".wh.b", "")]],
        &["d 755 a", "l a/link x", "d 755 a/sub", "f 644 a/sub/deep low", "f 644 a/x low"],
    );
}

#[test]
fn hiding_what_is_not_there_is_no_error_and_makes_nothing() {
    let upper = [
        file(".wh.none", ""),
        file("none/.wh.x", ""),
        file("none/.wh..wh..opq", ""),
        file("b/.wh.x", ""),
    ];
    assert_eq!(becomes(&[&lower()[5..], &upper], &["f 644 b low"]).whiteouts, 4);
}

#[test]
fn whiteouts_hide_for_their_own_layer_and_not_for_those_above() {
    let first = [file("x", "1"), file(".wh.x", "")];
    let third = [file("x", "3")];
    becomes(&[&first], &["f 644 x 1"]);
    becomes(&[&first, &[file(".wh.x", "")], &third], &["f 644 x 3"]);
    becomes(&[&first, &[file(".wh.x", "")]], &[]);
}

#[test]
fn whiteouts_count_by_their_name_and_not_by_their_type() {
    let upper = [folder(".wh.a"), symlink(".wh.b", "b")];
    becomes(&[&lower(), &upper], &[]);
}

#[test]
fn names_that_only_look_like_whiteouts_are_names() {
    let entries = [file("x.wh.y", "x"), file(".whx", "x"), file(".wh", "x")];
    becomes(&[&entries], &["f 644 .wh x", "f 644 .whx x", "f 644 x.wh.y x"]);
    // Three dots are a name like others.
    becomes(&[&[file("...", "x")], &[file(".wh....", "")]], &[]);
}

#[test]
fn what_aufs_kept_for_itself_is_skipped() {
    let upper = [
        folder(".wh..wh.plnk"),
        file(".wh..wh.plnk/123.456", "x"),
        file(".wh..wh.aufs", ""),
        file("a/.wh..wh.orph", ""),
    ];
    let summary = becomes(&[&lower()[5..], &upper], &["f 644 b low"]);
    assert_eq!((summary.metadata, summary.whiteouts), (4, 0));
}

#[test]
fn a_whiteout_that_was_there_before_hides_what_is_from_below_in_the_next_layer() {
    let upper = [file("a/x", "up"), file("a/.wh..wh..opq", ""), file("a/.wh..wh..opq", "")];
    let third = [file("a/.wh..wh..opq", ""), file(".wh.b", ""), file(".wh.b", "")];
    becomes(&[&lower(), &upper], &["d 755 a", "f 644 a/x up", "f 644 b low"]);
    becomes(&[&lower(), &upper, &third], &["d 755 a"]);
}
