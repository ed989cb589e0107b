//! Why an engine cannot be used, and what to do about it.

use super::engine::{Facts, Kind};
use crate::backend::locate::shown;
use crate::{escape, redact};
use protocol::{Cause, Language, Refusal, Retry};
use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

/// How much of an engine's own words is passed on, in characters.
const WORDS: usize = 400;

/// A refusal that concerns one image, and not the engine.
fn refuse_image(what: String, fix: String) -> Refusal {
    Refusal { cause: Cause::Image, ..refuse(what, fix) }
}

fn refuse(what: String, fix: String) -> Refusal {
    Refusal { what, cause: Cause::Engine, fix, retry: Retry::AfterFix, at: None }
}

/// How lines of an engine's begin that warn, and those that advise.
const BESIDE: [&str; 4] = ["WARN", "Resource limits are not supported", "See '", "Run '"];

/// The line in which an engine says what is wrong: the first that calls itself an error, since warnings
/// come before it and advice after it. Without the passwords of addresses, which an engine quotes whole.
pub fn words(text: &str) -> String {
    let text = redact::engines_words(text);
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let is_beside = |line: &&str| BESIDE.iter().any(|begin| line.starts_with(begin));
    let line = lines()
        .find(|line| line.contains("Error"))
        .or_else(|| lines().find(|line| !is_beside(line)))
        .or_else(|| lines().next());
    escape::for_display(line.unwrap_or("no reason given"), WORDS)
}

/// There is no such program.
pub fn not_installed(kind: Kind) -> Refusal {
    let fix = match (kind, cfg!(any(windows, target_os = "macos"))) {
        (Kind::Docker, true) => "install Docker Desktop and start it",
        (Kind::Docker, false) => {
            "install Docker from its own repository (docs.docker.com/engine/install), not as a snap"
        }
        (Kind::Podman, true) => {
            "install Podman, then run `podman machine init` and `podman machine start`"
        }
        (Kind::Podman, false) => "install podman and catatonit with the system's package manager",
    };
    refuse(format!("{} is not installed", kind.title()), fix.to_owned())
}

/// The program is the snap's.
pub fn snap(kind: Kind) -> Refusal {
    refuse(
        format!(
            "this {} is the snap, which sees neither hidden folders such as ~/.vestibule nor /tmp",
            kind.title()
        ),
        "install Docker from its own repository (docs.docker.com/engine/install) in its place"
            .to_owned(),
    )
}

/// The program is there and cannot be started.
pub fn cannot_start(kind: Kind, error: &std::io::Error) -> Refusal {
    refuse(
        format!("{} cannot be started ({error})", kind.name()),
        "reinstall it, or free processes and memory".to_owned(),
    )
}

/// It does not answer.
pub fn no_answer(kind: Kind, limit: Duration) -> Refusal {
    refuse(
        format!("{} did not answer within {} s", kind.title(), limit.as_secs()),
        format!("see why `{} info` hangs, or restart {}", kind.name(), kind.title()),
    )
}

/// What it says is no JSON that we can read.
pub fn unreadable(kind: Kind, question: &str, error: &serde_json::Error) -> Refusal {
    let place = escape::place_in_json(error);
    refuse(
        format!("what `{} {question}` prints cannot be read ({place})", kind.name()),
        format!("update {}", kind.title()),
    )
}

/// It runs containers of another system.
pub fn no_linux_containers(kind: Kind, system: &str) -> Refusal {
    let system = if system.is_empty() { "unknown" } else { system };
    refuse(
        format!("{} runs {} containers", kind.title(), escape::for_display(system, 40)),
        "switch it to Linux containers (in Docker Desktop's menu)".to_owned(),
    )
}

/// Docker's client is connected to Podman.
pub fn podmans_socket() -> Refusal {
    refuse(
        "Docker's client leads to a socket of Podman's here, which takes no syscall policy from it"
            .to_owned(),
        "remove DOCKER_HOST, or switch the docker context, and use Podman itself: set \
         VESTIBULE_RUNTIME to podman, and CONTAINER_HOST to that socket if it is not your own"
            .to_owned(),
    )
}

/// It runs on a machine for which there is no syscall policy.
pub fn architecture(kind: Kind, name: &str) -> Refusal {
    refuse(
        format!(
            "{} runs on {}, for which there is no syscall policy",
            kind.title(),
            escape::for_display(name, 40)
        ),
        "use a machine with x86_64 or aarch64".to_owned(),
    )
}

/// It says no in its own words.
pub fn said(kind: Kind, text: &str) -> Refusal {
    let (lower, title, name) = (text.to_lowercase(), kind.title(), kind.name());
    let any = |parts: &[&str]| parts.iter().any(|part| lower.contains(part));
    if any(&["permission denied"]) && any(&["sock", "docker api"]) {
        let fix = "run `sudo usermod -aG docker $USER` and log in again (that group is as good as \
                   root on this machine), or use rootless Docker or Podman";
        return refuse(format!("you may not use {title}'s socket"), fix.to_owned());
    }
    if any(&[
        "cannot connect",
        "connection refused",
        "is the docker daemon running",
        "failed to connect",
        "unable to connect",
    ]) {
        return refuse(format!("{title} does not run ({})", words(text)), start(kind));
    }
    if any(&["subuid", "subgid"]) {
        let fix = "run `sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER` \
                   and then `podman system migrate`";
        return refuse(
            format!("{title} has no user ids to give to containers of yours"),
            fix.to_owned(),
        );
    }
    if any(&["container-init", "catatonit"]) {
        let fix = "install the package catatonit (Podman's init program)";
        return refuse(format!("{title} has no init program for containers"), fix.to_owned());
    }
    if any(&["docker-init"]) {
        let fix =
            "install the package tini, or reinstall Docker: its program docker-init is missing";
        return refuse(format!("{title} has no init program for containers"), fix.to_owned());
    }
    refuse(
        format!("{title} says: {}", words(text)),
        format!("do what it says, or see what `{name} info` prints"),
    )
}

fn start(kind: Kind) -> String {
    let desktop = cfg!(any(windows, target_os = "macos"));
    match (kind, desktop) {
        (Kind::Docker, true) => "start Docker Desktop".to_owned(),
        (Kind::Docker, false) => {
            "start it (`sudo systemctl start docker`; rootless: `systemctl --user start docker`), or \
             set DOCKER_HOST or a docker context to the one that runs"
                .to_owned()
        }
        (Kind::Podman, true) => "run `podman machine start`".to_owned(),
        (Kind::Podman, false) => {
            "start the service that CONTAINER_HOST or the connection names, or remove that setting"
                .to_owned()
        }
    }
}

/// It has no such image.
pub fn image_missing(kind: Kind, program: &Path, image: &str) -> Refusal {
    let stores = match kind {
        Kind::Docker => {
            "; Docker Desktop keeps two stores of images, and one that was pulled into the other is not seen"
        }
        Kind::Podman => "",
    };
    let program = program.file_stem().unwrap_or_default().to_string_lossy();
    refuse_image(
        format!("{} has no image {image}", kind.title()),
        format!("run `{program} pull {image}`{stores}"),
    )
}

/// An engine did not get an image; its own words stand on standard error.
pub fn not_pulled(kind: Kind, program: &Path, image: &str) -> Refusal {
    let program = program.file_stem().unwrap_or_default().to_string_lossy();
    refuse_image(
        format!("{} could not pull {image}", kind.title()),
        format!("see what it says above, and try `{program} pull {image}` by hand"),
    )
}

/// The image lacks something.
pub fn image_lacks(image: &str, what: &str) -> Refusal {
    refuse_image(
        format!("the image {image} lacks {what}"),
        "use an image that has bash, coreutils and its interpreter on PATH, or remove the setting"
            .to_owned(),
    )
}

/// What is to read a container's walls would be looked for where code can put another.
pub fn image_looks_in_workspace(image: &str, variable: &str) -> Refusal {
    let variable = escape::for_display(variable, 40);
    refuse_image(
        format!(
            "the image {image} has its programs looked for in /workspace, by its variable {variable}"
        ),
        format!("use an image whose {variable} names no folder of that name"),
    )
}

/// A container ended before it came to the code, with these words of whoever should have brought it there.
pub fn ended_early(kind: Kind, image: &str, exit_code: i64, words: &str) -> Refusal {
    // What a shell exits with, and what the engines' init programs say.
    let not_found = words.contains("No such file") || words.contains("not found");
    if exit_code == 127 || (not_found && ["bash", "exec"].iter().any(|part| words.contains(part))) {
        return image_lacks(image, "bash on its PATH, which starts the code");
    }
    if !words.trim().is_empty() {
        return said(kind, words);
    }
    refuse_image(
        format!(
            "a container of {image} ended with exit code {exit_code} before the code was started"
        ),
        "use an image that has bash and coreutils, or raise VESTIBULE_MEM_MB".to_owned(),
    )
}

/// A container was another one than the probe's, and its code was not started.
pub fn changed(kind: Kind, wall: &str) -> Refusal {
    Refusal {
        retry: Retry::Now,
        ..refuse(
            format!(
                "a container of {} is no longer what a probe of it has shown ({})",
                kind.title(),
                escape::for_display(wall, WORDS)
            ),
            "call again: the next call probes it anew".to_owned(),
        )
    }
}

/// The image has no interpreter for a language.
pub fn no_interpreter(image: &str, language: Language) -> Refusal {
    Refusal {
        cause: Cause::InterpreterMissing(language),
        ..image_lacks(
            image,
            &format!("{} on its PATH, which {language} code needs", language.program()),
        )
    }
}

/// A probe found that something is not in force.
pub fn not_in_force(kind: Kind, version: &str, missing: &[String]) -> Refusal {
    let (title, version) = (kind.title(), escape::for_display(version, 40));
    refuse(
        format!("{title} {version} ran a probe without: {}", missing.join("; ")),
        format!("update or repair {title}, or use another engine"),
    )
}

/// A probe gave no result.
pub fn probe_failed(facts: &Facts, how: impl Display) -> Refusal {
    let (title, name) = (facts.kind.title(), facts.kind.name());
    let fix = match facts.selinux {
        false => format!("run a container by hand to see why (`{name} run --rm IMAGE true`)"),
        true => "SELinux may hide the folders: `chcon -R -t container_file_t ~/.vestibule` gives \
                 them the label of containers"
            .to_owned(),
    };
    refuse(format!("a probe of {title} failed: {how}"), fix)
}

/// A folder whose name an engine's `--mount` cannot be given.
pub fn unmountable(path: &Path) -> Refusal {
    Refusal {
        what: format!(
            "{} cannot be given to a container: its name has a comma, a quotation mark or is no text",
            shown(path)
        ),
        cause: Cause::WorkspaceNotAllowed,
        fix: "set VESTIBULE_WORKSPACE to a folder with a plain name".to_owned(),
        retry: Retry::AfterRestart,
        at: None,
    }
}

/// The folder for scripts cannot be made or written.
pub fn no_scratch(folder: &Path, error: &std::io::Error) -> Refusal {
    refuse(
        format!("no script can be written below {} ({error})", shown(folder)),
        "free space there, or make the folder yours".to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engines_words_get_the_fix_that_belongs_to_them() {
        let cases = [
            (
                "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock",
                "usermod -aG docker",
            ),
            (
                "Cannot connect to the Docker daemon at unix:///x.sock. Is the docker daemon running?",
                "start",
            ),
            (
                "Error: container-init binary not found on the host: stat /usr/libexec/podman/catatonit: no such file",
                "catatonit",
            ),
            (
                "Error: keep-id requires additional UIDs or GIDs defined in /etc/subuid or /etc/subgid",
                "--add-subuids",
            ),
            ("something else\nand more", "do what it says"),
        ];
        for (text, fix) in cases {
            let refusal = said(Kind::Docker, text);
            assert!(refusal.fix.contains(fix), "{text}: {refusal}");
            assert_eq!(refusal.cause, Cause::Engine);
        }
        assert!(said(Kind::Podman, "\n \nx\ny").what.ends_with("says: x"));
        let podman = "Resource limits are ignored\nError: crun: no\n";
        assert!(said(Kind::Podman, podman).what.ends_with("says: Error: crun: no"));
        let warned =
            "Resource limits are not supported and ignored\nrunc: no\nSee 'podman run --help'\n";
        assert!(said(Kind::Podman, warned).what.ends_with("says: runc: no"));
    }

    #[test]
    fn a_password_that_an_engine_quotes_is_not_passed_on() {
        for (text, shown) in [
            ("parse \"ssh://ada:hunter2@h/x\": no", "says: parse \"ssh://…@h/x\": no"),
            ("failed to connect to tcp://ada:hunter2@h", "(failed to connect to tcp://…@h)"),
        ] {
            let refusal = said(Kind::Podman, text);
            assert!(refusal.what.ends_with(shown), "{refusal}");
        }
    }

    #[test]
    fn a_missing_image_is_told_with_the_command_that_pulls_it() {
        let refusal = image_missing(Kind::Docker, Path::new("/usr/bin/docker"), "a/b@sha256:1");
        assert!(refusal.fix.starts_with("run `docker pull a/b@sha256:1`"), "{refusal}");
        assert!(refusal.fix.contains("two stores"));
        let podman = image_missing(Kind::Podman, Path::new("/usr/bin/podman"), "x");
        assert_eq!(podman.fix, "run `podman pull x`");
    }
}
