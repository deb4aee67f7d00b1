//! The MCP server of one caller, as an rmcp handler.

use std::borrow::Cow;

use axum::http::request::Parts;
use plexus_core::{Call, CallError, Caller, MethodDescriptor, Progress, Reader, Reply};
use rmcp::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ErrorData, Extensions, Implementation,
    ListResourceTemplatesResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities,
    ServerConfig, SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
};
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use serde_json::value::RawValue;

use super::holds::Holds;
use super::relay::{self, Called, RELAY};
use super::resources::Subscriptions;
use super::tools::Extent;
use super::{progress, resources, tools};
use crate::doors::Doors;
use crate::identity::Presented;

/// Acts for one caller: it lists the methods that the caller may call, and calls them as that
/// caller.
pub(super) struct Handler {
    doors: Doors,
    caller: Caller,
    /// The subscriptions of this session; they end with it.
    subscriptions: Subscriptions,
}

impl Handler {
    pub(super) fn new(doors: Doors, caller: Caller) -> Self {
        Self { doors, caller, subscriptions: Subscriptions::default() }
    }

    /// Says whether this caller has calls that survive a restart. Such a caller has no stream on
    /// which it could be notified of a change.
    fn needs_resumption(&self) -> bool {
        tools::needs_resumption(&self.doors.hub, &self.caller)
    }

    /// Resolves when the token of a request is revoked.
    async fn revoked(&self, extensions: &Extensions) {
        match presented(extensions) {
            Some(presented) => presented.revoked(&self.doors).await,
            None => std::future::pending().await,
        }
    }

    async fn call(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Called { method, arguments } = if request.name == RELAY {
            match relay::called(&self.doors.hub, request) {
                Ok(called) => called,
                Err(error) => return Ok(tools::failed(&error).into()),
            }
        } else if let Some(method) = tools::find(&self.doors.hub, &request.name) {
            Called { method, arguments: request.arguments }
        } else {
            return Err(ErrorData::invalid_params(format!("Unknown tool: {}", request.name), None));
        };
        let params = arguments.as_ref().map(plexus_core::method::raw).transpose();
        let waiting = self.doors.admit_wait(self.caller, Some(&method));
        let outcome = match (params, waiting) {
            (Ok(params), Ok(_waiting)) => {
                let (reporter, reports) = Progress::channel();
                let call =
                    Call { progress: reporter, reader: Reader::Model, ..Call::plain(self.caller) };
                let name = method.full_name();
                tokio::select! {
                    outcome = self.doors.call(call, &name, params) => outcome,
                    // Dropping the call cancels its work; the client has said that it ignores the
                    // answer.
                    () = context.ct.cancelled() => Err(CallError::expired("finish the call: it was cancelled")),
                    // A long poll ends with its token; a call that changes something is always
                    // answered.
                    () = self.revoked(&context.extensions), if method.hints.waits => {
                        Err(CallError::unauthorized(format_args!(
                            "wait for {name} any longer: the token was revoked"
                        )))
                    }
                    never = progress::keep_telling(context, method.hints.waits, reports) => match never {},
                }
            }
            (Err(error), _) | (_, Err(error)) => Err(error),
        };
        let given = match outcome {
            Ok(reply) => self.give(&method, reply, context).await,
            Err(error) => Err(error),
        };
        Ok(tools::result(&method, given).into())
    }

    /// Returns an answer, which counts as held until it is written.
    async fn give(
        &self,
        method: &MethodDescriptor,
        reply: Reply,
        context: &RequestContext<RoleServer>,
    ) -> Result<Box<RawValue>, CallError> {
        let answer = tools::answer(method, reply)?;
        let (value, held) = self.doors.give(self.caller, Some(method), answer).await?;
        if let Some(holds) = Holds::of(&context.extensions) {
            holds.add(held);
        }
        Ok(value)
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools();
        let capabilities = if resources::offered(&self.doors.hub, &self.caller).is_empty() {
            capabilities.build()
        } else if self.needs_resumption() {
            capabilities.enable_resources().build()
        } else {
            capabilities.enable_resources().enable_resources_subscribe().build()
        };
        let mut info = ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("plexus", env!("CARGO_PKG_VERSION")));
        info.instructions = self.doors.instructions.as_deref().map(str::to_owned);
        info
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(if self.needs_resumption() {
            ProtocolVersion::known_up_to(&ProtocolVersion::V_2025_11_25)
        } else {
            ProtocolVersion::KNOWN_VERSIONS
        })
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let extent = Extent::of(&context.extensions);
        Ok(ListToolsResult::with_all_items(tools::list(&self.doors.hub, &self.caller, extent)))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        if name == RELAY {
            return Some(relay::tool());
        }
        let method = tools::find(&self.doors.hub, name)?;
        method.admits(&self.caller).then(|| tools::tool(&method))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.call(request, &context).await
    }

    async fn list_resources(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(resources::list(&self.doors.hub, &self.caller)))
    }

    async fn list_resource_templates(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(resources::templates(
            &self.doors.hub,
            &self.caller,
        )))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let holds = Holds::of(&context.extensions);
        tokio::select! {
            read = resources::read(&self.doors, self.caller, &request.uri, holds) => read.map(Into::into),
            () = context.ct.cancelled() => Err(ErrorData::internal_error("the read was cancelled", None)),
        }
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if self.needs_resumption() {
            return Err(ErrorData::invalid_request(
                "a child is told of no changes: read the resource again instead",
                None,
            ));
        }
        let peer = context.peer;
        self.subscriptions
            .add(&self.doors, self.caller, request.uri, move |changed| {
                let peer = peer.clone();
                async move { peer.notify_resource_updated(changed).await.is_ok() }
            })
            .await
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.subscriptions.remove(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        let known = |uri: &&String| resources::is_known(&self.doors.hub, &self.caller, uri);
        let uris = requested.resource_subscriptions.iter().flatten().filter(known);
        Some(SubscriptionFilter::builder().resource_subscriptions(uris).build())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        // In the newest protocol a request owns its subscriptions and drops them when it ends.
        let subscriptions = Subscriptions::default();
        for uri in context.accepted().resource_subscriptions.iter().flatten() {
            let sink = context.sink().clone();
            subscriptions
                .add(&self.doors, self.caller, uri.clone(), move |changed| {
                    let sink = sink.clone();
                    async move { sink.notify_resource_updated(changed.uri).await.is_ok() }
                })
                .await?;
        }
        let over = async {
            match presented(&context.request_context().extensions) {
                Some(presented) => presented.clone().over(self.doors.clone()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = context.cancelled() => {}
            () = over => {}
        }
        Ok(())
    }
}

/// Returns the token of a request, which the door has put into its parts.
fn presented(extensions: &Extensions) -> Option<&Presented> {
    extensions.get::<Parts>()?.extensions.get::<Presented>()
}
