//! `/etc`: a few files written here, and what programs need of the root file system's own.

use super::mounter::Mounter;
use super::rootfs::Source;
use crate::plan::{RootPlan, Settings};
use protocol::environment::USER;
use std::path::Path;

/// The sandbox's host name.
pub const HOST_NAME: &str = "vestibule";

/// Files that programs look for and find empty: no name server, no identity of the machine.
const EMPTY: [&str; 2] = ["resolv.conf", "machine-id"];

/// Writes the synthesized files and takes the rest over.
pub fn fill(world: &mut Mounter, root: &RootPlan, settings: &Settings) -> nix::Result<()> {
    world.folder(Path::new("etc"))?;
    for (name, content) in synthesized(settings.uid, settings.gid) {
        world.file(&Path::new("etc").join(name), content.as_bytes())?;
    }
    for name in EMPTY {
        world.place(&Path::new("etc").join(name))?;
    }
    let source = Source::open(root)?;
    for entry in &root.etc {
        let path = entry.below("etc");
        world.parents(&path)?;
        source.take_over(world, &path, &path, &entry.kind)?;
    }
    Ok(())
}

fn synthesized(uid: u32, gid: u32) -> [(&'static str, String); 4] {
    [
        (
            "passwd",
            format!(
                "root:x:0:0:root:/:/usr/sbin/nologin\n\
                 {USER}:x:{uid}:{gid}::/tmp:/bin/bash\n\
                 nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"
            ),
        ),
        ("group", format!("root:x:0:\n{USER}:x:{gid}:\nnogroup:x:65534:\n")),
        ("hosts", format!("127.0.0.1 localhost {HOST_NAME}\n::1 localhost\n")),
        (
            "nsswitch.conf",
            "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n"
                .to_owned(),
        ),
    ]
}
