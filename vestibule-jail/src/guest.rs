//! The guest before it is one: the last steps between its start and the interpreter. It shares
//! init's memory until the exec, while init waits: what is changed here but memory is its own.

use crate::control::{self, Program, Report, Word};
use crate::plan::Settings;
use crate::sandbox::Ends;
use crate::trace::Trace;
use crate::{loader, status, sys};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};
use nix::sys::stat::{Mode, fstat, umask};
use nix::unistd::{chdir, dup2_stderr, dup2_stdin, dup2_stdout, setsid};
use protocol::{Step, StepError};
use std::cell::Cell;
use std::convert::Infallible;
use std::ffi::CString;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Instant;

/// Where the guest may write.
const WRITABLE: &[&str] = &["/workspace", "/tmp", "/dev", "/proc"];

/// What a guest is started with.
#[derive(Debug)]
pub struct Start<'a> {
    /// What holds for this sandbox.
    pub settings: &'a Settings,
    /// The control socket and the output pipes.
    pub ends: &'a Ends,
    /// Where the syscall filter, which init has loaded for both, reports to.
    pub listener: OwnedFd,
    /// What the supervisor wants executed.
    pub word: &'a Word,
}

/// Becomes the interpreter, or reports why not. `exec_began` is set just before the exec.
pub fn main(start: &Start<'_>, exec_began: &Cell<Option<Instant>>) -> Infallible {
    let mut trace = Trace::default();
    let control = start.ends.control.as_fd();
    let error = match prepare(start, &mut trace) {
        Ok(()) => {
            let report = Report::GuestReady(trace.take());
            let sent = control::report(control, &report, Some(start.listener.as_fd()));
            exec_began.set(Some(Instant::now()));
            match trace.step(Step::Exec, || sent.and_then(|()| execute(start))) {
                Ok(never) => match never {},
                Err(error) => error,
            }
        }
        Err(error) => error,
    };
    // Init's report of this process's end follows, so the supervisor waits for neither in vain.
    let _ = control::report(control, &Report::Failed(error, trace.take()), None);
    sys::process::exit_now(127)
}

fn prepare(start: &Start<'_>, trace: &mut Trace) -> Result<(), StepError> {
    trace.step(Step::NewSession, || setsid().map(drop))?;
    trace.step(Step::SetStreams, || set_streams(start.ends))?;
    if start.settings.landlock_abi >= 2 {
        trace.step(Step::Landlock, restrict_writes)?;
    }
    let status = trace.step(Step::VerifyGuest, verify)?;
    trace.step(Step::ResetSignals, || reset_signals(status.ignored))
}

fn set_streams(ends: &Ends) -> nix::Result<()> {
    let null = open("/dev/null", OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?;
    dup2_stdin(&null)?;
    dup2_stdout(&ends.stdout)?;
    dup2_stderr(&ends.stderr)?;
    umask(Mode::from_bits_truncate(0o022));
    chdir("/workspace")
}

fn reset_signals(ignored: u64) -> nix::Result<()> {
    (1..=64)
        .filter(|signal| ignored >> (signal - 1) & 1 == 1)
        .for_each(sys::process::default_signal);
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)
}

fn restrict_writes() -> nix::Result<()> {
    let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
    let folder = |path: &&str| open(Path::new(path), flags, Mode::empty());
    let folders = WRITABLE.iter().map(folder).collect::<nix::Result<Vec<OwnedFd>>>()?;
    let borrowed: Vec<_> = folders.iter().map(AsFd::as_fd).collect();
    sys::landlock::restrict_writes(&borrowed)
}

/// Reads back what the kernel says of this process; nothing is executed unless all of it is true.
fn verify() -> nix::Result<status::Status> {
    let status = status::read(Path::new("/proc/self/status"))?;
    if status.has_no_capability() && status.no_new_privs && status.seccomp == 2 {
        Ok(status)
    } else {
        Err(Errno::UnknownErrno)
    }
}

/// Opens an image's interpreter where it was found. Its name inside can be a link through `/proc` to this
/// program, or to what earlier code left in the workspace: a program, or a pipe that opens for no one.
fn open_program(program: &Program) -> nix::Result<File> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let opened = open(&program.real, flags, Mode::empty())?;
    let status = fstat(&opened)?;
    let regular = status.st_mode & libc::S_IFMT == libc::S_IFREG;
    let same = regular && (status.st_dev, status.st_ino) == program.identity;
    if same { Ok(File::from(opened)) } else { Err(Errno::ESTALE) }
}

fn execute(start: &Start<'_>) -> nix::Result<Infallible> {
    let word = start.word;
    let program =
        CString::new(word.program.path.as_os_str().as_bytes()).map_err(|_| Errno::EINVAL)?;
    let script =
        CString::new(format!("/sandbox/{}", word.language.script())).map_err(|_| Errno::EINVAL)?;
    let variables =
        start.settings.environment.iter().map(|variable| CString::new(variable.as_str()));
    let variables = variables.collect::<Result<Vec<_>, _>>().map_err(|_| Errno::EINVAL)?;
    let arguments = [program.clone(), script];
    // An image's interpreter must be a program of the image, as must be its loader; a script could name
    // `/proc/self/exe`, which is this program on the machine's own file system until the exec.
    let opened = word.from_image.then(|| open_program(&word.program)).transpose()?;
    opened.as_ref().map_or(Ok(()), loader::check)?;
    sys::descriptors::close_on_exec(start.ends.control.as_fd())?;
    Err(match opened {
        None => sys::process::execute(&program, &arguments, &variables),
        Some(opened) => sys::process::execute_opened(opened.as_fd(), &arguments, &variables),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::lstat;
    use nix::unistd::mkfifo;
    use std::path::PathBuf;

    #[test]
    fn an_images_program_is_the_file_that_was_found() {
        let folder = std::env::temp_dir().join(format!("program-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let [file, other, link, pipe] =
            ["file", "other", "link", "pipe"].map(|name| folder.join(name));
        std::fs::write(&file, "").unwrap();
        std::fs::write(&other, "").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        mkfifo(&pipe, Mode::from_bits_truncate(0o600)).unwrap();
        let open = |path: &Path, found: &Path| {
            let status = lstat(found).unwrap();
            let identity = (status.st_dev, status.st_ino);
            let named = PathBuf::from("/nowhere");
            let program = Program { path: named, real: path.to_owned(), identity };
            open_program(&program).map(drop)
        };
        assert_eq!(open(&file, &file), Ok(()));
        assert_eq!(open(&other, &file), Err(Errno::ESTALE));
        assert_eq!(open(&link, &file), Err(Errno::ELOOP));
        assert_eq!(open(&pipe, &pipe), Err(Errno::ESTALE));
        assert_eq!(open(&folder, &folder), Err(Errno::ESTALE));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
