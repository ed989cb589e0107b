//! Stands in for the command line of Docker and Podman where there is no engine: it writes down what it
//! was asked, answers as an engine would, and runs nothing.
//!
//! The variable `STAND_IN` names a folder. There it appends to `asked`, one line for each call, the
//! arguments separated by tabs. It reads, where they are there: `version` and `info`, which it prints, the
//! latter after half a second if there is `slow`;
//! `image`, which is how `image inspect` fails; `missing`, the names of images that it does not have, one a
//! line, of which `pull` takes its own; `pulling`, what `pull` says on both streams; `unpulled`, how it fails;
//! `endless`, for which it waits without end; `id`, the id of every image; `chatter`, what it says before a run; `state`, its record
//! of every container; `refused`, how `run` fails; `unremoved`, how `rm` fails; `code`, the exit code of a run; `last`, what it says
//! after one; `mute`, with which a run ends before its first program has said anything; `differs`, the wall
//! that its first program finds changed; `hang`, for which it waits without end; `boot`, the boot id of its
//! machine, without which that is ours. What a probe asks for is answered as a container
//! with every wall and limit would; the lines of `probe` replace those that begin with the same word.
#![forbid(unsafe_code)]

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

const VERSION: &str = "Docker version 28.2.2, build stand-in\n";
const INFO: &str = r#"{"OSType":"linux","Architecture":"x86_64","ServerVersion":"28.2.2","SecurityOptions":["name=seccomp"]}"#;
const STATE: &str = r#"{"Running":false,"OOMKilled":false,"ExitCode":0,"Error":"","StartedAt":"2026-11-30T08:12:50Z"}"#;
/// What the probe's script prints in a good container; `{…}` is the request's own.
const PROBE: &str = "\
status Uid: 1000 1000 1000 1000
uid-map 0 0 4294967295
status CapInh: 0000000000000000
status CapPrm: 0000000000000000
status CapEff: 0000000000000000
status CapBnd: 0000000000000000
status CapAmb: 0000000000000000
status NoNewPrivs: 1
status Seccomp: 2
route lo
mount /tmp rw tmpfs tmpfs rw,size=65536k
mount /run rw tmpfs tmpfs rw,size=1024k
mount /var/tmp rw tmpfs tmpfs rw,size=1024k
mount /dev/shm rw tmpfs shm rw,size=65536k
mount /workspace rw ext4
device null
cgroup memory.max 268435456
cgroup memory.swap.max 0
cgroup cpu.max 75000 100000
cgroup pids.max 128
program bash
program python3
program node
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(folder) = std::env::var_os("STAND_IN").map(PathBuf::from) else {
        eprintln!("stand-in: STAND_IN is not set");
        return ExitCode::from(125);
    };
    write_down(&folder, &arguments);
    let told = |name: &str, default: &str| {
        fs::read_to_string(folder.join(name)).unwrap_or_else(|_| default.to_owned())
    };
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--version"] => print!("{}", told("version", VERSION)),
        ["info", ..] => {
            if !told("slow", "").is_empty() {
                std::thread::sleep(Duration::from_millis(500));
            }
            print!("{}", told("info", INFO));
        }
        ["image", "inspect", name] => {
            if told("missing", "").lines().any(|missing| missing == *name) {
                return failing(&format!("Error: No such image: {name}\n"));
            }
            let id = told("id", "sha256:stand-in");
            println!(r#"[{{"Id":"{}","Config":{{"Env":["PATH=/usr/bin","OWN=1"]}}}}]"#, id.trim());
            return failing(&told("image", ""));
        }
        ["pull", name] => return pull(&folder, name, &told),
        ["run", options @ ..] => return run(options, &told),
        ["inspect", ..] => println!("{}", told("state", STATE)),
        ["rm", ..] => return failing(&told("unremoved", "")),
        ["ps", ..] => print!("{}", told("containers", "")),
        _ => {
            eprintln!("stand-in: what is that?");
            return ExitCode::from(125);
        }
    }
    ExitCode::SUCCESS
}

fn write_down(folder: &Path, arguments: &[String]) {
    let file = OpenOptions::new().append(true).create(true).open(folder.join("asked"));
    if let Ok(mut file) = file {
        // One write for one line: several of us may be at it.
        let line = arguments.join("\t").replace('\n', " ");
        let _ = file.write_all(format!("{line}\n").as_bytes());
    }
}

/// Says why and fails; nothing to say is success.
fn failing(why: &str) -> ExitCode {
    eprint!("{why}");
    if why.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

fn pull(folder: &Path, name: &str, told: &impl Fn(&str, &str) -> String) -> ExitCode {
    let words = told("pulling", "");
    print!("{words}");
    eprint!("{words}");
    if !told("endless", "").is_empty() {
        std::thread::sleep(Duration::from_secs(3600));
    }
    let unpulled = told("unpulled", "");
    if unpulled.is_empty() {
        let missing = told("missing", "");
        let rest: Vec<&str> = missing.lines().filter(|missing| missing != &name).collect();
        // Anew: it may belong to another, whose folder this is not.
        let file = folder.join("missing");
        let _ = fs::remove_file(&file);
        if let Err(error) = fs::write(&file, rest.join("\n")) {
            return failing(&format!("stand-in: {error}\n"));
        }
    }
    failing(&unpulled)
}

fn run(options: &[&str], told: &impl Fn(&str, &str) -> String) -> ExitCode {
    let refused = told("refused", "");
    if !refused.is_empty() {
        eprint!("{refused}");
        return ExitCode::from(125);
    }
    eprint!("{}", told("chatter", ""));
    // … -c FIRST bash NAME SECONDS WALLS VARIABLES OTHERS INTERPRETER SCRIPT
    let [.., name, _seconds, _walls, _variables, _others, interpreter, script] = options else {
        return ExitCode::from(125);
    };
    if !told("mute", "").is_empty() {
        return ExitCode::from(127);
    }
    let differs = told("differs", "");
    if !differs.is_empty() {
        eprintln!("{name} differs: {}", differs.trim());
        return ExitCode::from(1);
    }
    eprintln!("{name}");
    let source = |place: &str| {
        let target = format!(",dst={place}");
        let mount = options.iter().find(|option| option.contains(&target))?;
        Some(PathBuf::from(mount.split_once("src=")?.1.split_once(",dst=")?.0))
    };
    let file = script.rsplit('/').next().unwrap_or_default();
    let code = source("/sandbox").and_then(|folder| fs::read_to_string(folder.join(file)).ok());
    let Some(code) = code else {
        eprintln!("there is no script in /sandbox");
        return ExitCode::from(2);
    };
    if !told("hang", "").is_empty() {
        std::thread::sleep(Duration::from_secs(3600));
    }
    if let Some(trip) = code.strip_prefix("file_in=") {
        probe(trip, source("/workspace"), &told("probe", ""), &told("boot", &boot_id()));
        return ExitCode::SUCCESS;
    }
    println!("{interpreter} was given {} bytes", code.len());
    eprint!("{}", told("last", ""));
    ExitCode::from(told("code", "0").trim().parse().unwrap_or(0))
}

fn probe(trip: &str, workspace: Option<PathBuf>, instead: &str, boot: &str) {
    let first = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    let replaced = |line: &str| instead.lines().any(|other| first(other) == first(line));
    for line in PROBE.lines().filter(|line| !replaced(line)).chain(instead.lines()) {
        println!("{line}");
    }
    let mut names = trip.split([' ', '\n', '=']);
    let (file_in, file_out) = (names.next().unwrap_or_default(), names.nth(1).unwrap_or_default());
    if let Some(workspace) = workspace {
        println!("boot {}", boot.trim());
        if !instead.contains("workspace ") {
            println!("workspace {}", numbers(&workspace));
        }
        println!("workspace-writable");
        if file_in.is_empty() {
            println!("done");
            return;
        }
        println!("read {}", fs::read_to_string(workspace.join(file_in)).unwrap_or_default().trim());
        if fs::write(workspace.join(file_out), "").is_ok() {
            println!("wrote");
        }
    }
    println!("done");
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

#[cfg(unix)]
fn numbers(folder: &Path) -> String {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(folder).map(|found| format!("{}:{}", found.dev(), found.ino())).unwrap_or_default()
}

#[cfg(not(unix))]
fn numbers(_folder: &Path) -> String {
    String::new()
}
