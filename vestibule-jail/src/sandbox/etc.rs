//! `/etc`: a few files written here, and what programs need of the root file system's own.

use super::mounter::Mounter;
use super::rootfs::Source;
use crate::plan::{RootPlan, Settings};
use protocol::environment;
use std::path::Path;

/// Where names are looked up: in these files, and nowhere else.
const NSSWITCH: &str =
    "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n";

/// Writes the synthesized files and takes the rest over.
pub fn fill(world: &mut Mounter, root: &RootPlan, settings: &Settings) -> nix::Result<()> {
    world.folder(Path::new("etc"))?;
    for (name, content) in environment::files(settings.uid, settings.gid) {
        world.file(&Path::new("etc").join(name), content.as_bytes())?;
    }
    world.file(Path::new("etc/nsswitch.conf"), NSSWITCH.as_bytes())?;
    // Empty: no identity of the machine.
    world.place(Path::new("etc/machine-id"))?;
    let source = Source::open(root)?;
    for entry in &root.etc {
        let path = entry.below("etc");
        world.parents(&path)?;
        source.take_over(world, &path, &path, &entry.kind)?;
    }
    Ok(())
}
