//! What a container is given: files, arguments, its first program.

use super::engine::{Engine, Image, Kind};
use super::profile::{self, Values};
use super::usage::Cgroups;
use super::{refusal, seccomp};
use crate::backend::scratch::Scratch;
use crate::run::admission::Slot;
use protocol::{Language, Refusal, Sandbox, Script, environment};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// How long after its timeout a container ends itself, should nobody have ended it.
const SELF_END: u64 = 5;
/// How long after that its end is certain, whatever the engine was doing at its start.
const MARGIN: u64 = 60;
/// The file in a run's folder that its client writes the container's id to.
pub const CID: &str = "cid";
/// How many bytes of `/tmp` there are for each inode.
const BYTES_PER_INODE: u64 = 4096;

/// The first program of a container: what reads the walls, and what compares them and starts the code.
const FIRST: [&str; 2] = [include_str!("walls.sh"), include_str!("first.sh")];
/// Variables that engines set of themselves.
const ENGINES: [&str; 2] = ["HOSTNAME", "container"];

/// What one container is made of.
pub struct Launch<'a> {
    /// The engine.
    pub engine: &'a Arc<Engine>,
    /// The image's name in the settings.
    pub name: &'a str,
    /// The image.
    pub image: &'a Image,
    /// The walls that its containers were shown to have, or none for a probe.
    pub walls: &'a str,
    /// The workspace and the caps.
    pub sandbox: &'a Sandbox,
    /// The folder for scripts.
    pub scratch: &'a Path,
    /// Where the engine's containers have their cgroups.
    pub cgroups: &'a Arc<Cgroups>,
    /// Kept until the container is gone.
    pub slot: Slot,
}

impl Launch<'_> {
    /// Writes the script and the syscall policy to a folder of the run's own.
    ///
    /// # Errors
    /// A refusal if it cannot be written.
    pub fn write(&self, name: &str, script: &Script) -> Result<Scratch, Refusal> {
        let refused = |error| refusal::no_scratch(self.scratch, &error);
        crate::workspace::private::builder()
            .recursive(true)
            .create(self.scratch)
            .map_err(refused)?;
        let scratch = Scratch::named(self.scratch, name).map_err(refused)?;
        let policy = seccomp::profile(self.engine.arch).to_string();
        scratch.write("seccomp.json", policy.as_bytes()).map_err(refused)?;
        scratch.folder("sandbox").map_err(refused)?;
        scratch.folder("etc").map_err(refused)?;
        let (uid, gid) = self.ids();
        for (name, content) in environment::files(uid, gid) {
            scratch.write(Path::new("etc").join(name), content.as_bytes()).map_err(refused)?;
        }
        let file = Path::new("sandbox").join(script.language.script());
        scratch.write(file, script.code.as_bytes()).map_err(refused)?;
        Ok(scratch)
    }

    /// The arguments of the engine's client.
    ///
    /// # Errors
    /// A refusal if a path cannot be given to it.
    pub fn arguments(
        &self,
        name: &str,
        scratch: &Path,
        script: &Script,
    ) -> Result<Vec<String>, Refusal> {
        let limits = &self.sandbox.limits;
        let (uid, gid) = self.ids();
        let timeout = u64::from(script.timeout_seconds.get());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let inodes = u64::from(limits.tmpfs_mib.get()) * 1024 * 1024 / BYTES_PER_INODE;
        let values = Values::from([
            ("name", name.to_owned()),
            ("deadline", (now + timeout + SELF_END + MARGIN).to_string()),
            ("life", (timeout + SELF_END + MARGIN).to_string()),
            ("seccomp", mountable(&scratch.join("seccomp.json"))?),
            ("user", format!("{uid}:{gid}")),
            ("memory", limits.memory_mib.get().to_string()),
            ("cpus", format!("{:.2}", f64::from(limits.cpu_percent.get()) / 100.0)),
            ("pids", limits.pids_max.get().to_string()),
            ("tmp", limits.tmpfs_mib.get().to_string()),
            ("inodes", inodes.to_string()),
            ("relabel", self.relabel().to_owned()),
            ("workspace", mountable(&self.sandbox.workspace)?),
            ("sandbox", mountable(&scratch.join("sandbox"))?),
            ("etc", mountable(&scratch.join("etc"))?),
            ("cid", mountable(&scratch.join(CID))?),
        ]);
        let read_only = self.sandbox.workspace_read_only;
        let mut arguments = vec!["run".to_owned()];
        arguments.extend(profile::arguments(&self.engine.facts, read_only, &values));
        for (name, value) in environment::VARIABLES {
            arguments.extend(["--env".to_owned(), format!("{name}={value}")]);
        }
        // By its id: what was probed is what runs, whatever the name has come to mean since.
        arguments.push(self.image.id.clone());
        // Privileged mode is the one in which bash takes neither a program nor an option from variables.
        arguments.extend(["-p".to_owned(), "-c".to_owned(), FIRST.concat()]);
        arguments.extend(["bash", name].map(str::to_owned));
        arguments.push((timeout + SELF_END).to_string());
        arguments.extend([self.walls.to_owned(), self.variables(), others()]);
        arguments.extend(program(script.language));
        Ok(arguments)
    }

    /// The variables that the code is given: ours and the image's, and none that an engine's settings add.
    fn variables(&self) -> String {
        let ours = environment::VARIABLES.iter().map(|(name, _)| *name);
        let theirs = self.image.variables.iter().map(String::as_str);
        let all = ["PATH"].into_iter().chain(ours).chain(theirs);
        let proxies: Vec<_> = profile::proxies().collect();
        all.filter(|name| !proxies.contains(name)).collect::<Vec<_>>().join(" ")
    }

    /// What lets a container under SELinux read our folders. Docker's `--mount` has no word for it: the
    /// refusal of a probe says what to do there.
    fn relabel(&self) -> &'static str {
        let facts = &self.engine.facts;
        if facts.selinux && facts.kind == Kind::Podman { ",relabel=shared" } else { "" }
    }

    /// Who the code is inside: our own uid and gid, or root where root inside is ourselves outside.
    fn ids(&self) -> (u32, u32) {
        let facts = &self.engine.facts;
        // Podman is told to keep our uid.
        ids(facts.rootless && facts.kind != Kind::Podman)
    }
}

/// The variables that may be there beside: the engines' own, and those that we set to nothing.
fn others() -> String {
    let proxies = profile::proxies();
    ENGINES.into_iter().chain(proxies).collect::<Vec<_>>().join(" ")
}

/// The interpreter and the script, as the container's arguments.
fn program(language: Language) -> [String; 2] {
    [language.program().to_owned(), format!("/sandbox/{}", language.script())]
}

/// A path as `--mount` and `--security-opt` take it: they read commas and quotation marks.
fn mountable(path: &Path) -> Result<String, Refusal> {
    let text = path.to_str().ok_or_else(|| refusal::unmountable(path))?;
    // Windows writes a resolved path in a form that no engine reads.
    let text = text.strip_prefix(r"\\?\").unwrap_or(text);
    if text.contains([',', '"', '\n', '\r']) {
        return Err(refusal::unmountable(path));
    }
    Ok(text.to_owned())
}

fn ids(root_is_us: bool) -> (u32, u32) {
    if root_is_us {
        return (0, 0);
    }
    #[cfg(unix)]
    return (nix::unistd::getuid().as_raw(), nix::unistd::getgid().as_raw());
    // Shared folders of Windows have no owner inside: any ordinary user can use them.
    #[cfg(not(unix))]
    return (1000, 1000);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_windows_path_loses_its_prefix_and_what_mount_would_misread_is_refused() {
        assert_eq!(mountable(Path::new(r"\\?\C:\Users\Ada\w")).unwrap(), r"C:\Users\Ada\w");
        assert_eq!(mountable(Path::new("/home/ada/my work")).unwrap(), "/home/ada/my work");
        for path in ["/a,b", "/a\"b", "/a\nb"] {
            let refusal = mountable(Path::new(path)).unwrap_err();
            assert!(refusal.fix.contains("VESTIBULE_WORKSPACE"), "{refusal}");
        }
    }

    #[test]
    fn root_inside_stands_for_us_only_where_we_say_so() {
        assert_eq!(ids(true), (0, 0));
        #[cfg(unix)]
        assert_eq!(ids(false).0, nix::unistd::getuid().as_raw());
        #[cfg(not(unix))]
        assert_eq!(ids(false), (1000, 1000));
    }
}
