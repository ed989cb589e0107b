//! An MCP client over stdio, in the handshake era of the protocol. The wire checks speak both eras
//! and every malformed line; here the protocol is only the way in.

use crate::Reply;
use crate::place::Place;
use crate::processes::{self, Process};
use crate::tally::Tally;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// How long an answer may take: the longest timeout of any test, and a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that is still to be started.
#[derive(Debug)]
pub struct ServerBuilder<'a> {
    place: &'a Place,
    line: Vec<OsString>,
    settings: Vec<(String, OsString)>,
}

impl<'a> ServerBuilder<'a> {
    pub(crate) fn new(place: &'a Place, line: Vec<OsString>) -> ServerBuilder<'a> {
        ServerBuilder { place, line, settings: Vec::new() }
    }

    /// Adds a variable to the environment.
    #[must_use]
    pub fn set(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.settings.push((name.to_owned(), value.into()));
        self
    }

    /// Starts the server by another program, such as a launcher with its arguments.
    #[must_use]
    pub fn through(mut self, launcher: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.line = launcher.into_iter().map(Into::into).chain(self.line).collect();
        self
    }

    /// The command, for a test that does more than speak MCP to it.
    pub fn command(&self) -> Command {
        let mut command = self.place.command(&self.line[0]);
        command.args(&self.line[1..]).envs(self.settings.iter().cloned());
        command
    }

    /// Starts the server and opens a session.
    #[track_caller]
    pub fn start(self) -> Server {
        let elsewhere = ["HOME", "VESTIBULE_AUDIT_DIR"];
        if self.settings.iter().any(|(name, _)| elsewhere.contains(&name.as_str())) {
            self.place.tally().leave_out();
        }
        let mut server = Server::spawn_counted(self.command(), self.place.tally().clone());
        server.open();
        server
    }
}

#[derive(Default)]
struct Inbox {
    answers: HashMap<u64, Value>,
    /// The calls of `run_code` that are under way.
    runs: HashSet<u64>,
    notifications: Vec<Value>,
    ended: bool,
}

/// A started server.
#[derive(Debug)]
pub struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    inbox: Arc<(Mutex<Inbox>, Condvar)>,
    stderr: Arc<Mutex<String>>,
    last_id: u64,
    tally: Tally,
}

impl std::fmt::Debug for Inbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Inbox({} answers)", self.answers.len())
    }
}

impl Server {
    /// Starts a command as a server, without a word to it.
    #[track_caller]
    pub fn spawn(command: Command) -> Server {
        Server::spawn_counted(command, Tally::default())
    }

    #[track_caller]
    fn spawn_counted(mut command: Command, tally: Tally) -> Server {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the server starts");
        let stdin = child.stdin.take();
        let inbox = Arc::new((Mutex::new(Inbox::default()), Condvar::new()));
        let stderr = Arc::new(Mutex::new(String::new()));
        if let Some(stdout) = child.stdout.take() {
            let (inbox, tally) = (Arc::clone(&inbox), tally.clone());
            std::thread::spawn(move || collect_answers(stdout, &inbox, &tally));
        }
        if let Some(pipe) = child.stderr.take() {
            let stderr = Arc::clone(&stderr);
            std::thread::spawn(move || {
                for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                    let mut all = stderr.lock().expect("no reader panics");
                    all.push_str(&line);
                    all.push('\n');
                }
            });
        }
        Server { child, stdin, inbox, stderr, last_id: 0, tally }
    }

    /// Opens a session by handshake.
    #[track_caller]
    pub fn open(&mut self) -> Value {
        let info = json!({"name": "tests", "version": "1"});
        let hello =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
        let answer = self.request("initialize", hello);
        assert!(answer.get("result").is_some(), "initialize failed: {answer}");
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        answer
    }

    /// Runs code; the interpreter's own timeout applies.
    #[track_caller]
    pub fn run(&mut self, language: &str, code: &str) -> Reply {
        self.call("run_code", json!({"language": language, "code": code}))
    }

    /// Runs code under a timeout in seconds.
    #[track_caller]
    pub fn run_for(&mut self, seconds: u32, language: &str, code: &str) -> Reply {
        let arguments = json!({"language": language, "code": code, "timeout_seconds": seconds});
        self.call("run_code", arguments)
    }

    /// Calls a tool and waits for the result.
    #[track_caller]
    pub fn call(&mut self, tool: &str, arguments: Value) -> Reply {
        let id = self.start_call(tool, arguments);
        Reply::new(&self.answer(id))
    }

    /// Calls `run_code` without waiting.
    pub fn start_run(&mut self, seconds: u32, language: &str, code: &str) -> u64 {
        let arguments = json!({"language": language, "code": code, "timeout_seconds": seconds});
        self.start_call("run_code", arguments)
    }

    /// Calls a tool without waiting.
    pub fn start_call(&mut self, tool: &str, arguments: Value) -> u64 {
        if tool == "run_code" {
            self.tally.sent();
            let mut inbox = self.inbox.0.lock().expect("no reader panics");
            inbox.runs.insert(self.last_id + 1);
        }
        self.start_request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// Cancels a call.
    pub fn cancel(&mut self, id: u64) {
        let params = json!({"requestId": id});
        let method = "notifications/cancelled";
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Sends a request and waits for its answer.
    #[track_caller]
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.start_request(method, params);
        self.answer(id)
    }

    fn start_request(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Sends a message. A server that is gone shows when its answer is waited for.
    pub fn send(&mut self, message: &Value) {
        if let Some(stdin) = &mut self.stdin {
            let _ = writeln!(stdin, "{message}").and_then(|()| stdin.flush());
        }
    }

    /// Waits for an answer; panics if none comes.
    #[track_caller]
    pub fn answer(&self, id: u64) -> Value {
        self.answer_within(id, PATIENCE).unwrap_or_else(|| {
            panic!("no answer to request {id}; stderr: {}", self.stderr());
        })
    }

    /// The answer, if it comes in time.
    pub fn answer_within(&self, id: u64, patience: Duration) -> Option<Value> {
        let (inbox, news) = &*self.inbox;
        let inbox = inbox.lock().expect("no reader panics");
        let waiting = |inbox: &mut Inbox| !inbox.ended && !inbox.answers.contains_key(&id);
        let wait = news.wait_timeout_while(inbox, patience, waiting);
        wait.expect("no reader panics").0.answers.remove(&id)
    }

    /// Notifications so far.
    pub fn notifications(&self) -> Vec<Value> {
        self.inbox.0.lock().expect("no reader panics").notifications.clone()
    }

    /// What the server wrote to standard error so far.
    pub fn stderr(&self) -> String {
        self.stderr.lock().expect("no reader panics").clone()
    }

    /// The server's process id.
    pub fn pid(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// The server's process.
    #[track_caller]
    pub fn process(&self) -> Process {
        Process::read(self.pid()).expect("the server lives")
    }

    /// Waits until a descendant of the server is there that `is` recognises.
    #[track_caller]
    pub fn await_descendant(&self, is: impl Fn(&Process) -> bool) -> Process {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(found) = processes::descendants(self.pid()).into_iter().find(&is) {
                return found;
            }
            assert!(Instant::now() < end, "no such process below the server");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Sends a signal to the server.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).expect("the server can be signalled");
    }

    /// Ends the server's input.
    pub fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Waits for the server's end: its status, and how long that took.
    #[track_caller]
    pub fn wait(&mut self) -> (ExitStatus, Duration) {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("the server is our child") {
                return (status, start.elapsed());
            }
            assert!(start.elapsed() < PATIENCE, "the server does not end");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Ends the server's input, waits, and asserts that it ended well.
    #[track_caller]
    pub fn close(mut self) {
        self.close_input();
        let (status, _) = self.wait();
        assert!(status.success(), "the server ended with {status}; stderr: {}", self.stderr());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn collect_answers(stdout: impl Read, inbox: &(Mutex<Inbox>, Condvar), tally: &Tally) {
    let (inbox, news) = inbox;
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        let message: Value = serde_json::from_str(&line).unwrap_or_default();
        let mut inbox = inbox.lock().expect("no test panics with the lock");
        match message["id"].as_u64() {
            Some(id) => {
                if inbox.runs.remove(&id) {
                    tally.answered(&message);
                }
                inbox.answers.insert(id, message);
            }
            None => inbox.notifications.push(message),
        }
        news.notify_all();
    }
    inbox.lock().expect("no test panics with the lock").ended = true;
    news.notify_all();
}
