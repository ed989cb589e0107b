//! Names, and what the headers before an entry say of it.

use super::*;

#[test]
fn names_that_are_none_are_refused() {
    let long_part = "p".repeat(256);
    let long = format!("{}x", "a/".repeat(2048));
    let cases: [(&[u8], &str); 10] = [
        (b"a//b", "has two slashes in a row"),
        (b"//a", "has two slashes in a row"),
        (b"a/../b", "has a part that is `..`"),
        (b"..", "has a part that is `..`"),
        (b"/..", "has a part that is `..`"),
        (b"a/..", "has a part that is `..`"),
        (b"a\0b", "has a NUL byte"),
        (long_part.as_bytes(), "has a part of more than 255 bytes"),
        (long.as_bytes(), "has more than 4095 bytes"),
        (b".wh.a/b", "has a whiteout for a folder"),
    ];
    for (name, why) in cases {
        let ground = Ground::new();
        // As an extended header, since a plain one ends at a NUL.
        let entry = file("short", "x").pax("path", name);
        let error = ground.unpack(&[&[entry]]).unwrap_err().to_string();
        assert!(error.ends_with(&format!("` {why}")), "{error}");
        assert_eq!(ground.tree(), Vec::<String>::new());
        // And as the target of a hard link, unless that is only a name which is not there.
        if !name.starts_with(b".wh.") {
            let entry = hard_link("short", "x").pax("linkpath", name);
            let error = ground.unpack(&[&[entry]]).unwrap_err().to_string();
            assert!(error.ends_with(&format!("` {why}")), "{error}");
        }
    }
    fails(&[&[file("", "x")]], "an entry's name `` is empty");
    let root = "is the root of the image, and the entry is no folder";
    for name in ["/", ".", "./"] {
        fails(&[&[symlink(name, "x")]], &format!("an entry's name `{name}` {root}"));
    }
}

#[test]
fn names_in_all_their_forms_name_the_same() {
    let forms = ["a/b", "/a/b", "./a/b", "a/./b", "a/b/.", "/./a/b", "a/b/"];
    for form in forms {
        becomes(&[&[folder(form)]], &["d 755 a", "d 755 a/b"]);
    }
    let expected = [r"f 644 \xff\xfe.\n\x1b x".to_owned()];
    becomes(&[&[file(b"\xff\xfe.\n\x1b", "x")]], &[&expected[0]]);
    let longest = "n".repeat(255);
    becomes(&[&[file(&longest, "x")]], &[&format!("f 644 {longest} x")]);
}

#[test]
fn names_in_errors_cannot_drive_a_terminal() {
    let entry = file("x", "").pax("path", b"../\x1b[2J\n\xe2\x80\xae");
    let error = Ground::new().unpack(&[&[entry]]).unwrap_err().to_string();
    let shown = r"../\u{1b}[2J\n\u{202e}";
    assert_eq!(error, format!("an entry's name `{shown}` has a part that is `..`"));
}

#[test]
fn newlines_in_extended_headers_neither_end_a_value_nor_begin_another() {
    let entry = file("short", "x")
        .pax("SCHILY.xattr.user.a", "\n16 path=../evil\n")
        .pax("path", "a\n12 path=evil");
    becomes(&[&[entry]], &[r"f 644 a\n12 path=evil x"]);
}

#[test]
fn the_old_extended_headers_of_gnu_work() {
    let (name, target) = ("n".repeat(200), "t".repeat(200));
    let long_name = Entry { data: [name.as_bytes(), b"\0"].concat(), ..file("././@LongLink", "") };
    let long_link = Entry { data: [target.as_bytes(), b"\0"].concat(), ..long_name.clone() };
    let entries = [
        Entry { kind: b'L', ..long_name.clone() },
        Entry { kind: b'K', ..long_link },
        symlink("short", "shorter"),
    ];
    becomes(&[&entries], &[&format!("l {name} {target}")]);
    let twice = Entry { kind: b'L', ..long_name };
    let why = "an entry has two extended headers of one kind";
    let layers: &[Entry] = &[twice.clone(), twice.clone(), file("x", "")];
    fails(&[layers], &format!("its layer cannot be read at its beginning ({why})"));
    let why = "an extended header at its end is of no entry";
    fails(&[&[twice]], &format!("its layer cannot be read at its beginning ({why})"));
}

#[test]
fn headers_that_say_two_things_or_nonsense_are_refused() {
    let cases = [
        (file("a", "x").pax("size", "2"), "the entry `a` has two sizes"),
        (file("a", "x").pax("size", "+1"), "the size in an extended header is no number"),
        (file("a", "x").pax("mtime", "soon"), "the time in an extended header is no number"),
        (
            file("a", "x").pax("GNU.sparse.major", "1"),
            "the entry `a` is a sparse file, which no layer may have",
        ),
        (Entry::new(b'S', "a", 0o644), "the entry `a` is a sparse file, which no layer may have"),
        (Entry::new(b'M', "a", 0o644), "the entry `a` is of type 0x4d, which no layer may have"),
        (
            Entry { data: b"9 path=x\n8 a=b\n".to_vec(), ..Entry::new(b'x', "p", 0) },
            "an extended header is damaged",
        ),
        (
            Entry { data: record("path", b"x"), ..Entry::new(b'g', "p", 0) },
            "a global header gives all entries one name or size",
        ),
    ];
    for (entry, why) in cases {
        let entries = [file("before", "x"), entry, file("after", "x")];
        let expected = format!("its layer cannot be read after the entry `before` ({why})");
        fails(&[&entries], &expected);
    }
    let large = Entry { data: vec![b'x'; (1 << 20) + 1], ..Entry::new(b'x', "p", 0) };
    let why = "an extended header has more than 1048576 bytes";
    fails(&[&[large]], &format!("its layer cannot be read at its beginning ({why})"));
}

#[test]
fn a_global_header_with_a_comment_is_no_entry() {
    let comment = Entry { data: record("comment", b"c0ffee"), ..Entry::new(b'g', "p", 0) };
    assert_eq!(becomes(&[&[comment, file("a", "x")]], &["f 644 a x"]).entries, 1);
}

#[test]
fn a_size_in_both_headers_and_types_of_old_work() {
    let entries = [
        file("a", "xyz").pax("size", "3").pax("path", ""),
        Entry { kind: 0, ..file("old", "x") },
        Entry { kind: 0, ..Entry::new(b'0', "folder/", 0o700) },
        Entry { kind: b'7', ..file("contiguous", "x") },
    ];
    let expected = ["f 644 a xyz", "f 644 contiguous x", "d 700 folder", "f 644 old x"];
    becomes(&[&entries], &expected);
}

#[test]
fn times_of_files_are_kept_in_seconds_unless_they_are_absurd() {
    let ground = Ground::new();
    let max = i64::from(u32::MAX);
    let cases = [
        (file("plain", "").time(1_700_000_000), 1_700_000_000),
        (file("fraction", "").pax("mtime", "1700000000.987654321"), 1_700_000_000),
        (file("negative", "").pax("mtime", "-1.5"), 0),
        (file("far", "").pax("mtime", "99999999999999999999999"), max),
        (file("binary", "").time(1 << 40), max),
        (file("binary-negative", "").time((-5_i64).cast_unsigned()), 0),
    ];
    let entries: Vec<Entry> = cases.iter().map(|(entry, _)| entry.clone()).collect();
    ground.unpack(&[&entries]).unwrap();
    for (entry, time) in cases {
        let path = ground.root().join(std::str::from_utf8(&entry.name).unwrap());
        let metadata = fs::metadata(path).unwrap();
        assert_eq!((metadata.mtime(), metadata.mtime_nsec()), (time, 0), "{entry:?}");
    }
}

#[test]
fn fields_that_are_blank_are_zero() {
    let mut header = header(&file("a", ""));
    header.as_old_mut().mode = [b' '; 8];
    header.as_old_mut().mtime = [0; 12];
    header.set_cksum();
    let mut builder = tar::Builder::new(Vec::new());
    builder.append(&header, &b""[..]).unwrap();
    let ground = Ground::new();
    ground.raw(&[builder.into_inner().unwrap()], PLENTY).unwrap();
    assert_eq!(ground.tree(), ["f 600 a "]);
    assert_eq!(fs::metadata(ground.root().join("a")).unwrap().mtime(), 0);
}
