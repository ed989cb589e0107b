//! Python's modules, compiled once: inside a sandbox of the image itself, into a tree beside the image.
//!
//! Official images bring no `.pyc`, and a sandbox cannot write any, so that each run would compile what
//! it imports anew. What the sandbox leaves is checked as what a stranger wrote: files and folders alone.

use super::leftovers::Unfinished;
use super::place::{Place, remove_tree};
use crate::backend::native::Native;
use crate::backend::{Failure, Finish};
use crate::engine::Progress;
use crate::run::admission::Admission;
use crate::run::output::Output;
use crate::store::Found;
use crate::store::bytecode::{self, LIST, TREE};
use nix::sys::statvfs::statvfs;
use protocol::{
    CpuPercent, Ending, Language, Limits, MemoryMib, OutputBytes, PidsMax, Rootfs, Sandbox, Script,
    TimeoutSeconds, TmpfsMib,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Compiles every module that an import can find. One that cannot be compiled is left out: python would
/// say so itself. Nobody reads its warnings, and what printed too much of them would be ended.
const CODE: &str = "\
import compileall, os, sys, warnings
from py_compile import PycInvalidationMode

warnings.simplefilter('ignore')

here = os.path.dirname(os.path.abspath(__file__))
for folder in dict.fromkeys(sys.path):
    if os.path.isdir(folder) and os.path.realpath(folder) not in (here, '/workspace'):
        compileall.compile_dir(
            folder, quiet=2, invalidation_mode=PycInvalidationMode.TIMESTAMP)
";

/// How long the compiler may take, in seconds: an emulated machine takes minutes.
const TIMEOUT: u64 = 600;
/// How many bytes and files may go from the disk meanwhile, and how often that is looked at.
const DISK: u64 = 2 << 30;
const INODES: u64 = 500_000;
const WATCH: Duration = Duration::from_millis(100);
/// Its memory, in MiB.
const MEMORY: u64 = 1024;

/// Compiles the modules of an image that is in the store, unless a tree that holds good is there. Returns
/// how many files there are.
///
/// # Errors
/// Why there is no tree; runs are slower then, and the same otherwise.
pub async fn compile(
    place: &Place,
    image: &Path,
    found: &Found,
    native: &Native,
) -> Result<usize, String> {
    let scratch = place.unfinished(Unfinished::Bytecode).map_err(|error| error.what)?;
    let compiled = run(&scratch, found, native).await;
    let kept = compiled.and_then(|()| keep(image, &scratch).map_err(|error| error.to_string()));
    // What is left there does not count; the next setup removes it where this fails.
    let _ = place.remove(&scratch);
    kept
}

/// Gives the tree its name. The list of the old one goes first: a tree without a list does not count.
fn keep(image: &Path, scratch: &Path) -> std::io::Result<usize> {
    // Before it is moved: what is refused then goes with the scratch folder.
    bytecode::fit(scratch)?;
    fs::set_permissions(scratch, std::os::unix::fs::PermissionsExt::from_mode(0o700))?;
    nix::unistd::syncfs(fs::File::open(scratch)?)?;
    let tree = image.join(TREE);
    match fs::remove_file(image.join(LIST)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => remove_tree(&tree)?,
    }
    fs::rename(scratch, &tree)?;
    bytecode::seal(image)
}

async fn run(scratch: &Path, found: &Found, native: &Native) -> Result<(), String> {
    let out_of_range = |error: protocol::OutOfRange| error.to_string();
    let mut environment = found.environment.clone();
    environment.truncate(Sandbox::MAX_VARIABLES - 1);
    environment.push(("PYTHONPYCACHEPREFIX".to_owned(), "/workspace".to_owned()));
    let sandbox = Sandbox {
        rootfs: Rootfs::Image(found.root.clone()),
        workspace: scratch.to_owned(),
        workspace_read_only: false,
        limits: Limits {
            memory_mib: MemoryMib::new(MEMORY).map_err(out_of_range)?,
            cpu_percent: CpuPercent::new(100).map_err(out_of_range)?,
            pids_max: PidsMax::new(16).map_err(out_of_range)?,
            tmpfs_mib: TmpfsMib::new(16).map_err(out_of_range)?,
        },
        environment,
        bytecode: None,
        cgroup: protocol::CgroupSource::default(),
    };
    let script = Script {
        language: Language::Python,
        code: CODE.to_owned(),
        timeout_seconds: TimeoutSeconds::new(TIMEOUT).map_err(out_of_range)?,
        output_bytes: OutputBytes::new(4096).map_err(out_of_range)?,
    };
    let admission = Admission::new(1);
    let slot = admission.slot().await.map_err(|refusal| refusal.what)?;
    let prepared = native
        .probe(&sandbox, slot)
        .await
        .map_err(|failure| match failure {
            Failure::Refused(refusal) | Failure::Broken(refusal) => refusal.what,
        })?
        .0;
    let mut output = Output::new(script.output_bytes, watch::Sender::new(Progress::Queued), None);
    let full = CancellationToken::new();
    let watch = tokio::spawn(watch_disk(scratch.to_owned(), full.clone()));
    let finish = prepared.execute(script, &mut output, &full).await;
    watch.abort();
    // Before the tree is moved, nothing may be left that could write to it.
    admission.all_free().await;
    match finish {
        Finish::Finished(outcome) if outcome.ending == Ending::Exited(0) => Ok(()),
        Finish::Finished(outcome) => {
            let said = String::from_utf8_lossy(&output.stderr.bytes).into_owned();
            let last = said.trim_end().lines().next_back().unwrap_or_default();
            let last = crate::escape::for_display(last, 200);
            Err(format!("the compiler ended with {:?} ({last})", outcome.ending))
        }
        Finish::NotStarted(refusal) => Err(refusal.what),
        Finish::Lost(what) => Err(what),
        Finish::Stopped => Err("the compiler was stopped, as the disk became full".to_owned()),
    }
}

/// Ends a compiler that fills the disk: its folder has no limit of its own. Others may write there
/// meanwhile, so only a multiple of what modules take counts.
async fn watch_disk(folder: PathBuf, full: CancellationToken) {
    let free = || {
        statvfs(&folder).ok().map(|status| {
            (
                status.blocks_available().saturating_mul(status.fragment_size()),
                status.files_available(),
            )
        })
    };
    let Some((bytes, files)) = free() else { return };
    loop {
        tokio::time::sleep(WATCH).await;
        let Some(now) = free() else { return };
        if bytes.saturating_sub(now.0) > DISK || files.saturating_sub(now.1) > INODES {
            return full.cancel();
        }
    }
}
