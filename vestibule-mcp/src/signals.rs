//! The signals that end the program.

use std::io;

/// SIGINT, SIGTERM and SIGHUP, from the moment this is made; on Windows the console's counterparts.
pub struct Signals(platform::Signals);

impl Signals {
    /// Takes the signals over from the system, which would end the process at once.
    ///
    /// # Errors
    /// When the system refuses a handler.
    pub fn new() -> io::Result<Signals> {
        platform::Signals::new().map(Signals)
    }

    /// Waits for the next one and names it.
    pub async fn next(&mut self) -> &'static str {
        self.0.next().await
    }
}

/// Has a write beyond the limit of a file's size (`ulimit -f`) fail, in place of ending the process without
/// a word. By a handler, since what the process starts would inherit that the signal is ignored.
///
/// # Errors
/// When the system refuses a handler.
pub fn outlive_file_limit() -> io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        // The handler stays; nobody has to listen.
        signal(SignalKind::from_raw(nix::libc::SIGXFSZ)).map(drop)
    }
    #[cfg(not(unix))]
    Ok(())
}

#[cfg(unix)]
mod platform {
    use std::io;
    use tokio::signal::unix::{Signal, SignalKind, signal};

    pub struct Signals {
        interrupt: Signal,
        terminate: Signal,
        hangup: Signal,
    }

    impl Signals {
        pub fn new() -> io::Result<Signals> {
            Ok(Signals {
                interrupt: signal(SignalKind::interrupt())?,
                terminate: signal(SignalKind::terminate())?,
                hangup: signal(SignalKind::hangup())?,
            })
        }

        pub async fn next(&mut self) -> &'static str {
            tokio::select! {
                _ = self.interrupt.recv() => "SIGINT",
                _ = self.terminate.recv() => "SIGTERM",
                _ = self.hangup.recv() => "SIGHUP",
            }
        }
    }
}

#[cfg(windows)]
mod platform {
    use std::io;
    use tokio::signal::windows::{CtrlBreak, CtrlC, CtrlClose, ctrl_break, ctrl_c, ctrl_close};

    pub struct Signals {
        interrupt: CtrlC,
        terminate: CtrlBreak,
        close: CtrlClose,
    }

    impl Signals {
        pub fn new() -> io::Result<Signals> {
            Ok(Signals { interrupt: ctrl_c()?, terminate: ctrl_break()?, close: ctrl_close()? })
        }

        pub async fn next(&mut self) -> &'static str {
            tokio::select! {
                _ = self.interrupt.recv() => "Ctrl-C",
                _ = self.terminate.recv() => "Ctrl-Break",
                _ = self.close.recv() => "the console's end",
            }
        }
    }
}
