//! An image's program and the loader that it names, looked at before the kernel opens them.

use nix::errno::Errno;
use nix::sys::stat::{FileStat, fstat, stat};
use std::ffi::CString;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Refuses a program that is this one, or whose loader is: until the exec `/proc/self/exe` is that, on the machine's
/// own file system, whatever the root. The syscall filter holds by now and has no `openat2`, which could
/// refuse such links as such. What else is wrong with a program or its loader is for the kernel to say.
///
/// # Errors
/// `ENOENT`: among the image's own files, there is no such program or loader.
pub fn check(program: &File) -> nix::Result<()> {
    let own = stat(c"/proc/self/exe")?;
    let is_own = |status: FileStat| (status.st_dev, status.st_ino) == (own.st_dev, own.st_ino);
    let loader = named_by(program).and_then(|loader| stat(loader.as_c_str()).ok());
    match is_own(fstat(program)?) || loader.is_some_and(is_own) {
        true => Err(Errno::ENOENT),
        false => Ok(()),
    }
}

/// The path in the first `PT_INTERP` of a 64-bit ELF file. The loader of a 32-bit one would have to be of
/// 32 bits too.
fn named_by(program: &File) -> Option<CString> {
    let mut header = [0; 64];
    program.read_exact_at(&mut header, 0).ok()?;
    header.starts_with(b"\x7fELF\x02").then_some(())?;
    let (start, count) =
        (u64::from_le_bytes(at(&header, 32)?), u16::from_le_bytes(at(&header, 56)?));
    for number in 0..u64::from(count) {
        let mut entry = [0; 56];
        program.read_exact_at(&mut entry, start.checked_add(number * 56)?).ok()?;
        if u32::from_le_bytes(at(&entry, 0)?) == libc::PT_INTERP {
            let (place, size) = (u64::from_le_bytes(at(&entry, 8)?), at(&entry, 32)?);
            let size = usize::try_from(u64::from_le_bytes(size)).ok()?;
            let mut path = vec![0; Some(size).filter(|size| *size <= libc::PATH_MAX as usize)?];
            program.read_exact_at(&mut path, place).ok()?;
            path.truncate(path.iter().position(|byte| *byte == 0)?);
            return CString::new(path).ok();
        }
    }
    None
}

fn at<const N: usize>(bytes: &[u8], place: usize) -> Option<[u8; N]> {
    bytes.get(place..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_program_is_no_loader_by_any_name() {
        let path = std::env::temp_dir().join(format!("loader-{}", std::process::id()));
        let named = |loader: &str| {
            let mut bytes = vec![0; 64 + 2 * 56];
            bytes[..5].copy_from_slice(b"\x7fELF\x02");
            (bytes[32], bytes[56], bytes[64 + 56]) = (64, 2, 3);
            (bytes[64 + 56 + 8], bytes[64 + 56 + 32]) = (176, loader.len() as u8 + 1);
            bytes.extend(loader.bytes().chain([0]));
            std::fs::write(&path, bytes).unwrap();
            let file = File::open(&path).unwrap();
            assert_eq!(named_by(&file), Some(CString::new(loader).unwrap()));
            check(&file)
        };
        let (link, missing) = (path.with_extension("link"), path.with_extension("none"));
        std::os::unix::fs::symlink("/proc/self/exe", &link).unwrap();
        for loader in ["/proc/self/exe", "/proc/self/root/proc/self/exe", link.to_str().unwrap()] {
            assert_eq!(named(loader), Err(Errno::ENOENT), "{loader}");
        }
        for loader in ["/bin/sh", "/dev/null", missing.to_str().unwrap(), ""] {
            assert_eq!(named(loader), Ok(()), "{loader}");
        }
        for text in ["", "#!/bin/sh", "\x7fELF\x01"] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(named_by(&File::open(&path).unwrap()), None, "{text:?}");
        }
        let own = File::open("/proc/self/exe").unwrap();
        assert_eq!((named_by(&own).is_some(), check(&own)), (true, Err(Errno::ENOENT)));
        std::fs::remove_file(link).unwrap();
        std::fs::remove_file(path).unwrap();
    }
}
