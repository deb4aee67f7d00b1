//! `/mcp`: the hub's methods as the tools of an MCP server, over streamable HTTP.
//!
//! `rmcp` implements the protocol. This module wraps it: it knows the caller of every request,
//! gives a session only to the caller that began it, and itself serves the calls that must survive
//! a restart of the server. In reading order:
//! - [`message`]: the parts of a JSON-RPC message that the door must know before it decides who
//!   handles it.
//! - [`brief`]: the input schema of a tool in few bytes.
//! - [`relay`]: the tool with which a model calls methods that its list does not name.
//! - [`tools`]: a method as a tool, and its reply as a tool's result.
//! - [`resources`]: a method's answer as an MCP resource, to read and to subscribe to.
//! - [`handler`]: the MCP server of one caller.
//! - [`holds`]: the place and the bytes that one request holds until its answer is written and its
//!   work is over.
//! - [`progress`]: keeps the client of a long call from giving up.
//! - [`sessions`]: who owns which session, how many there may be, and when an idle one ends.
//! - [`event_id`]: the id with which a client resumes a blocked call, even at a new process of the
//!   server.
//! - [`resumable`]: blocked calls that survive a lost connection and a restart.
//! - [`open_calls`]: the resumable calls that wait in this process.

mod brief;
mod event_id;
mod handler;
mod holds;
mod message;
mod open_calls;
mod progress;
mod relay;
mod resources;
mod resumable;
mod sessions;
mod tools;

use std::sync::Arc;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::StreamExt;
use plexus_core::{Authenticator, CallError, Caller};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use self::event_id::EventId;
use self::handler::Handler;
use self::holds::Holds;
pub(crate) use self::message::Message;
use self::open_calls::OpenCalls;
use self::sessions::Sessions;
pub use self::tools::FULL_QUERY;
pub(crate) use self::tools::IDEMPOTENT_WITH;
use crate::body::{self, Read};
use crate::doors::Doors;
use crate::envelope;
use crate::identity::{Presented, refuse};
use crate::limits::{Limits, RESUME_RETRY};

/// The state that the MCP door keeps between requests.
pub(crate) struct McpState {
    pub(crate) sessions: Arc<Sessions>,
    calls: Arc<OpenCalls>,
    config: StreamableHttpServerConfig,
}

impl McpState {
    pub(crate) fn new(limits: &Limits, auth: Arc<dyn Authenticator>) -> Self {
        let mut manager = LocalSessionManager::default();
        // rmcp counts a session with a blocked call as idle and would end it during the call. Our
        // own count includes open requests.
        manager.session_config.keep_alive = None;
        // A client keeps one retry interval for all its streams, the last one it received, so all
        // streams send the same. A shorter one from a small answer would bring the client of a
        // blocked call back too soon, and it gives up after a few tries.
        manager.session_config.sse_retry = Some(RESUME_RETRY);
        // Host and Origin are already checked: the list of names has one home.
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .with_sse_retry(Some(RESUME_RETRY))
            .with_max_request_body_bytes(limits.body_bytes);
        let sessions = Sessions::new(Arc::new(manager), limits, auth);
        Self { sessions: Arc::new(sessions), calls: Arc::default(), config }
    }
}

pub(crate) async fn handle(
    State(doors): State<Doors>,
    Extension(caller): Extension<Caller>,
    Extension(presented): Extension<Presented>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    match parts.method {
        Method::POST => {
            // The call is admitted before its body is read.
            let place = match doors.admit(caller) {
                Ok(place) => place,
                Err(error) => return refuse(StatusCode::SERVICE_UNAVAILABLE, &error),
            };
            match body::read(&doors, caller, body).await {
                Ok(Read { bytes, held }) => {
                    let holds = Holds::new(place, held);
                    post(&doors, caller, presented, parts, bytes, holds).await
                }
                Err(refusal) => refusal,
            }
        }
        Method::GET => get(&doors, caller, presented, parts).await,
        Method::DELETE => delete(&doors, caller, &parts.headers).await,
        _ => {
            (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "GET, POST, DELETE")]).into_response()
        }
    }
}

async fn post(
    doors: &Doors,
    caller: Caller,
    presented: Presented,
    mut parts: Parts,
    body: Bytes,
    holds: Holds,
) -> Response {
    let message = match Message::read(&body) {
        Ok(message) => message,
        Err(error) => return refuse(StatusCode::BAD_REQUEST, &error),
    };
    if message.is_discovery() && tools::needs_resumption(&doors.hub, &caller) {
        // A client that is answered 404 falls back to the previous protocol.
        let answer = envelope::failure(message.id(), &CallError::unknown_method("server/discover"));
        return (StatusCode::NOT_FOUND, [(header::CONTENT_TYPE, "application/json")], answer)
            .into_response();
    }
    let session = session_of(&parts.headers);
    // This comes before the session lookup: a call resumed here may belong to a session that only
    // an earlier process knew.
    if let Some(request) = message.cancelled_request()
        && resumable::cancel(doors, caller, session, request).await
    {
        return StatusCode::ACCEPTED.into_response();
    }
    let in_use = match session {
        None => None,
        Some(id) => match doors.mcp.sessions.enter(id, caller) {
            Some(in_use) => Some(in_use),
            None => return no_such_session(),
        },
    };
    if let Some(call) = message.tool_call()
        && let Some(method) = tools::find(&doors.hub, &call.name)
        && method.resume.is_some()
    {
        let response = resumable::start(doors, caller, session, &method, message.id(), call);
        return holding(until_over(response, presented, doors), (in_use, holds));
    }
    // rmcp parses the arguments before a method could look at their text.
    if let Err(error) = plexus_core::private_keys::refuse_private_keys(&body) {
        return refuse(StatusCode::BAD_REQUEST, &message::unreadable(&error.to_string()));
    }
    parts.extensions.insert(holds.clone());
    if !message.begins_session() || in_use.is_some() {
        return holding(ask_rmcp(doors, caller, parts, Body::from(body)).await, (in_use, holds));
    }
    let place = match doors.mcp.sessions.reserve(caller).await {
        Ok(place) => place,
        Err(error) => return refuse(StatusCode::SERVICE_UNAVAILABLE, &error),
    };
    let response = ask_rmcp(doors, caller, parts, Body::from(body)).await;
    match session_of(response.headers()) {
        Some(id) => {
            let in_use = place.fill(id, presented);
            holding(response, in_use)
        }
        None => response,
    }
}

async fn get(doors: &Doors, caller: Caller, presented: Presented, parts: Parts) -> Response {
    let session = session_of(&parts.headers);
    let last_event = parts.headers.get("last-event-id").and_then(|id| id.to_str().ok());
    if let Some(text) = last_event.filter(|text| EventId::is_ours(text)) {
        // The session may be one of an earlier process; a session of this process must be the
        // caller's own.
        if session.is_some_and(|id| doors.mcp.sessions.belongs_to_another(id, caller)) {
            return no_such_session();
        }
        return until_over(resumable::rejoin(doors, caller, session, text), presented, doors);
    }
    let Some(in_use) = session.and_then(|id| doors.mcp.sessions.enter(id, caller)) else {
        // Without a session there is nothing to subscribe to; with an unknown one the client starts
        // again.
        return if session.is_some() {
            no_such_session()
        } else {
            ask_rmcp(doors, caller, parts, Body::empty()).await
        };
    };
    if tools::needs_resumption(&doors.hub, &caller) {
        // Claude Code counts the failures of all its streams together and gives up on every call at
        // the third. A stream without messages would use up the retries of the blocked call.
        return (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "POST, DELETE")]).into_response();
    }
    match doors.admit_stream(caller) {
        Ok(place) => {
            let response = ask_rmcp(doors, caller, parts, Body::empty()).await;
            let response = until_over(response, presented, doors);
            holding(response, (in_use, place))
        }
        Err(error) => refuse(StatusCode::SERVICE_UNAVAILABLE, &error),
    }
}

async fn delete(doors: &Doors, caller: Caller, headers: &HeaderMap) -> Response {
    match session_of(headers) {
        None => {
            refuse(StatusCode::BAD_REQUEST, &CallError::invalid("end a session: none is named"))
        }
        Some(id) if doors.mcp.sessions.end(id, caller).await => {
            StatusCode::NO_CONTENT.into_response()
        }
        Some(_) => no_such_session(),
    }
}

/// Passes a request to rmcp, with an MCP server that acts as `caller`.
async fn ask_rmcp(doors: &Doors, caller: Caller, parts: Parts, body: Body) -> Response {
    let is_json = parts
        .headers
        .get(header::CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    let factory = {
        let doors = doors.clone();
        move || Ok(Handler::new(doors.clone(), caller))
    };
    let manager = Arc::clone(doors.mcp.sessions.manager());
    let service = StreamableHttpService::new(factory, manager, doors.mcp.config.clone());
    let response = service.handle(Request::from_parts(parts, body)).await;
    if response.status() == StatusCode::UNSUPPORTED_MEDIA_TYPE && is_json {
        // rmcp gives this status for a message that it cannot parse; the message is wrong, not its
        // content type.
        return refuse(
            StatusCode::BAD_REQUEST,
            &message::unreadable("it is not a message of this protocol"),
        );
    }
    response.map(Body::new)
}

fn session_of(headers: &HeaderMap) -> Option<&str> {
    headers.get("mcp-session-id").and_then(|id| id.to_str().ok())
}

/// Returns the 404 that tells a client to start a new session and to retry its call.
fn no_such_session() -> Response {
    let error =
        CallError::not_found("find the MCP session").with_hint("begin a new one with initialize");
    refuse(StatusCode::NOT_FOUND, &error)
}

/// Ends a stream when its token is revoked or the server stops.
fn until_over(response: Response, presented: Presented, doors: &Doors) -> Response {
    let over = Box::pin(presented.over(doors.clone()));
    response.map(|body| Body::from_stream(body.into_data_stream().take_until(over)))
}

/// Keeps `held` for as long as the response's body is being sent.
fn holding<T: Send + 'static>(response: Response, held: T) -> Response {
    response.map(|body| {
        Body::from_stream(body.into_data_stream().map(move |chunk| {
            let _held = &held;
            chunk
        }))
    })
}
