//! The programs that keep passwords for Docker, `docker-credential-NAME`.

use super::credentials::Credentials;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use serde::Deserialize;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// The most that is read of an answer, in bytes.
const ANSWER: u64 = 64 * 1024;

/// What a helper says where its user has not logged in.
const NOT_FOUND: &str = "credentials not found";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Answer {
    username: String,
    secret: String,
}

/// Asks a helper for what it keeps for `server`; nothing, where the user has not logged in.
///
/// # Errors
/// Why there was no answer, without anything that it said.
pub fn get(
    name: &str,
    server: &str,
    path: &OsStr,
    limit: Duration,
) -> Result<Option<Credentials>, String> {
    let program = locate(name, path)?;
    let mut child = Command::new(program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        // So that what it starts ends with it.
        .process_group(0)
        .spawn()
        .map_err(|error| format!("it cannot be started: {error}"))?;
    let answered = answer(&mut child, server, limit);
    if answered.is_err() {
        if let Ok(leader) = i32::try_from(child.id()) {
            // Not waited for yet, so the number is still its own.
            let _ = killpg(Pid::from_raw(leader), Signal::SIGKILL);
        }
        let _ = child.wait();
    }
    let (status, said) = answered?;
    if !status.success() {
        let said = String::from_utf8_lossy(&said).into_owned();
        return if said.contains(NOT_FOUND) { Ok(None) } else { Err(format!("{status}")) };
    }
    let answer: Answer =
        serde_json::from_slice(&said).map_err(|_| "its answer cannot be read".to_owned())?;
    Ok(match answer.username.as_str() {
        "" => None,
        "<token>" => Some(Credentials::Identity(answer.secret)),
        _ => Some(Credentials::Password { user: answer.username, password: answer.secret }),
    })
}

/// Looks in the absolute folders of `PATH` alone: a file wrote the name.
fn locate(name: &str, path: &OsStr) -> Result<PathBuf, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || !name.chars().all(fits) {
        return Err("that is no name of a program".to_owned());
    }
    let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    let mut programs = folders.map(|folder| folder.join(format!("docker-credential-{name}")));
    programs.find(|program| program.is_file()).ok_or_else(|| "it is not on PATH".to_owned())
}

/// Its status and what it wrote.
fn answer(
    child: &mut Child,
    server: &str,
    limit: Duration,
) -> Result<(ExitStatus, Vec<u8>), String> {
    let end = Instant::now() + limit;
    let late = || format!("it gave no answer within {} s", limit.as_secs_f32());
    if let Some(mut stdin) = child.stdin.take() {
        // A pipe holds that much, so it cannot block; and a helper need not read it.
        let _ = stdin.write_all(format!("{server}\n").as_bytes());
    }
    let (send, receive) = mpsc::channel();
    if let Some(stdout) = child.stdout.take() {
        thread::spawn(move || {
            let mut said = Vec::new();
            let _ = stdout.take(ANSWER).read_to_end(&mut said);
            let _ = send.send(said);
        });
    }
    let said = receive.recv_timeout(limit).map_err(|_| late())?;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok((status, said)),
            Ok(None) if Instant::now() < end => thread::sleep(Duration::from_millis(5)),
            Ok(None) => return Err(late()),
            Err(error) => return Err(error.to_string()),
        }
    }
}
