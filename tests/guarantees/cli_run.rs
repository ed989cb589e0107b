//! `vestibule-mcp run`: one run from a shell, through the same path as a call.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{Read, Write};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tests::programs::programs;
use tests::{Outcome, Place, host};

tests::tests![
    a_program_from_standard_input,
    a_program_from_a_file,
    exit_codes,
    output_is_streamed,
    escapes_are_neutralised_on_a_terminal,
    an_interrupt_ends_the_run,
    wrong_usage_is_2,
    a_limit_of_files_ends_nothing,
];

fn command(place: &Place, arguments: &[&str]) -> Command {
    let mut command = place.command(programs().server());
    command.arg("run").args(arguments);
    command
}

fn start(place: &Place, arguments: &[&str], code: &str) -> Child {
    let mut command = command(place, arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the server starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(code.as_bytes()).expect("the command reads its input");
    child
}

fn run(place: &Place, language: &str, code: &str) -> Output {
    start(place, &[language, "-"], code).wait_with_output().expect("our child")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn a_program_from_standard_input() -> Outcome {
    let place = Place::new();
    let ran = run(&place, "python", "import sys\nprint('out')\nprint('err', file=sys.stderr)");
    assert_eq!(text(&ran.stdout), "out\n");
    let report = text(&ran.stderr);
    assert!(report.contains("err\n") && report.contains("usage: wall "), "{report}");
    let last = report.lines().last().unwrap_or_default();
    assert!(last.starts_with("isolation: native"), "{report}");
    assert!(ran.status.success());
    place.assert_nothing_left();
    Ok(())
}

fn a_program_from_a_file() -> Outcome {
    let place = Place::new();
    let file = place.file("program.js", "console.log(6 * 7)").display().to_string();
    let ran = command(&place, &["node", &file]).stdin(Stdio::null()).output().expect("it starts");
    assert_eq!(text(&ran.stdout), "42\n", "{}", text(&ran.stderr));
    let missing = command(&place, &["node", "/nonexistent.js"]).stdin(Stdio::null()).output();
    let missing = missing.expect("it starts");
    assert_ne!(missing.status.code(), Some(0));
    assert!(text(&missing.stderr).contains("/nonexistent.js"), "{}", text(&missing.stderr));
    Ok(())
}

fn exit_codes() -> Outcome {
    let place = Place::new();
    for (code, expected) in [("exit 0", 0), ("exit 9", 9), ("kill -SEGV $$", 139), ("yes", 124)] {
        assert_eq!(run(&place, "bash", code).status.code(), Some(expected), "{code}");
    }
    let timed = command(&place, &["bash", "-"])
        .env("VESTIBULE_DEFAULT_TIMEOUT_S", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut timed = timed.expect("it starts");
    timed.stdin.take().expect("a pipe").write_all(b"sleep 30").expect("it reads");
    assert_eq!(timed.wait().expect("our child").code(), Some(124));
    let refused = command(&place, &["bash", "/dev/null"]).stdin(Stdio::null()).output();
    let refused = refused.expect("it starts");
    assert_eq!(refused.status.code(), Some(125), "blank code: {}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("Blocked: "), "{}", text(&refused.stderr));
    let wrong = command(&place, &["bash", "-"])
        .env("VESTIBULE_MEM_MB", "none")
        .stdin(Stdio::null())
        .output();
    assert_eq!(wrong.expect("it starts").status.code(), Some(125));
    Ok(())
}

fn output_is_streamed() -> Outcome {
    let place = Place::new();
    let mut child = start(&place, &["bash", "-"], "echo first; sleep 5; echo second");
    let begin = Instant::now();
    let mut first = [0; 6];
    child.stdout.take().expect("a pipe").read_exact(&mut first).expect("output");
    assert_eq!(&first, b"first\n");
    assert!(begin.elapsed() < Duration::from_secs(4), "only at the end");
    child.kill().expect("our child");
    child.wait().expect("our child");
    place.assert_nothing_left();
    Ok(())
}

fn escapes_are_neutralised_on_a_terminal() -> Outcome {
    host::program("/usr/bin/script", "bsdutils")?;
    let place = Place::new();
    let file = place.file("program.sh", "printf '\\033]0;title\\007\\033[31mred\\n'");
    let on_terminal = |option: &str| {
        let line =
            format!("{} run {option} bash {}", programs().server().display(), file.display());
        let mut command = place.command("/usr/bin/script");
        command.args(["-qec", &line, "/dev/null"]).stdin(Stdio::null());
        text(&command.output().expect("script starts").stdout)
    };
    let safe = on_terminal("");
    assert!(safe.contains("red") && !safe.contains('\u{1b}'), "{safe:?}");
    assert!(on_terminal("--raw").contains("\u{1b}[31mred"));
    // Into a pipe the bytes go as they are.
    let piped =
        command(&place, &["bash", &file.display().to_string()]).stdin(Stdio::null()).output();
    assert!(text(&piped.expect("it starts").stdout).contains("\u{1b}[31mred"));
    Ok(())
}

fn an_interrupt_ends_the_run() -> Outcome {
    let place = Place::new();
    let mut child =
        start(&place, &["bash", "-"], "echo started; trap '' INT TERM; while :; do sleep 1; done");
    let mut first = [0; 8];
    child.stdout.as_mut().expect("a pipe").read_exact(&mut first).expect("output");
    let begin = Instant::now();
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).expect("our child");
    child.wait().expect("our child");
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    place.assert_nothing_left();
    Ok(())
}

fn wrong_usage_is_2() -> Outcome {
    let place = Place::new();
    for arguments in [&[][..], &["bash", "-", "more"], &["bash", "--nope"]] {
        let ran = command(&place, arguments).stdin(Stdio::null()).output().expect("it starts");
        assert_eq!(ran.status.code(), Some(2), "{arguments:?}: {}", text(&ran.stderr));
    }
    Ok(())
}

fn a_limit_of_files_ends_nothing() -> Outcome {
    host::program("/usr/bin/prlimit", "util-linux")?;
    let place = Place::new();
    let code = place.file("program.sh", "echo ran");
    let server = programs().server();
    let mut command = place.command("/usr/bin/prlimit");
    // Room for one of the two records of a call.
    command.arg("--fsize=700").arg(server).args(["run", "bash"]).arg(code).stdin(Stdio::null());
    let ran = command.output().expect("prlimit starts");
    let said = text(&ran.stderr);
    assert_eq!((ran.status.code(), text(&ran.stdout).as_str()), (Some(0), "ran\n"), "{said}");
    assert!(said.contains("audit: not recorded (File too large: see `ulimit -f`)"), "{said}");
    place.assert_nothing_left();
    Ok(())
}
