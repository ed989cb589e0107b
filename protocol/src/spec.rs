//! What is asked for: the sandbox, and the script to run in it.

use crate::{
    CgroupSource, CodeBytes, CpuPercent, Language, MemoryMib, OutputBytes, PidsMax, TimeoutSeconds,
    TmpfsMib,
};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The file of `vestibule-jail --spec`: the two requests of one run, as JSON.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// What to build.
    pub prepare: Sandbox,
    /// What to run in it.
    pub execute: Script,
}

/// A sandbox, complete but for the code: all of its cost can be paid before the code is known.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Sandbox {
    /// Where programs and libraries come from.
    pub rootfs: Rootfs,
    /// The folder of the machine that appears as `/workspace`. Absolute, without symbolic links.
    pub workspace: PathBuf,
    /// Whether `/workspace` refuses writes.
    pub workspace_read_only: bool,
    /// The caps.
    pub limits: Limits,
    /// Variables for the guest beyond those the jail sets itself, such as an image's `PATH`.
    pub environment: Vec<(String, String)>,
    /// A tree of compiled python modules, as `PYTHONPYCACHEPREFIX` wants it: shown read-only at
    /// [`BYTECODE`](crate::environment::BYTECODE). Absolute, without symbolic links; one that cannot be
    /// used costs speed alone.
    #[serde(default)]
    pub bytecode: Option<PathBuf>,
    /// Where the run's cgroup comes from; a file that leaves it out means `find`.
    #[serde(default)]
    pub cgroup: CgroupSource,
}

/// Where the sandbox's read-only system files come from.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Rootfs {
    /// This machine's own `/usr`, and of `/etc` what programs need.
    Host,
    /// An unpacked image: the absolute path of its root folder.
    Image(PathBuf),
}

/// The caps of one run.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// All memory of the sandbox, files in its tmpfs included; no swap on top.
    pub memory_mib: MemoryMib,
    /// CPU time, in percent of one core.
    pub cpu_percent: CpuPercent,
    /// Processes and threads, init included.
    pub pids_max: PidsMax,
    /// The size of `/tmp`.
    pub tmpfs_mib: TmpfsMib,
}

/// The code of one run.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// What it is written in.
    pub language: Language,
    /// The program text.
    pub code: String,
    /// When the run is ended, counted from hand-over on the monotonic clock.
    pub timeout_seconds: TimeoutSeconds,
    /// How much of each stream is returned; a stream that passes twice that ends the run.
    pub output_bytes: OutputBytes,
}

/// A spec that no sandbox can be built from.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum SpecError {
    /// A path that is not absolute or holds `..` or NUL.
    #[error("{field}: {path:?} must be an absolute path without `..` and NUL")]
    Path {
        /// The field's name.
        field: &'static str,
        /// What it holds.
        path: PathBuf,
    },
    /// A variable that no environment can hold.
    #[error(
        "environment: {name:?} is no usable variable: a name needs letters, digits and `_` and must \
         not start with a digit, a value must not hold NUL, at most {max} variables of 4096 bytes",
        max = Sandbox::MAX_VARIABLES
    )]
    Variable {
        /// The variable's name.
        name: String,
    },
    /// More code than any setting allows.
    #[error("code: {size} bytes are more than the {max} that any setting allows", max = CodeBytes::MAX)]
    Code {
        /// The code's size in bytes.
        size: usize,
    },
}

impl Sandbox {
    /// How many extra variables a guest can be given.
    pub const MAX_VARIABLES: usize = 64;

    /// Checks what the types alone do not guarantee.
    ///
    /// # Errors
    /// [`SpecError`] naming the first field that cannot be used.
    pub fn check(&self) -> Result<(), SpecError> {
        check_path("workspace", &self.workspace)?;
        if let Rootfs::Image(path) = &self.rootfs {
            check_path("rootfs", path)?;
        }
        if let Some(path) = &self.bytecode {
            check_path("bytecode", path)?;
        }
        if let CgroupSource::Below { home, .. } = &self.cgroup {
            check_path("cgroup", home)?;
        }
        for (count, (name, value)) in self.environment.iter().enumerate() {
            if count >= Sandbox::MAX_VARIABLES || !Sandbox::is_variable(name, value) {
                let name = name.chars().take(64).collect();
                return Err(SpecError::Variable { name });
            }
        }
        Ok(())
    }

    /// Whether a guest can be given this variable.
    pub fn is_variable(name: &str, value: &str) -> bool {
        let starts_well = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let letters = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        let fits = name.len() + value.len() <= 4096;
        starts_well && letters && fits && !value.contains('\0')
    }
}

impl Script {
    /// Checks what the types alone do not guarantee.
    ///
    /// # Errors
    /// [`SpecError::Code`] if the code is larger than any setting allows.
    pub fn check(&self) -> Result<(), SpecError> {
        if self.code.len() > CodeBytes::MAX as usize {
            return Err(SpecError::Code { size: self.code.len() });
        }
        Ok(())
    }
}

fn check_path(field: &'static str, path: &Path) -> Result<(), SpecError> {
    let up = path.components().any(|part| part == std::path::Component::ParentDir);
    let nul = path.as_os_str().as_encoded_bytes().contains(&0);
    if path.is_absolute() && !up && !nul {
        return Ok(());
    }
    Err(SpecError::Path { field, path: path.to_owned() })
}
