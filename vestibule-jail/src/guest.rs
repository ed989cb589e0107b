//! The guest before it is one: the last steps between its start and the interpreter. It shares
//! init's memory until the exec, while init waits: what is changed here but memory is its own.

use crate::control::{self, Report};
use crate::plan::Settings;
use crate::sandbox::Ends;
use crate::trace::Trace;
use crate::{filter, status, sys};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{chdir, dup2_stderr, dup2_stdin, dup2_stdout, setsid};
use protocol::{Language, Limits, Step, StepError};
use std::cell::Cell;
use std::convert::Infallible;
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Instant;

/// Where the guest may write.
const WRITABLE: &[&str] = &["/workspace", "/tmp", "/dev", "/proc"];

/// What a thread's stack takes of `RLIMIT_DATA`, in bytes: glibc's default.
const THREAD_STACK: rlim_t = 8 << 20;

/// For how many threads' stacks the data stand-in leaves room.
const STACKS: rlim_t = 64;

/// Becomes the interpreter, or reports why not. `exec_began` is set just before the exec.
pub fn main(
    settings: &Settings,
    ends: &Ends,
    interpreter: &Path,
    language: Language,
    exec_began: &Cell<Option<Instant>>,
) -> Infallible {
    let mut trace = Trace::default();
    let error = match prepare(settings, ends, &mut trace) {
        Ok(listener) => {
            let report = Report::GuestReady(trace.take());
            let sent = control::report(ends.control.as_fd(), &report, Some(listener.as_fd()));
            exec_began.set(Some(Instant::now()));
            let start = || sent.and_then(|()| execute(settings, ends, interpreter, language));
            match trace.step(Step::Exec, start) {
                Ok(never) => match never {},
                Err(error) => error,
            }
        }
        Err(error) => error,
    };
    // Init's report of this process's end follows, so the supervisor waits for neither in vain.
    let _ = control::report(ends.control.as_fd(), &Report::Failed(error, trace.take()), None);
    sys::process::exit_now(127)
}

fn prepare(settings: &Settings, ends: &Ends, trace: &mut Trace) -> Result<OwnedFd, StepError> {
    trace.step(Step::NewSession, || setsid().map(drop))?;
    trace.step(Step::SetStreams, || set_streams(ends))?;
    trace.step(Step::SetLimits, || set_limits(settings))?;
    if settings.landlock_abi >= 2 {
        trace.step(Step::Landlock, restrict_writes)?;
    }
    let listener = trace.step(Step::LoadFilter, || sys::seccomp::load(filter::program()))?;
    let status = trace.step(Step::VerifyGuest, verify)?;
    trace.step(Step::ResetSignals, || reset_signals(status.ignored))?;
    Ok(listener)
}

fn set_streams(ends: &Ends) -> nix::Result<()> {
    let null = open("/dev/null", OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty())?;
    dup2_stdin(&null)?;
    dup2_stdout(&ends.stdout)?;
    dup2_stderr(&ends.stderr)?;
    umask(Mode::from_bits_truncate(0o022));
    chdir("/workspace")
}

fn set_limits(settings: &Settings) -> nix::Result<()> {
    for (resource, soft, hard) in limits(settings) {
        let (_, highest) = getrlimit(resource)?;
        let hard = hard.min(highest);
        let wanted = (soft.min(hard), hard);
        setrlimit(resource, wanted.0, wanted.1)?;
        if getrlimit(resource)? != wanted {
            return Err(Errno::UnknownErrno);
        }
    }
    Ok(())
}

/// The resource limits of a run, soft and hard.
fn limits(settings: &Settings) -> Vec<(Resource, rlim_t, rlim_t)> {
    let Limits { memory_mib, pids_max, .. } = settings.limits;
    let mut limits = vec![
        (Resource::RLIMIT_NOFILE, 1024, 4096),
        (Resource::RLIMIT_FSIZE, rlim_t::MAX, rlim_t::MAX),
        (Resource::RLIMIT_CORE, 1, 1),
        // Whatever the user may do on the machine: nothing inside comes before the supervisor.
        (Resource::RLIMIT_RTPRIO, 0, 0),
        (Resource::RLIMIT_NICE, 0, 0),
    ];
    if settings.stand_ins.pids {
        let pids = rlim_t::from(pids_max.get());
        limits.push((Resource::RLIMIT_NPROC, pids, pids));
    }
    if settings.stand_ins.data {
        let stacks = STACKS.min(rlim_t::from(pids_max.get())) * THREAD_STACK;
        let data = (rlim_t::from(memory_mib.get()) << 20) + stacks;
        limits.push((Resource::RLIMIT_DATA, data, data));
    }
    limits
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

fn execute(
    settings: &Settings,
    ends: &Ends,
    interpreter: &Path,
    language: Language,
) -> nix::Result<Infallible> {
    let program = CString::new(interpreter.as_os_str().as_bytes()).map_err(|_| Errno::EINVAL)?;
    let script =
        CString::new(format!("/sandbox/{}", language.script())).map_err(|_| Errno::EINVAL)?;
    let variables = settings.environment.iter().map(|variable| CString::new(variable.as_str()));
    let variables = variables.collect::<Result<Vec<_>, _>>().map_err(|_| Errno::EINVAL)?;
    sys::descriptors::close_on_exec(ends.control.as_fd())?;
    Err(sys::process::execute(&program, &[program.clone(), script], &variables))
}
