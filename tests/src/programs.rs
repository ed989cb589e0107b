//! The built programs, where every user can reach them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

/// A folder that already holds both programs; without it they are built.
const READY: &str = "VESTIBULE_TEST_PROGRAMS";
const NAMES: [&str; 3] = ["vestibule-mcp", "vestibule-jail", "stand-in"];

/// Where the programs lie, side by side.
#[derive(Debug)]
pub struct Programs {
    folder: PathBuf,
}

static PROGRAMS: OnceLock<Programs> = OnceLock::new();
static STAGE: Mutex<Option<PathBuf>> = Mutex::new(None);

impl Programs {
    /// The server.
    pub fn server(&self) -> PathBuf {
        self.folder.join("vestibule-mcp")
    }

    /// The jail.
    pub fn jail(&self) -> PathBuf {
        self.folder.join("vestibule-jail")
    }

    /// The command line of a container engine that runs nothing.
    pub fn stand_in(&self) -> PathBuf {
        self.folder.join("stand-in")
    }

    /// The launcher that applies a syscall filter, copied to where every user can reach it.
    pub fn constrain(&self) -> PathBuf {
        // target/debug/deps/guarantees-…: the tests' own programs lie one folder up.
        let own = std::env::current_exe().expect("the tests know their own path");
        staged_copy(&own.ancestors().nth(2).expect("a target folder").join("constrain"))
    }
}

/// The release builds. Built and copied at the first call, since a folder below root's home is
/// closed to the uid that they run as.
pub fn programs() -> &'static Programs {
    PROGRAMS.get_or_init(|| match std::env::var_os(READY) {
        Some(folder) => Programs { folder: folder.into() },
        None => Programs { folder: stage(&build()) },
    })
}

/// Copies a program of the tests themselves to where every user can reach it.
fn staged_copy(program: &Path) -> PathBuf {
    let name = program.file_name().expect("a program has a name");
    let copy = stage_folder().join(name);
    if !copy.exists() {
        // Another test may be doing the same: only a complete copy gets the name.
        let half =
            stage_folder().join(format!("{}.{:?}", name.display(), std::thread::current().id()));
        fs::copy(program, &half).expect("the stage takes a copy");
        fs::rename(&half, &copy).expect("the copy gets its name");
    }
    copy
}

/// Removes what [`programs`] copied.
pub fn remove_stage() {
    if let Some(folder) = STAGE.lock().expect("no test panics while it stages").take() {
        // What cannot be removed is a temporary folder, for the machine to clean.
        let _ = fs::remove_dir_all(folder);
    }
}

fn build() -> PathBuf {
    // target/debug/deps/guarantees-…
    let own = std::env::current_exe().expect("the tests know their own path");
    let target = own.ancestors().nth(3).expect("the tests lie in a target folder").to_owned();
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.current_dir(repository()).args(["build", "--release", "--locked", "--target-dir"]);
    cargo.arg(&target);
    for name in NAMES {
        cargo.args(["-p", name]);
    }
    let status = cargo.status().expect("cargo starts");
    assert!(status.success(), "the programs do not build: {status}");
    target.join("release")
}

fn stage(built: &Path) -> PathBuf {
    for name in NAMES {
        staged_copy(&built.join(name));
    }
    stage_folder()
}

fn stage_folder() -> PathBuf {
    let mut stage = STAGE.lock().expect("no test panics while it stages");
    let folder = stage.get_or_insert_with(|| {
        let folder = std::env::temp_dir().join(format!("vestibule-stage-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("the temporary folder takes a stage");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("the stage is ours");
        folder
    });
    folder.clone()
}

/// The root of the working copy.
pub fn repository() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().expect("the tests lie in a workspace").to_owned()
}
