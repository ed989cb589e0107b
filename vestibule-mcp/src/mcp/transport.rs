//! rmcp's view of the client: a [`Transport`] that answers by itself whatever rmcp cannot.
//!
//! rmcp's own stdio transport drops or mistakes lines that a client is owed an answer to, and its
//! service loop mixes up two requests with one id. So every request gets a number of this
//! transport's own before rmcp sees it, and its answer the client's id again.

use super::line::Line;
use super::message::{self, Message};
use super::stdio::Output;
use rmcp::model::{
    CancelledNotification, CancelledNotificationParam, ClientNotification, ClientRequest,
    ErrorData, JsonRpcMessage, RequestId,
};
use rmcp::service::{RoleServer, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Serialize;
use serde_json::Value;
use std::collections::HashMap;
use std::convert::Infallible;
use std::future::ready;
use tokio::sync::{mpsc, watch};

/// Requests that may be under way at once. Far above what any client sends, it bounds the memory
/// that one can take.
const MAX_OPEN: usize = 1024;
/// Open requests above which answers go before further requests.
const ANSWER_FIRST: usize = 32;

/// The transport over the process's own stdin and stdout.
pub struct Stdio {
    lines: mpsc::Receiver<Line>,
    line_limit: usize,
    output: Output,
    /// What is under way, by our own numbers.
    open: HashMap<i64, Open>,
    last_number: i64,
    /// The latest tool call that was answered.
    last_answered: i64,
    /// Tool calls before this one are not waited for any more.
    given_up_before: i64,
    state: watch::Sender<State>,
}

/// A request that is under way.
struct Open {
    id: Value,
    is_call: bool,
}

/// What is still to be done for the client.
#[derive(Clone, Copy, Debug, Default)]
pub struct State {
    /// Requests without an answer yet.
    pub open: usize,
    /// Whether the last line of the input has been taken.
    pub input_taken: bool,
}

/// An answer with the client's id in place of ours. The id of an error is left out when it is not
/// known: MCP allows no null there.
#[derive(Serialize)]
struct Answer<'a, T> {
    jsonrpc: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Value>,
    #[serde(flatten)]
    content: Content<T>,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Content<T> {
    Result(T),
    Error(ErrorData),
}

impl Stdio {
    /// A transport over these lines, none of them longer than `line_limit` bytes.
    pub fn new(lines: mpsc::Receiver<Line>, line_limit: usize, output: Output) -> Stdio {
        Stdio {
            lines,
            line_limit,
            output,
            open: HashMap::new(),
            last_number: 0,
            last_answered: 0,
            given_up_before: 0,
            state: watch::Sender::default(),
        }
    }

    /// Where the state of the transport can be watched.
    pub fn state(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// What rmcp is to see of a line, if anything.
    fn take(&mut self, line: &Line) -> Option<RxJsonRpcMessage<RoleServer>> {
        match line {
            Line::Whole(bytes) => self.dispatch(message::parse(bytes)),
            Line::TooLong { id } => {
                let what = format!(
                    "Invalid request: a line may have at most {} bytes; that is enough for the \
                     most code that is allowed, see `VESTIBULE_MAX_CODE_BYTES`",
                    self.line_limit
                );
                self.refuse(id.as_ref(), ErrorData::invalid_request(what, None));
                None
            }
        }
    }

    fn dispatch(&mut self, message: Message) -> Option<RxJsonRpcMessage<RoleServer>> {
        match message {
            Message::Request(id, request) => self.open(id, *request),
            Message::Cancelled(id) => self.cancel(&id),
            Message::Notification(notification) => {
                Some(JsonRpcMessage::notification(*notification))
            }
            Message::Refused(id, error) => {
                self.refuse(id.as_ref(), error);
                None
            }
            Message::Ignored(why) => {
                tracing::warn!("a line from the client was ignored: {why}");
                None
            }
            Message::Blank => None,
        }
    }

    fn open(&mut self, id: Value, request: ClientRequest) -> Option<RxJsonRpcMessage<RoleServer>> {
        if let Err(error) = self.check_open(&id) {
            self.refuse(Some(&id), error);
            return None;
        }
        self.last_number += 1;
        let is_call = matches!(request, ClientRequest::CallToolRequest(_));
        self.open.insert(self.last_number, Open { id, is_call });
        self.publish();
        Some(JsonRpcMessage::request(request, RequestId::Number(self.last_number)))
    }

    fn check_open(&self, id: &Value) -> Result<(), ErrorData> {
        if self.number_of(id).is_some() {
            let what = "Invalid request: a request with this id is still under way";
            return Err(ErrorData::invalid_request(what, None));
        }
        if self.open.len() >= MAX_OPEN {
            let what = format!(
                "Invalid request: {MAX_OPEN} requests are under way; send this one again once \
                 some of them are answered"
            );
            return Err(ErrorData::invalid_request(what, None));
        }
        Ok(())
    }

    fn number_of(&self, id: &Value) -> Option<i64> {
        self.open.iter().find_map(|(&number, open)| (open.id == *id).then_some(number))
    }

    /// Forgets a request that is not to be answered any more, and lets rmcp stop its handler.
    fn cancel(&mut self, id: &Value) -> Option<RxJsonRpcMessage<RoleServer>> {
        let number = self.number_of(id)?;
        self.close(number);
        let params = CancelledNotificationParam::new(Some(RequestId::Number(number)), None);
        let cancelled = CancelledNotification::new(params);
        let notification = ClientNotification::CancelledNotification(cancelled);
        Some(JsonRpcMessage::notification(notification))
    }

    fn close(&mut self, number: i64) -> Option<Open> {
        let open = self.open.remove(&number);
        self.publish();
        open
    }

    /// A client that closes its input while a later call than this one has been answered has given
    /// this one up, without a word: so does Python's SDK 1.x when a call takes it too long. That
    /// SDK fails when it is told anything while it closes.
    fn end_input(&mut self) {
        self.given_up_before = self.last_answered;
        self.state.send_modify(|state| state.input_taken = true);
    }

    fn publish(&self) {
        self.state.send_modify(|state| state.open = self.open.len());
    }

    fn refuse(&self, id: Option<&Value>, error: ErrorData) {
        tracing::warn!(code = error.code.0, "a line from the client was refused");
        self.answer(id, Content::<()>::Error(error));
    }

    fn answer(&self, id: Option<&Value>, content: Content<impl Serialize>) {
        let answer = Answer { jsonrpc: "2.0", id, content };
        match serde_json::to_vec(&answer) {
            Ok(line) => self.write(line),
            Err(error) => {
                let what = format!("Internal error: the answer cannot be written: {error}");
                let content = Content::<()>::Error(ErrorData::internal_error(what, None));
                let answer = Answer { jsonrpc: "2.0", id, content };
                self.write(serde_json::to_vec(&answer).unwrap_or_default());
            }
        }
    }

    fn write(&self, mut line: Vec<u8>) {
        line.push(b'\n');
        self.output.send(line);
    }

    fn deliver(&mut self, message: TxJsonRpcMessage<RoleServer>) {
        let (id, content) = match message {
            JsonRpcMessage::Response(response) => (response.id, Content::Result(response.result)),
            JsonRpcMessage::Error(error) => match error.id {
                Some(id) => (id, Content::Error(error.error)),
                None => return self.refuse(None, error.error),
            },
            other => match serde_json::to_vec(&other) {
                Ok(line) => return self.write(line),
                Err(error) => {
                    return tracing::error!(%error, "a notification cannot be written");
                }
            },
        };
        let RequestId::Number(number) = id else { return };
        match self.close(number) {
            Some(open) if open.is_call && number < self.given_up_before => {
                tracing::debug!(number, "a call that the client gave up is not answered");
            }
            Some(open) => {
                if open.is_call {
                    self.last_answered = self.last_answered.max(number);
                }
                self.answer(Some(&open.id), content);
            }
            None => tracing::debug!(number, "the answer to a cancelled request is dropped"),
        }
    }
}

impl Transport<RoleServer> for Stdio {
    type Error = Infallible;

    /// Queues the message at once, so that messages leave in the order of the calls.
    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Infallible>> + Send + 'static {
        self.deliver(item);
        ready(Ok(()))
    }

    /// The next message for rmcp. Never ends: rmcp would hold the process for 5 s after the end of
    /// input, and the server leaves by itself, at once.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if self.open.len() > ANSWER_FIRST {
                tokio::task::yield_now().await;
            }
            let Some(line) = self.lines.recv().await else {
                self.end_input();
                return std::future::pending().await;
            };
            if let Some(message) = self.take(&line) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Infallible> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
