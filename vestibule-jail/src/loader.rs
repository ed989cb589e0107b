//! An image's program and the loader that it names, looked at before the kernel opens them.

use crate::plan::NOT_FROM_IMAGE;
use nix::errno::Errno;
use nix::fcntl::readlink;
use nix::sys::stat::{SFlag, lstat};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Component, Path, PathBuf};

/// The machine that programs must be for.
const MACHINE: u16 = if cfg!(target_arch = "aarch64") { libc::EM_AARCH64 } else { libc::EM_X86_64 };

/// The sizes of a 64-bit ELF file's header and of an entry of its program headers.
const HEADER: usize = 64;
const ENTRY: usize = 56;

/// How many bytes of program headers every kernel takes.
const MOST_ENTRIES: usize = 4096;

/// How many symbolic links the kernel follows in one path.
const MOST_LINKS: usize = 40;

/// Refuses a program whose loader is no file of the image. The kernel opens that by its path, in the
/// workspace and through the links of `/proc`: until the exec `/proc/self/exe` is this program, on the
/// machine's own file system, and `/proc/self/cwd` has what earlier code left there. The syscall filter
/// holds by now and has no `openat2`, which could refuse such links as such.
///
/// What does not begin as an ELF file is left to the kernel: it executes neither a script nor what a
/// program was registered for, by a descriptor that is closed then.
///
/// # Errors
/// `ENOENT`: among the image's own files, there is no such loader. `ENOEXEC`: no native program, or
/// one that the kernel could read in another way than is done here.
pub fn check(program: &File) -> nix::Result<()> {
    let mut header = [0; HEADER];
    // The kernel too takes zeroes for what a short file lacks.
    program.read_at(&mut header, 0).map_err(|error| crate::plan::errno(&error))?;
    if !header.starts_with(b"\x7fELF") {
        return Ok(());
    }
    match named_by(program, &header)? {
        None => Ok(()),
        Some(loader) => is_of_image(&loader),
    }
}

/// The path in the first `PT_INTERP` of a native program. The kernel decides by the machine alone, never
/// by the file's class or byte order. What its loader for native programs refuses it offers to that for
/// 32-bit ones, which takes the native machine too where there is x32, and reads the same bytes as others:
/// nothing that either could take for more gets there.
fn named_by(program: &File, header: &[u8; HEADER]) -> nix::Result<Option<PathBuf>> {
    let short = |place| at(header, place).map(u16::from_le_bytes);
    // The last is the number of entries in the other reading; in this one, whether the file has 4 GiB.
    if short(18)? != MACHINE || usize::from(short(54)?) != ENTRY || short(44)? != 0 {
        return Err(Errno::ENOEXEC);
    }
    let (start, size) = (u64::from_le_bytes(at(header, 32)?), usize::from(short(56)?) * ENTRY);
    let entries = read(program, start, size, 1..=MOST_ENTRIES)?;
    let (entries, _) = entries.as_chunks::<ENTRY>();
    let is_loader = |entry: &&[u8; ENTRY]| entry.starts_with(&libc::PT_INTERP.to_le_bytes());
    let Some(entry) = entries.iter().find(is_loader) else { return Ok(None) };
    let (start, size) = (u64::from_le_bytes(at(entry, 8)?), u64::from_le_bytes(at(entry, 32)?));
    let size = usize::try_from(size).map_err(|_| Errno::ENOEXEC)?;
    let path = read(program, start, size, 2..=libc::PATH_MAX as usize)?;
    if path.last() != Some(&0) {
        return Err(Errno::ENOEXEC);
    }
    let path = path.split(|byte| *byte == 0).next().unwrap_or_default();
    Ok(Some(PathBuf::from(OsStr::from_bytes(path))))
}

/// So many bytes of a file, which may be so many.
fn read(
    file: &File,
    start: u64,
    size: usize,
    sizes: std::ops::RangeInclusive<usize>,
) -> nix::Result<Vec<u8>> {
    if !sizes.contains(&size) {
        return Err(Errno::ENOEXEC);
    }
    let mut bytes = vec![0; size];
    file.read_exact_at(&mut bytes, start).map_err(|_| Errno::ENOEXEC)?;
    Ok(bytes)
}

fn at<const N: usize>(bytes: &[u8], place: usize) -> nix::Result<[u8; N]> {
    bytes.get(place..).and_then(|rest| rest.first_chunk()).copied().ok_or(Errno::ENOEXEC)
}

fn is_of_image(loader: &Path) -> nix::Result<()> {
    let mut place = PathBuf::from("/");
    follow(&mut place, loader, &mut 0)?;
    // A relative path is one in the workspace.
    let found = loader.is_absolute() && kind(&place)? == SFlag::S_IFREG;
    if found { Ok(()) } else { Err(Errno::ENOENT) }
}

/// Walks a path as the kernel does, from `place`, an absolute path without links, and stops at the first
/// step out of the image's folders. These are read-only, so the kernel will find what is found here.
fn follow(place: &mut PathBuf, path: &Path, links: &mut usize) -> nix::Result<()> {
    for part in path.components() {
        match part {
            Component::Normal(name) => {
                let next = place.join(name);
                if kind(&next)? != SFlag::S_IFLNK {
                    *place = next;
                    continue;
                }
                *links += 1;
                if *links > MOST_LINKS {
                    return Err(Errno::ENOENT);
                }
                follow(place, Path::new(&readlink(&next)?), links)?;
            }
            Component::RootDir => *place = PathBuf::from("/"),
            Component::ParentDir => drop(place.pop()),
            Component::CurDir | Component::Prefix(_) => {}
        }
    }
    Ok(())
}

/// What stands at a place of the image.
fn kind(place: &Path) -> nix::Result<SFlag> {
    if NOT_FROM_IMAGE.iter().any(|name| place.starts_with(Path::new("/").join(name))) {
        return Err(Errno::ENOENT);
    }
    let status = lstat(place).map_err(|_| Errno::ENOENT)?;
    Ok(SFlag::from_bits_truncate(status.st_mode) & SFlag::S_IFMT)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parts of an ELF file that are looked at. By default a program whose loader is `/bin/sh`.
    struct Elf {
        class: u8,
        machine: u16,
        entry_size: u16,
        entries: u16,
        /// The number of entries where a 32-bit file has it.
        entries_of_32: u8,
        /// The types of the program headers.
        kinds: [u32; 3],
        /// The loader's place and size, and what stands there.
        loader: (u64, u64, &'static [u8]),
    }

    const END: u64 = (HEADER + 3 * ENTRY) as u64;

    impl Elf {
        fn naming(loader: &'static [u8]) -> Elf {
            Elf {
                class: 2,
                machine: MACHINE,
                entry_size: ENTRY as u16,
                entries: 3,
                entries_of_32: 0,
                kinds: [1, libc::PT_INTERP, 1],
                loader: (END, loader.len() as u64, loader),
            }
        }

        fn bytes(&self) -> Vec<u8> {
            let mut bytes = vec![0; END as usize];
            bytes[..5].copy_from_slice(&[0x7f, b'E', b'L', b'F', self.class]);
            bytes[18..20].copy_from_slice(&self.machine.to_le_bytes());
            (bytes[32], bytes[44]) = (HEADER as u8, self.entries_of_32);
            bytes[54..56].copy_from_slice(&self.entry_size.to_le_bytes());
            bytes[56..58].copy_from_slice(&self.entries.to_le_bytes());
            let (place, size, path) = self.loader;
            let entries = bytes[HEADER..].chunks_exact_mut(ENTRY);
            for (number, (entry, kind)) in entries.zip(self.kinds).enumerate() {
                entry[..4].copy_from_slice(&kind.to_le_bytes());
                // Of two loaders the second one is elsewhere.
                let place = place + u64::from(number == 2);
                entry[8..16].copy_from_slice(&place.to_le_bytes());
                entry[32..40].copy_from_slice(&size.to_le_bytes());
            }
            [&bytes, path].concat()
        }
    }

    fn checked(name: &str, bytes: &[u8]) -> nix::Result<()> {
        let path = std::env::temp_dir().join(format!("loader-{name}-{}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        let file = File::open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        check(&file)
    }

    #[test]
    fn a_loader_is_a_file_of_the_image_by_any_name() {
        for loader in [
            &b"/proc/self/exe\0"[..],
            b"/proc/self/root/bin/sh\0",
            b"/proc/self/cwd/ld\0",
            b"/proc/../bin/sh\0",
            b"/usr/./../proc/self/exe\0",
            b"/../proc//self/exe\0/bin/sh\0",
            b"/workspace/ld\0",
            b"/etc/passwd\0",
            b"/dev/null\0",
            b"bin/sh\0",
            b"Cargo.toml\0",
            b"/usr/bin/there-is-none\0",
            b"/usr\0",
            b"/\0",
            b"\0\0",
        ] {
            let found = checked("place", &Elf::naming(loader).bytes());
            assert_eq!(found, Err(Errno::ENOENT), "{}", loader.escape_ascii());
        }
        for loader in [&b"/bin/sh\0"[..], b"/usr/../bin/./sh\0", b"//bin/sh\0/proc/self/exe\0"] {
            let found = checked("place", &Elf::naming(loader).bytes());
            assert_eq!(found, Ok(()), "{}", loader.escape_ascii());
        }
        let own = File::open("/proc/self/exe").unwrap();
        assert_eq!(check(&own), Ok(()), "a program of this machine");
    }

    #[test]
    fn the_class_and_the_byte_order_hide_no_loader() {
        let elf = Elf::naming(b"/proc/self/exe\0");
        for class in [0, 1, 2, 3] {
            let mut bytes = Elf { class, ..Elf::naming(b"/proc/self/exe\0") }.bytes();
            bytes[5] = 2;
            assert_eq!(checked("class", &bytes), Err(Errno::ENOENT), "{class}");
        }
        let second = Elf { kinds: [1, libc::PT_INTERP, libc::PT_INTERP], ..elf };
        assert_eq!(checked("class", &second.bytes()), Err(Errno::ENOENT));
        let none = Elf { kinds: [1, 1, 1], ..second };
        assert_eq!(checked("class", &none.bytes()), Ok(()));
    }

    #[test]
    fn what_is_read_in_another_way_by_some_kernel_is_refused() {
        let usual = || Elf::naming(b"/bin/sh\0");
        let with = |place, size| Elf { loader: (place, size, b"/bin/sh\0"), ..usual() };
        let machine = |machine| Elf { machine, ..usual() };
        for (what, elf) in [
            ("of 32 bits, x86", machine(libc::EM_386)),
            ("of 32 bits, arm", machine(libc::EM_ARM)),
            ("of no machine", machine(0)),
            ("entries of 32 bits", Elf { entry_size: 32, ..usual() }),
            ("both of 32 and of 64 bits", Elf { entries_of_32: 1, ..usual() }),
            ("no entry", Elf { entries: 0, ..usual() }),
            ("many entries", Elf { entries: 74, ..usual() }),
            ("entries beyond the end", Elf { entries: 10, ..usual() }),
            ("a path without an end", with(END, 7)),
            ("a path of one byte", with(END + 7, 1)),
            ("a long path", with(0, 4097)),
            ("a huge path", with(END, u64::MAX)),
            ("a path beyond the end", with(END + 1, 8)),
            ("a path beyond all files", with(u64::MAX - 1, 8)),
        ] {
            let bytes = [elf.bytes(), vec![0; if what == "many entries" { 5000 } else { 0 }]];
            assert_eq!(checked("form", &bytes.concat()), Err(Errno::ENOEXEC), "{what}");
        }
        assert_eq!(checked("form", b"\x7fELF\x02"), Err(Errno::ENOEXEC));
        for text in [&b""[..], b"?", b"#!/bin/sh\n", b"\x7fEL"] {
            assert_eq!(checked("form", text), Ok(()), "{}", text.escape_ascii());
        }
    }
}
