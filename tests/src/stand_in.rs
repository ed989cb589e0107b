//! `vestibule-mcp setup` with a stand-in for an engine's command line.

use crate::place::Place;
use crate::programs::programs;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// The image for python, with all that a name can have.
pub const PYTHON: &str = "example.org:5000/a/python:3.12@sha256:1111111111111111111111111111111111111111111111111111111111111111";
/// The image for node.
pub const NODE: &str = "node:22-slim";
const READY: &str = "ready in this terminal's environment: isolation container\n";

/// A place with an engine that is none.
#[derive(Debug)]
pub struct Engine {
    /// Where `setup` is at home.
    pub place: Place,
    /// What the stand-in reads and writes: see there.
    pub folder: PathBuf,
}

/// What `setup` said.
#[derive(Debug)]
pub struct Done {
    code: Option<i32>,
    stdout: String,
    /// What it said while it worked.
    pub stderr: String,
}

impl From<Output> for Done {
    fn from(output: Output) -> Done {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        Done {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

impl Done {
    /// Asserts that all went well. Its last line on standard output is its only one.
    #[track_caller]
    pub fn is_ready(&self) {
        assert_eq!((self.code, self.stdout.as_str()), (Some(0), READY), "{}", self.stderr);
    }

    /// Asserts that it failed, with one line on standard output that has these words.
    #[track_caller]
    pub fn failed(&self, begin: &str, words: &[&str]) {
        assert_eq!(self.code, Some(1), "{}{}", self.stderr, self.stdout);
        assert!(self.stdout.starts_with(begin) && self.stdout.lines().count() == 1);
        for word in words {
            assert!(self.stdout.contains(word), "{word} is missing in {}", self.stdout);
        }
    }
}

impl Engine {
    /// One that lacks both images.
    #[must_use]
    pub fn lacking() -> Engine {
        let engine = Engine::whole();
        engine.says("missing", &format!("{PYTHON}\n{NODE}\n"))
    }

    /// One that has every image.
    #[must_use]
    pub fn whole() -> Engine {
        let place = Place::new();
        let folder = place.folder("engine");
        symlink(programs().stand_in(), folder.join("docker")).expect("the folder is ours");
        Engine { place, folder }
    }

    /// What it is to answer.
    #[must_use]
    pub fn says(self, name: &str, text: &str) -> Engine {
        fs::write(self.folder.join(name), text).expect("the folder is ours");
        self
    }

    /// Puts a script in the place of the client, in which `CLIENT` is the stand-in.
    #[must_use]
    pub fn scripted(self, script: &str) -> Engine {
        let client = programs().stand_in().display().to_string();
        let script = format!("#!/bin/sh\n{}\n", script.replace("CLIENT", &client));
        let script = self.place.program("script", script);
        fs::rename(script, self.folder.join("docker")).expect("the folder is ours");
        self
    }

    /// Runs `setup`.
    pub fn setup(&self, arguments: &[&str], settings: &[(&str, &str)]) -> Done {
        self.command(arguments, settings).output().expect("setup starts").into()
    }

    /// `setup`, still to be started.
    pub fn command(&self, arguments: &[&str], settings: &[(&str, &str)]) -> Command {
        let mut command = self.place.command(programs().server());
        self.prepare(&mut command, settings);
        command.arg("setup").args(arguments);
        command
    }

    /// Gives a command the variables of `setup`.
    pub fn prepare(&self, command: &mut Command, settings: &[(&str, &str)]) {
        command.env("PATH", format!("{}:/usr/bin:/bin", self.folder.display()));
        command.env("STAND_IN", &self.folder);
        command.env("VESTIBULE_BACKEND", "container").env("VESTIBULE_RUNTIME", "docker");
        command.env("VESTIBULE_IMAGE_PYTHON", PYTHON).env("VESTIBULE_IMAGE_NODE", NODE);
        command.envs(settings.iter().copied()).stdin(Stdio::null());
    }

    /// Starts `setup`, whose words on standard error are lost: a client that is left behind would hold
    /// that pipe open, and whoever waits for its end.
    pub fn start(&self) -> Child {
        let mut command = self.command(&[], &[]);
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn().expect("setup starts")
    }

    /// Everything it was asked, call by call, with a space between the arguments.
    pub fn asked(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.join("asked")).unwrap_or_default();
        text.lines().map(|line| line.replace('\t', " ")).collect()
    }

    /// The pulls that it was asked for.
    pub fn pulls(&self) -> Vec<String> {
        self.asked().into_iter().filter(|line| line.starts_with("pull")).collect()
    }

    /// Waits until it is asked for something.
    #[track_caller]
    pub fn await_asked(&self, begin: &str) {
        let end = Instant::now() + Duration::from_secs(60);
        while !self.asked().iter().any(|line| line.starts_with(begin)) {
            assert!(Instant::now() < end, "nobody asked for {begin}: {:?}", self.asked());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// A jail that a container's filter refuses.
    pub fn refused_jail(&self) -> String {
        let rules = ["clone3=EPERM", "clone:0&268435456=EPERM", "unshare=EPERM"];
        self.place.constrained_jail(&rules).display().to_string()
    }
}
