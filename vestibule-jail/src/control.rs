//! The socket between supervisor and sandbox: what init, builder and guest report, and the word that
//! starts the guest. Messages keep their boundaries (`SOCK_SEQPACKET`); both ends are this program.

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{ControlMessage, MsgFlags, recv, send, sendmsg};
use protocol::{Language, Step, StepError, TimedStep};
use std::ffi::OsStr;
use std::io::IoSlice;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The largest message: every step twice over fits.
const MAX_REPORT: usize = 4096;
const STEP_LEN: usize = 13;

/// The longest word: two bytes, two numbers and two paths, the first of which ends in a zero byte.
const MAX_WORD: usize = 2 + 2 * size_of::<u64>() + 2 * libc::PATH_MAX as usize;

/// What the sandboxed side reports.
#[derive(Debug, PartialEq)]
pub enum Report {
    /// The builder: the file system is built, and this is its root. Comes with the writable clone of
    /// `/sandbox`.
    Built(Root, Vec<TimedStep>),
    /// Init: the sandbox stands, and this is what it is in.
    SandboxReady(Seen, Vec<TimedStep>),
    /// The guest: everything but the exec is done. Comes with the filter's listener.
    GuestReady(Vec<TimedStep>),
    /// Any of them: a step failed, nothing was executed.
    Failed(StepError, Vec<TimedStep>),
    /// Init: the guest ended with this status of `waitpid(2)`.
    Ended(i32, Vec<TimedStep>),
}

/// The root folder of a process.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Root {
    /// The number of its device.
    pub device: u64,
    /// Its inode.
    pub inode: u64,
}

/// What init has read back of itself.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Seen {
    /// The inodes of its namespaces.
    pub namespaces: [u64; Seen::NAMESPACES],
    /// Its root folder.
    pub root: Root,
}

impl Seen {
    /// How many kinds of namespaces are compared.
    pub const NAMESPACES: usize = 7;
}

/// The word that starts the guest.
#[derive(Debug, PartialEq)]
pub struct Word {
    /// The script's language.
    pub language: Language,
    /// Whether the interpreter comes from an image.
    pub from_image: bool,
    /// The interpreter.
    pub program: Program,
}

/// An interpreter as the supervisor has found it. Inside, links can lead elsewhere than they do below the
/// root of an image: they can go through `/proc` and the workspace.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Its path inside, of less than `PATH_MAX` bytes.
    pub path: PathBuf,
    /// Where its links lead: a path without any, as long at most.
    pub real: PathBuf,
    /// Its device and inode.
    pub identity: (u64, u64),
}

/// Sends a report, with a descriptor if there is one.
///
/// # Errors
/// The errno of `sendmsg(2)`; `EIO` if not all of it was taken.
pub fn report(
    socket: BorrowedFd<'_>,
    report: &Report,
    descriptor: Option<BorrowedFd<'_>>,
) -> nix::Result<()> {
    let bytes = encode(report);
    let fds: Vec<RawFd> = descriptor.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&fds)];
    let with = if fds.is_empty() { &rights[..0] } else { &rights[..] };
    let text = [IoSlice::new(&bytes)];
    let sent = sendmsg::<()>(socket.as_raw_fd(), &text, with, MsgFlags::MSG_NOSIGNAL, None)?;
    if sent == bytes.len() { Ok(()) } else { Err(Errno::EIO) }
}

/// Receives a report; `None` when the other side is gone.
///
/// # Errors
/// The errno of `recvmsg(2)`; `EBADMSG` for bytes that are no report.
pub fn receive(socket: BorrowedFd<'_>) -> nix::Result<Option<(Report, Option<OwnedFd>)>> {
    let mut bytes = [0; MAX_REPORT];
    let (length, descriptor) = crate::sys::socket::receive(socket, &mut bytes)?;
    match bytes.get(..length) {
        None | Some([]) => Ok(None),
        Some(bytes) => Ok(Some((decode(bytes).ok_or(Errno::EBADMSG)?, descriptor))),
    }
}

/// Tells init to start the guest.
///
/// # Errors
/// The errno of `send(2)`; `EIO` if not all of it was taken.
pub fn start(socket: BorrowedFd<'_>, word: &Word) -> nix::Result<()> {
    let mut bytes = vec![language_index(word.language), word.from_image.into()];
    let Program { path, real, identity: (device, inode) } = &word.program;
    put_numbers(&mut bytes, &[*device, *inode]);
    bytes.extend_from_slice(path.as_os_str().as_bytes());
    bytes.push(0);
    bytes.extend_from_slice(real.as_os_str().as_bytes());
    let sent = send(socket.as_raw_fd(), &bytes, MsgFlags::MSG_NOSIGNAL)?;
    if sent == bytes.len() { Ok(()) } else { Err(Errno::EIO) }
}

/// Waits for the word to start the guest; `None` when the supervisor is gone.
///
/// # Errors
/// The errno of `recv(2)`; `EBADMSG` for bytes that are no word.
pub fn wait_for_start(socket: BorrowedFd<'_>) -> nix::Result<Option<Word>> {
    let mut bytes = [0; MAX_WORD];
    loop {
        return match recv(socket.as_raw_fd(), &mut bytes, MsgFlags::empty()) {
            Ok(0) => Ok(None),
            Ok(length) => bytes.get(..length).and_then(decode_word).ok_or(Errno::EBADMSG).map(Some),
            Err(Errno::EINTR) => continue,
            Err(errno) => Err(errno),
        };
    }
}

fn language_index(language: Language) -> u8 {
    Language::ALL.iter().position(|known| *known == language).unwrap_or(0) as u8
}

fn decode_word(bytes: &[u8]) -> Option<Word> {
    let [language, from_image @ 0..=1, rest @ ..] = bytes else { return None };
    let ([device, inode], paths) = take_numbers(rest)?;
    let mut paths = paths.splitn(2, |byte| *byte == 0).map(OsStr::from_bytes).map(PathBuf::from);
    let (path, real) = (paths.next()?, paths.next()?);
    Some(Word {
        language: *Language::ALL.get(usize::from(*language))?,
        from_image: *from_image == 1,
        program: Program { path, real, identity: (device, inode) },
    })
}

fn encode(report: &Report) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(MAX_REPORT);
    let steps = match report {
        Report::Built(root, steps) => {
            bytes.push(1);
            put_numbers(&mut bytes, &[root.device, root.inode]);
            steps
        }
        Report::SandboxReady(Seen { namespaces, root }, steps) => {
            bytes.push(2);
            put_numbers(&mut bytes, namespaces);
            put_numbers(&mut bytes, &[root.device, root.inode]);
            steps
        }
        Report::GuestReady(steps) => {
            bytes.push(3);
            steps
        }
        Report::Failed(error, steps) => {
            bytes.extend_from_slice(&[4, index(error.step)]);
            bytes.extend_from_slice(&error.errno.to_le_bytes());
            steps
        }
        Report::Ended(status, steps) => {
            bytes.push(5);
            bytes.extend_from_slice(&status.to_le_bytes());
            steps
        }
    };
    for taken in steps {
        bytes.push(index(taken.step));
        bytes.extend_from_slice(&taken.nanoseconds.to_le_bytes());
        bytes.extend_from_slice(&taken.errno.to_le_bytes());
    }
    bytes
}

fn put_numbers(bytes: &mut Vec<u8>, numbers: &[u64]) {
    numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
}

fn decode(bytes: &[u8]) -> Option<Report> {
    let (tag, rest) = bytes.split_first()?;
    match tag {
        1 => {
            let ([device, inode], rest) = take_numbers(rest)?;
            Some(Report::Built(Root { device, inode }, decode_steps(rest)?))
        }
        2 => {
            let (namespaces, rest) = take_numbers(rest)?;
            let ([device, inode], rest) = take_numbers(rest)?;
            let seen = Seen { namespaces, root: Root { device, inode } };
            Some(Report::SandboxReady(seen, decode_steps(rest)?))
        }
        3 => Some(Report::GuestReady(decode_steps(rest)?)),
        4 => {
            let (step, rest) = rest.split_first()?;
            let (errno, rest) = rest.split_first_chunk::<4>()?;
            let error = StepError { step: step_at(*step)?, errno: i32::from_le_bytes(*errno) };
            Some(Report::Failed(error, decode_steps(rest)?))
        }
        5 => {
            let (status, rest) = rest.split_first_chunk::<4>()?;
            Some(Report::Ended(i32::from_le_bytes(*status), decode_steps(rest)?))
        }
        _ => None,
    }
}

fn take_numbers<const COUNT: usize>(bytes: &[u8]) -> Option<([u64; COUNT], &[u8])> {
    let (numbers, rest) = bytes.split_at_checked(COUNT * size_of::<u64>())?;
    let (numbers, _) = numbers.as_chunks();
    let mut taken = [0; COUNT];
    for (to, from) in taken.iter_mut().zip(numbers) {
        *to = u64::from_le_bytes(*from);
    }
    Some((taken, rest))
}

fn decode_steps(bytes: &[u8]) -> Option<Vec<TimedStep>> {
    let (records, []) = bytes.as_chunks::<STEP_LEN>() else { return None };
    let decode = |record: &[u8; STEP_LEN]| {
        let (step, rest) = record.split_first()?;
        let (nanoseconds, errno) = rest.split_first_chunk::<8>()?;
        Some(TimedStep {
            step: step_at(*step)?,
            nanoseconds: u64::from_le_bytes(*nanoseconds),
            errno: i32::from_le_bytes(errno.try_into().ok()?),
        })
    };
    records.iter().map(decode).collect()
}

fn index(step: Step) -> u8 {
    step as u8
}

fn step_at(index: u8) -> Option<Step> {
    Step::ALL.get(usize::from(index)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn reports_come_back_as_they_were() {
        let step = TimedStep { step: Step::PivotRoot, nanoseconds: 1 << 40, errno: 22 };
        let error = StepError { step: Step::Exec, errno: 2 };
        for report in [
            Report::Built(Root { device: 1, inode: u64::MAX }, vec![step; 40]),
            Report::SandboxReady(
                Seen { namespaces: [7; 7], root: Root { device: 1 << 40, inode: 2 } },
                vec![step],
            ),
            Report::GuestReady(vec![]),
            Report::Failed(error, vec![step]),
            Report::Ended(139, vec![step]),
        ] {
            let bytes = encode(&report);
            assert!(bytes.len() <= MAX_REPORT);
            assert_eq!(decode(&bytes), Some(report));
        }
    }

    #[test]
    fn broken_reports_are_refused() {
        for bytes in
            [&[][..], &[9], &[4, 250, 0, 0, 0, 0], &[5, 1], &[1, 0], &[1; 18], &[2; 70], &[3; 15]]
        {
            assert_eq!(decode(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn a_word_arrives_as_it_was_said() {
        let long = PathBuf::from("/".repeat(libc::PATH_MAX as usize - 1));
        for path in [PathBuf::from("/usr/bin/python3"), long] {
            for (language, from_image) in [(Language::Python, true), (Language::Node, false)] {
                let (path, real) = (path.clone(), path.join("real"));
                let real = if path.as_os_str().len() < 99 { real } else { path.clone() };
                let program = Program { path, real, identity: (1 << 40, u64::MAX) };
                let word = Word { language, from_image, program };
                let (ours, theirs) = UnixDatagram::pair().unwrap();
                start(ours.as_fd(), &word).unwrap();
                assert_eq!(wait_for_start(theirs.as_fd()), Ok(Some(word)));
            }
        }
        for (start, rest) in [
            (&[][..], &[][..]),
            (&[0], &[]),
            (&[0, 0], &[0; 8]),
            (&[9, 0], &[0; 17]),
            (&[0, 2], &[0; 17]),
            (&[0, 1], &[1; 17]),
        ] {
            assert_eq!(decode_word(&[start, rest].concat()), None, "{start:?} {rest:?}");
        }
    }

    #[test]
    fn every_step_has_the_index_of_its_place() {
        for (place, step) in Step::ALL.iter().enumerate() {
            assert_eq!(usize::from(index(*step)), place);
        }
    }
}
