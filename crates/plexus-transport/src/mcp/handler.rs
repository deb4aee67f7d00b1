//! The MCP server of one caller, as rmcp drives it.

use std::borrow::Cow;

use plexus_core::{Call, CallError, Caller, Progress};
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, Implementation, ListToolsResult, PaginatedRequestParams,
    ProtocolVersion, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer};

use super::{progress, tools};
use crate::doors::Doors;

/// Acts for one caller: it lists what that caller may call, and calls as that caller.
#[derive(Clone)]
pub(super) struct Handler {
    doors: Doors,
    caller: Caller,
}

impl Handler {
    pub(super) fn new(doors: Doors, caller: Caller) -> Self {
        Self { doors, caller }
    }

    async fn call(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(method) = tools::find(&self.doors.hub, &request.name) else {
            return Err(ErrorData::invalid_params(format!("Unknown tool: {}", request.name), None));
        };
        let params = request.arguments.as_ref().map(plexus_core::method::raw).transpose();
        let places = self.doors.admit(self.caller).and_then(|place| Ok((place, self.doors.admit_wait(Some(&method))?)));
        let outcome = match (params, places) {
            (Ok(params), Ok(_places)) => {
                let (reporter, reports) = Progress::channel();
                let call = Call { caller: self.caller, progress: reporter, can_stream: false };
                let name = method.full_name();
                tokio::select! {
                    outcome = self.doors.call(call, &name, params) => outcome,
                    // Dropping the call cancels its work; the client has said that it reads no answer.
                    () = context.ct.cancelled() => Err(CallError::expired("finish the call: it was cancelled")),
                    never = progress::keep_telling(context, method.hints.waits, reports) => match never {},
                }
            }
            (Err(error), _) | (_, Err(error)) => Err(error),
        };
        Ok(tools::result(&method, outcome).into())
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("plexus", env!("CARGO_PKG_VERSION")));
        info.instructions = self.doors.instructions.as_deref().map(str::to_owned);
        info
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(if tools::needs_resumption(&self.doors.hub, &self.caller) {
            ProtocolVersion::known_up_to(&ProtocolVersion::V_2025_11_25)
        } else {
            ProtocolVersion::KNOWN_VERSIONS
        })
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::list(&self.doors.hub, &self.caller)))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let method = tools::find(&self.doors.hub, name)?;
        method.audience.admits(&self.caller).then(|| tools::tool(&method))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.call(request, &context).await
    }
}
