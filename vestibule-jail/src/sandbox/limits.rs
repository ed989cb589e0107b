//! The resource limits of a run: what the kernel counts per process, and the stand-ins where there is
//! no cgroup.

use crate::plan::Settings;
use nix::errno::Errno;
use nix::sys::resource::{Resource, getrlimit, rlim_t, setrlimit};
use protocol::Limits;

/// What a thread's stack takes of `RLIMIT_DATA`, in bytes: glibc's default.
const THREAD_STACK: rlim_t = 8 << 20;

/// For how many threads' stacks the data stand-in leaves room.
const STACKS: rlim_t = 64;

/// Sets the limits for the calling process and what it starts, and reads them back.
///
/// # Errors
/// The errno of `setrlimit(2)`; 0 (`UnknownErrno`) where one is not as it was set.
pub fn set(settings: &Settings) -> nix::Result<()> {
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
