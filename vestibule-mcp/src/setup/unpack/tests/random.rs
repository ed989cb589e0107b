//! Whatever a layer has in it: nothing outside changes, and nothing dangerous is inside.

use super::*;
use crate::store::inventory;
use proptest::prelude::*;
use std::os::fd::AsFd;

/// Names few enough that they meet. `CANARY` becomes the path of the folder outside.
fn names() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        12 => "[abc]",
        1 => Just("..".to_owned()),
        1 => Just(".".to_owned()),
        2 => Just(".wh.a".to_owned()),
        1 => Just(".wh.b".to_owned()),
        2 => Just(".wh..wh..opq".to_owned()),
        1 => Just(".wh...".to_owned()),
        1 => Just("secret".to_owned()),
    ];
    let path = prop::collection::vec(part, 1..4).prop_map(|parts| parts.join("/"));
    (prop_oneof![6 => Just(""), 1 => Just("/"), 1 => Just("./")], path)
        .prop_map(|(start, path)| format!("{start}{path}"))
}

const OUT: &[&str] =
    &["CANARY", "CANARY/secret", "UPCANARY", "UPCANARY/inner", "..", "/", "CANARY/inner/x"];

fn targets() -> impl Strategy<Value = String> {
    prop_oneof![4 => names(), 3 => prop::sample::select(OUT).prop_map(str::to_owned)]
}

fn entries() -> impl Strategy<Value = (u8, String, String, u32)> {
    let kinds = prop::sample::select(&b"000005551112222346"[..]);
    (kinds, names(), targets(), 0..0o10000_u32)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_outside_changes_and_nothing_dangerous_is_inside(
        layers in prop::collection::vec(prop::collection::vec(entries(), 1..12), 1..4),
    ) {
        let ground = Ground::new();
        let canary = ground.canary();
        let mut unpacker = ground.unpacker(PLENTY);
        // An error ends a layer. What is left of it goes on in the next one, so that a bad name does
        // not hide what follows it.
        for entries in layers {
            let mut left: Vec<Entry> = entries.into_iter().map(|(kind, name, target, mode)| {
                let up = format!("../../../../../../..{canary}");
                let link = target.replace("UPCANARY", &up).replace("CANARY", &canary);
                let data = if kind == b'0' { b"evil".to_vec() } else { Vec::new() };
                Entry { link: link.into_bytes(), data, ..Entry::new(kind, name, mode) }
            }).collect();
            while !left.is_empty() {
                let whole = layer(&left);
                let before = unpacker.summary().entries;
                match unpacker.layer(whole.as_slice(), &Digest::of(&whole)) {
                    Ok(()) => break,
                    Err(UnpackError::Os { step, name, errno }) => {
                        panic!("{step} {name}: {errno}")
                    }
                    Err(_) => {}
                }
                // Those that were counted are done or to blame; one at least is.
                let done = usize::try_from(unpacker.summary().entries - before).unwrap().max(1);
                left.drain(..done.min(left.len()));
            }
            ground.check();
        }
        // And what is inside can be listed, and is what the listing says.
        let root = File::open(ground.root()).unwrap();
        let mut listing = Vec::new();
        let totals = inventory::write(root.as_fd(), &mut listing).unwrap();
        prop_assert_eq!(inventory::check(root.as_fd(), listing.as_slice()).unwrap(), totals);
    }
}
