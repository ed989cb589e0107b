//! What this machine offers, each as a question with the reason for a skip as its other answer.

use crate::harness::Skip;
use crate::place::Place;
use crate::skip;
use std::path::Path;
use std::process::Stdio;

/// The tester is root.
///
/// # Errors
/// [`Skip`] if not.
pub fn root() -> Result<(), Skip> {
    if nix::unistd::geteuid().is_root() { Ok(()) } else { skip("needs a tester who is root") }
}

/// The program is installed.
///
/// # Errors
/// [`Skip`] that names the package, if not.
pub fn program(path: &str, package: &str) -> Result<(), Skip> {
    if Path::new(path).exists() { Ok(()) } else { skip(format!("needs the package {package}")) }
}

/// An ordinary user may make user namespaces.
///
/// # Errors
/// [`Skip`] if the kernel or a container refuses.
pub fn user_namespaces(place: &Place) -> Result<(), Skip> {
    let mut unshare = place.command("/usr/bin/unshare");
    unshare.args(["--user", "--map-current-user", "true"]).stderr(Stdio::null());
    match unshare.status() {
        Ok(status) if status.success() => Ok(()),
        _ => skip("needs unprivileged user namespaces"),
    }
}

/// A tester may trace what its own tests have started.
///
/// # Errors
/// [`Skip`] if Yama or a container refuses.
pub fn tracing(place: &Place) -> Result<(), Skip> {
    let mut sleep = place.command("/bin/sleep");
    let Ok(mut child) = sleep.arg("60").spawn() else { return skip("needs /bin/sleep") };
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    let seized = nix::sys::ptrace::seize(pid, nix::sys::ptrace::Options::empty());
    let _ = child.kill();
    let _ = child.wait();
    seized.or_else(|errno| skip(format!("needs to trace its own processes ({errno})")))
}

/// The kernel has Landlock.
///
/// # Errors
/// [`Skip`] if not.
pub fn landlock() -> Result<(), Skip> {
    let modules = std::fs::read_to_string("/sys/kernel/security/lsm").unwrap_or_default();
    if modules.contains("landlock") { Ok(()) } else { skip("needs a kernel with Landlock") }
}
