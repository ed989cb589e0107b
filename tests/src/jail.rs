//! Drives `vestibule-jail`: by frames as the server does, and by hand with `--spec`.

use crate::place::Place;
use crate::programs::programs;
use protocol::frame::{ToServer, encode_hello, encode_request};
use protocol::{
    CgroupSource, CpuPercent, Event, Hello, Language, Limits, MemoryMib, Outcome, OutputBytes,
    PidsMax, Request, Rootfs, RunSpec, Sandbox, Script, Stream, TimeoutSeconds, TmpfsMib,
};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// A jail that speaks frames.
#[derive(Debug)]
pub struct Jail {
    child: Child,
    stdin: Option<ChildStdin>,
    frames: Receiver<ToServer>,
}

impl Jail {
    /// Starts a jail as the server does: no arguments, no environment.
    pub fn start(place: &Place) -> Jail {
        let mut command = place.command(programs().jail());
        command.env_clear();
        Jail::spawn(command)
    }

    /// Starts a command as a jail.
    pub fn spawn(mut command: Command) -> Jail {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the jail starts");
        let stdin = child.stdin.take();
        let mut stdout = child.stdout.take().expect("the pipe was asked for");
        let (sender, frames) = channel();
        std::thread::spawn(move || {
            while let Ok(Some(frame)) = ToServer::read(&mut stdout) {
                if sender.send(frame).is_err() {
                    break;
                }
            }
        });
        Jail { child, stdin, frames }
    }

    /// Sends bytes as they are. A jail that is gone shows when its answer is waited for.
    pub fn send(&mut self, bytes: &[u8]) {
        if let Some(stdin) = &mut self.stdin {
            let _ = stdin.write_all(bytes).and_then(|()| stdin.flush());
        }
    }

    /// Sends a request.
    pub fn request(&mut self, request: &Request) {
        self.send(&encode_request(request).expect("a test's request is small enough"));
    }

    /// Exchanges greetings.
    #[track_caller]
    pub fn greet(&mut self) -> Hello {
        self.send(&encode_hello(&Hello::ours()));
        match self.next() {
            Some(ToServer::Hello(hello)) => hello,
            other => panic!("expected a greeting, got {other:?}"),
        }
    }

    /// The next frame; `None` at the end of the jail's output.
    #[track_caller]
    pub fn next(&self) -> Option<ToServer> {
        self.frames.recv_timeout(PATIENCE).ok()
    }

    /// Greets, prepares, and gives the jail's answer.
    #[track_caller]
    pub fn prepare(&mut self, sandbox: Sandbox) -> Event {
        self.greet();
        self.request(&Request::Prepare(sandbox));
        match self.next() {
            Some(ToServer::Event(event)) => event,
            other => panic!("expected an event, got {other:?}"),
        }
    }

    /// Executes in a prepared sandbox: standard output, standard error, outcome.
    #[track_caller]
    pub fn execute(&mut self, script: Script) -> (Vec<u8>, Vec<u8>, Outcome) {
        self.request(&Request::Execute(script));
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        loop {
            match self.next() {
                Some(ToServer::Output(Stream::Stdout, bytes)) => stdout.extend(bytes),
                Some(ToServer::Output(Stream::Stderr, bytes)) => stderr.extend(bytes),
                Some(ToServer::Event(Event::Finished(outcome))) => {
                    return (stdout, stderr, outcome);
                }
                other => panic!("expected output or an outcome, got {other:?}"),
            }
        }
    }

    /// The process id of the supervisor.
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// Hangs up.
    pub fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Waits for the end and gives the exit code, -1 for a signal.
    #[track_caller]
    pub fn wait(&mut self) -> i32 {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().expect("the jail is our child") {
                return status.code().unwrap_or(-1);
            }
            assert!(Instant::now() < end, "the jail does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Jail {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The default sandbox around a workspace.
pub fn sandbox(workspace: &Path) -> Sandbox {
    Sandbox {
        rootfs: Rootfs::Host,
        workspace: workspace.to_owned(),
        workspace_read_only: false,
        limits: Limits {
            memory_mib: MemoryMib::new(256).expect("in range"),
            cpu_percent: CpuPercent::new(75).expect("in range"),
            pids_max: PidsMax::new(128).expect("in range"),
            tmpfs_mib: TmpfsMib::new(64).expect("in range"),
        },
        environment: Vec::new(),
        bytecode: None,
        cgroup: CgroupSource::Find,
    }
}

/// A script with the default timeout and output cap.
pub fn script(language: Language, code: &str) -> Script {
    Script {
        language,
        code: code.to_owned(),
        timeout_seconds: TimeoutSeconds::new(10).expect("in range"),
        output_bytes: OutputBytes::new(20_000).expect("in range"),
    }
}

/// Writes a spec of the user's and gives its path.
pub fn spec_file(place: &Place, name: &str, prepare: Sandbox, execute: Script) -> PathBuf {
    let spec = RunSpec { prepare, execute };
    place.file(name, serde_json::to_vec(&spec).expect("a spec is JSON"))
}

/// Runs `vestibule-jail` by hand.
pub fn by_hand(place: &Place, arguments: &[&str]) -> Output {
    let mut command = place.command(programs().jail());
    command.args(arguments).stdin(Stdio::null()).output().expect("the jail starts")
}
