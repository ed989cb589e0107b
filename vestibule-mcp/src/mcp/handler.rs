//! The two tools, as rmcp's service loop calls them.

use super::progress::Heartbeat;
use super::tools;
use crate::engine::{Call, Client, Content, Engine, Progress, Reply};
use crate::escape::for_display;
use crate::run::facts;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest,
    CustomResult, DiscoverResult, ErrorCode, Implementation, InitializeRequestParams,
    InitializeResult, JsonObject, ListToolsResult, MetaObject, PaginatedRequestParams,
    ProtocolVersion, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData as McpError, RoleServer, ServerHandler};
use serde_json::{Value, json};
use std::pin::pin;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Where a result of revision 2026-07-28 says which server it is from.
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// How long a client may keep the list of tools and the like, in milliseconds. They change only
/// with the settings, which takes a restart.
const FRESH_MS: u64 = 5 * 60 * 1000;
/// How much of a name that a client made up is repeated to it, in characters.
const SHOWN: usize = 100;

/// Serves MCP requests from an [`Engine`].
pub struct Handler {
    engine: Arc<Engine>,
    info: ServerConfig,
    tools: Vec<Tool>,
    stopping: CancellationToken,
}

impl Handler {
    /// A handler over this engine. Once `stopping` is cancelled, its calls end and no further one
    /// is started.
    pub fn new(engine: Arc<Engine>, stopping: CancellationToken) -> Handler {
        let config = engine.config();
        let server = Implementation::new("vestibule-mcp", env!("CARGO_PKG_VERSION"))
            .with_title("Vestibule")
            .with_description("Runs code in a sandbox and says what protected it");
        let info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
            .with_server_info(server)
            .with_instructions(tools::instructions(config));
        let tools = tools::all(config);
        Handler { engine, info, tools, stopping }
    }

    async fn run_code(&self, arguments: JsonObject, context: &RequestContext<RoleServer>) -> Reply {
        let stop = self.stopping.child_token();
        let (progress, watched) = watch::channel(Progress::Queued);
        let token = context.meta.get_progress_token();
        let mut heartbeat = Heartbeat::new(context.peer.clone(), token, watched);
        let call = Call { client: client(context), stop: stop.clone(), progress };
        let mut run = pin!(self.engine.run_code(arguments, call));
        loop {
            tokio::select! {
                // The reply first: nothing is told of a call that has one.
                biased;
                reply = &mut run => return reply,
                () = context.ct.cancelled(), if !stop.is_cancelled() => stop.cancel(),
                () = heartbeat.due(), if !stop.is_cancelled() => heartbeat.tell().await,
            }
        }
    }

    async fn read_workspace(
        &self,
        arguments: JsonObject,
        context: &RequestContext<RoleServer>,
    ) -> Reply {
        tokio::select! {
            reply = self.engine.read_workspace(arguments) => reply,
            () = context.ct.cancelled() => ending(),
            () = self.stopping.cancelled() => ending(),
        }
    }

    /// The `_meta` of a result, if it has any.
    fn meta(&self, context: &RequestContext<RoleServer>, run: Option<Value>) -> Option<MetaObject> {
        let mut meta = JsonObject::new();
        meta.extend(run.map(|run| (facts::META_KEY.to_owned(), run)));
        let revision = context.protocol_version();
        if revision.is_some_and(|revision| revision >= ProtocolVersion::V_2026_07_28) {
            meta.insert(SERVER_INFO.to_owned(), json!(self.info.server_info));
        }
        (!meta.is_empty()).then_some(MetaObject(meta))
    }
}

/// The answer to a call that came too late to be started, or to matter.
fn ending() -> Reply {
    Reply::blocked(
        "the server is ending and starts nothing more. Fix: start it anew; then call again.",
    )
}

fn client(context: &RequestContext<RoleServer>) -> Client {
    let info = context.client_info();
    info.map(|info| Client { name: info.name, version: info.version }).unwrap_or_default()
}

fn result(reply: Reply, meta: Option<MetaObject>) -> CallToolResult {
    let block = |content| match content {
        Content::Text(text) => ContentBlock::text(text),
        Content::Image { mime, base64 } => ContentBlock::image(base64, mime),
    };
    let mut result = CallToolResult::success(reply.content.into_iter().map(block).collect());
    result.is_error = Some(reply.is_error);
    result.structured_content = reply.structured;
    result.meta = meta;
    result
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        self.info.clone()
    }

    /// Keeps the revision that was agreed on, not the one that was asked for: it is what later
    /// requests of the session are read by.
    async fn initialize(
        &self,
        mut request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, McpError> {
        let answer = self.negotiate_initialize(&request)?;
        request.protocol_version = answer.protocol_version.clone();
        context.peer.set_peer_info(request);
        Ok(answer)
    }

    async fn discover(
        &self,
        _context: RequestContext<RoleServer>,
    ) -> Result<DiscoverResult, McpError> {
        let supported = self.supported_protocol_versions().into_owned();
        Ok(DiscoverResult::from_server_info(supported, self.get_info()).with_ttl_ms(FRESH_MS))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, McpError> {
        let mut list = ListToolsResult::with_all_items(self.tools.clone());
        list.meta = self.meta(&context, None);
        let revision = context.protocol_version();
        if revision.is_some_and(|revision| revision >= ProtocolVersion::V_2026_07_28) {
            list.ttl_ms = Some(FRESH_MS);
        }
        Ok(list)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, McpError> {
        let arguments = request.arguments.unwrap_or_default();
        let mut reply = match request.name.as_ref() {
            // Also one that comes too late to be started: the engine refuses it, and has it recorded.
            tools::RUN_CODE => self.run_code(arguments, &context).await,
            tools::READ_WORKSPACE if self.stopping.is_cancelled() => ending(),
            tools::READ_WORKSPACE => self.read_workspace(arguments, &context).await,
            name => {
                let what = format!(
                    "Unknown tool: {}. There are {} and {}",
                    for_display(name, SHOWN),
                    tools::RUN_CODE,
                    tools::READ_WORKSPACE
                );
                return Err(McpError::invalid_params(what, None));
            }
        };
        let meta = self.meta(&context, reply.facts.take());
        Ok(CallToolResponse::Complete(result(reply, meta)))
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, McpError> {
        let what = format!("Method not found: {}", for_display(&request.method, SHOWN));
        Err(McpError::new(ErrorCode::METHOD_NOT_FOUND, what, None))
    }
}
