//! The tool `read_workspace`.

use super::open::{OpenError, Opened, open};
use super::path::RelativePath;
use super::{content, listing, prepare};
use crate::config::Config;
use crate::engine::{Content, Reply};
use crate::escape;
use crate::run::privileges;
use crate::run::request::refuse_unknown;
use protocol::{Cause, Refusal, Retry};
use serde_json::{Map, Value};
use std::path::Path;
use std::time::Duration;

/// How long the file system may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many characters of a path are shown.
const SHOWN: usize = 300;

/// Reads a file or lists a folder of the workspace.
pub async fn read(config: &Config, arguments: Map<String, Value>) -> Reply {
    match checked(config, &arguments) {
        Ok(path) => in_background(config.clone(), path).await.unwrap_or_else(Reply::blocked),
        Err(refusal) => Reply::blocked(refusal),
    }
}

fn checked(config: &Config, arguments: &Map<String, Value>) -> Result<RelativePath, Refusal> {
    config.usable()?;
    refuse_unknown("read_workspace", &["path"], arguments)?;
    let path = RelativePath::parse(arguments.get("path"))?;
    privileges::check()?;
    Ok(path)
}

/// Disks and network file systems can hang: no other call waits for them.
async fn in_background(config: Config, path: RelativePath) -> Result<Reply, Refusal> {
    let work = tokio::task::spawn_blocking(move || {
        let root = prepare::folder(&config)?;
        look(&root, &path, config.max_output.get() as usize)
    });
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(Ok(done)) => done,
        Ok(Err(error)) => {
            Err(refuse(format!("reading the workspace failed ({error})"), Retry::Now))
        }
        Err(_) => {
            let seconds = PATIENCE.as_secs();
            let what = format!("the workspace's file system did not answer within {seconds} s");
            Err(refuse(what, Retry::AfterFix))
        }
    }
}

fn look(root: &Path, path: &RelativePath, cap: usize) -> Result<Reply, Refusal> {
    let name = escape::for_display(&path.joined(), SHOWN);
    let io =
        |error: std::io::Error| refuse(format!("{name} cannot be read ({error})"), Retry::AfterFix);
    match open(root, path, listing::SHOWN) {
        Ok(Opened::Folder(entries)) => Ok(Reply::text(listing::render(&path.joined(), &entries))),
        Ok(Opened::File(file, size)) => {
            let content = content::read(file, size, &name, cap).map_err(io)?;
            Ok(of(content))
        }
        Err(OpenError::NotFound) => {
            Ok(Reply::text(format!("Not found: the workspace has no file or folder {name}")))
        }
        Err(OpenError::Link) => Err(not_plain(&name, "a symbolic link, or lies behind one")),
        Err(OpenError::Special("fifo")) => Err(not_plain(&name, "a FIFO")),
        Err(OpenError::Special(what)) => Err(not_plain(&name, &format!("a {what}"))),
        Err(OpenError::Io(error)) => Err(io(error)),
    }
}

fn of(content: Content) -> Reply {
    Reply { content: vec![content], ..Reply::text("") }
}

fn not_plain(name: &str, what: &str) -> Refusal {
    Refusal {
        fix: "copy what you need to a regular file, and read that".to_owned(),
        ..refuse(format!("{name} is {what}; only regular files and folders are read"), Retry::Now)
    }
}

fn refuse(what: String, retry: Retry) -> Refusal {
    let fix = "look at the workspace's file system and its permissions".to_owned();
    Refusal { what, cause: Cause::Other, fix, retry, at: None }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use serde_json::json;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    struct Workspace(PathBuf);

    impl Workspace {
        fn new(name: &str) -> Workspace {
            let path = std::env::temp_dir().join(format!("reader-{name}-{}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Workspace(path.canonicalize().unwrap())
        }

        fn read(&self, path: &str) -> Result<String, String> {
            let path = RelativePath::parse(Some(&json!(path))).unwrap();
            let reply = look(&self.0, &path, 1000).map_err(|refusal| refusal.to_string())?;
            match &reply.content[..] {
                [Content::Text(text)] => Ok(text.clone()),
                other => panic!("{other:?}"),
            }
        }
    }

    impl Drop for Workspace {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn files_and_folders_are_read() {
        let workspace = Workspace::new("plain");
        assert_eq!(workspace.read("."), Ok("The workspace is empty.".into()));
        fs::create_dir(workspace.0.join("sub")).unwrap();
        fs::write(workspace.0.join("sub/x"), "deep").unwrap();
        assert_eq!(workspace.read("sub/x"), Ok("deep".into()));
        assert!(workspace.read("sub").unwrap().contains("file               4 x"));
        for missing in ["nope", "sub/x/y", &"n".repeat(300)] {
            assert!(workspace.read(missing).unwrap().starts_with("Not found: "), "{missing}");
        }
    }

    #[test]
    fn no_link_is_followed_and_nothing_waits() {
        let workspace = Workspace::new("links");
        let at = |name: &str| workspace.0.join(name);
        fs::write(at("plain"), "inside").unwrap();
        symlink("/etc/passwd", at("file")).unwrap();
        symlink("/etc", at("folder")).unwrap();
        symlink("plain", at("inner")).unwrap();
        symlink("/proc/self/environ", at("magic")).unwrap();
        nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        for path in ["file", "folder/passwd", "inner", "magic", "fifo", "socket"] {
            let text = workspace.read(path).unwrap_err();
            assert!(text.contains("only regular files and folders are read"), "{path}: {text}");
        }
        assert!(workspace.read("fifo").unwrap_err().starts_with("fifo is a FIFO; only regular"));
        assert!(workspace.read("socket").unwrap_err().starts_with("socket is a socket"));
        let listing = workspace.read(".").unwrap();
        assert!(listing.contains("symlink            - magic"), "{listing}");
    }

    #[test]
    fn a_folder_that_is_exchanged_for_a_link_is_never_followed() {
        let workspace = Workspace::new("race");
        let outside = Workspace::new("outside");
        fs::write(outside.0.join("f"), "SECRET").unwrap();
        fs::create_dir(workspace.0.join("d")).unwrap();
        fs::write(workspace.0.join("d/f"), "inside").unwrap();
        symlink(&outside.0, workspace.0.join("link")).unwrap();
        let (d, link, spare) =
            (workspace.0.join("d"), workspace.0.join("link"), workspace.0.join("spare"));
        let swapper = std::thread::spawn(move || {
            for _ in 0..3000 {
                fs::rename(&d, &spare).unwrap();
                fs::rename(&link, &d).unwrap();
                fs::rename(&d, &link).unwrap();
                fs::rename(&spare, &d).unwrap();
            }
        });
        let mut inside = 0;
        while !swapper.is_finished() {
            match workspace.read("d/f") {
                Ok(text) if text == "inside" => inside += 1,
                Ok(text) => assert!(text.starts_with("Not found: "), "{text}"),
                Err(text) => assert!(text.contains("symbolic link"), "{text}"),
            }
        }
        swapper.join().unwrap();
        assert!(inside > 0);
    }
}
