//! One WebSocket to `/rpc` that carries one stream.

use std::time::Duration;

use futures::{SinkExt, StreamExt};
use plexus_wire::{FollowParams, FollowedEvent, LiveText, Method, method};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderValue, StatusCode};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error as WsError, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::client::ErrorObject;
use crate::endpoint::Address;
use crate::error::ClientError;
use crate::follow::Event;

/// How long opening a socket may take.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);

/// How often the client pings the server.
const PING_EVERY: Duration = Duration::from_secs(15);

/// How long the server may stay silent: two pings go unanswered in this time.
const SILENCE: Duration = Duration::from_secs(40);

/// The largest message: an event of 17 MiB and its envelope.
const MAX_MESSAGE_BYTES: usize = 64 * 1024 * 1024;

/// What arrived on the socket.
pub(crate) enum Heard {
    /// A message that only shows that the server is there.
    Alive,
    Event(Box<Event>),
    Live(LiveText),
}

/// The method that a socket calls.
const FOLLOW: &str = <method::agents::Follow as Method>::FULL_NAME;

pub(crate) struct Socket {
    stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
    url: String,
    ping: tokio::time::Interval,
}

impl Socket {
    pub(crate) async fn open(address: &Address) -> Result<Self, ClientError> {
        let unreachable =
            |problem: String| ClientError::Unreachable { url: address.url.clone(), problem };
        let target = format!("{}/rpc", address.url.replacen("http", "ws", 1));
        let mut request =
            target.into_client_request().map_err(|error| unreachable(error.to_string()))?;
        let token = HeaderValue::from_str(&format!("Bearer {}", address.token.expose()));
        let mut token = token.map_err(|_| {
            plexus_wire::CallError::unauthorized(
                "send the token: it has characters that a header cannot hold",
            )
        })?;
        token.set_sensitive(true);
        request.headers_mut().insert("authorization", token);
        let config = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE_BYTES))
            .max_frame_size(Some(MAX_MESSAGE_BYTES));
        let opening = tokio_tungstenite::connect_async_with_config(request, Some(config), true);
        let (stream, _) = match tokio::time::timeout(OPEN_TIMEOUT, opening).await {
            Err(_) => {
                return Err(unreachable(format!("no answer within {} s", OPEN_TIMEOUT.as_secs())));
            }
            Ok(Err(WsError::Http(response))) => {
                return Err(refused(response.status(), response.body().as_deref(), &address.url));
            }
            Ok(Err(error)) => return Err(unreachable(error.to_string())),
            Ok(Ok(opened)) => opened,
        };
        let mut ping = tokio::time::interval(PING_EVERY);
        ping.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        Ok(Self { stream, url: address.url.clone(), ping })
    }

    /// Starts the stream.
    pub(crate) async fn follow(&mut self, params: &FollowParams) -> Result<(), ClientError> {
        #[derive(Serialize)]
        struct Request<'a> {
            jsonrpc: &'static str,
            id: u32,
            method: &'static str,
            params: &'a FollowParams,
        }
        let call = Request { jsonrpc: "2.0", id: 1, method: FOLLOW, params };
        let call = serde_json::to_string(&call).map_err(unreadable)?;
        self.send(Message::text(call)).await
    }

    async fn send(&mut self, message: Message) -> Result<(), ClientError> {
        self.stream.send(message).await.map_err(|error| self.lost(&error.to_string()))
    }

    /// Returns the next message; an error when the connection or the stream has ended.
    pub(crate) async fn next(&mut self) -> Result<Heard, ClientError> {
        let deadline = tokio::time::Instant::now() + SILENCE;
        loop {
            let message = tokio::select! {
                message = self.stream.next() => message,
                _ = self.ping.tick() => {
                    self.send(Message::Ping(Default::default())).await?;
                    continue;
                }
                () = tokio::time::sleep_until(deadline) => return Err(self.lost("the server has fallen silent")),
            };
            return match message {
                Some(Ok(Message::Text(text))) => self.read(&text),
                Some(Ok(
                    Message::Binary(_) | Message::Ping(_) | Message::Pong(_) | Message::Frame(_),
                )) => Ok(Heard::Alive),
                Some(Ok(Message::Close(_))) | None => {
                    Err(self.lost("the server has closed the connection"))
                }
                Some(Err(error)) => Err(self.lost(&error.to_string())),
            };
        }
    }

    fn read(&self, text: &str) -> Result<Heard, ClientError> {
        #[derive(Deserialize)]
        struct Frame<'a> {
            #[serde(borrow)]
            params: Option<Item<'a>>,
            error: Option<ErrorObject>,
        }
        #[derive(Deserialize)]
        struct Item<'a> {
            #[serde(borrow)]
            event: &'a RawValue,
            cursor: Option<String>,
        }
        let frame: Frame<'_> = serde_json::from_str(text).map_err(unreadable)?;
        match (frame.params, frame.error) {
            (_, Some(error)) => Err(error.into_call_error().into()),
            (None, None) => Err(self.lost("the server has ended the stream")),
            (Some(Item { event, cursor: Some(cursor) }), None) => {
                let at: FollowedEvent = serde_json::from_str(event.get()).map_err(unreadable)?;
                let event = at.event.read().map_err(unreadable)?;
                Ok(Heard::Event(Box::new(Event { at, event, cursor })))
            }
            // An item without a cursor was never stored: live text, or a live item of a later
            // server that this client does not know.
            (Some(Item { event, cursor: None }), None) => {
                Ok(serde_json::from_str(event.get()).map_or(Heard::Alive, Heard::Live))
            }
        }
    }

    fn lost(&self, problem: &str) -> ClientError {
        ClientError::Unreachable { url: self.url.clone(), problem: problem.to_owned() }
    }
}

fn unreadable(error: serde_json::Error) -> ClientError {
    ClientError::BadAnswer { method: FOLLOW.to_owned(), problem: error.to_string() }
}

/// Reads the answer of a server that refused the socket.
fn refused(status: StatusCode, body: Option<&[u8]>, url: &str) -> ClientError {
    #[derive(Deserialize)]
    struct Refusal {
        error: ErrorObject,
    }
    match body.and_then(|body| serde_json::from_slice::<Refusal>(body).ok()) {
        Some(refusal) => refusal.error.into_call_error().into(),
        None => ClientError::Unreachable { url: url.to_owned(), problem: format!("HTTP {status}") },
    }
}
