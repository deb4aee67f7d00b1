//! `/rpc` as a WebSocket: many calls and streams at once.
//!
//! One task reads, one writes, and each call has its own task. When the client is slow, a stream
//! waits in its own task, and other calls on the same socket go on. Closing the socket, or
//! `rpc.cancel {id}`, drops a call's task and with it the work. A socket that answers no pings, or
//! that has had no call for long, is closed.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::response::Response;
use futures::StreamExt;
use plexus_core::{Call, CallError, Caller, Reply, ReplyStream, Shape};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::connections::Connection;
use crate::doors::Doors;
use crate::envelope::{self, Incoming, Refused, Request};
use crate::identity::Presented;
use crate::limits::{MAX_BATCH, MAX_CALLS_PER_SOCKET, RETRY_AFTER_MS, SILENT_PINGS, SOCKET_BUFFER};
use crate::outbox::{self, Outbox};
use crate::shares::Taken;

pub(crate) async fn handle(
    State(doors): State<Doors>,
    Extension(caller): Extension<Caller>,
    Extension(presented): Extension<Presented>,
    connection: Option<Extension<Arc<Connection>>>,
    upgrade: WebSocketUpgrade,
) -> Response {
    let limit = doors.limits.body_bytes;
    let connection = connection.map(|Extension(connection)| connection);
    upgrade
        .read_buffer_size(SOCKET_BUFFER)
        .write_buffer_size(SOCKET_BUFFER)
        .max_message_size(limit)
        .max_frame_size(limit)
        .on_upgrade(move |socket| run(doors, caller, presented, connection, socket))
}

async fn run(
    doors: Doors,
    caller: Caller,
    presented: Presented,
    connection: Option<Arc<Connection>>,
    socket: WebSocket,
) {
    if let Some(connection) = &connection {
        connection.count_messages(&doors.bytes, caller);
    }
    let (sink, mut source) = socket.split();
    let (out, mut writer) = outbox::open(sink, Arc::clone(&doors.bytes), caller);
    let mut over = std::pin::pin!(presented.clone().over(doors.clone()));
    let (ping_every, keep_idle) = (doors.limits.socket_ping, doors.limits.socket_idle);
    let mut pings = interval_at(Instant::now() + ping_every, ping_every);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut unanswered = 0;
    let mut busy = Instant::now();
    let mut calls = Calls {
        doors,
        caller,
        presented,
        out: out.clone(),
        tasks: JoinSet::new(),
        by_id: HashMap::new(),
    };
    loop {
        let message = tokio::select! {
            message = source.next() => message,
            Some(_) = calls.tasks.join_next() => continue,
            () = &mut over => break,
            // The connection closes when its client reads nothing; then nothing more can be
            // written.
            _ = &mut writer => return,
            _ = pings.tick() => {
                if !calls.tasks.is_empty() {
                    busy = Instant::now();
                } else if busy.elapsed() > keep_idle {
                    out.say(Message::Close(Some(CloseFrame {
                        code: close_code::NORMAL,
                        reason: "no call for limits.socket_idle_secs".into(),
                    })))
                    .await;
                    break;
                }
                // A slow client receives the ping only after everything else that it has not read
                // yet.
                if connection.as_ref().is_some_and(|connection| connection.was_drained()) {
                    unanswered = 0;
                }
                if unanswered >= SILENT_PINGS {
                    tracing::debug!("a WebSocket answers no pings and is ended");
                    break;
                }
                // Pings are counted instead of time, so that a paused machine blames no client.
                unanswered += 1;
                out.ping();
                continue;
            }
        };
        unanswered = 0;
        match message {
            Some(Ok(Message::Text(text))) => calls.take(&connection, text.as_bytes()).await,
            Some(Ok(Message::Binary(bytes))) => calls.take(&connection, &bytes).await,
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
            Some(Ok(Message::Close(_)) | Err(_)) | None => break,
        }
        busy = Instant::now();
    }
    // Dropping the tasks cancels the work. The last message is still written, unless the client
    // does not read it.
    drop(calls);
    drop(out);
    if tokio::time::timeout(ping_every, &mut writer).await.is_err() {
        writer.abort();
    }
}

struct Calls {
    doors: Doors,
    caller: Caller,
    presented: Presented,
    out: Outbox,
    tasks: JoinSet<()>,
    by_id: HashMap<String, AbortHandle>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CancelParams {
    id: Box<RawValue>,
}

impl Calls {
    async fn take(&mut self, connection: &Option<Arc<Connection>>, body: &[u8]) {
        if let Some(connection) = connection {
            connection.message_is_whole();
        }
        // All calls of a batch share the bytes that they hold.
        let held = self.doors.bytes.take(self.caller, body.len()).map(Arc::new);
        match envelope::read(body, MAX_BATCH) {
            Err(error) => self.send(envelope::failure(None, &error)).await,
            Ok(Incoming::One(call)) => self.start(call, &held).await,
            Ok(Incoming::Batch(calls)) => {
                for call in calls {
                    self.start(call, &held).await;
                }
            }
        }
    }

    async fn start(
        &mut self,
        call: Result<Request, Refused>,
        held: &Result<Arc<Taken>, CallError>,
    ) {
        let request = match call {
            Ok(request) => request,
            Err(Refused { id, error }) => {
                return self.send(envelope::failure(id.as_deref(), &error)).await;
            }
        };
        if request.method == "rpc.cancel" {
            return self.cancel(request).await;
        }
        let places = match self.admit(held).await {
            Ok(places) => places,
            Err(error) => return self.send(envelope::failure(request.id.as_deref(), &error)).await,
        };
        let key = request.id.as_ref().map(|id| id.get().to_owned());
        let (doors, caller, out) = (self.doors.clone(), self.caller, self.out.clone());
        let task = self.tasks.spawn(async move {
            let _places = places;
            one_call(&doors, caller, request, &out).await;
        });
        self.by_id.retain(|_, task| !task.is_finished());
        self.by_id.extend(key.map(|key| (key, task)));
    }

    /// Takes the places that a further call needs.
    async fn admit(
        &self,
        held: &Result<Arc<Taken>, CallError>,
    ) -> Result<(Arc<Taken>, Taken), CallError> {
        // A socket outlives many calls, so the token is checked again for each.
        self.presented.check(&*self.doors.auth).await?;
        if self.tasks.len() >= MAX_CALLS_PER_SOCKET {
            return Err(CallError::busy(
                format_args!(
                    "start another call on this socket: {MAX_CALLS_PER_SOCKET} are under way"
                ),
                RETRY_AFTER_MS,
            )
            .with_hint("open another socket"));
        }
        Ok((held.clone()?, self.doors.admit(self.caller)?))
    }

    async fn cancel(&mut self, request: Request) {
        let params = request
            .params
            .and_then(|params| serde_json::from_str::<CancelParams>(params.get()).ok());
        let cancelled = params.and_then(|params| {
            let task = self.by_id.remove(params.id.get())?;
            task.abort();
            Some(params.id)
        });
        // Every call gets its own answer, also a cancelled one.
        if let Some(id) = cancelled {
            self.send(envelope::failure(
                Some(&id),
                &CallError::expired("finish the call: it was cancelled"),
            ))
            .await;
        }
        if let (Some(id), Ok(result)) =
            (request.id, serde_json::value::to_raw_value(&serde_json::json!({"type": "ok"})))
        {
            self.send(envelope::success(Some(&id), &result)).await;
        }
    }

    async fn send(&self, text: String) {
        // The writer ends only with the socket, and the reader notices that next.
        let _closed = self.out.answer(text).await;
    }
}

async fn one_call(doors: &Doors, caller: Caller, request: Request, out: &Outbox) {
    let descriptor = doors
        .hub
        .descriptor(&caller, &request.method)
        .filter(|method| method.shape == Shape::Unary);
    let outcome = match doors.admit_wait(caller, descriptor.as_deref()) {
        Ok(_waiting) => {
            let call = Call { can_stream: request.id.is_some(), ..Call::plain(caller) };
            doors.call(call, &request.method, request.params).await
        }
        Err(error) => Err(error),
    };
    let result = match (outcome, &request.id) {
        (Ok(Reply::Value(answer)), _) => doors.give(caller, descriptor.as_deref(), answer).await,
        (Ok(Reply::Stream(stream)), Some(id)) => {
            let end = forward(doors, caller, stream, id, out).await;
            end.map(|end| (end, doors.bytes.charge(caller, 0)))
        }
        (Ok(Reply::Stream(_)), None) => {
            Err(CallError::invalid("stream to a notification: it has no id"))
        }
        (Err(error), _) => Err(error),
    };
    let Some(id) = request.id else { return };
    // On a closed socket nobody reads the message.
    let _closed = match result {
        Ok((value, held)) => out.item(envelope::success(Some(&id), &value), held).await,
        Err(error) => out.answer(envelope::failure(Some(&id), &error)).await,
    };
}

/// Sends a stream's items; its end is the call's own answer.
async fn forward(
    doors: &Doors,
    caller: Caller,
    mut stream: ReplyStream,
    id: &RawValue,
    out: &Outbox,
) -> Result<Box<RawValue>, CallError> {
    let _place = doors.admit_stream(caller)?;
    while let Some(item) = stream.next().await {
        let item = item?;
        let held = doors.bytes.take(caller, item.body.get().len())?;
        let text = envelope::stream_item(id, &item.body, item.cursor.as_deref());
        drop(item);
        if out.item(text, held).await.is_err() {
            break;
        }
    }
    serde_json::value::to_raw_value(&serde_json::json!({"type": "end"}))
        .map_err(|_| CallError::internal("end the stream"))
}
