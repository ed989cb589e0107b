//! The table of settings: one row drives parsing, error texts and `docs/CONFIGURATION.md`.

use protocol::{CodeBytes, CpuPercent, MemoryMib, OutputBytes, PidsMax, TimeoutSeconds, TmpfsMib};

/// What a setting's text is parsed as.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// A whole number within a range.
    Number {
        /// The smallest value.
        min: u32,
        /// The largest value.
        max: u32,
    },
    /// On or off.
    Switch,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A folder, absolute or below `~`.
    Folder,
    /// A program, absolute or below `~`.
    Program,
    /// A container image, best with its digest.
    Image,
    /// The address of a registry.
    Registry,
    /// A `tracing` filter.
    LogFilter,
}

/// One row.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Setting {
    /// The variable's name.
    pub name: &'static str,
    /// How its text is read.
    pub kind: Kind,
    /// The text that an unset variable stands for; empty where unset means none.
    pub default: &'static str,
    /// What it is for, in Markdown, for the documentation.
    pub meaning: &'static str,
}

impl Setting {
    /// What the value may be, as the end of a sentence that begins with "it must be".
    pub fn expected(&self) -> String {
        match self.kind {
            Kind::Number { min, max } => format!("a whole number from {min} to {max}"),
            Kind::Switch => "1, true, yes or on, or else 0, false, no or off".to_owned(),
            Kind::Choice(words) => format!("one of {}", words.join(", ")),
            Kind::Folder => "an absolute path or one that starts with ~/, without `..`".to_owned(),
            Kind::Program => "an absolute path or one that starts with ~/".to_owned(),
            Kind::Image => "an image reference such as \
                 docker.io/library/python@sha256:… (the repository is in lower case, and the \
                 digest has 64 hexadecimal digits, or 128 by sha512)"
                .to_owned(),
            Kind::Registry => {
                "https://HOST[:PORT][/PATH], or http:// for a loopback address alone".to_owned()
            }
            Kind::LogFilter => "a log filter such as warn, debug or vestibule_mcp=debug".to_owned(),
        }
    }
}

const fn number(
    name: &'static str,
    (min, max): (u32, u32),
    default: &'static str,
    meaning: &'static str,
) -> Setting {
    Setting { name, kind: Kind::Number { min, max }, default, meaning }
}

const fn setting(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    meaning: &'static str,
) -> Setting {
    Setting { name, kind, default, meaning }
}

/// The folder that guests see as `/workspace`.
pub const WORKSPACE: Setting = setting(
    "VESTIBULE_WORKSPACE",
    Kind::Folder,
    "~/.vestibule/workspace",
    "The folder that code sees as `/workspace`. Made on first use, for its owner alone. It must be yours, no symbolic link, and neither `/`, your home folder, `~/.vestibule` itself nor a folder above one of them.",
);
/// Whether `/workspace` refuses writes.
pub const WORKSPACE_RO: Setting =
    setting("VESTIBULE_WORKSPACE_RO", Kind::Switch, "off", "Whether `/workspace` refuses writes.");
/// Which backend runs the code.
pub const BACKEND: Setting = setting(
    "VESTIBULE_BACKEND",
    Kind::Choice(&["auto", "native", "container", "naive"]),
    "auto",
    "What runs the code. `auto` takes the strongest isolation that works. `naive` has no isolation at all and is used only when named here. `container` is Docker or Podman.",
);
/// Which container engine is used.
pub const RUNTIME: Setting = setting(
    "VESTIBULE_RUNTIME",
    Kind::Choice(&["auto", "docker", "podman"]),
    "auto",
    "The container engine. `auto` takes Docker, then Podman, or the one whose containers hold every limit.",
);
/// Where the native sandbox's system files come from.
pub const ROOTFS: Setting = setting(
    "VESTIBULE_ROOTFS",
    Kind::Choice(&["auto", "image", "host"]),
    "auto",
    "Where the native sandbox's programs come from: the pinned images, or this machine's own `/usr`, read-only. `auto` takes an image where `vestibule-mcp setup` has put it.",
);
/// The day on which the images below were pinned: year, month, day. To be changed with every pin.
pub const PINNED_ON: (i32, u32, u32) = (2026, 11, 9);
/// The image for python and bash.
pub const IMAGE_PYTHON: Setting = setting(
    "VESTIBULE_IMAGE_PYTHON",
    Kind::Image,
    "docker.io/library/python@sha256:5e2bdb1b0d542d5039cffb8181c65930093949194a65c365dfb1b0fe13a4fa5b",
    "The image for python and bash. It must have bash, coreutils and its interpreter on its PATH, and work as any user with a read-only root.",
);
/// The image for node.
pub const IMAGE_NODE: Setting = setting(
    "VESTIBULE_IMAGE_NODE",
    Kind::Image,
    "docker.io/library/node@sha256:5ec23b7c622b00547753bc6ffd78085dd868a68aeb41c8e0a1418f033e13d96d",
    "The image for node, likewise.",
);
/// Where unpacked images lie.
pub const ROOTFS_DIR: Setting = setting(
    "VESTIBULE_ROOTFS_DIR",
    Kind::Folder,
    "~/.vestibule/rootfs",
    "Where `vestibule-mcp setup` unpacks images, and runs find them. Not on a network drive, nor on one of Windows under WSL.",
);
/// A registry to pull from instead of the images' own.
pub const REGISTRY_MIRROR: Setting = setting(
    "VESTIBULE_REGISTRY_MIRROR",
    Kind::Registry,
    "",
    "A registry to pull images from instead of their own. For a pinned image it is harmless; an image without a digest is what the mirror says it is. Docker and Podman have a setting of their own for this.",
);
/// Where the audit log lies.
pub const AUDIT_DIR: Setting = setting(
    "VESTIBULE_AUDIT_DIR",
    Kind::Folder,
    "~/.vestibule/audit",
    "Where the audit log lies. It must lie outside the workspace, and the workspace outside it.",
);
/// The timeout of a call that names none.
pub const DEFAULT_TIMEOUT_S: Setting = number(
    "VESTIBULE_DEFAULT_TIMEOUT_S",
    (TimeoutSeconds::MIN, TimeoutSeconds::MAX),
    "10",
    "Seconds that a call may take which names no timeout. At most the maximum below; left unset, a lower maximum lowers it too.",
);
/// The longest timeout.
pub const MAX_TIMEOUT_S: Setting = number(
    "VESTIBULE_MAX_TIMEOUT_S",
    (TimeoutSeconds::MIN, TimeoutSeconds::MAX),
    "60",
    "The longest timeout in seconds. A call that asks for more gets this, and a note.",
);
/// The most code a call may bring.
pub const MAX_CODE_BYTES: Setting = number(
    "VESTIBULE_MAX_CODE_BYTES",
    (CodeBytes::MIN, CodeBytes::MAX),
    "262144",
    "The most code a call may bring, in bytes of UTF-8.",
);
/// How much of each stream is returned.
pub const MAX_OUTPUT_BYTES: Setting = number(
    "VESTIBULE_MAX_OUTPUT_BYTES",
    (OutputBytes::MIN, OutputBytes::MAX),
    "20000",
    "How many bytes of each output stream are returned. A run that writes twice as much to one stream is stopped.",
);
/// The memory cap of a sandbox.
pub const MEM_MB: Setting = number(
    "VESTIBULE_MEM_MB",
    (MemoryMib::MIN, MemoryMib::MAX),
    "256",
    "All memory of a sandbox in MiB, the files in its `/tmp` included, with no swap on top. Needs a cgroup; without one each process's own data is limited instead, and the result says so. bash needs 1 MiB, python some 8, node some 48.",
);
/// The CPU cap of a sandbox.
pub const CPU_PCT: Setting = number(
    "VESTIBULE_CPU_PCT",
    (CpuPercent::MIN, CpuPercent::MAX),
    "75",
    "CPU time of a sandbox, in percent of one core, by periods of 100 ms. Needs a cgroup; without one it is not applied, and the result says so.",
);
/// The process cap of a sandbox.
pub const PIDS_MAX: Setting = number(
    "VESTIBULE_PIDS_MAX",
    (PidsMax::MIN, PidsMax::MAX),
    "128",
    "Processes and threads of a sandbox, its init included.",
);
/// The size of a sandbox's `/tmp`.
pub const TMPFS_MB: Setting = number(
    "VESTIBULE_TMPFS_MB",
    (TmpfsMib::MIN, TmpfsMib::MAX),
    "64",
    "The size of a sandbox's `/tmp` in MiB. `/dev/shm` is no part of it: it has 64 MiB, whatever is set here.",
);
/// How many runs may be under way at once.
pub const MAX_CONCURRENT: Setting = number(
    "VESTIBULE_MAX_CONCURRENT",
    (1, 1024),
    "4",
    "How many runs of one server may be under way at once. A further call waits up to 5 s for a slot.",
);
/// How many sandboxes are built ahead per language.
pub const POOL: Setting = number(
    "VESTIBULE_POOL",
    (0, 16),
    "1",
    "How many sandboxes are built ahead per language after its first use; 0 turns it off. This version does not build ahead yet: every start is cold.",
);
/// Whether results carry structured content.
pub const STRUCTURED: Setting = setting(
    "VESTIBULE_STRUCTURED",
    Kind::Switch,
    "off",
    "Whether results carry `structuredContent` beside the text, and the tool an `outputSchema`.",
);
/// The helper's path.
pub const JAIL: Setting = setting(
    "VESTIBULE_JAIL",
    Kind::Program,
    "",
    "The path of `vestibule-jail`. Unset, it is looked for beside `vestibule-mcp`, then in the folder named when it was built; never on `PATH`.",
);
/// The log filter.
pub const LOG: Setting = setting(
    "VESTIBULE_LOG",
    Kind::LogFilter,
    "warn",
    "What is logged to standard error, as a filter of Rust's `tracing-subscriber`.",
);

/// Settings that are read and checked, and change nothing in this version.
pub const UNUSED: [&Setting; 1] = [&POOL];

/// Every setting, in the order of the documentation.
pub const ALL: [&Setting; 23] = [
    &WORKSPACE,
    &WORKSPACE_RO,
    &BACKEND,
    &RUNTIME,
    &ROOTFS,
    &IMAGE_PYTHON,
    &IMAGE_NODE,
    &ROOTFS_DIR,
    &REGISTRY_MIRROR,
    &AUDIT_DIR,
    &DEFAULT_TIMEOUT_S,
    &MAX_TIMEOUT_S,
    &MAX_CODE_BYTES,
    &MAX_OUTPUT_BYTES,
    &MEM_MB,
    &CPU_PCT,
    &PIDS_MAX,
    &TMPFS_MB,
    &MAX_CONCURRENT,
    &POOL,
    &STRUCTURED,
    &JAIL,
    &LOG,
];
