//! The refused calls that the filter reports: each is answered with `EPERM` and its name kept.

use crate::filter;
use crate::sys::seccomp;
use nix::errno::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// After that many reports the listener is closed: the kernel then answers `ENOSYS` by itself, and
/// a guest that loops costs nothing any more.
const REPORTS: u32 = 256;

/// What was refused so far.
#[derive(Debug, Default)]
pub struct Denials {
    listener: Option<OwnedFd>,
    reports: u32,
    names: Vec<String>,
}

impl Denials {
    /// Starts listening.
    pub fn listen(&mut self, listener: OwnedFd) {
        self.listener = Some(listener);
    }

    /// The descriptor to poll, while there is one.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.listener.as_ref().map(AsFd::as_fd)
    }

    /// Takes and answers one report. A caller that died meanwhile is none.
    pub fn answer(&mut self) {
        let Some(listener) = &self.listener else { return };
        let answered = match seccomp::receive(listener.as_fd()) {
            Ok(None) => return,
            Ok(Some(call)) => {
                self.reports += 1;
                let name = filter::reported_name(call.syscall).unwrap_or("unknown");
                if !self.names.iter().any(|known| known == name) {
                    self.names.push(name.to_owned());
                }
                seccomp::refuse(listener.as_fd(), call.id, Errno::EPERM)
            }
            Err(errno) => Err(errno),
        };
        if answered.is_err() || self.reports >= REPORTS {
            self.listener = None;
        }
    }

    /// Stops listening, for instance when no process with the filter is left.
    pub fn close(&mut self) {
        self.listener = None;
    }

    /// The names in order of their first use, and whether reporting was stopped.
    pub fn into_result(self) -> (Vec<String>, bool) {
        (self.names, self.reports >= REPORTS)
    }
}
