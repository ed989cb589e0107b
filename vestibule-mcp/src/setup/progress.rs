//! What is shown of a long transfer: a line that is rewritten on a terminal, plain lines elsewhere.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// How often a terminal's line is rewritten.
const REDRAW: Duration = Duration::from_millis(100);

/// How long plain lines may stay away while bytes come.
const SILENCE: Duration = Duration::from_secs(10);

/// How far apart plain lines are otherwise, in percent.
const STEP: u64 = 20;

/// Writes what happens. Whoever reads it may have gone: that is no error.
pub struct Progress {
    out: Box<dyn Write>,
    terminal: bool,
    transfer: Option<Transfer>,
    /// How many characters the line on the terminal has that is to be rewritten.
    drawn: usize,
}

struct Transfer {
    label: String,
    total: u64,
    done: u64,
    /// Of `done`, what came since the start, for the speed.
    loaded: u64,
    start: Instant,
    shown: Instant,
    shown_percent: u64,
}

impl Progress {
    /// To standard error.
    pub fn stderr() -> Progress {
        Progress::new(io::stderr(), io::stderr().is_terminal())
    }

    /// To any place, which is a terminal or not.
    pub fn new(out: impl Write + 'static, terminal: bool) -> Progress {
        Progress { out: Box::new(out), terminal, transfer: None, drawn: 0 }
    }

    /// Begins a transfer of `total` bytes. The label is shown as it is.
    pub fn start(&mut self, label: &str, total: u64) {
        let now = Instant::now();
        self.transfer = Some(Transfer {
            label: label.to_owned(),
            total,
            done: 0,
            loaded: 0,
            start: now,
            shown: now,
            shown_percent: 0,
        });
        self.show();
    }

    /// How many bytes are there.
    pub fn done(&self) -> u64 {
        self.transfer.as_ref().map_or(0, |transfer| transfer.done)
    }

    /// More bytes have come.
    pub fn loaded(&mut self, bytes: u64) {
        let Some(transfer) = &mut self.transfer else { return };
        transfer.done += bytes;
        transfer.loaded += bytes;
        let due = match self.terminal {
            true => transfer.shown.elapsed() >= REDRAW,
            false => {
                transfer.percent() >= transfer.shown_percent + STEP
                    || transfer.shown.elapsed() >= SILENCE
            }
        };
        if due && transfer.done < transfer.total {
            self.show();
        }
    }

    /// So many bytes are there, not because they came: they were found, or thrown away.
    pub fn at(&mut self, done: u64) {
        if let Some(transfer) = &mut self.transfer {
            transfer.done = done;
            transfer.shown_percent = transfer.shown_percent.min(transfer.percent());
        }
    }

    /// Ends the transfer and leaves its last state on the screen.
    pub fn finish(&mut self) {
        if self.transfer.is_some() {
            self.show();
            self.break_line();
            self.transfer = None;
        }
    }

    /// Writes a line. The terminal's own line comes back with the next bytes.
    pub fn say(&mut self, line: &str) {
        if self.drawn > 0 {
            self.write(&format!("\r{:1$}\r", "", self.drawn));
            self.drawn = 0;
        }
        self.write(&format!("{line}\n"));
    }

    fn show(&mut self) {
        let Some(transfer) = &mut self.transfer else { return };
        transfer.shown = Instant::now();
        transfer.shown_percent = transfer.percent();
        let line = transfer.line();
        if self.terminal {
            let length = line.chars().count();
            let padded = format!("\r{line:0$}", self.drawn);
            self.drawn = length;
            self.write(&padded);
        } else {
            self.write(&format!("{line}\n"));
        }
    }

    fn break_line(&mut self) {
        if self.drawn > 0 {
            self.drawn = 0;
            self.write("\n");
        }
    }

    fn write(&mut self, text: &str) {
        let _ = self.out.write_all(text.as_bytes()).and_then(|()| self.out.flush());
    }
}

/// A transfer that is given up ends its line all the same.
impl Drop for Progress {
    fn drop(&mut self) {
        self.break_line();
    }
}

impl Transfer {
    fn percent(&self) -> u64 {
        self.done.saturating_mul(100).checked_div(self.total).unwrap_or(100)
    }

    /// `python: 40 %, 20.1 of 50.3 MB, 5.2 MB/s`, a MB being a million bytes.
    fn line(&self) -> String {
        let (done, total) = (megabytes(self.done), megabytes(self.total));
        let line = format!("{}: {} %, {done} of {total} MB", self.label, self.percent());
        let seconds = self.start.elapsed().as_secs_f64();
        if self.loaded == 0 || seconds < 0.5 {
            return line;
        }
        format!("{line}, {:.1} MB/s", self.loaded as f64 / 1e6 / seconds)
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{}.{}", bytes / 1_000_000, bytes / 100_000 % 10)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    /// What was written.
    #[derive(Clone, Default)]
    pub(crate) struct Screen(Rc<RefCell<Vec<u8>>>);

    impl Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Screen {
        pub(crate) fn text(&self) -> String {
            String::from_utf8(self.0.borrow().clone()).unwrap()
        }
    }

    #[test]
    fn plain_lines_come_now_and_then() {
        let screen = Screen::default();
        let mut progress = Progress::new(screen.clone(), false);
        progress.start("python", 10_000_000);
        progress.at(1_000_000);
        for _ in 0..90 {
            progress.loaded(100_000);
        }
        progress.finish();
        progress.say("done");
        let text = screen.text();
        let percents: Vec<&str> =
            text.lines().map(|line| line.split(',').next().unwrap()).collect();
        let expected = [
            "python: 0 %",
            "python: 20 %",
            "python: 40 %",
            "python: 60 %",
            "python: 80 %",
            "python: 100 %",
            "done",
        ];
        assert_eq!(percents, expected, "{text}");
        assert!(text.contains("2.0 of 10.0 MB"), "{text}");
        assert!(!text.contains('\r'), "{text}");
    }

    #[test]
    fn on_a_terminal_one_line_is_rewritten_and_gives_way_to_others() {
        let screen = Screen::default();
        let mut progress = Progress::new(screen.clone(), true);
        progress.start("a", 1_000_000);
        progress.say("b");
        progress.loaded(1_000_000);
        progress.finish();
        let first = "\ra: 0 %, 0.0 of 1.0 MB";
        let blank = format!("\r{}\r", " ".repeat(first.len() - 1));
        assert_eq!(screen.text(), format!("{first}{blank}b\n\ra: 100 %, 1.0 of 1.0 MB\n"));
    }

    #[test]
    fn nothing_to_load_is_all_of_it_and_a_reader_that_left_is_no_error() {
        let screen = Screen::default();
        let mut progress = Progress::new(screen.clone(), false);
        progress.start("a", 0);
        assert_eq!(screen.text(), "a: 100 %, 0.0 of 0.0 MB\n");
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let mut progress = Progress::new(writer, false);
        progress.start("a", 1);
        progress.loaded(1);
        assert_eq!(progress.done(), 1);
        progress.finish();
    }
}
