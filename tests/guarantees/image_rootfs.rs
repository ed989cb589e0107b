//! An unpacked image as the root: the same walls, and nothing in it can turn a mount aside.

use protocol::{Cause, Event, Language, Rootfs, Sandbox};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use tests::jail::{by_hand, sandbox, script, spec_file};
use tests::{Jail, Outcome, Place};

tests::tests![
    programs_come_from_the_image,
    a_missing_interpreter_is_refused_with_its_fix,
    links_in_an_image_turn_no_mount_aside,
    the_image_cannot_be_changed_from_inside,
    a_missing_image_is_refused,
    a_script_is_no_interpreter,
    the_helper_is_no_program_of_an_image,
    a_file_of_the_workspace_is_no_interpreter,
    a_file_of_the_workspace_is_no_loader,
    a_python_of_any_name_takes_no_place_in_etc,
    compiled_modules_are_shown_read_only,
    compiled_modules_that_cannot_be_had_cost_speed_alone,
    compiled_modules_that_stay_writable_are_refused,
];

/// A folder with bash, the libraries it needs, and nothing else.
fn image(place: &Place) -> PathBuf {
    let root = place.folder("image");
    fs::create_dir_all(root.join("usr/bin")).expect("a folder");
    for (name, target) in [("bin", "usr/bin"), ("lib", "usr/lib"), ("lib64", "usr/lib64")] {
        fs::create_dir_all(root.join(target)).expect("a folder");
        symlink(target, root.join(name)).expect("a link");
    }
    let needed = Command::new("ldd").arg("/usr/bin/bash").output().expect("ldd");
    let needed = String::from_utf8_lossy(&needed.stdout).into_owned();
    let libraries = needed.split_whitespace().filter(|word| word.starts_with('/'));
    for file in libraries.chain(["/usr/bin/bash"]) {
        let inside = root.join(file.trim_start_matches('/'));
        fs::create_dir_all(inside.parent().expect("a folder")).expect("a folder");
        fs::copy(file, inside).expect("a copy");
    }
    // All of it belongs to the user, as if it had been unpacked.
    let owner = format!("{0}:{0}", place.uid());
    let given = Command::new("chown").args(["-hR", &owner]).arg(&root).status().expect("chown");
    assert!(given.success());
    root
}

fn in_image(image: &Path, workspace: &Path) -> Sandbox {
    Sandbox {
        rootfs: Rootfs::Image(image.to_owned()),
        environment: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
        ..sandbox(workspace)
    }
}

/// Runs bash in the image: standard output, or the refusal as text.
fn run(place: &Place, sandbox: Sandbox, code: &str) -> Result<String, String> {
    let mut jail = Jail::start(place);
    match jail.prepare(sandbox) {
        Event::Ready(_) => {
            let (stdout, stderr, _) = jail.execute(script(Language::Bash, code));
            let text = [stdout, stderr].concat();
            Ok(String::from_utf8_lossy(&text).into_owned())
        }
        Event::Refused(refusal) => Err(refusal.to_string()),
        other @ Event::Finished(_) => panic!("nothing was executed: {other:?}"),
    }
}

fn programs_come_from_the_image() -> Outcome {
    let place = Place::new();
    let (image, workspace) = (image(&place), place.folder("ws"));
    let code = "echo /usr/bin/*; cd /workspace && echo kept > file; [ -e /etc/passwd ] && echo etc";
    let got = run(&place, in_image(&image, &workspace), code);
    assert_eq!(got.as_deref(), Ok("/usr/bin/bash\netc\n"));
    assert_eq!(fs::read_to_string(workspace.join("file")).expect("it was kept"), "kept\n");
    place.assert_nothing_left();
    Ok(())
}

fn a_missing_interpreter_is_refused_with_its_fix() -> Outcome {
    let place = Place::new();
    let (image, workspace) = (image(&place), place.folder("ws"));
    let mut jail = Jail::start(&place);
    let Event::Ready(applied) = jail.prepare(in_image(&image, &workspace)) else {
        panic!("bash is enough to be ready")
    };
    let found = |language: &Language| applied.interpreters.path(*language).is_ok();
    assert_eq!(Language::ALL.into_iter().filter(found).collect::<Vec<_>>(), [Language::Bash]);
    jail.request(&protocol::Request::Execute(script(Language::Python, "print(1)")));
    match jail.next() {
        Some(protocol::frame::ToServer::Event(Event::Refused(refusal))) => {
            assert_eq!(refusal.cause, Cause::InterpreterMissing(Language::Python));
            assert!(!refusal.fix.is_empty());
        }
        other => panic!("expected a refusal, got {other:?}"),
    }
    jail.wait();
    place.assert_nothing_left();
    Ok(())
}

fn links_in_an_image_turn_no_mount_aside() -> Outcome {
    let place = Place::new();
    let (image, workspace) = (image(&place), place.folder("ws"));
    let outside = place.folder("outside");
    place.file("outside/secret", "planted outside");
    for name in ["workspace", "dev", "proc", "tmp", "sandbox", "etc", "sys"] {
        symlink(&outside, image.join(name)).expect("a link");
    }
    let code = "for d in /workspace /dev /proc /tmp /sandbox /etc; do [ -e $d/secret ] && echo $d; \
                [ -L $d ] && echo link $d; done; echo through > /tmp/through; echo $0";
    match run(&place, in_image(&image, &workspace), code) {
        Ok(text) => assert_eq!(text, "/sandbox/main.sh\n"),
        Err(refusal) => assert!(refusal.contains("Fix"), "{refusal}"),
    }
    assert_eq!(fs::read_dir(&outside).expect("a folder").count(), 1, "a mount was turned aside");
    place.assert_nothing_left();
    Ok(())
}

fn the_image_cannot_be_changed_from_inside() -> Outcome {
    let place = Place::new();
    let (image, workspace) = (image(&place), place.folder("ws"));
    let code = "for f in /usr/bin/bash /usr/probe /probe /lib/probe; do echo x >> $f && echo wrote $f; done";
    let got = run(&place, in_image(&image, &workspace), code).expect("it runs");
    assert!(!got.contains("wrote"), "{got}");
    assert!(!image.join("usr/probe").exists());
    let same = fs::read(image.join("usr/bin/bash")).ok() == fs::read("/usr/bin/bash").ok();
    assert!(same, "the image's bash was changed");
    Ok(())
}

fn a_missing_image_is_refused() -> Outcome {
    let place = Place::new();
    let workspace = place.folder("ws");
    let missing = place.base().join("nowhere");
    let refusal = run(&place, in_image(&missing, &workspace), "echo ran").expect_err("no image");
    assert!(refusal.contains("nowhere") && refusal.contains("Fix"), "{refusal}");
    place.assert_nothing_left();
    Ok(())
}

/// Asserts that the exec is what fails, and that the fix has a word.
fn assert_not_executed(place: &Place, sandbox: Sandbox, word: &str) {
    let spec = spec_file(place, "run.json", sandbox, script(Language::Bash, "echo ran"));
    let ran = by_hand(place, &["--spec", &spec.display().to_string()]);
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert_eq!(ran.status.code(), Some(125), "{said}");
    assert!(said.contains(word) && said.contains("step exec") && ran.stdout.is_empty(), "{said}");
}

/// Until the exec, `/proc/self/exe` is the helper on the machine's own file system: a script that names
/// it would start the helper once more, with the libraries of the image.
fn a_script_is_no_interpreter() -> Outcome {
    let place = Place::new();
    let (image, workspace) = (image(&place), place.folder("ws"));
    let program = image.join("usr/bin/bash");
    for (first_line, word) in [
        ("#!/proc/self/exe\n", "script"),
        ("#!/usr/bin/env bash\n", "script"),
        ("?", "architecture"),
    ] {
        fs::write(&program, first_line).expect("the image is ours");
        assert_not_executed(&place, in_image(&image, &workspace), word);
    }
    place.assert_nothing_left();
    Ok(())
}

/// Where the path of its loader stands in a program.
fn loader_in(program: &[u8]) -> usize {
    let place = program.windows(5).position(|bytes| bytes == b"/lib6" || bytes == b"/lib/");
    place.expect("it has a loader")
}

/// As above, by the loader that a program names, or by a link, which is followed as in the image.
fn the_helper_is_no_program_of_an_image() -> Outcome {
    let place = Place::new();
    let (image, workspace) = (image(&place), place.folder("ws"));
    let program = image.join("usr/bin/bash");
    let bash = fs::read(&program).expect("it is there");
    let loader = loader_in(&bash);
    symlink("/proc/self/exe", image.join("usr/lib/ld")).expect("a link");
    // The kernel does not look at the class, byte 4.
    for (other, class) in [("/proc/self/exe\0", 2), ("/usr/lib/ld\0", 2), ("/proc/self/exe\0", 1)] {
        let mut changed = bash.clone();
        changed[4] = class;
        changed[loader..loader + other.len()].copy_from_slice(other.as_bytes());
        fs::write(&program, changed).expect("the image is ours");
        assert_not_executed(&place, in_image(&image, &workspace), "library loader");
    }
    fs::create_dir_all(image.join("proc/self")).expect("a folder");
    fs::write(image.join("usr/bin/other"), &bash).expect("the image is ours");
    fs::set_permissions(image.join("usr/bin/other"), Permissions::from_mode(0o755)).expect("ours");
    symlink("/usr/bin/other", image.join("proc/self/exe")).expect("a link");
    fs::remove_file(&program).expect("the image is ours");
    symlink("/proc/self/exe", &program).expect("a link");
    let got = run(&place, in_image(&image, &workspace), "echo ran");
    assert_eq!(got.as_deref(), Ok("ran\n"), "what the link is in the image");
    place.assert_nothing_left();
    Ok(())
}

/// An interpreter whose name is a link through `/proc` is what the link is in the image, whatever earlier
/// code left in the workspace: a program, or a pipe that nobody writes to.
fn a_file_of_the_workspace_is_no_interpreter() -> Outcome {
    let place = Place::new();
    let (image, workspace) = (image(&place), place.folder("ws"));
    let (program, real) = (image.join("usr/bin/bash"), image.join("usr/bin/other"));
    fs::rename(&program, &real).expect("the image is ours");
    fs::create_dir_all(image.join("proc/self/cwd")).expect("a folder");
    symlink("/usr/bin/other", image.join("proc/self/cwd/sh")).expect("a link");
    symlink("/proc/self/cwd/sh", &program).expect("a link");
    let left = workspace.join("sh");
    let code = "[[ /proc/self/exe -ef /usr/bin/other ]] && echo ran as $BASH";
    for planted in ["cp /usr/bin/bash", "mkfifo -m 666"] {
        let made =
            Command::new("sh").args(["-c", &format!("{planted} \"$0\"")]).arg(&left).status();
        assert!(made.expect("a shell").success());
        let got = run(&place, in_image(&image, &workspace), code);
        assert_eq!(got.as_deref(), Ok("ran as /usr/bin/bash\n"), "{planted}");
        fs::remove_file(&left).expect("it is ours");
    }
    place.assert_nothing_left();
    Ok(())
}

/// A loader that earlier code left in the workspace works, and starts nothing: neither by a link of
/// `/proc` that is a folder in the image, nor by its place, nor from the working folder.
fn a_file_of_the_workspace_is_no_loader() -> Outcome {
    let place = Place::new();
    let (image, workspace) = (image(&place), place.folder("ws"));
    let program = image.join("usr/bin/bash");
    let bash = fs::read(&program).expect("it is there");
    let start = loader_in(&bash);
    let usual: Vec<u8> = bash[start..].iter().copied().take_while(|byte| *byte != 0).collect();
    let usual = String::from_utf8(usual).expect("a path");
    for folder in [&workspace, &image.join("proc/self/cwd")] {
        fs::create_dir_all(folder).expect("a folder");
        fs::copy(&usual, folder.join("l")).expect("a copy");
        fs::set_permissions(folder.join("l"), Permissions::from_mode(0o755)).expect("ours");
    }
    symlink("/proc/self/cwd/l", image.join("usr/lib/ld")).expect("a link");
    for other in ["/proc/self/cwd/l\0", "/workspace/l\0", "l\0", "/usr/lib/ld\0"] {
        let mut changed = bash.clone();
        changed[start..start + other.len()].copy_from_slice(other.as_bytes());
        fs::write(&program, changed).expect("the image is ours");
        assert_not_executed(&place, in_image(&image, &workspace), "library loader");
    }
    place.assert_nothing_left();
    Ok(())
}

fn a_python_of_any_name_takes_no_place_in_etc() -> Outcome {
    let place = Place::new();
    let (image, workspace) = (image(&place), place.folder("ws"));
    let folder = image.join("usr/bin");
    for name in ["passwd", "group", "hosts", "machine-id", "ssl", "pki", "shadow"] {
        for path in ["etc/pki", "etc/ssl/certs"] {
            fs::create_dir_all(image.join(path)).expect("a folder");
        }
        fs::write(image.join("etc").join(name), "of the image").ok();
        fs::copy(folder.join("bash"), folder.join(name)).expect("a copy");
        let _ = fs::remove_file(folder.join("python3"));
        symlink(name, folder.join("python3")).expect("a link");
        let code = "while read -r l; do [ \"$l\" = 'of the image' ] && echo $l; done \
                    </etc/passwd; [ -e /etc/shadow ] && echo shadow; echo ran";
        let got = run(&place, in_image(&image, &workspace), code);
        assert_eq!(got.as_deref(), Ok("ran\n"), "{name}");
    }
    place.assert_nothing_left();
    Ok(())
}

fn compiled_modules_are_shown_read_only() -> Outcome {
    let place = Place::new();
    let (image, workspace) = (image(&place), place.folder("ws"));
    place.folder("modules");
    place.file("modules/a.pyc", "compiled");
    // A name of the image's own in that place is not what is shown.
    symlink("/etc", image.join("pycache")).expect("a link");
    let modules = place.base().join("modules");
    let sandbox = Sandbox { bytecode: Some(modules.clone()), ..in_image(&image, &workspace) };
    let code = "echo $PYTHONPYCACHEPREFIX /pycache/*; echo x >/pycache/b; echo x >/pycache/a.pyc; \
                while read -r _ _ _ _ at options _; do [ $at = /pycache ] && echo $options; done \
                </proc/self/mountinfo";
    let got = run(&place, sandbox, code).expect("it runs");
    assert!(got.starts_with("/pycache /pycache/a.pyc\n"), "{got}");
    let options = got.lines().nth(1).expect("the mount is there");
    for option in ["ro", "nosuid", "nodev"] {
        assert!(options.split(',').any(|set| set == option), "{got}");
    }
    assert_eq!(got.matches("Read-only file system").count(), 2, "{got}");
    assert_eq!(fs::read_to_string(modules.join("a.pyc")).expect("it is there"), "compiled");
    place.assert_nothing_left();
    Ok(())
}

fn compiled_modules_that_cannot_be_had_cost_speed_alone() -> Outcome {
    let place = Place::new();
    let (image, workspace) = (image(&place), place.folder("ws"));
    place.file("file", "no folder");
    symlink("/usr/lib", place.base().join("link")).expect("a link");
    let here = ["missing", "file", "link"].map(|name| place.base().join(name));
    // Python writes to its working folder where what its environment names is not there.
    let code = "echo ran; for f in /pycache/* /pycache/.[!.]*; do [ -e \"$f\" ] && echo shown $f; done; \
                [ -d \"$PYTHONPYCACHEPREFIX\" ] && echo there; echo x 2>/dev/null >/pycache/b && echo wrote";
    // The kernel refuses a clone of the last alone: there are mounts below it.
    for tree in here.into_iter().chain([PathBuf::from("/")]) {
        let sandbox = Sandbox { bytecode: Some(tree.clone()), ..in_image(&image, &workspace) };
        let got = run(&place, sandbox, code);
        assert_eq!(got.as_deref(), Ok("ran\nthere\n"), "{tree:?}");
    }
    // Without modules nothing names it.
    let got = run(&place, in_image(&image, &workspace), "echo $PYTHONPYCACHEPREFIX /pycache*");
    assert_eq!(got.as_deref(), Ok("/pycache*\n"));
    place.assert_nothing_left();
    Ok(())
}

fn compiled_modules_that_stay_writable_are_refused() -> Outcome {
    let place = Place::new();
    let (image, workspace) = (image(&place), place.folder("ws"));
    place.folder("modules");
    let bytecode = Some(place.base().join("modules"));
    let sandbox = Sandbox { bytecode, ..in_image(&image, &workspace) };
    // A kernel before 5.12, whose remounts (flag 32) fail: the tree is mounted by then.
    let rules = ["mount_setattr=ENOSYS", "mount:3&32=EPERM"];
    let mut jail = Jail::spawn(place.command(place.constrained_jail(&rules)));
    match jail.prepare(sandbox) {
        Event::Refused(refusal) => {
            let step = refusal.at.map(|at| at.step);
            assert_eq!(step, Some(protocol::Step::ReadOnlyRoot), "{refusal}");
        }
        other => panic!("expected a refusal, got {other:?}"),
    }
    jail.wait();
    place.assert_nothing_left();
    Ok(())
}
