//! A program that does nothing, run in each language: a sandbox that stands says nothing of the interpreter.
//!
//! It is no client's call, and leaves no audit record.

use crate::backend::{Finish, Prepared};
use crate::config::{Config, table};
use crate::engine::Progress;
use crate::escape::for_display;
use crate::run::output::Output;
use protocol::{Cause, Ending, Language, OutOfRange, Refusal, Retry, Script, TimeoutSeconds};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How long it may take, in seconds: an emulated machine takes many to start node.
const TIMEOUT: u64 = 60;
/// How much is shown of what an interpreter says when it fails, in characters.
const SHOWN: usize = 200;

/// Where an interpreter comes from, which is where the fix is.
#[derive(Clone, Copy)]
enum Source {
    Image,
    Machine,
}

/// Runs it in what was prepared for the language.
///
/// # Errors
/// A refusal unless it was started and ended with exit code 0. What it prints is nobody's business.
pub async fn run(config: &Config, language: Language, prepared: Prepared) -> Result<(), Refusal> {
    let source = match (prepared.rootfs(), &prepared.isolation().rootfs) {
        (Some(_), None) => Source::Image,
        _ => Source::Machine,
    };
    let script = script(config, language).map_err(|error| fault(error.to_string(), language))?;
    let mut output = Output::new(script.output_bytes, watch::Sender::new(Progress::Queued), None);
    let finish = prepared.execute(script, &mut output, &CancellationToken::new()).await;
    judge(language, source, finish, &output.stderr.bytes)
}

fn script(config: &Config, language: Language) -> Result<Script, OutOfRange> {
    let code = match language {
        Language::Python => "pass\n",
        Language::Bash => ":\n",
        Language::Node => ";\n",
    };
    Ok(Script {
        language,
        code: code.to_owned(),
        timeout_seconds: TimeoutSeconds::new(TIMEOUT)?,
        output_bytes: config.max_output,
    })
}

fn judge(language: Language, source: Source, finish: Finish, stderr: &[u8]) -> Result<(), Refusal> {
    let program = language.program();
    let ending = match finish {
        Finish::Finished(outcome) if outcome.ending == Ending::Exited(0) => return Ok(()),
        Finish::Finished(outcome) => outcome.ending,
        Finish::NotStarted(refusal) => return Err(not_started(language, source, refusal)),
        Finish::Lost(what) => return Err(fault(what, language)),
        Finish::Stopped => return Err(fault("it was stopped".to_owned(), language)),
    };
    let what = format!(
        "{language} cannot run: {program} was started with a program that does nothing, and {}{}",
        ended(&ending),
        last_line(stderr)
    );
    let fix = match ending {
        Ending::OutOfMemory => format!("raise {}", table::MEM_MB.name),
        Ending::OutOfMemoryOutside => "free memory on this machine".to_owned(),
        _ => working(language, source),
    };
    Err(refusal(what, fix))
}

fn ended(ending: &Ending) -> String {
    match ending {
        Ending::Exited(code) => format!("ended with exit code {code}"),
        Ending::Killed(signal) => format!("was ended by signal {signal}"),
        Ending::TimedOut => format!("had not ended after {TIMEOUT} s"),
        Ending::Overflow(stream) => format!("flooded its {}", stream.name()),
        Ending::OutOfMemory | Ending::OutOfMemoryOutside => "ran out of memory".to_owned(),
        Ending::InitEnded => "ended its sandbox".to_owned(),
    }
}

/// What it said last, which the image's own code may have chosen.
fn last_line(stderr: &[u8]) -> String {
    let said = String::from_utf8_lossy(stderr);
    let last = said.trim_end().lines().next_back().unwrap_or_default();
    if last.is_empty() { String::new() } else { format!(" ({})", for_display(last, SHOWN)) }
}

/// The reason is the backend's; which setting can change it is known here.
fn not_started(language: Language, source: Source, refusal: Refusal) -> Refusal {
    let what = format!("{language} cannot run: {}", refusal.what);
    let fix = match (refusal.cause, source) {
        (Cause::Rootfs, Source::Image) => {
            format!("{}, or {}", refusal.fix, working(language, source))
        }
        _ => refusal.fix.clone(),
    };
    Refusal { what, fix, ..refusal }
}

/// How to get an interpreter that works.
fn working(language: Language, source: Source) -> String {
    let program = language.program();
    let setting = match language {
        Language::Python | Language::Bash => table::IMAGE_PYTHON.name,
        Language::Node => table::IMAGE_NODE.name,
    };
    match source {
        Source::Image => format!("set {setting} to an image whose {program} works"),
        Source::Machine => format!("reinstall {} on this machine", language.package()),
    }
}

fn fault(what: String, language: Language) -> Refusal {
    let fix = "run setup again, and `vestibule-mcp doctor` if this is not the first time";
    refusal(format!("{language} was tried, and {what}"), fix.to_owned())
}

fn refusal(what: String, fix: String) -> Refusal {
    Refusal { what, cause: Cause::Other, fix, retry: Retry::AfterFix, at: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{Measured, Outcome, StreamTotals, Usage};

    fn finished(ending: Ending) -> Finish {
        let missing = || Measured::Missing("no".to_owned());
        let (cpu_us, mem_peak_bytes, pids_peak) = (missing(), missing(), missing());
        Finish::Finished(Outcome {
            ending,
            stdout: StreamTotals::default(),
            stderr: StreamTotals::default(),
            usage: Usage { wall_us: 1, cpu_us, mem_peak_bytes, pids_peak },
            limits_hit: vec![],
            limits_lost: vec![],
            denied: vec![],
            denied_stopped: false,
            steps: vec![],
        })
    }

    fn told(source: Source, finish: Finish, stderr: &[u8]) -> String {
        judge(Language::Node, source, finish, stderr).unwrap_err().without_retry()
    }

    #[test]
    fn only_exit_code_0_is_good_enough() {
        let ended = |ending| judge(Language::Bash, Source::Image, finished(ending), b"said");
        assert_eq!(ended(Ending::Exited(0)), Ok(()));
        for ending in [Ending::Exited(1), Ending::Killed(9), Ending::TimedOut, Ending::InitEnded] {
            assert!(ended(ending.clone()).is_err(), "{ending:?}");
        }
        assert!(judge(Language::Bash, Source::Image, Finish::Stopped, b"").is_err());
    }

    #[test]
    fn a_failure_names_its_end_its_last_words_and_what_can_be_done() {
        let text = told(Source::Image, finished(Ending::Exited(3)), b"first\nla\x1bst\n");
        assert!(text.starts_with("node cannot run: node was started"), "{text}");
        assert!(
            text.contains("exit code 3 (la\\u{1b}st). Fix: set VESTIBULE_IMAGE_NODE"),
            "{text}"
        );
        let text = told(Source::Machine, finished(Ending::Killed(4)), b"");
        assert!(text.contains("by signal 4. Fix: reinstall nodejs"), "{text}");
        let text = told(Source::Image, finished(Ending::OutOfMemory), b"");
        assert!(text.contains("Fix: raise VESTIBULE_MEM_MB"), "{text}");
        let text = told(Source::Image, Finish::Lost("its helper died".to_owned()), b"");
        assert!(text.contains("its helper died. Fix: run setup again"), "{text}");
    }

    #[test]
    fn an_interpreter_of_an_image_that_is_no_program_names_the_images_setting() {
        let refused = |cause, source| {
            let refusal = Refusal { cause, ..refusal("no format".into(), "fix it".into()) };
            told(source, Finish::NotStarted(refusal), b"")
        };
        let text = refused(Cause::Rootfs, Source::Image);
        assert!(
            text.contains("node cannot run: no format. Fix: fix it, or set VESTIBULE_IMAGE_NODE")
        );
        assert!(!refused(Cause::Rootfs, Source::Machine).contains("VESTIBULE_IMAGE_NODE"));
        assert!(!refused(Cause::Other, Source::Image).contains("VESTIBULE_IMAGE_NODE"));
    }
}
