//! Many readers of one chat over SSE: each event should be serialised once, however many read it.
//!
//! The rivals are small servers in this process with the same events and the same readers: one that
//! serialises each event for each reader, and one that only sends events that were serialised
//! beforehand.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, Bytes};
use axum::routing::get;
use futures::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::figure::{Aim, Figure};
use crate::measure::Measure;
use crate::server::{PATIENCE, Server};
use crate::sizes::Sizes;
use crate::stats::rate;

/// A text that occurs once in every counted event, wherever the transport splits it.
const MARK: &[u8] = br#""type":"content""#;

/// The length of the text of an event.
const TEXT_BYTES: usize = 200;

pub(super) struct Readers;

#[async_trait(?Send)]
impl Measure for Readers {
    fn name(&self) -> &'static str {
        "readers"
    }

    fn keys(&self) -> &'static [&'static str] {
        &["sse_deliveries_per_s"]
    }

    async fn run(&self, sizes: &Sizes, figures: &mut Vec<Figure>) -> Result<()> {
        let server = Server::start(&[("live_deltas", "false".to_owned())]).await?;
        let session = server.create("read").await?;
        let page = server.chat(&session, &format!("sim:\nburst 1 {TEXT_BYTES}")).await?;
        let event = page["events"]
            .as_array()
            .and_then(|events| events.iter().find(|event| event["event"]["type"] == "content"));
        let event = event.context("the child said nothing")?.clone();
        let ours = Crowd::gather(
            &server.address()?,
            &format!("/events?session_id={session}"),
            server.token()?,
            sizes.readers,
        )
        .await?;
        ours.wait_for(1).await?;
        let each = Rival::start(Serialise::ForEachReader, &event, sizes).await?;
        let once = Rival::start(Serialise::Once, &event, sizes).await?;
        let (mut plexus, mut for_each, mut before) = (Vec::new(), Vec::new(), Vec::new());
        for round in 1..=sizes.rounds {
            let started = Instant::now();
            server
                .start_chat(&session, &format!("sim:\nburst {} {TEXT_BYTES}", sizes.reader_events))
                .await?;
            ours.wait_for(1 + round * sizes.reader_events).await?;
            plexus.push(rate(sizes.readers * sizes.reader_events, started.elapsed()));
            server.wait_until_quiet().await?;
            for_each.push(each.round(round, sizes).await?);
            before.push(once.round(round, sizes).await?);
        }
        let what = format!(
            "events delivered in a second to {} SSE readers of one chat while its child writes {} \
             events of {TEXT_BYTES} bytes, from the prompt to the last delivery; readers and \
             server share the machine",
            sizes.readers, sizes.reader_events
        );
        let figure = Figure::new("sse_deliveries_per_s", what, "/s", plexus, Aim::Beside);
        let figure =
            figure.beside("a bare server that serialises for each reader", &for_each, "/s");
        figures.push(figure.beside("a bare server that only sends", &before, "/s"));
        Ok(())
    }
}

/// Readers that count the events they receive.
struct Crowd {
    readers: usize,
    delivered: Arc<AtomicUsize>,
    _tasks: JoinSet<()>,
}

impl Crowd {
    /// Connects `readers` readers.
    async fn gather(address: &str, path: &str, token: &str, readers: usize) -> Result<Self> {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nAccept: text/event-stream\r\n\r\n"
        );
        let delivered = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        for _ in 0..readers {
            let mut stream = TcpStream::connect(address).await?;
            stream.write_all(request.as_bytes()).await?;
            tasks.spawn(count_marks(stream, Arc::clone(&delivered)));
        }
        Ok(Self { readers, delivered, _tasks: tasks })
    }

    /// Waits until every reader has received `events` events since it connected.
    async fn wait_for(&self, events: usize) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let wanted = self.readers * events;
        loop {
            let delivered = self.delivered.load(Ordering::Relaxed);
            if delivered >= wanted {
                ensure!(
                    delivered == wanted,
                    "{delivered} deliveries instead of {wanted}: something came twice"
                );
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "only {delivered} of {wanted} deliveries came");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Reads as cheaply as possible, so that the figure is the server's: it parses no HTTP and no JSON,
/// and only finds the mark.
async fn count_marks(mut stream: TcpStream, delivered: Arc<AtomicUsize>) {
    let mut buffer = vec![0; 32 * 1024];
    let mut kept = 0;
    while let Ok(read @ 1..) = stream.read(&mut buffer[kept..]).await {
        let filled = kept + read;
        let found = buffer[..filled].windows(MARK.len()).filter(|window| *window == MARK).count();
        delivered.fetch_add(found, Ordering::Relaxed);
        // A mark may be split between two reads. The bytes kept are too few to contain a mark that
        // was already counted.
        kept = filled.min(MARK.len() - 1);
        buffer.copy_within(filled - kept..filled, 0);
    }
}

#[derive(Clone, Copy)]
enum Serialise {
    ForEachReader,
    Once,
}

/// A bare SSE server with readers.
struct Rival {
    crowd: Crowd,
    /// The number of events published so far.
    published: watch::Sender<usize>,
    server: tokio::task::JoinHandle<std::io::Result<()>>,
}

impl Rival {
    async fn start(serialise: Serialise, event: &Value, sizes: &Sizes) -> Result<Self> {
        let published = watch::Sender::new(0);
        let source = published.clone();
        let event = Arc::new(event.clone());
        let ready = frame(&event);
        let route = get(async move || {
            let wake = source.subscribe();
            let frames = stream::unfold((wake, 0_usize), move |(mut wake, next)| {
                let (event, ready) = (Arc::clone(&event), ready.clone());
                async move {
                    wake.wait_for(|published| *published > next).await.ok()?;
                    let frame = match serialise {
                        Serialise::ForEachReader => frame(&event),
                        Serialise::Once => ready,
                    };
                    Some((Ok::<_, std::convert::Infallible>(frame), (wake, next + 1)))
                }
            });
            Body::from_stream(frames.boxed())
        });
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let server = tokio::spawn(
            axum::serve(listener, Router::new().route("/events", route)).into_future(),
        );
        let crowd = Crowd::gather(&address, "/events", "none", sizes.readers).await?;
        Ok(Self { crowd, published, server })
    }

    /// Publishes another round of events and returns how many were delivered each second.
    async fn round(&self, round: usize, sizes: &Sizes) -> Result<f64> {
        let started = Instant::now();
        self.published.send_replace(round * sizes.reader_events);
        self.crowd.wait_for(round * sizes.reader_events).await?;
        Ok(rate(sizes.readers * sizes.reader_events, started.elapsed()))
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Writes one event as an SSE frame, as a server does.
fn frame(event: &Value) -> Bytes {
    let body = json!({"session_id": "00000000-0000-0000-0000-000000000000", "chat": 0, "seq": event["seq"], "event": event["event"],
        "timestamp": event["timestamp"], "node_id": event["node_id"], "handle": event["handle"]});
    Bytes::from(format!("id: {}\ndata: {body}\n\n", "x".repeat(34)))
}
