//! The cgroup of a run, cgroups(7) version 2: where one can be made, and the one that is made.
//!
//! A run needs a cgroup below one that is delegated to the user, its home: [`find`] looks for it, in
//! the place where this process runs or, through [`scope`], in a transient scope of the user's
//! systemd. [`home`] makes it ready, [`run`] makes the leaf of one run, with the limits on it alone.

mod bus;
mod folder;
mod hierarchy;
mod home;
mod run;
mod scope;

pub use folder::Folder;
pub use run::{KilledAt, Leaf, LimitStates, Measurements};

use nix::unistd::Pid;
use protocol::{CgroupOrigin, CgroupSource, NoCgroup};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

/// A delegated cgroup that is ready for runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Home {
    /// Its folder.
    pub folder: PathBuf,
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
        CgroupSource::Below { home, server: parent } => {
            let folder = home.clone();
            if hierarchy::runs_below(&folder) {
                home::keep_on(&folder);
                let owner = Pid::from_raw(parent.cast_signed());
                return Ok(Home { folder, origin: CgroupOrigin::Given, owner });
            }
            // The scope has gone, as when the user's systemd was started anew.
            find_with(*parent, server)
        }
    }
}

/// Finds a home for this process and its parent. No other process may be moved on a request's word.
fn find_with(parent: u32, server: Option<BorrowedFd<'_>>) -> Result<Home, NoCgroup> {
    let owner = nix::unistd::getppid();
    if owner.as_raw().cast_unsigned() != parent {
        return Err(NoCgroup::Unusable(format!("process {parent} did not start this one")));
    }
    look(&[nix::unistd::getpid(), owner], owner, server)
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
                return Ok(Home { folder: own.folder, origin: CgroupOrigin::Delegated, owner });
            }
            Err(reason) => in_the_way = Some(reason),
        }
    }
    match systemd.make_scope() {
        Ok((folder, name, bus)) => {
            home::prepare(&folder, ours)?;
            Ok(Home { folder, origin: CgroupOrigin::Scope { name, bus }, owner })
        }
        // What stood in the way of the nearer way tells more than that there is no other.
        Err(NoCgroup::NoUserManager) => Err(in_the_way.unwrap_or(NoCgroup::NoUserManager)),
        Err(reason) => Err(reason),
    }
}
