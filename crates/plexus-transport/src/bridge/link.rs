//! The session with the server, re-established whenever it is lost.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use plexus_core::SecretToken;
use reqwest::{RequestBuilder, Response, StatusCode, header};
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::{ToolList, Whereabouts, sse};
use crate::mcp::FULL_QUERY;

/// The first and the longest back-off between two attempts to reach the server. They are short,
/// because a model waits for the parent.
const FIRST_REST: Duration = Duration::from_millis(50);
const LONGEST_REST: Duration = Duration::from_secs(2);

/// How long the server may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// The session that requests go to at present.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Session {
    /// Numbers the sessions of this bridge: a request that failed in one may find that a newer one
    /// already exists.
    pub(super) number: u64,
    id: Option<String>,
    protocol: String,
}

/// The connection to the server.
pub(super) struct Link {
    http: reqwest::Client,
    server: Whereabouts,
    token: SecretToken,
    /// How much detail the parent's list of tools has.
    tools: ToolList,
    /// Where messages go that the server sends unprompted.
    out: mpsc::Sender<String>,
    /// The parent's `initialize` request, kept to start further sessions with.
    initialize: Mutex<Option<Value>>,
    subscribed: Mutex<BTreeSet<String>>,
    session: watch::Sender<Option<Session>>,
    beginning: tokio::sync::Mutex<()>,
}

/// Waits between attempts, a little longer each time.
#[derive(Debug, Default)]
pub(super) struct Rest(Option<Duration>);

impl Rest {
    pub(super) async fn wait(&mut self) {
        let rest = self.0.map_or(FIRST_REST, |last| (last * 2).min(LONGEST_REST));
        self.0 = Some(rest);
        tokio::time::sleep(rest).await;
    }
}

impl Link {
    pub(super) fn new(
        server: Whereabouts,
        token: SecretToken,
        tools: ToolList,
        out: mpsc::Sender<String>,
    ) -> reqwest::Result<Self> {
        // No proxy is used: the token is for this server only. No connection is reused. A request
        // on a connection whose server dies at that moment is lost, and nobody can tell whether it
        // was executed. A new connection is refused instead, and then it certainly was not.
        let http = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0);
        let http = http.connect_timeout(CONNECT_TIMEOUT).tcp_nodelay(true).build()?;
        Ok(Self {
            http,
            server,
            token,
            tools,
            out,
            initialize: Mutex::default(),
            subscribed: Mutex::default(),
            session: watch::Sender::new(None),
            beginning: tokio::sync::Mutex::default(),
        })
    }

    fn url(&self, tools: ToolList) -> String {
        let server = self.server.now();
        let server = server.trim_end_matches('/');
        match tools {
            ToolList::Short => format!("{server}/mcp"),
            ToolList::Full => format!("{server}/mcp?{FULL_QUERY}"),
        }
    }

    /// Waits until the parent's own `initialize` is answered, and returns the session.
    pub(super) async fn session(&self) -> Session {
        let mut watch = self.session.subscribe();
        loop {
            if let Some(session) = watch.borrow_and_update().clone() {
                return session;
            }
            if watch.changed().await.is_err() {
                // The sender is in `self`, so this is never reached; without a session, callers
                // wait.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Sends a message in a session, or in none.
    pub(super) async fn post(
        &self,
        session: Option<&Session>,
        body: String,
    ) -> reqwest::Result<Response> {
        self.post_to(self.url(self.tools), session, body).await
    }

    async fn post_to(
        &self,
        url: String,
        session: Option<&Session>,
        body: String,
    ) -> reqwest::Result<Response> {
        let request =
            self.http.post(url).header(header::CONTENT_TYPE, "application/json").body(body);
        self.dressed(request, session).send().await
    }

    /// Opens a stream of the session: the one for unprompted messages, or one that was lost.
    pub(super) async fn get(
        &self,
        session: &Session,
        last_event: Option<&str>,
    ) -> reqwest::Result<Response> {
        let mut request = self.http.get(self.url(self.tools));
        if let Some(id) = last_event {
            request = request.header("last-event-id", id);
        }
        self.dressed(request, Some(session)).send().await
    }

    fn dressed(&self, request: RequestBuilder, session: Option<&Session>) -> RequestBuilder {
        let mut request = request
            .bearer_auth(self.token.expose())
            .header(header::ACCEPT, "application/json, text/event-stream");
        if let Some(session) = session {
            request = request.header("mcp-protocol-version", &session.protocol);
            if let Some(id) = &session.id {
                request = request.header("mcp-session-id", id);
            }
        }
        request
    }

    /// Records the parent's `initialize` request and the session that resulted.
    pub(super) fn began(&self, initialize: Value, session_id: Option<String>, answer: &Value) {
        *self.initialize.lock().unwrap_or_else(PoisonError::into_inner) = Some(initialize);
        self.set_session(session_id, answer);
    }

    fn set_session(&self, id: Option<String>, answer: &Value) {
        let protocol =
            answer["result"]["protocolVersion"].as_str().unwrap_or("2025-11-25").to_owned();
        self.session.send_modify(|session| {
            let number = session.as_ref().map_or(0, |session| session.number + 1);
            *session = Some(Session { number, id, protocol });
        });
    }

    /// Records the parent's subscriptions, so that a new session has them too.
    pub(super) fn subscribed(&self, uri: &str, on: bool) {
        let mut subscribed = self.subscribed.lock().unwrap_or_else(PoisonError::into_inner);
        if on {
            subscribed.insert(uri.to_owned())
        } else {
            subscribed.remove(uri)
        };
    }

    /// Starts a new session in place of `lost`, unless another request has already done so. Waits
    /// for the server without a time limit.
    ///
    /// # Errors
    /// When the server is up and no longer accepts the token.
    pub(super) async fn begin_again(&self, lost: &Session) -> Result<(), LinkError> {
        let _one_at_a_time = self.beginning.lock().await;
        let mut rest = Rest::default();
        loop {
            if self.session.borrow().as_ref().is_some_and(|session| session.number > lost.number) {
                return Ok(());
            }
            match self.try_begin().await {
                Ok(()) => return Ok(()),
                Err(
                    error @ LinkError::Refused(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN),
                ) => return Err(error),
                Err(error) => tracing::debug!(%error, "could not begin a new session yet"),
            }
            rest.wait().await;
        }
    }

    /// Finds out whether the server still knows the session, and starts a new one when it does not.
    ///
    /// # Errors
    /// As [`Link::begin_again`].
    pub(super) async fn renew_if_lost(&self, session: &Session) -> Result<(), LinkError> {
        let ping = json!({"jsonrpc": "2.0", "id": "plexus-bridge", "method": "ping"}).to_string();
        match self.post(Some(session), ping).await {
            Ok(response) if response.status() == StatusCode::NOT_FOUND => {
                self.begin_again(session).await
            }
            Ok(_) | Err(_) => Ok(()),
        }
    }

    async fn try_begin(&self) -> Result<(), LinkError> {
        let initialize = self.initialize.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let body =
            initialize.ok_or(LinkError::Unexpected("a session that was never begun"))?.to_string();
        let response = self.post(None, body).await?;
        let session_id = session_id(&response);
        let answer = first_answer(response).await?;
        self.set_session(session_id, &answer);
        let session = self.session().await;
        self.post(
            Some(&session),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string(),
        )
        .await?;
        let subscribed = self.subscribed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for uri in subscribed {
            let params = json!({"uri": uri});
            self.ask(&session, "resources/subscribe", params).await?;
            // A change may have been missed while no session existed.
            let updated = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}});
            let _gone = self.out.send(updated.to_string()).await;
        }
        Ok(())
    }

    /// Sends a request of the bridge itself.
    pub(super) async fn ask(
        &self,
        session: &Session,
        method: &str,
        params: Value,
    ) -> Result<Value, LinkError> {
        let body =
            json!({"jsonrpc": "2.0", "id": "plexus-bridge", "method": method, "params": params});
        first_answer(self.post(Some(session), body.to_string()).await?).await
    }

    /// Requests the full list of tools, even when the parent's own list is short.
    pub(super) async fn every_tool(&self, session: &Session) -> Result<Value, LinkError> {
        let body = json!({"jsonrpc": "2.0", "id": "plexus-bridge", "method": "tools/list"});
        let url = self.url(ToolList::Full);
        first_answer(self.post_to(url, Some(session), body.to_string()).await?).await
    }

    /// Passes on the server's unprompted messages, for as long as it is polled.
    pub(super) async fn listen(self: std::sync::Arc<Self>) {
        let mut rest = Rest::default();
        loop {
            let session = self.session().await;
            match self.get(&session, None).await {
                Ok(response) if response.status() == StatusCode::OK => {
                    rest = Rest::default();
                    let mut events = sse::events(response.bytes_stream());
                    while let Some(event) = futures::StreamExt::next(&mut events).await {
                        if !event.data.is_empty() && self.out.send(event.data).await.is_err() {
                            return;
                        }
                    }
                }
                Ok(response) if response.status() == StatusCode::NOT_FOUND => {
                    if let Err(error) = self.begin_again(&session).await {
                        tracing::debug!(%error, "could not listen to the server");
                    }
                }
                Ok(response) if response.status() == StatusCode::METHOD_NOT_ALLOWED => return,
                Ok(_) | Err(_) => {}
            }
            rest.wait().await;
        }
    }

    /// Tells the server that the session is over. If the message is lost, the server ends the idle
    /// session itself.
    pub(super) async fn end(&self) {
        let Some(session) = self.session.borrow().clone() else { return };
        let request = self
            .dressed(self.http.delete(self.url(self.tools)), Some(&session))
            .timeout(Duration::from_secs(1));
        if let Err(error) = request.send().await {
            tracing::debug!(%error, "could not end the session");
        }
    }
}

/// Why a request of the bridge itself failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    #[error("reach the server")]
    Http(#[from] reqwest::Error),
    #[error("use the server: it answered {0}")]
    Refused(StatusCode),
    #[error("understand the server: {0}")]
    Unexpected(&'static str),
}

pub(super) fn session_id(response: &Response) -> Option<String> {
    response.headers().get("mcp-session-id").and_then(|id| id.to_str().ok()).map(str::to_owned)
}

/// Reads the first answer of a response, which is either plain JSON or an event stream.
pub(super) async fn first_answer(response: Response) -> Result<Value, LinkError> {
    if !response.status().is_success() {
        return Err(LinkError::Refused(response.status()));
    }
    if !is_stream(&response) {
        return Ok(response.json().await?);
    }
    let mut events = sse::events(response.bytes_stream());
    while let Some(event) = futures::StreamExt::next(&mut events).await {
        match serde_json::from_str::<Value>(&event.data) {
            Ok(message) if message.get("id").is_some() => return Ok(message),
            Ok(_) | Err(_) => {}
        }
    }
    Err(LinkError::Unexpected("a stream without an answer"))
}

pub(super) fn is_stream(response: &Response) -> bool {
    let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("text/event-stream"))
}
