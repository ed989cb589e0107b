//! What a program finds around it: variables, folders, streams, signals.

use tests::{Outcome, Place};

tests::tests![
    the_environment_is_composed_and_nothing_of_the_server,
    the_script_and_the_working_folder,
    stdin_is_at_its_end,
    signals_have_their_defaults,
    every_language_starts_with_the_same_folder_and_home,
    text_is_utf_8,
];

fn the_environment_is_composed_and_nothing_of_the_server() -> Outcome {
    let place = Place::new();
    let mut server = place.server().set("SECRET_TOKEN", "planted").set("LD_PRELOAD", "").start();
    let got = server.run("bash", "env | sort").success();
    let known = [
        "HOME",
        "LANG",
        "LOGNAME",
        "OLDPWD",
        "PATH",
        "PWD",
        "SHELL",
        "SHLVL",
        "TERM",
        "TMPDIR",
        "USER",
        "_",
        "PYTHONUNBUFFERED",
        "PYTHONDONTWRITEBYTECODE",
    ];
    for line in got.lines() {
        let name = line.split('=').next().expect("a variable");
        assert!(known.contains(&name), "of the server: {line}");
    }
    for line in ["HOME=/tmp", "TMPDIR=/tmp", "LANG=C.UTF-8", "TERM=dumb", "PWD=/workspace"] {
        assert!(got.lines().any(|got| got == line), "{line} is missing in {got}");
    }
    Ok(())
}

fn the_script_and_the_working_folder() -> Outcome {
    let place = Place::new();
    let mut server = place.server().start();
    let python = "import os, sys\nprint(__file__, sys.argv, os.getcwd(), oct(os.umask(0)))\n\
                  try: open(__file__, 'a')\nexcept OSError: print('refused')";
    let got = server.run("python", python).success();
    assert_eq!(got, "/sandbox/main.py ['/sandbox/main.py'] /workspace 0o22\nrefused");
    assert_eq!(server.run("bash", "echo $0 $PWD").success(), "/sandbox/main.sh /workspace");
    let node = "console.log(__filename, process.cwd(), require.main === module)";
    assert_eq!(server.run("node", node).success(), "/sandbox/main.js /workspace true");
    Ok(())
}

fn stdin_is_at_its_end() -> Outcome {
    let place = Place::new();
    let mut server = place.server().start();
    assert_eq!(server.run("python", "import sys; print(repr(sys.stdin.read()))").success(), "''");
    assert_eq!(server.run("bash", "read x; echo $?").success(), "1");
    Ok(())
}

fn signals_have_their_defaults() -> Outcome {
    let place = Place::new();
    // bash and python change dispositions themselves: look at a child that has exec'ed.
    let code = "grep -E '^Sig(Blk|Ign):' /proc/self/status; yes | head -n 1; echo ${PIPESTATUS[0]}";
    let got = place.server().start().run("bash", code).success();
    assert_eq!(got, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\ny\n141");
    Ok(())
}

fn every_language_starts_with_the_same_folder_and_home() -> Outcome {
    let place = Place::new();
    let mut server = place.server().start();
    let home = "import os; print(os.path.expanduser('~'), os.getcwd())";
    assert_eq!(server.run("python", home).success(), "/tmp /workspace");
    let home = "console.log(require('os').homedir(), process.cwd())";
    assert_eq!(server.run("node", home).success(), "/tmp /workspace");
    assert_eq!(server.run("bash", "echo ~ $PWD").success(), "/tmp /workspace");
    Ok(())
}

fn text_is_utf_8() -> Outcome {
    let place = Place::new();
    let mut server = place.server().start();
    let code = "import locale, sys\nprint('grün', sys.stdout.encoding, locale.getpreferredencoding())\nopen('ü.txt', 'w').write('ß')";
    assert_eq!(server.run("python", code).success().to_lowercase(), "grün utf-8 utf-8");
    assert_eq!(server.run("bash", "cat ü.txt").success(), "ß");
    Ok(())
}
