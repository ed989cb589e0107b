//! Whiteouts: entries that hide what lower layers made, and never what their own layer made, wherever
//! in it they stand.

use super::Unpacker;
use super::error::{Step, UnpackError};
use super::name::Name;
use super::resolve::Missing;
use crate::store::inventory::cursor::{Id, id};
use crate::store::inventory::{prune, prune_inside};
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};

impl Unpacker {
    /// Hides one entry beside the whiteout. That there is none is no error.
    pub(super) fn hide(&mut self, name: &Name, hidden: &OsStr) -> Result<(), UnpackError> {
        let Some(folder) = self.whiteout_folder(name, hidden)? else { return Ok(()) };
        let made = &self.made;
        let keeps = |folder: Id, name: &OsStr| made.contains(&(folder, name.to_owned()));
        let hid = prune(folder.as_fd(), hidden, &keeps);
        hid.map_err(|errno| UnpackError::os(Step::Remove, &name.shown, errno))
    }

    /// Hides everything in the whiteout's folder.
    pub(super) fn hide_all(&mut self, name: &Name) -> Result<(), UnpackError> {
        let Some(folder) = self.whiteout_folder(name, OsStr::new(""))? else { return Ok(()) };
        let made = &self.made;
        let keeps = |folder: Id, name: &OsStr| made.contains(&(folder, name.to_owned()));
        let hid = prune_inside(folder.as_fd(), &keeps);
        hid.map_err(|errno| UnpackError::os(Step::Remove, &name.shown, errno))
    }

    /// The folder of a whiteout; `None` where it is missing, or this layer has hidden the same before.
    fn whiteout_folder(
        &mut self,
        name: &Name,
        hidden: &OsStr,
    ) -> Result<Option<OwnedFd>, UnpackError> {
        self.summary.whiteouts += 1;
        let folders: &[OsString] = name.split().map_or(&[], |(folders, _)| folders);
        let Some(folder) = self.reach(name, folders, Missing::Stop)? else { return Ok(None) };
        let os = |errno| UnpackError::os(Step::Reach, &name.shown, errno);
        let is_new = self.hidden.insert((id(&folder).map_err(os)?, hidden.to_owned()));
        Ok(is_new.then_some(folder))
    }
}
