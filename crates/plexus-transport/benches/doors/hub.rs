//! A hub of methods that do almost nothing, served by real doors, and the bare handler to compare
//! them with.

use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use axum::Router;
use axum::routing::post;
use plexus_core::method::stream_reply;
use plexus_core::{
    Activation, ActivationInfo, Authenticator, Call, CallError, Caller, Door, Hub, MethodTable,
    Reply, SecretToken, Shape, StreamItem,
};
use plexus_transport::{AllowedHosts, Doors, Limits, router, serve};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;
use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

pub(crate) const TOKEN: &str = "plx_bench";

/// Events in the answer of the method that imitates `poll`: a full default page.
const PAGE: usize = 100;

/// How many events a reader may lag; more than are sent.
const BACKLOG: usize = 4_096;

/// Both servers, and the sender of the stream's events.
pub(crate) struct Server {
    pub(crate) doors: SocketAddr,
    pub(crate) bare: SocketAddr,
    pub(crate) events: broadcast::Sender<StreamItem>,
    shutdown: CancellationToken,
}

impl Server {
    pub(crate) async fn start() -> anyhow::Result<Self> {
        let (events, _) = broadcast::channel(BACKLOG);
        let page: Arc<RawValue> = Arc::from(page()?);
        let hub = Hub::new(ActivationInfo {
            namespace: "plexus",
            version: (0, 1, 0),
            description: "a bench",
        });
        hub.register(Arc::new(Bench { page: Arc::clone(&page), events: events.clone() }))?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let hosts = AllowedHosts::loopback(address.port(), []);
        let doors = Doors::new(hub, Arc::new(OneToken), hosts, Limits::default());
        let shutdown = CancellationToken::new();
        let (served, stop) = (doors.clone(), shutdown.clone());
        tokio::spawn(async move { serve(listener, router(served.clone()), &served, stop).await });

        let bare = TcpListener::bind("127.0.0.1:0").await?;
        let bare_address = bare.local_addr()?;
        let poll = post(move |_: axum::body::Bytes| {
            let page = Arc::clone(&page);
            async move { page.get().to_owned() }
        });
        let routes = Router::new()
            .route("/echo", post(|body: axum::Json<Echo>| async move { body }))
            .route("/poll", poll);
        tokio::spawn(async move { axum::serve(bare, routes).await });
        Ok(Self { doors: address, bare: bare_address, events, shutdown })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// Returns a page of events of the usual size.
fn page() -> Result<Box<RawValue>, CallError> {
    let text = "A sentence of an agent that has looked at a file and says what it will do next. "
        .repeat(2);
    let events: Vec<_> = (0..PAGE)
        .map(|seq| json!({"seq": seq, "event": {"type": "content", "text": text}, "timestamp": 1_700_000_000_000_u64}))
        .collect();
    plexus_core::method::raw(
        &json!({"type": "ok", "status": "running", "events": events, "pending_approvals": []}),
    )
}

struct OneToken;

#[async_trait]
impl Authenticator for OneToken {
    async fn authenticate(&self, token: &SecretToken) -> Result<Caller, CallError> {
        if token.expose() == TOKEN {
            Ok(Caller::Operator)
        } else {
            Err(CallError::unauthorized("know this token"))
        }
    }
}

struct Bench {
    page: Arc<RawValue>,
    events: broadcast::Sender<StreamItem>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Echo {
    text: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Nothing {}

impl Activation for Bench {
    fn info(&self) -> ActivationInfo {
        ActivationInfo { namespace: "bench", version: (1, 0, 0), description: "for a benchmark" }
    }

    fn methods(self: Arc<Self>) -> MethodTable {
        let (polled, followed) = (Arc::clone(&self), self);
        MethodTable::new("bench")
            .unary(
                "echo",
                "Says what it was told.",
                |_| {},
                |_: Call, echo: Echo| async move { Ok(echo) },
            )
            .streaming::<Nothing, Echo, _, _>(
                "poll",
                "A page of events.",
                |method| method.shape = Shape::Unary,
                move |_, _: Nothing| {
                    let page: Box<RawValue> = (*polled.page).to_owned();
                    async move { Ok(Reply::Value(page.into())) }
                },
            )
            .streaming::<Nothing, Echo, _, _>(
                "follow",
                "Events as they are sent.",
                |method| method.door = Door::Events,
                move |_, _: Nothing| {
                    let events = followed.events.subscribe();
                    async move {
                        Ok(stream_reply(futures::stream::unfold(events, |mut events| async move {
                            events.recv().await.ok().map(|item| (Ok(item), events))
                        })))
                    }
                },
            )
    }
}
