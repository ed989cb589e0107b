//! The cgroup of a run, cgroups(7) version 2: where one can be made, and the one that is made.
//!
//! A run needs a cgroup below one that is delegated to the user, its home: [`find`] looks for it, in
//! the place where this process runs or, through [`scope`], in a transient scope of the user's
//! systemd. [`home`] makes it ready, [`run`] makes the leaf of one run, with its [`limits`] on it alone.

mod bus;
mod folder;
mod hierarchy;
mod home;
mod limits;
mod run;
mod scope;

pub use folder::Folder;
pub use limits::LimitStates;
pub use run::{KilledAt, Leaf, Measurements};

use nix::unistd::Pid;
use protocol::{CgroupOrigin, CgroupSource, NoCgroup, ServerShare};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

/// A delegated cgroup that is ready for runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Home {
    /// Its folder.
    pub folder: PathBuf,
    /// The folder that a run's own is made in: the same, or one below it for all runs of the server.
    pub runs: PathBuf,
    /// How it was come by.
    pub origin: CgroupOrigin,
    /// Who answers for what is made in it: the server, or this process.
    pub owner: Pid,
}

/// Finds a home as the request says. `server` is the pipe whose end means: cancel.
///
/// # Errors
/// Why there is none.
pub fn find(source: &CgroupSource, server: Option<BorrowedFd<'_>>) -> Result<Home, NoCgroup> {
    let own = nix::unistd::getpid();
    match source {
        CgroupSource::Without(reason) => Err(reason.clone()),
        CgroupSource::Find => look(&[own], own, server),
        CgroupSource::FindWith(parent) => find_with(*parent, server),
        CgroupSource::Below { home, server: parent } if hierarchy::runs_below(home) => {
            home::keep_on(home);
            let owner = Pid::from_raw(parent.process.cast_signed());
            let runs = home::for_runs(home, owner, parent.memory_mib)?;
            Ok(Home { folder: home.clone(), runs, origin: CgroupOrigin::Given, owner })
        }
        // The scope has gone, as when the user's systemd was started anew.
        CgroupSource::Below { server: parent, .. } => find_with(*parent, server),
    }
}

/// Finds a home for this process and its parent. No other process may be moved on a request's word.
fn find_with(parent: ServerShare, server: Option<BorrowedFd<'_>>) -> Result<Home, NoCgroup> {
    let owner = nix::unistd::getppid();
    if owner.as_raw().cast_unsigned() != parent.process {
        let reason = format!("process {} did not start this one", parent.process);
        return Err(NoCgroup::Unusable(reason));
    }
    let home = look(&[nix::unistd::getpid(), owner], owner, server)?;
    let runs = home::for_runs(&home.folder, owner, parent.memory_mib)?;
    Ok(Home { runs, ..home })
}

/// The ways in their order: the cgroup that this process runs in, if it is delegated; else a scope.
fn look(ours: &[Pid], owner: Pid, server: Option<BorrowedFd<'_>>) -> Result<Home, NoCgroup> {
    hierarchy::is_mounted()?;
    let systemd = scope::Systemd::new(ours, owner, server);
    let mut in_the_way = None;
    if let Some(own) = hierarchy::own()
        && own.delegated.unwrap_or_else(|| systemd.has_delegated(&own.folder))
    {
        match home::prepare(&own.folder, ours) {
            Ok(()) => {
                let (folder, origin) = (own.folder, CgroupOrigin::Delegated);
                return Ok(Home { runs: folder.clone(), folder, origin, owner });
            }
            Err(reason) => in_the_way = Some(reason),
        }
    }
    match systemd.make_scope() {
        Ok((folder, name, bus)) => {
            home::prepare(&folder, ours)?;
            let origin = CgroupOrigin::Scope { name, bus };
            Ok(Home { runs: folder.clone(), folder, origin, owner })
        }
        // What stood in the way of the nearer way tells more than that there is no other.
        Err(NoCgroup::NoUserManager) => Err(in_the_way.unwrap_or(NoCgroup::NoUserManager)),
        Err(reason) => Err(reason),
    }
}
