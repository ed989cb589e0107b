//! Stands between rmcp's service loop and the handler: no request is served before the client has
//! said which revision it speaks, and none stays unanswered because its handler panicked.

use rmcp::model::{
    ClientNotification, ClientRequest, ErrorData, ProtocolVersion, ServerConfig, ServerResult,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, Service};
use rmcp::{ErrorData as McpError, ServerHandler};
use std::borrow::Cow;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// A handler whose every request gets an answer.
pub struct Guarded<H>(pub H);

impl<H: ServerHandler> Service<RoleServer> for Guarded<H> {
    async fn handle_request(
        &self,
        request: ClientRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<ServerResult, McpError> {
        self.check_opened(&request, &context)?;
        let method = request.method().to_owned();
        let answer = caught(Service::handle_request(&self.0, request, context)).await;
        answer.unwrap_or_else(|Panicked| {
            let what = format!(
                "Internal error: the handler of {method} panicked (a bug in vestibule-mcp; its \
                 log says where). The session goes on; the call may be tried again"
            );
            Err(ErrorData::internal_error(what, None))
        })
    }

    async fn handle_notification(
        &self,
        notification: ClientNotification,
        context: NotificationContext<RoleServer>,
    ) -> Result<(), McpError> {
        // What a notification's handler panicked over is in the log; nobody waits for an answer.
        let handled = caught(self.0.handle_notification(notification, context)).await;
        handled.unwrap_or(Ok(()))
    }

    fn get_info(&self) -> ServerConfig {
        ServerHandler::get_info(&self.0)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        ServerHandler::supported_protocol_versions(&self.0)
    }
}

impl<H: ServerHandler> Guarded<H> {
    /// A session is opened by `initialize`, or anew by the metadata of every single request. rmcp
    /// checks the latter only for a request that names a revision; an unknown one is its to refuse.
    fn check_opened(
        &self,
        request: &ClientRequest,
        context: &RequestContext<RoleServer>,
    ) -> Result<(), McpError> {
        let needs_no_session = matches!(
            request,
            ClientRequest::InitializeRequest(_)
                | ClientRequest::PingRequest(_)
                | ClientRequest::CustomRequest(_)
        );
        if needs_no_session || context.peer.peer_info().is_some() {
            return Ok(());
        }
        let supported = ServerHandler::supported_protocol_versions(&self.0);
        if context.meta.protocol_version().is_some_and(|named| !supported.contains(&named)) {
            return Ok(());
        }
        let missing = context.meta.missing_required_keys(&ProtocolVersion::V_2026_07_28);
        if missing.is_empty() {
            return Ok(());
        }
        let what = format!(
            "Invalid params: send `initialize` first, or put {} into the request's `_meta`",
            missing.join(" and ")
        );
        Err(ErrorData::invalid_params(what, None))
    }
}

struct Panicked;

/// The output of `future`, or that it panicked. The panic hook has logged it by then.
async fn caught<F: Future>(future: F) -> Result<F::Output, Panicked> {
    let mut future = pin!(future);
    poll_fn(|context| {
        // After a panic the future is only dropped, so nothing sees a state that it left half-made;
        // what handlers share is behind locks that are never held across a panic's reach.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(poll) => poll.map(Ok),
            Err(_) => Poll::Ready(Err(Panicked)),
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::buffer::Buffer;
    use crate::mcp::line::Line;
    use crate::mcp::stdio::Output;
    use crate::mcp::transport::Stdio;
    use rmcp::model::{CallToolRequestParams, CallToolResponse, ListToolsResult};
    use rmcp::model::{PaginatedRequestParams, ServerCapabilities};
    use rmcp::service::serve_directly;
    use serde_json::{Value, json};
    use tokio::sync::mpsc;

    /// Lists no tools, and panics when one is called.
    struct Panics;

    impl ServerHandler for Panics {
        fn get_info(&self) -> ServerConfig {
            ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
        }
        async fn list_tools(
            &self,
            _: Option<PaginatedRequestParams>,
            _: RequestContext<RoleServer>,
        ) -> Result<ListToolsResult, McpError> {
            Ok(ListToolsResult::default())
        }
        async fn call_tool(
            &self,
            _: CallToolRequestParams,
            _: RequestContext<RoleServer>,
        ) -> Result<CallToolResponse, McpError> {
            tokio::task::yield_now().await;
            panic!("on purpose")
        }
    }

    /// Sends these requests, with their places as ids, and gives the answers in the same order.
    async fn session(requests: &[(&str, Value)]) -> Vec<Value> {
        let client = Buffer::default();
        let output = Output::start(client.clone()).expect("a thread");
        let (to_server, lines) = mpsc::channel(requests.len());
        let transport = Stdio::new(lines, 1000, output.clone());
        let mut state = transport.state();
        for (id, (method, params)) in requests.iter().enumerate() {
            let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
            to_server.try_send(Line::Whole(line.to_string().into())).expect("there is room");
        }
        drop(to_server);
        let _service = serve_directly(Guarded(Panics), transport, None);
        state.wait_for(|state| state.input_taken && state.open == 0).await.expect("it serves");
        let mut answers = client.heard(&output).await;
        answers.sort_by_key(|answer| answer["id"].as_u64());
        answers
    }

    fn initialize() -> (&'static str, Value) {
        let info = json!({"name": "test", "version": "1"});
        let params =
            json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info});
        ("initialize", params)
    }

    #[tokio::test]
    async fn a_panic_is_answered_and_the_session_goes_on() {
        let call = ("tools/call", json!({"name": "x"}));
        let answers = session(&[initialize(), call, ("ping", json!({}))]).await;
        assert_eq!(answers[1]["error"]["code"], json!(-32603), "{}", answers[1]);
        assert_eq!(answers[2]["result"], json!({}));
    }

    #[tokio::test]
    async fn nothing_is_served_before_a_revision_is_named() {
        let revision = |revision: &str, capabilities: Value| {
            let meta = json!({
                "io.modelcontextprotocol/protocolVersion": revision,
                "io.modelcontextprotocol/clientCapabilities": capabilities,
            });
            ("tools/list", json!({ "_meta": meta }))
        };
        let bare = || ("tools/list", json!({}));
        let answers = session(&[
            ("ping", json!({})),
            bare(),
            revision("2026-07-28", json!({})),
            revision("2026-07-28", Value::Null),
            revision("2031-01-01", json!({})),
            // A stateless request opens nothing for those that follow.
            bare(),
            initialize(),
            bare(),
            revision("2026-07-28", json!({})),
        ])
        .await;
        let codes: Vec<_> = answers.iter().map(|answer| answer["error"]["code"].as_i64()).collect();
        let (malformed, unsupported) = (Some(-32602), Some(-32022));
        let expected = [None, malformed, None, malformed, unsupported, malformed, None, None, None];
        assert_eq!(codes, expected);
    }
}
