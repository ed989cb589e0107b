//! `read_workspace` gives back what lies in the workspace, and follows nothing out of it.

use serde_json::json;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Command;
use std::time::{Duration, Instant};
use tests::{Outcome, Place, Reply, Server};

tests::tests![
    a_listing_is_sorted_sized_and_bounded,
    names_cannot_drive_a_terminal_or_forge_a_line,
    text_is_cut_at_the_cap,
    a_picture_comes_as_a_picture,
    binary_files_are_described,
    what_leads_out_is_refused,
    a_link_swapped_in_during_the_read_is_never_followed,
    nothing_blocks_it,
    a_missing_path_is_no_error,
    an_empty_workspace_says_so,
];

#[track_caller]
fn read(server: &mut Server, path: &str) -> Reply {
    server.call("read_workspace", json!({ "path": path }))
}

/// A server with a workspace that is there already.
fn with_workspace(place: &Place) -> (Server, std::path::PathBuf) {
    let folder = place.folder("ws");
    (place.server().set("VESTIBULE_WORKSPACE", &folder).start(), folder)
}

fn a_listing_is_sorted_sized_and_bounded() -> Outcome {
    let place = Place::new();
    let (mut server, _) = with_workspace(&place);
    for number in 0..250 {
        place.file(&format!("ws/f{number:03}"), "12345");
    }
    place.folder("ws/a-folder");
    let reply = read(&mut server, ".");
    assert!(!reply.is_error);
    let names: Vec<&str> = reply.text.lines().filter(|line| line.contains(" f")).collect();
    assert!(names.is_sorted() && names.len() <= 200, "{}", reply.text);
    assert!(reply.text.contains("a-folder"), "{}", reply.text);
    assert!(reply.text.contains("51"), "the number of those left out: {}", reply.text);
    Ok(())
}

fn names_cannot_drive_a_terminal_or_forge_a_line() -> Outcome {
    let place = Place::new();
    let (mut server, folder) = with_workspace(&place);
    for name in ["new\nline", "esc\u{1b}[31m", "bidi\u{202e}txt", "tab\t"] {
        std::fs::write(folder.join(name), "x").expect("a strange name");
    }
    let text = read(&mut server, ".").text;
    for bad in ['\u{1b}', '\u{202e}', '\t'] {
        assert!(!text.contains(bad), "{bad:?} in {text:?}");
    }
    assert!(!text.lines().any(|line| line.starts_with("line")), "a name made a line: {text}");
    Ok(())
}

fn text_is_cut_at_the_cap() -> Outcome {
    let place = Place::new();
    let (mut server, _) = with_workspace(&place);
    place.file("ws/long.txt", "é".repeat(15_000));
    place.file("ws/short.txt", "first\nsecond");
    assert!(read(&mut server, "short.txt").text.contains("first\nsecond"));
    let text = read(&mut server, "long.txt").text;
    assert_eq!(text.matches('é').count(), 10_000);
    assert!(text.contains("10000 bytes"), "the number of those left out: {}", &text[19_900..]);
    Ok(())
}

fn a_picture_comes_as_a_picture() -> Outcome {
    let place = Place::new();
    let (mut server, _) = with_workspace(&place);
    let code = "import struct, zlib\n\
        chunk = lambda k, d: struct.pack('>I', len(d)) + k + d + struct.pack('>I', zlib.crc32(k + d))\n\
        open('plot.png', 'wb').write(b'\\x89PNG\\r\\n\\x1a\\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 1, 1, 8, 2, 0, 0, 0)) + chunk(b'IDAT', zlib.compress(b'\\0\\xff\\0\\0')) + chunk(b'IEND', b''))";
    server.run("python", code).success();
    let reply = read(&mut server, "plot.png");
    let block = &reply.json["content"][0];
    assert_eq!(block["type"], "image", "{}", reply.json);
    assert_eq!(block["mimeType"], "image/png");
    assert!(block["data"].as_str().is_some_and(|data| data.starts_with("iVBORw0KGgo")));
    // The name decides nothing.
    place.file("ws/fake.png", "no picture");
    assert!(read(&mut server, "fake.png").text.contains("no picture"));
    Ok(())
}

fn binary_files_are_described() -> Outcome {
    let place = Place::new();
    let (mut server, _) = with_workspace(&place);
    place.file("ws/data.bin", (0..=255).collect::<Vec<u8>>());
    let text = read(&mut server, "data.bin").text;
    assert!(
        text.contains("256") && !text.contains('\u{fffd}') && !text.contains('\u{1}'),
        "{text:?}"
    );
    Ok(())
}

fn what_leads_out_is_refused() -> Outcome {
    let place = Place::new();
    let secret = place.file("secret", "planted outside");
    let (mut server, folder) = with_workspace(&place);
    place.file("ws/plain", "inside");
    place.folder("ws/sub");
    symlink(&secret, folder.join("link")).expect("a link");
    symlink("plain", folder.join("inner")).expect("a link");
    symlink("/etc", folder.join("sub/dir")).expect("a link");
    symlink("/proc/self/root", folder.join("magic")).expect("a link");
    std::fs::hard_link(folder.join("plain"), folder.join("hard")).expect("a hard link");
    let absolute = secret.display().to_string();
    let paths = [
        "..",
        "../secret",
        "sub/../../secret",
        &absolute,
        "/etc/passwd",
        "link",
        "inner",
        "sub/dir/passwd",
        "magic/etc/passwd",
        "a\0b",
        "..\\secret",
        "C:\\x",
    ];
    for path in paths {
        let reply = read(&mut server, path);
        assert!(reply.is_error && reply.text.starts_with("Blocked: "), "{path:?}: {}", reply.text);
        assert!(!reply.text.contains("planted outside"), "{path:?}");
    }
    assert!(read(&mut server, "hard").text.contains("inside"));
    Ok(())
}

fn a_link_swapped_in_during_the_read_is_never_followed() -> Outcome {
    let place = Place::new();
    let secret = place.folder("outside");
    place.file("outside/note", "planted outside");
    let (mut server, folder) = with_workspace(&place);
    place.folder("ws/real");
    place.file("ws/real/note", "inside");
    let stop = std::sync::atomic::AtomicBool::new(false);
    let mut answers = [0, 0];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let path = folder.join("swap");
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let _ = symlink(&secret, &path);
                let _ = std::fs::remove_file(&path);
                let _ = std::fs::rename(folder.join("real"), &path);
                let _ = std::fs::rename(&path, folder.join("real"));
            }
        });
        for _ in 0..3000 {
            let reply = read(&mut server, "swap/note");
            answers[usize::from(reply.is_error)] += 1;
            if reply.text.contains("planted outside") {
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
                panic!("followed a link out of the workspace");
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(answers[1] > 0, "the race never showed the link: {answers:?}");
    Ok(())
}

fn nothing_blocks_it() -> Outcome {
    let place = Place::new();
    let (mut server, folder) = with_workspace(&place);
    Command::new("mkfifo").arg(folder.join("fifo")).status().expect("mkfifo");
    std::fs::set_permissions(folder.join("fifo"), std::fs::Permissions::from_mode(0o666))
        .expect("ours");
    let _socket = std::os::unix::net::UnixListener::bind(folder.join("socket")).expect("a socket");
    for name in ["fifo", "socket"] {
        let start = Instant::now();
        read(&mut server, name).assert_blocked(&[name]);
        assert!(start.elapsed() < Duration::from_secs(1), "{name} blocked");
    }
    // A listing shows them and opens none.
    assert!(read(&mut server, ".").text.contains("fifo"));
    Ok(())
}

fn a_missing_path_is_no_error() -> Outcome {
    let place = Place::new();
    let (mut server, _) = with_workspace(&place);
    let reply = read(&mut server, "nowhere/at/all.txt");
    assert!(!reply.is_error && reply.text.starts_with("Not found: "), "{}", reply.text);
    Ok(())
}

fn an_empty_workspace_says_so() -> Outcome {
    let place = Place::new();
    let mut server = place.server().start();
    let reply = server.call("read_workspace", json!({}));
    assert!(!reply.is_error && reply.text.to_lowercase().contains("empty"), "{}", reply.text);
    Ok(())
}
