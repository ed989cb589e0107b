//! The settings: read once at start from the environment, never able to stop the server.

pub mod docs;
mod read;
pub mod table;
#[cfg(test)]
mod tests;
mod value;

use protocol::{
    Cause, CodeBytes, CpuPercent, Limits, MemoryMib, OutputBytes, PidsMax, Refusal, Retry,
    TimeoutSeconds, TmpfsMib,
};
use read::Reader;
pub(crate) use read::passwd_home;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use table::Setting;
pub use value::{
    BackendChoice, Changed, ImageReference, Problem, RootfsChoice, RuntimeChoice, is_loopback,
};

/// What a D-Bus client needs to find the user's systemd. Nothing else of the environment is passed
/// on to the helper.
const BUS_VARIABLES: [&str; 2] = ["XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"];

/// The folder below `~/.vestibule` where the scripts of containers lie while they run.
pub const SCRIPTS: &str = "run";

/// Where a client's user changes a setting, as the end of a fix.
pub const ENVIRONMENT: &str = "where your MCP client sets this server's environment";

/// Every setting, as typed values. A setting that is invalid keeps its default here and is named in
/// [`problems`](Config::problems); while there are any, every call is refused.
#[derive(Clone, Debug)]
pub struct Config {
    /// The folder that guests see as `/workspace`.
    pub workspace: PathBuf,
    /// Whether `/workspace` refuses writes.
    pub workspace_read_only: bool,
    /// Which backend runs the code.
    pub backend: BackendChoice,
    /// Which container engine is used.
    pub runtime: RuntimeChoice,
    /// Where the native sandbox's system files come from.
    pub rootfs: RootfsChoice,
    /// The image for python and bash.
    pub image_python: ImageReference,
    /// The image for node.
    pub image_node: ImageReference,
    /// Where unpacked images lie.
    pub rootfs_dir: PathBuf,
    /// A registry to pull from instead of the images' own.
    pub registry_mirror: Option<String>,
    /// Where the audit log lies.
    pub audit_dir: PathBuf,
    /// The timeout of a call that names none.
    pub default_timeout: TimeoutSeconds,
    /// The longest timeout; longer ones are lowered to it.
    pub max_timeout: TimeoutSeconds,
    /// The most code a call may bring.
    pub max_code: CodeBytes,
    /// How much of each stream is returned.
    pub max_output: OutputBytes,
    /// The memory cap of a sandbox.
    pub memory: MemoryMib,
    /// The CPU cap of a sandbox.
    pub cpu: CpuPercent,
    /// The process cap of a sandbox.
    pub pids: PidsMax,
    /// The size of a sandbox's `/tmp`.
    pub tmpfs: TmpfsMib,
    /// How many runs may be under way at once.
    pub max_concurrent: u32,
    /// How many sandboxes are built ahead per language.
    pub pool: u32,
    /// Whether results carry structured content.
    pub structured: bool,
    /// The helper's path, where it is set.
    pub jail: Option<PathBuf>,
    /// The log filter; valid for `tracing-subscriber`.
    pub log: String,
    /// The user's home folder, where one is known.
    pub home: Option<PathBuf>,
    /// The variables that the helper is given, for D-Bus alone.
    pub bus_environment: Vec<(&'static str, OsString)>,
    /// Variables that start with `VESTIBULE_` and are no setting, escaped for display.
    pub unknown: Vec<String>,
    /// Settings that are set to something else than their default.
    pub changed: Vec<Changed>,
    /// Settings that are set and that this version does not use.
    pub unused: Vec<&'static str>,
    /// What is wrong with the settings.
    pub problems: Vec<Problem>,
}

impl Config {
    /// Reads the settings from a process's environment. Never fails and touches no file but, for
    /// want of `HOME`, the user database.
    pub fn from_env(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Config {
        Config::read(Reader::new(variables, passwd_home))
    }

    fn read(mut reader: Reader) -> Config {
        let read = &mut reader;
        let mut config = Config {
            workspace: read.folder(&table::WORKSPACE),
            workspace_read_only: read.switch(&table::WORKSPACE_RO),
            backend: read.value(&table::BACKEND, BackendChoice::parse),
            runtime: read.value(&table::RUNTIME, RuntimeChoice::parse),
            rootfs: read.value(&table::ROOTFS, RootfsChoice::parse),
            image_python: read.image(&table::IMAGE_PYTHON),
            image_node: read.image(&table::IMAGE_NODE),
            rootfs_dir: read.folder(&table::ROOTFS_DIR),
            registry_mirror: read.given(&table::REGISTRY_MIRROR, value::parse_registry),
            audit_dir: read.folder(&table::AUDIT_DIR),
            default_timeout: read.number(&table::DEFAULT_TIMEOUT_S),
            max_timeout: read.number(&table::MAX_TIMEOUT_S),
            max_code: read.number(&table::MAX_CODE_BYTES),
            max_output: read.number(&table::MAX_OUTPUT_BYTES),
            memory: read.number(&table::MEM_MB),
            cpu: read.number(&table::CPU_PCT),
            pids: read.number(&table::PIDS_MAX),
            tmpfs: read.number(&table::TMPFS_MB),
            max_concurrent: read.number(&table::MAX_CONCURRENT),
            pool: read.number(&table::POOL),
            structured: read.switch(&table::STRUCTURED),
            jail: read.path(&table::JAIL),
            log: read.value(&table::LOG, parse_filter),
            home: read.home.clone(),
            bus_environment: bus_environment(read),
            unknown: read.unknown(),
            changed: read.changed(),
            unused: read.unused(),
            problems: Vec::new(),
        };
        check_timeouts(read, &mut config);
        check_folders(read, &config);
        config.problems = reader.problems;
        config
    }

    /// The caps of one sandbox.
    pub fn limits(&self) -> Limits {
        Limits {
            memory_mib: self.memory,
            cpu_percent: self.cpu,
            pids_max: self.pids,
            tmpfs_mib: self.tmpfs,
        }
    }

    /// What is valid and still may not be what was meant, each with its fix.
    pub fn doubts(&self) -> Vec<(String, String)> {
        let unpinned = self
            .images()
            .into_iter()
            .filter(|(_, image)| !image.is_pinned())
            .map(|(setting, image)| unpinned(setting, image));
        self.surplus().into_iter().chain(unpinned).collect()
    }

    /// What is set and does nothing, each with its fix.
    pub fn surplus(&self) -> Vec<(String, String)> {
        let unknown = self.unknown.iter().map(|name| {
            let fix = "compare its name with docs/CONFIGURATION.md, or remove it";
            (format!("{name} is no setting of this version and does nothing"), fix.to_owned())
        });
        let unused = self.unused.iter().map(|name| {
            let fix = "remove it; docs/CONFIGURATION.md says what this version does instead";
            (format!("{name} is set; this version does not use it yet"), fix.to_owned())
        });
        unknown.chain(unused).collect()
    }

    /// The images, each with the setting that names it.
    pub fn images(&self) -> [(&'static Setting, &ImageReference); 2] {
        [(&table::IMAGE_PYTHON, &self.image_python), (&table::IMAGE_NODE, &self.image_node)]
    }

    /// Fails while a setting is invalid.
    ///
    /// # Errors
    /// A refusal that names each such setting, its value and what it may be.
    pub fn usable(&self) -> Result<(), Refusal> {
        if self.problems.is_empty() {
            return Ok(());
        }
        let problems: Vec<String> = self.problems.iter().map(Problem::to_string).collect();
        let no_home = |problem: &Problem| matches!(problem, Problem::NoHome { .. });
        let mut fixes = Vec::new();
        if !self.problems.iter().all(no_home) {
            fixes.push("correct or remove it".to_owned());
        }
        if self.problems.iter().any(no_home) {
            fixes.push(format!("set {}", value::HOME));
        }
        Err(Refusal {
            what: problems.join(". "),
            cause: Cause::Request,
            fix: format!("{} {ENVIRONMENT}", fixes.join(", and ")),
            retry: Retry::AfterRestart,
            at: None,
        })
    }
}

/// What is to be said of an image that has no digest, and the fix.
pub fn unpinned(setting: &Setting, image: &ImageReference) -> (String, String) {
    let what = format!("{} is {}, without a digest", setting.name, image.as_str());
    let fix = "add @sha256:… to it, so that it always means the same image";
    (format!("{what}: it may mean another image tomorrow"), fix.to_owned())
}

fn parse_filter(text: &str) -> Option<String> {
    let parsed = tracing_subscriber::EnvFilter::builder().parse(text);
    parsed.is_ok().then(|| text.to_owned())
}

fn bus_environment(read: &Reader) -> Vec<(&'static str, OsString)> {
    let variable = |name| read.raw(name).map(|value| (name, value.clone()));
    BUS_VARIABLES.into_iter().filter_map(variable).collect()
}

/// A default above the maximum is a contradiction only if someone wrote it down.
fn check_timeouts(read: &mut Reader, config: &mut Config) {
    if config.default_timeout <= config.max_timeout {
        return;
    }
    if read.raw(table::DEFAULT_TIMEOUT_S.name).is_some() {
        let max = config.max_timeout;
        let expected = format!("at most {}, which is {max}", table::MAX_TIMEOUT_S.name);
        read.problem(&table::DEFAULT_TIMEOUT_S, expected);
    }
    config.default_timeout = config.max_timeout;
}

/// A guest that could write into the audit log or the images would own both.
fn check_folders(read: &mut Reader, config: &Config) {
    let ours = read.home.as_ref().map(|home| home.join(".vestibule"));
    let workspace = &config.workspace;
    let within = |ours: &PathBuf| ours.starts_with(workspace);
    if !workspace.as_os_str().is_empty() && ours.as_ref().is_some_and(within) {
        let expected =
            "a folder of its own: neither /, nor your home folder, nor ~/.vestibule or around it";
        read.problem(&table::WORKSPACE, expected.to_owned());
        return;
    }
    if ours.is_some_and(|ours| workspace.starts_with(ours.join(SCRIPTS))) {
        let expected = "outside ~/.vestibule/run, where the scripts of containers lie";
        read.problem(&table::WORKSPACE, expected.to_owned());
        return;
    }
    let folders: [(&Setting, &Path); 3] = [
        (&table::WORKSPACE, &config.workspace),
        (&table::ROOTFS_DIR, &config.rootfs_dir),
        (&table::AUDIT_DIR, &config.audit_dir),
    ];
    for (index, first) in folders.iter().enumerate() {
        for second in folders.iter().skip(index + 1) {
            let apart = !first.1.starts_with(second.1) && !second.1.starts_with(first.1);
            if apart || first.1.as_os_str().is_empty() || second.1.as_os_str().is_empty() {
                continue;
            }
            // Name the one that was set by hand; where both were, the second.
            let by_hand = read.raw(second.0.name).is_some();
            let (named, other) = if by_hand { (second, first) } else { (first, second) };
            let other_path = crate::escape::for_display(&other.1.to_string_lossy(), 200);
            let expected = format!("outside {} ({other_path}) and not around it", other.0.name);
            read.problem(named.0, expected);
        }
    }
}
