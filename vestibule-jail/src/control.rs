//! The socket between supervisor and sandbox: what init and the guest report, and the one word that
//! starts the guest. Messages keep their boundaries (`SOCK_SEQPACKET`); both ends are this program.

use nix::errno::Errno;
use nix::sys::socket::{ControlMessage, MsgFlags, recv, send, sendmsg};
use protocol::{Language, Step, StepError, TimedStep};
use std::io::IoSlice;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// The largest message: every step twice over fits.
const MAX_REPORT: usize = 4096;
const STEP_LEN: usize = 13;

/// What the sandboxed side reports.
#[derive(Debug, PartialEq)]
pub enum Report {
    /// Init: the sandbox stands. Comes with the writable clone of `/sandbox`.
    SandboxReady(Vec<TimedStep>),
    /// Init: the limits are set and the filter is loaded, for itself and the guest.
    Confined(Vec<TimedStep>),
    /// The guest: everything but the exec is done. Comes with the filter's listener.
    GuestReady(Vec<TimedStep>),
    /// Init or the guest: a step failed, nothing was executed.
    Failed(StepError, Vec<TimedStep>),
    /// Init: the guest ended with this status of `waitpid(2)`.
    Ended(i32, Vec<TimedStep>),
}

/// Sends a report, with a descriptor if there is one.
///
/// # Errors
/// The errno of `sendmsg(2)`.
pub fn report(
    socket: BorrowedFd<'_>,
    report: &Report,
    descriptor: Option<BorrowedFd<'_>>,
) -> nix::Result<()> {
    let bytes = encode(report);
    let fds: Vec<RawFd> = descriptor.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&fds)];
    let with = if fds.is_empty() { &rights[..0] } else { &rights[..] };
    sendmsg::<()>(socket.as_raw_fd(), &[IoSlice::new(&bytes)], with, MsgFlags::MSG_NOSIGNAL, None)?;
    Ok(())
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
/// The errno of `send(2)`.
pub fn start(socket: BorrowedFd<'_>, language: Language) -> nix::Result<()> {
    let word = Language::ALL.iter().position(|known| *known == language).unwrap_or(0) as u8;
    send(socket.as_raw_fd(), &[word], MsgFlags::MSG_NOSIGNAL).map(drop)
}

/// Waits for the word to start the guest; `None` when the supervisor is gone.
///
/// # Errors
/// The errno of `recv(2)`; `EBADMSG` for a word that names no language.
pub fn wait_for_start(socket: BorrowedFd<'_>) -> nix::Result<Option<Language>> {
    let mut word = [0; 1];
    loop {
        return match recv(socket.as_raw_fd(), &mut word, MsgFlags::empty()) {
            Ok(0) => Ok(None),
            Ok(_) => {
                let [word] = word;
                let language = Language::ALL.get(usize::from(word)).copied();
                language.ok_or(Errno::EBADMSG).map(Some)
            }
            Err(Errno::EINTR) => continue,
            Err(errno) => Err(errno),
        };
    }
}

fn encode(report: &Report) -> Vec<u8> {
    let (tag, steps) = match report {
        Report::SandboxReady(steps) => (1, steps.as_slice()),
        Report::GuestReady(steps) => (2, steps.as_slice()),
        Report::Failed(_, steps) => (3, steps.as_slice()),
        Report::Ended(_, steps) => (4, steps.as_slice()),
        Report::Confined(steps) => (5, steps.as_slice()),
    };
    let mut bytes = vec![tag];
    match report {
        Report::Failed(error, _) => {
            bytes.push(index(error.step));
            bytes.extend_from_slice(&error.errno.to_le_bytes());
        }
        Report::Ended(status, _) => bytes.extend_from_slice(&status.to_le_bytes()),
        Report::SandboxReady(_) | Report::Confined(_) | Report::GuestReady(_) => {}
    }
    for taken in steps {
        bytes.push(index(taken.step));
        bytes.extend_from_slice(&taken.nanoseconds.to_le_bytes());
        bytes.extend_from_slice(&taken.errno.to_le_bytes());
    }
    bytes
}

fn decode(bytes: &[u8]) -> Option<Report> {
    let (tag, rest) = bytes.split_first()?;
    match tag {
        1 => Some(Report::SandboxReady(decode_steps(rest)?)),
        2 => Some(Report::GuestReady(decode_steps(rest)?)),
        3 => {
            let (step, rest) = rest.split_first()?;
            let (errno, rest) = rest.split_first_chunk::<4>()?;
            let error = StepError { step: step_at(*step)?, errno: i32::from_le_bytes(*errno) };
            Some(Report::Failed(error, decode_steps(rest)?))
        }
        4 => {
            let (status, rest) = rest.split_first_chunk::<4>()?;
            Some(Report::Ended(i32::from_le_bytes(*status), decode_steps(rest)?))
        }
        5 => Some(Report::Confined(decode_steps(rest)?)),
        _ => None,
    }
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

    #[test]
    fn reports_come_back_as_they_were() {
        let step = TimedStep { step: Step::PivotRoot, nanoseconds: 1 << 40, errno: 22 };
        let error = StepError { step: Step::Exec, errno: 2 };
        for report in [
            Report::SandboxReady(vec![step; 40]),
            Report::Confined(vec![step]),
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
        for bytes in [&[][..], &[9], &[3, 250, 0, 0, 0, 0], &[4, 1], &[1, 0], &[1; 15]] {
            assert_eq!(decode(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn every_step_has_the_index_of_its_place() {
        for (place, step) in Step::ALL.iter().enumerate() {
            assert_eq!(usize::from(index(*step)), place);
        }
    }
}
