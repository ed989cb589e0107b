//! Blobs: into a file, resumed, and named only when they are whole.

use super::part::{self, CHUNK, Part};
use super::{ENOUGH, FetchError, Retry, again};
use crate::setup::leftovers;
use crate::setup::oci::Descriptor;
use crate::setup::progress::Progress;
use crate::setup::registry::body_error;
use crate::setup::source::Source;
use nix::libc;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Instant;

/// Fetches a blob into `folder`, where it is found by the next run, and hands it out at its beginning.
/// What an earlier run left of it is used, and a whole one needs no network. The progress goes forward
/// by the blob's size.
///
/// # Errors
/// [`FetchError`]. What has come is kept for the next run, unless it is wrong.
pub fn blob(
    source: &dyn Source,
    blob: &Descriptor,
    folder: &Path,
    retry: &Retry,
    progress: &mut Progress,
) -> Result<File, FetchError> {
    let before = progress.done();
    let name = folder.join(blob.digest.file_name());
    if let Some(file) = finished(&name, blob, progress)? {
        progress.at(before + blob.size);
        return Ok(file);
    }
    let short = blob.digest.short();
    let path = folder.join(leftovers::part_name(&blob.digest));
    let mut part = Part::open(&path, blob, || {
        progress.say(&format!("another process is loading {short}, waiting for it"));
    })?;
    // It may have been finished while we waited.
    if let Some(file) = finished(&name, blob, progress)? {
        part.discard();
        progress.at(before + blob.size);
        return Ok(file);
    }
    let mut second = false;
    loop {
        progress.at(before + part.have);
        let filled = fill(source, blob, &mut part, retry, progress, before);
        match filled {
            Ok(()) => {}
            Err(error @ FetchError::Size { .. }) => {
                part.discard();
                return Err(error);
            }
            Err(error) => return Err(error),
        }
        let got = part.digest(blob);
        if got == blob.digest {
            return part.finish(&name);
        }
        if second {
            part.discard();
            let (origin, expected) = (source.origin(), blob.digest.clone());
            return Err(FetchError::Digest { origin, expected, got });
        }
        // What an earlier run left may have been wrong, or a cache on the way.
        second = true;
        progress.say(&format!("what came as {short} is not what its digest says; loading it anew"));
        part.clear(blob)?;
    }
}

/// A blob that is there already. One that is not what its name says is removed.
fn finished(
    name: &Path,
    blob: &Descriptor,
    progress: &mut Progress,
) -> Result<Option<File>, FetchError> {
    let failed = |error| FetchError::file(name, error);
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let mut file = match options.open(name) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(failed(io::Error::other("it is no plain file")));
    }
    if metadata.len() == blob.size {
        let (hasher, have) = part::hash(&mut file, &blob.digest, blob.size, name)?;
        if have == blob.size && hasher.finish() == blob.digest {
            file.rewind().map_err(failed)?;
            return Ok(Some(file));
        }
    }
    progress.say(&format!("{} was damaged on the disk; loading it anew", blob.digest.short()));
    fs::remove_file(name).map_err(failed)?;
    Ok(None)
}

/// Loads what is missing.
fn fill(
    source: &dyn Source,
    blob: &Descriptor,
    part: &mut Part,
    retry: &Retry,
    progress: &mut Progress,
    before: u64,
) -> Result<(), FetchError> {
    // Where the pauses started over last.
    let mut reached = part.have;
    again(retry, progress, |progress| {
        if part.have == blob.size {
            return Ok(());
        }
        let result = attempt(source, blob, part, retry, progress, before);
        let further = part.have >= reached.saturating_add(ENOUGH);
        if further {
            reached = part.have;
        }
        result.map_err(|error| (error, further))
    })
}

/// One request, as far as it goes.
fn attempt(
    source: &dyn Source,
    blob: &Descriptor,
    part: &mut Part,
    retry: &Retry,
    progress: &mut Progress,
    before: u64,
) -> Result<(), FetchError> {
    let opened = source.blob(blob, part.have).map_err(FetchError::Source)?;
    if opened.offset != part.have {
        part.clear(blob)?;
        progress.at(before);
        if opened.offset != 0 {
            return Err(FetchError::Source(source.origin().broken("it started in the middle")));
        }
    }
    let broken = |why: &str| FetchError::Source(source.origin().broken(why));
    let mut bytes = opened.bytes;
    let (mut since, mut came) = (Instant::now(), 0);
    let mut buffer = vec![0; CHUNK + 1];
    // What the digest names is here then. The body's end tells nothing, and may never come.
    while part.have < blob.size {
        let missing = blob.size - part.have;
        // One more than it should have, to notice more than that where it has come.
        let room = usize::try_from(missing).unwrap_or(CHUNK).min(CHUNK) + 1;
        match bytes.read(buffer.get_mut(..room).unwrap_or_default()) {
            Ok(count) if count as u64 > missing => {
                let (digest, size) = (blob.digest.clone(), blob.size);
                let origin = source.origin();
                return Err(FetchError::Size { origin, digest, size, difference: "longer" });
            }
            Ok(0) => return Err(broken("it ended too early")),
            Ok(count) => {
                part.append(buffer.get(..count).unwrap_or_default())?;
                progress.loaded(count as u64);
                came += count as u64;
                if since.elapsed() >= retry.slow {
                    if came < ENOUGH && part.have < blob.size {
                        let seconds = retry.slow.as_secs();
                        return Err(broken(&format!("{came} bytes came in {seconds} s")));
                    }
                    (since, came) = (Instant::now(), 0);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(broken(&body_error(&error))),
        }
    }
    Ok(())
}
