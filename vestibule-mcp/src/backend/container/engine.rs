//! An engine, and what it says about itself.

use super::cli::{Answer, Cli, NoAnswer};
use super::{find, refusal};
use protocol::policy::Arch;
use protocol::{Limit, Refusal};
use serde::Deserialize;
use std::fmt;
use std::path::Path;
use std::time::Duration;

/// How long an engine may take to answer a question. One whose machine is still booting takes long.
pub const ANSWER: Duration = Duration::from_secs(10);

/// The engines that Vestibule drives.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Kind {
    /// Docker, or what calls itself so.
    #[default]
    Docker,
    /// Podman.
    Podman,
}

impl Kind {
    /// The name of its program, and of the backend in results.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Docker => "docker",
            Kind::Podman => "podman",
        }
    }

    /// The name as people write it.
    pub const fn title(self) -> &'static str {
        match self {
            Kind::Docker => "Docker",
            Kind::Podman => "Podman",
        }
    }
}

/// What an engine says about itself.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Facts {
    /// What it really is, whatever its program is called.
    pub kind: Kind,
    /// Whether it runs as an ordinary user.
    pub rootless: bool,
    /// Whether SELinux confines its containers.
    pub selinux: bool,
    /// The machine that its containers run on.
    pub architecture: String,
    /// Its version.
    pub version: String,
    /// The limits for which its user was not delegated a controller, so that asking for them fails.
    pub undelegated: Vec<Limit>,
}

/// An engine that answers.
#[derive(Clone, Debug)]
pub struct Engine {
    /// Its command line.
    pub cli: Cli,
    /// What it says about itself.
    pub facts: Facts,
    /// The architecture of its containers.
    pub arch: Arch,
}

/// An image that an engine has.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Image {
    /// Its id, which stays with its content whatever a tag comes to mean.
    pub id: String,
    /// The names of the variables that it sets.
    pub variables: Vec<String>,
}

/// The parts of an image's description that matter.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct ImageInfo {
    id: String,
    config: Option<ImageConfig>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct ImageConfig {
    env: Option<Vec<String>>,
}

/// The parts of `docker info` that matter.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct DockerInfo {
    server_errors: Option<Vec<String>>,
    security_options: Option<Vec<String>>,
    #[serde(rename = "OSType")]
    os_type: String,
    architecture: String,
    server_version: String,
    plugins: DockerPlugins,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct DockerPlugins {
    log: Option<Vec<String>>,
}

/// The parts of `podman info` that matter.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodmanInfo {
    host: PodmanHost,
    version: PodmanVersion,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodmanHost {
    arch: String,
    security: PodmanSecurity,
    #[serde(rename = "cgroupVersion")]
    cgroup_version: String,
    #[serde(rename = "cgroupControllers")]
    cgroup_controllers: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct PodmanSecurity {
    rootless: bool,
    selinux_enabled: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct PodmanVersion {
    version: String,
}

impl Engine {
    /// Finds the engine and asks what it is. A Podman that has no image, `image` included, is not woken.
    ///
    /// # Errors
    /// A refusal: not installed, not answering, not allowed, or nothing that runs Linux containers.
    pub async fn ask(wanted: Kind, home: Option<&Path>, image: &str) -> Result<Engine, Refusal> {
        let program = find::program(wanted).ok_or_else(|| refusal::not_installed(wanted))?;
        if find::is_snap(&program) {
            return Err(refusal::snap(wanted));
        }
        let unused = find::podman_is_unused(home);
        // To ask even for its version makes folders.
        if unused && (wanted == Kind::Podman || find::is_podman(&program)) {
            return Err(refusal::image_missing(Kind::Podman, &program, image));
        }
        let cli = find::cli(program);
        let kind = if is_podman(&said(wanted, &cli, &["--version"]).await?) {
            Kind::Podman
        } else {
            wanted
        };
        if unused && kind == Kind::Podman {
            return Err(refusal::image_missing(kind, &cli.program, image));
        }
        let facts = match kind {
            Kind::Docker => docker(&said(kind, &cli, &["info", "--format", "{{json .}}"]).await?),
            Kind::Podman => podman(&said(kind, &cli, &["info", "--format", "json"]).await?),
        }?;
        let arch = arch(&facts.architecture)
            .ok_or_else(|| refusal::architecture(kind, &facts.architecture))?;
        Ok(Engine { cli, facts, arch })
    }

    /// Looks an image up by its name.
    ///
    /// # Errors
    /// A refusal, with the command that pulls it if it is not there.
    pub async fn image(&self, name: &str) -> Result<Image, Refusal> {
        let kind = self.facts.kind;
        match self.describe(name).await? {
            Some(description) => image(kind, name, &description),
            None => Err(refusal::image_missing(kind, &self.cli.program, name)),
        }
    }

    /// Whether it has no image of that name. One that is there and of no use is not missing.
    ///
    /// # Errors
    /// A refusal if it does not say.
    pub async fn lacks(&self, name: &str) -> Result<bool, Refusal> {
        Ok(self.describe(name).await?.is_none())
    }

    async fn describe(&self, name: &str) -> Result<Option<Vec<u8>>, Refusal> {
        // Whole: the engines' templates have other names for the same fields.
        match self.cli.ask(&["image", "inspect", name], ANSWER).await {
            Ok(answer) if answer.status.success() => Ok(Some(answer.stdout)),
            Ok(answer) if is_missing_image(&answer.stderr) => Ok(None),
            other => Err(refused(self.facts.kind, other)),
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rootless = if self.facts.rootless { ", rootless" } else { "" };
        let (title, program) = (self.facts.kind.title(), self.cli.program.display());
        write!(f, "{title} {}{rootless} ({program})", self.facts.version)
    }
}

/// Whether an engine says that it has no such image: Docker, then Podman.
pub fn is_missing_image(text: &str) -> bool {
    let text = text.to_lowercase();
    text.contains("no such image")
        || text.contains("image not known")
        || text.contains("unable to find image")
}

async fn said(kind: Kind, cli: &Cli, question: &[&str]) -> Result<Vec<u8>, Refusal> {
    match cli.ask(question, ANSWER).await {
        // Without a daemon `docker info` prints a description of nothing, and why either there or beside
        // it, as its version goes.
        Ok(answer) if answer.status.success() || answer.stderr.trim().is_empty() => {
            Ok(answer.stdout)
        }
        other => Err(refused(kind, other)),
    }
}

fn refused(kind: Kind, answer: Result<Answer, NoAnswer>) -> Refusal {
    match answer {
        Ok(answer) => refusal::said(kind, &answer.stderr),
        Err(NoAnswer::NotStarted(error)) => refusal::cannot_start(kind, &error),
        Err(NoAnswer::TimedOut(limit)) => refusal::no_answer(kind, limit),
    }
}

fn is_podman(version: &[u8]) -> bool {
    String::from_utf8_lossy(version).to_lowercase().contains("podman")
}

fn docker(json: &[u8]) -> Result<Facts, Refusal> {
    let info: DockerInfo = serde_json::from_slice(json)
        .map_err(|error| refusal::unreadable(Kind::Docker, "info", &error))?;
    if let Some(error) = info.server_errors.unwrap_or_default().first() {
        return Err(refusal::said(Kind::Docker, error));
    }
    // A log driver that Podman alone has: Docker's client was led to its socket.
    if info.plugins.log.iter().flatten().any(|driver| driver == "k8s-file") {
        return Err(refusal::podmans_socket());
    }
    if info.os_type != "linux" {
        return Err(refusal::no_linux_containers(Kind::Docker, &info.os_type));
    }
    let option = |name: &str| {
        info.security_options
            .iter()
            .flatten()
            .any(|option| option.split(',').any(|part| part == name))
    };
    Ok(Facts {
        kind: Kind::Docker,
        rootless: option("name=rootless"),
        selinux: option("name=selinux"),
        architecture: info.architecture,
        version: info.server_version,
        undelegated: Vec::new(),
    })
}

fn podman(json: &[u8]) -> Result<Facts, Refusal> {
    let info: PodmanInfo = serde_json::from_slice(json)
        .map_err(|error| refusal::unreadable(Kind::Podman, "info", &error))?;
    // On cgroup v1 such limits are ignored, with a warning.
    let undelegated = match (info.host.cgroup_version.as_str(), info.host.cgroup_controllers) {
        ("v2", Some(controllers)) => {
            let is_missing = |limit: &Limit| !controllers.contains(&limit.to_string());
            [Limit::Cpu, Limit::Memory, Limit::Pids].into_iter().filter(is_missing).collect()
        }
        _ => Vec::new(),
    };
    Ok(Facts {
        undelegated,
        kind: Kind::Podman,
        rootless: info.host.security.rootless,
        selinux: info.host.security.selinux_enabled,
        architecture: info.host.arch,
        version: info.version.version,
    })
}

fn image(kind: Kind, image: &str, json: &[u8]) -> Result<Image, Refusal> {
    let (info,): (ImageInfo,) = serde_json::from_slice(json)
        .map_err(|error| refusal::unreadable(kind, "image inspect", &error))?;
    let variables = info.config.unwrap_or_default().env.unwrap_or_default();
    let split = |variable: &String| {
        let (name, value) = variable.split_once('=').unwrap_or((variable, ""));
        (name.to_owned(), value.to_owned())
    };
    let variables: Vec<_> = variables.iter().map(split).collect();
    if let Some((name, _)) = variables.iter().find(|(name, value)| looks_in_workspace(name, value))
    {
        return Err(refusal::image_looks_in_workspace(image, name));
    }
    let names = variables.into_iter().map(|(name, _)| name).collect();
    Ok(Image { id: info.id, variables: names })
}

/// Whether a variable has programs or libraries looked for in the workspace, where code could have put the
/// ones that read the walls. Before the code the working folder is the root.
fn looks_in_workspace(name: &str, value: &str) -> bool {
    let names_folders = matches!(name, "PATH" | "LOCPATH" | "GCONV_PATH" | "NLSPATH");
    (names_folders || name.starts_with("LD_"))
        && value.split([':', ';', ' ', '/']).any(|part| part == "workspace")
}

/// Docker says what `uname -m` says, Podman what Go says.
fn arch(name: &str) -> Option<Arch> {
    match name {
        "amd64" => Some(Arch::X86_64),
        "arm64" => Some(Arch::Aarch64),
        other => Arch::from_name(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::Cause;

    #[test]
    fn what_docker_says_is_read() {
        let json = br#"{"SecurityOptions":["name=seccomp,profile=default","name=rootless"],"OSType":"linux","Architecture":"x86_64","ServerVersion":"20.10.24"}"#;
        let facts = docker(json).unwrap();
        assert!(facts.rootless && !facts.selinux);
        assert_eq!(arch(&facts.architecture), Some(Arch::X86_64));
        let down = br#"{"SecurityOptions":null,"ServerErrors":["Cannot connect to the Docker daemon at unix:///x. Is the docker daemon running?"]}"#;
        let refusal = docker(down).unwrap_err();
        assert!(refusal.what.contains("does not run"), "{refusal}");
        let podman =
            br#"{"OSType":"linux","Architecture":"amd64","Plugins":{"Log":["k8s-file","none"]}}"#;
        assert!(docker(podman).unwrap_err().fix.contains("CONTAINER_HOST"));
        let windows = br#"{"OSType":"windows","Architecture":"x86_64"}"#;
        assert!(docker(windows).unwrap_err().fix.contains("Linux containers"));
    }

    #[test]
    fn what_podman_says_is_read() {
        let json = br#"{"host":{"arch":"arm64","security":{"rootless":true,"selinuxEnabled":true}},"version":{"Version":"4.3.1"}}"#;
        let facts = podman(json).unwrap();
        assert!(facts.rootless && facts.selinux && facts.kind == Kind::Podman);
        assert_eq!(arch(&facts.architecture), Some(Arch::Aarch64));
        assert!(facts.undelegated.is_empty());
        let json = br#"{"host":{"cgroupVersion":"v2","cgroupControllers":["memory","pids"]}}"#;
        assert_eq!(podman(json).unwrap().undelegated, [Limit::Cpu]);
        assert!(podman(b"not json").is_err());
    }

    #[test]
    fn an_image_is_its_id_and_the_variables_that_it_sets() {
        let json = br#"[{"Id":"sha256:1","Config":{"Env":["PATH=/a:/b","EMPTY=","A=b=c"]}}]"#;
        let found = image(Kind::Docker, "x", json).unwrap();
        assert_eq!(
            (found.id.as_str(), found.variables.join(" ").as_str()),
            ("sha256:1", "PATH EMPTY A")
        );
        let bare = image(Kind::Podman, "x", br#"[{"Id":"1","Config":null}]"#).unwrap();
        assert_eq!(bare, Image { id: "1".to_owned(), variables: vec![] });
        assert!(image(Kind::Podman, "x", b"1").is_err());
    }

    #[test]
    fn an_image_that_looks_for_its_programs_in_the_workspace_is_refused() {
        for variable in
            ["PATH=/workspace/bin:/bin", "LD_PRELOAD=/lib/x /workspace/y.so", "PATH=/bin:workspace"]
        {
            let json = format!(r#"[{{"Id":"1","Config":{{"Env":["{variable}"]}}}}]"#);
            let refusal = image(Kind::Docker, "x", json.as_bytes()).unwrap_err();
            assert!(
                refusal.cause == Cause::Image && refusal.what.contains("workspace"),
                "{refusal}"
            );
        }
        let own = br#"[{"Id":"1","Config":{"Env":["PYTHONPATH=/workspace","PATH=/bin:bin"]}}]"#;
        assert!(image(Kind::Docker, "x", own).is_ok());
    }

    #[test]
    fn podman_is_known_under_the_name_of_docker() {
        assert!(is_podman(b"podman version 4.3.1\n"));
        assert!(!is_podman(b"Docker version 28.2.2, build e6534b4\n"));
    }
}
