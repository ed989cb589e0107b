//! What the root file system offers: its top folders, what of `/etc` programs need, the
//! interpreters, and what has to be covered.

use crate::control::Program;
use crate::plan::{Entry, EntryKind, NOT_FROM_IMAGE, RootPlan};
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2};
use nix::sys::stat::{FileStat, SFlag, fstat};
use protocol::{
    Cause, Interpreter, Interpreters, Language, Measured, Refusal, Retry, Rootfs, Sandbox, Step,
    StepError,
};
use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Of `/etc`: what programs need and anyone may read, whichever of it the distribution has. The
/// folder of the python that is found (`python3.11`) comes on top.
const ETC: &[&str] = &[
    "ld.so.cache",
    "alternatives",
    "ssl/certs",
    "ssl/openssl.cnf",
    "pki",
    "crypto-policies",
    "ca-certificates",
    "localtime",
    "mime.types",
    "python3",
];

/// On a host: `/usr`, and what stands beside it on one system or another.
const HOST_TOP: &[&str] = &["usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/// Opens a root file system and finds out what it is made of.
///
/// # Errors
/// A refusal if the folder cannot be opened or holds no system.
pub fn plan(sandbox: &Sandbox) -> Result<(RootPlan, Programs), Refusal> {
    let (source, environment) = (&sandbox.rootfs, &sandbox.environment);
    let folder = match source {
        Rootfs::Host => Path::new("/"),
        Rootfs::Image(path) => path,
    };
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    let base = openat2(AT_FDCWD, folder, how).map_err(|errno| unusable(folder, source, errno))?;
    let names = match source {
        Rootfs::Host => HOST_TOP.iter().map(PathBuf::from).collect(),
        Rootfs::Image(_) => image_top(base.as_fd()),
    };
    let top = entries(base.as_fd(), names);
    if !top.iter().any(|entry| entry.name == Path::new("usr") && entry.kind == EntryKind::Folder) {
        return Err(unusable(folder, source, Errno::ENOENT));
    }
    let programs = find_interpreters(base.as_fd(), source, environment, &top);
    let masks = masks(base.as_fd(), source, &programs);
    let etc =
        entries(base.as_fd(), etc_names(&programs)).into_iter().filter_map(below_etc).collect();
    let status = fstat(&base).map_err(|errno| unusable(folder, source, errno))?;
    let plan = RootPlan {
        source: source.clone(),
        base: folder.to_owned(),
        identity: (status.st_dev, status.st_ino),
        top,
        etc,
        masks,
        bytecode: sandbox.bytecode.clone(),
    };
    Ok((plan, programs))
}

/// The interpreter of each language, or why there is none.
pub type Programs = Vec<(Language, Result<Program, String>)>;

/// What the server is told of them.
pub fn reported(programs: &Programs) -> Interpreters {
    let reported = |(language, found): &(Language, Result<Program, String>)| {
        let path = match found {
            Ok(program) => Measured::Value(program.path.clone()),
            Err(reason) => Measured::Missing(reason.clone()),
        };
        Interpreter { language: *language, path }
    };
    Interpreters(programs.iter().map(reported).collect())
}

fn unusable(folder: &Path, source: &Rootfs, errno: Errno) -> Refusal {
    let (what, fix) = match source {
        Rootfs::Host => (
            "this machine has no /usr that programs could be taken from".to_owned(),
            "run `vestibule-mcp setup`, which fetches images to take them from",
        ),
        Rootfs::Image(_) => (
            format!("the image folder {folder:?} is not usable"),
            "check that the folder exists, is reached without symbolic links and holds /usr",
        ),
    };
    Refusal {
        what,
        cause: Cause::Rootfs,
        fix: fix.to_owned(),
        retry: Retry::AfterFix,
        at: Some(StepError { step: Step::OpenRootfs, errno: errno as i32 }),
    }
}

/// Every top folder of an image but those that the sandbox makes itself.
fn image_top(folder: BorrowedFd<'_>) -> Vec<PathBuf> {
    let wanted = |name: &PathBuf| name.to_str().is_some_and(|name| !NOT_FROM_IMAGE.contains(&name));
    let folder = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()));
    names_in(&folder).into_iter().filter(wanted).collect()
}

fn names_in(folder: &Path) -> Vec<PathBuf> {
    let Ok(listing) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<PathBuf> =
        listing.filter_map(|entry| Some(PathBuf::from(entry.ok()?.file_name()))).collect();
    names.sort();
    names
}

/// The names of [`ETC`], and the folder of the python that was found.
fn etc_names(programs: &[(Language, Result<Program, String>)]) -> Vec<PathBuf> {
    let pythons = programs.iter().filter(|(language, _)| *language == Language::Python);
    let version = pythons.filter_map(|(_, found)| found.as_ref().ok()?.real.file_name());
    let mut names: Vec<PathBuf> = ETC.iter().map(PathBuf::from).collect();
    let version = version.filter_map(OsStr::to_str).filter(|name| is_version(name));
    names.extend(version.map(PathBuf::from));
    names.into_iter().map(|name| Path::new("etc").join(name)).collect()
}

/// Whether a program's name is that of a python and its version. An image may name its program as it likes,
/// and another name's place in `/etc` is taken, as that of `passwd` is, or shows what no program needs.
fn is_version(program: &str) -> bool {
    let version = program.strip_prefix("python").filter(|version| *version != "3");
    version.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}

fn below_etc(entry: Entry) -> Option<Entry> {
    let name = entry.name.strip_prefix("etc").ok()?.to_owned();
    Some(Entry { name, ..entry })
}

/// Those of `names` that exist below `base` and that anyone may read, with what they are.
fn entries(base: BorrowedFd<'_>, names: Vec<PathBuf>) -> Vec<Entry> {
    let entry = |name: PathBuf| Some(Entry { kind: entry_kind(base, &name)?, name });
    names.into_iter().filter_map(entry).collect()
}

fn entry_kind(base: BorrowedFd<'_>, name: &Path) -> Option<EntryKind> {
    let (opened, status) = opened(base, name)?;
    match file_type(&status) {
        SFlag::S_IFLNK => {
            let target = nix::fcntl::readlinkat(&opened, "").ok()?;
            // Names travel to init as text.
            Some(EntryKind::Link(PathBuf::from(target.into_string().ok()?)))
        }
        SFlag::S_IFDIR if status.st_mode & 0o005 == 0o005 => Some(EntryKind::Folder),
        SFlag::S_IFREG if status.st_mode & 0o004 == 0o004 => Some(EntryKind::File),
        _ => None,
    }
}

/// A name below `base`, opened without following it, and what it is.
fn opened(base: BorrowedFd<'_>, name: &Path) -> Option<(OwnedFd, FileStat)> {
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    let opened = openat2(base, name, how).ok()?;
    let status = fstat(&opened).ok()?;
    Some((opened, status))
}

fn file_type(status: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(status.st_mode) & SFlag::S_IFMT
}

fn find_interpreters(
    base: BorrowedFd<'_>,
    source: &Rootfs,
    environment: &[(String, String)],
    top: &[Entry],
) -> Programs {
    let folders = match source {
        Rootfs::Host => vec!["/usr/bin".to_owned()],
        Rootfs::Image(_) => {
            let path = environment.iter().find(|(name, _)| name == "PATH");
            let path = path.map_or(super::environment::DEFAULT_PATH, |(_, value)| value);
            path.split(':').filter(|folder| folder.starts_with('/')).map(str::to_owned).collect()
        }
    };
    let find = |language: Language| {
        let mut reason = None;
        for folder in &folders {
            let path = Path::new(folder).join(language.program());
            match find_interpreter(base, &path, top) {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => {}
                Err(hidden) => reason = Some(hidden),
            }
        }
        let place = folders.join(", ");
        Err(reason.unwrap_or_else(|| format!("there is no {} in {place}", language.program())))
    };
    Language::ALL.into_iter().map(|language| (language, find(language))).collect()
}

/// `None` if there is no such program; an error text if it leads to where the sandbox cannot see.
fn find_interpreter(
    base: BorrowedFd<'_>,
    path: &Path,
    top: &[Entry],
) -> Result<Option<Program>, String> {
    let how = OpenHow::new()
        .flags(OFlag::O_PATH | OFlag::O_CLOEXEC)
        .resolve(ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS);
    let Ok(opened) = openat2(base, path, how) else { return Ok(None) };
    let Ok(status) = fstat(&opened) else { return Ok(None) };
    if file_type(&status) != SFlag::S_IFREG || status.st_mode & 0o111 == 0 {
        return Ok(None);
    }
    let Some(real) = real_path(base, &opened) else { return Ok(None) };
    let first = real.components().nth(1).map(|part| PathBuf::from(part.as_os_str()));
    let visible = top
        .iter()
        .any(|entry| Some(&entry.name) == first.as_ref() && entry.kind == EntryKind::Folder);
    if !visible || real.starts_with("/usr/src") {
        return Err(format!(
            "{} leads to {real:?}, which the sandbox does not show",
            path.display()
        ));
    }
    let identity = (status.st_dev, status.st_ino);
    Ok(Some(Program { path: path.to_owned(), real, identity }))
}

/// Where a descriptor really lies, as an absolute path below `base`.
fn real_path(base: BorrowedFd<'_>, opened: &OwnedFd) -> Option<PathBuf> {
    let place = |fd: i32| std::fs::read_link(format!("/proc/self/fd/{fd}")).ok();
    let below = place(opened.as_raw_fd())?;
    let below = below.strip_prefix(place(base.as_raw_fd())?).ok()?.to_owned();
    Some(Path::new("/").join(below))
}

/// On a host `/usr/src`, and `/usr/local` unless an interpreter lies there.
fn masks(
    base: BorrowedFd<'_>,
    source: &Rootfs,
    programs: &[(Language, Result<Program, String>)],
) -> Vec<PathBuf> {
    if *source != Rootfs::Host {
        return Vec::new();
    }
    let leads_to_local = programs
        .iter()
        .any(|(_, found)| found.as_ref().is_ok_and(|at| at.real.starts_with("/usr/local")));
    let mut masks = vec![PathBuf::from("/usr/src")];
    if !leads_to_local {
        masks.push(PathBuf::from("/usr/local"));
    }
    // Whoever may read it: the user may, where others may not.
    masks.retain(|mask| {
        opened(base, mask).is_some_and(|(_, status)| file_type(&status) == SFlag::S_IFDIR)
    });
    masks
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn folders_that_others_may_not_read_are_masked_too() {
        let root = std::env::temp_dir().join(format!("masks-{}", std::process::id()));
        let source = root.join("usr/src");
        std::fs::create_dir_all(&source).unwrap();
        std::fs::set_permissions(&source, std::fs::Permissions::from_mode(0o700)).unwrap();
        let base: OwnedFd = std::fs::File::open(&root).unwrap().into();
        let found = masks(base.as_fd(), &Rootfs::Host, &[]);
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(found, [Path::new("/usr/src")]);
    }

    #[test]
    fn of_etc_a_python_brings_the_folder_of_its_version_alone() {
        let more = |program: &str| {
            let real = Path::new("/usr/bin").join(program);
            let path = PathBuf::from("/usr/bin/python3");
            let found = Ok(Program { path, real, identity: (0, 0) });
            let names = etc_names(&[(Language::Python, found)]);
            names.into_iter().skip(ETC.len()).collect::<Vec<_>>()
        };
        assert_eq!(more("python3.11"), [Path::new("etc/python3.11")]);
        for other in ["python3", "passwd", "group", "hosts", "ssl", "pki", "shadow", "pythonpasswd"]
        {
            assert!(more(other).is_empty(), "{other}");
        }
    }
}
