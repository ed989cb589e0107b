//! One MCP session over stdin and stdout, from its first line to the end of the process.

use crate::config::Config;
use crate::engine::Engine;
use crate::mcp::guard::Guarded;
use crate::mcp::handler::Handler;
use crate::mcp::stdio::{self, Output};
use crate::mcp::transport::Stdio;
use crate::signals::Signals;
use rmcp::service::serve_directly;
use std::io::{self, IsTerminal};
use std::pin::pin;
use std::time::Duration;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// JSON may write a byte of code as `\u00xx`.
const LONGEST_ESCAPE: usize = 6;
/// Bytes of a call beside its code.
const AROUND_CODE: usize = 256 * 1024;
/// For runs to end and their calls to be answered, after the session's end. With the next, and the
/// log's last lines, it stays below 300 ms.
const TO_STOP: Duration = Duration::from_millis(180);
/// For the last answers to be read by the client.
const TO_WRITE: Duration = Duration::from_millis(50);

/// How a session ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum End {
    /// The client closed its end of stdin.
    Input,
    /// The client closed its end of stdout.
    Output,
    /// A signal.
    Signal(&'static str),
    /// The service loop itself ended, which it does only by a panic.
    Service,
}

/// Serves one session, and returns the exit code to leave with at once: a thread that waits for a
/// line of stdin can be ended in no other way.
///
/// # Errors
/// When the process is refused a thread or a signal handler.
pub async fn serve(config: Config) -> io::Result<i32> {
    let mut signals = Signals::new()?;
    warn(&config);
    let output = Output::start(io::stdout())?;
    let line_limit = config.max_code.get() as usize * LONGEST_ESCAPE + AROUND_CODE;
    let stdin = io::BufReader::new(io::stdin());
    let lines = stdio::read(stdin, line_limit, output.clone())?;
    let transport = Stdio::new(lines, line_limit, output.clone());
    let mut state = transport.state();

    let engine = Engine::new(config);
    let stopping = CancellationToken::new();
    let handler = Handler::new(engine.clone(), stopping.clone());
    // Directly: rmcp's opening phase ends the process over a notification that comes too early, or
    // a failed `initialize`. What it checks, `Guarded` and `Handler` do.
    let service = serve_directly(Guarded(handler), transport, None);
    // Kept until the end: dropping it would stop rmcp from answering.
    let mut serving = pin!(service.waiting());
    let end = tokio::select! {
        // Not before the lines before the end are taken: they are owed an answer.
        Ok(_) = state.wait_for(|state| state.input_taken) => End::Input,
        () = output.gone() => End::Output,
        signal = signals.next() => End::Signal(signal),
        _ = &mut serving => End::Service,
    };
    tracing::info!(?end, "the session ends");

    stopping.cancel();
    // The guard that comes with the state must go: the transport, on this thread, writes to it.
    let answered = async { state.wait_for(|state| state.open == 0).await.is_ok() };
    let stopped = async { tokio::join!(engine.shut_down(), answered) };
    if timeout(TO_STOP, stopped).await.is_err() {
        tracing::warn!("runs that did not end in time are left to their helpers to end");
    }
    let _ = timeout(TO_WRITE, output.written()).await;
    Ok(i32::from(end == End::Service))
}

/// Says what a person should know who started the server by hand, or reads the client's log. What is
/// wrong with the settings is answered to every call as well; what is doubtful in them, the engine
/// logs.
fn warn(config: &Config) {
    if io::stdin().is_terminal() {
        tracing::warn!(
            "waiting for an MCP client on standard input; --help says what else there is"
        );
    }
    for problem in &config.problems {
        tracing::warn!("{problem}");
    }
}
