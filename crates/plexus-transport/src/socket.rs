//! `/rpc` as a WebSocket: many calls and streams at once.
//!
//! One task reads, one writes, and each call has a task of its own. A stream that meets a slow client waits in its own task; other
//! calls on the same socket go on. Closing the socket, or `rpc.cancel {id}`, drops a call's task and with it the work.

use std::collections::HashMap;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use futures::{SinkExt, StreamExt};
use plexus_core::{Call, CallError, Caller, Progress, Reply, ReplyStream, Shape};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};

use crate::doors::Doors;
use crate::envelope::{self, Incoming, Refused, Request};
use crate::identity::Presented;
use crate::limits::{MAX_BATCH, MAX_CALLS_PER_SOCKET, RETRY_AFTER_MS, SOCKET_QUEUE};

pub(crate) async fn handle(
    State(doors): State<Doors>,
    Extension(caller): Extension<Caller>,
    Extension(presented): Extension<Presented>,
    upgrade: WebSocketUpgrade,
) -> Response {
    let limit = doors.limits.body_bytes;
    upgrade
        .max_message_size(limit)
        .max_frame_size(limit)
        .on_upgrade(move |socket| run(doors, caller, presented, socket))
}

async fn run(doors: Doors, caller: Caller, presented: Presented, socket: WebSocket) {
    let (mut sink, mut source) = socket.split();
    let (out, mut queue) = mpsc::channel::<Message>(SOCKET_QUEUE);
    let writer = tokio::spawn(async move {
        while let Some(message) = queue.recv().await {
            if sink.send(message).await.is_err() {
                return;
            }
        }
    });
    let mut over = std::pin::pin!(presented.clone().over(doors.clone()));
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
        };
        match message {
            Some(Ok(Message::Text(text))) => calls.take(text.as_bytes()).await,
            Some(Ok(Message::Binary(bytes))) => calls.take(&bytes).await,
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Ok(Message::Close(_)) | Err(_)) | None => break,
        }
    }
    // Dropping the tasks cancels the work; the writer ends when the last sender is gone.
    drop(calls);
    drop(out);
    writer.abort();
}

struct Calls {
    doors: Doors,
    caller: Caller,
    presented: Presented,
    out: mpsc::Sender<Message>,
    tasks: JoinSet<()>,
    by_id: HashMap<String, AbortHandle>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CancelParams {
    id: Box<RawValue>,
}

impl Calls {
    async fn take(&mut self, body: &[u8]) {
        match envelope::read(body, MAX_BATCH) {
            Err(error) => self.send(envelope::failure(None, &error)).await,
            Ok(Incoming::One(call)) => self.start(call).await,
            Ok(Incoming::Batch(calls)) => {
                for call in calls {
                    self.start(call).await;
                }
            }
        }
    }

    async fn start(&mut self, call: Result<Request, Refused>) {
        let request = match call {
            Ok(request) => request,
            Err(Refused { id, error }) => {
                return self.send(envelope::failure(id.as_deref(), &error)).await;
            }
        };
        if request.method == "rpc.cancel" {
            return self.cancel(request).await;
        }
        // A socket outlives many calls; each is made with a token that is good now.
        if let Err(error) = self.presented.check(&*self.doors.auth).await {
            return self.send(envelope::failure(request.id.as_deref(), &error)).await;
        }
        let place = if self.tasks.len() >= MAX_CALLS_PER_SOCKET {
            Err(CallError::busy(
                "start another call on this socket: too many are under way",
                RETRY_AFTER_MS,
            ))
        } else {
            self.doors.admit(self.caller)
        };
        let place = match place {
            Ok(place) => place,
            Err(error) => return self.send(envelope::failure(request.id.as_deref(), &error)).await,
        };
        let key = request.id.as_ref().map(|id| id.get().to_owned());
        let (doors, caller, out) = (self.doors.clone(), self.caller, self.out.clone());
        let task = self.tasks.spawn(async move {
            let _place = place;
            one_call(&doors, caller, request, &out).await;
        });
        self.by_id.retain(|_, task| !task.is_finished());
        self.by_id.extend(key.map(|key| (key, task)));
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
        // Every call has its own answer, a cancelled one too.
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
        // The writer is gone only when the socket is: the reader notices next.
        let _closed = self.out.send(Message::Text(text.into())).await;
    }
}

async fn one_call(doors: &Doors, caller: Caller, request: Request, out: &mpsc::Sender<Message>) {
    let descriptor = doors
        .hub
        .descriptor(&caller, &request.method)
        .filter(|method| method.shape == Shape::Unary);
    let outcome = match doors.admit_wait(descriptor.as_deref()) {
        Ok(_waiting) => {
            let call =
                Call { caller, progress: Progress::default(), can_stream: request.id.is_some() };
            doors.call(call, &request.method, request.params).await
        }
        Err(error) => Err(error),
    };
    let result = match (outcome, &request.id) {
        (Ok(Reply::Value(value)), _) => Ok(value),
        (Ok(Reply::Stream(stream)), Some(id)) => forward(doors, stream, id, out).await,
        (Ok(Reply::Stream(_)), None) => {
            Err(CallError::invalid("stream to a notification: it has no id"))
        }
        (Err(error), _) => Err(error),
    };
    let Some(id) = request.id else { return };
    let text = match result {
        Ok(value) => envelope::success(Some(&id), &value),
        Err(error) => envelope::failure(Some(&id), &error),
    };
    // A closed socket has nobody to tell.
    let _closed = out.send(Message::Text(text.into())).await;
}

/// Sends a stream's items; its end is the call's own answer.
async fn forward(
    doors: &Doors,
    mut stream: ReplyStream,
    id: &RawValue,
    out: &mpsc::Sender<Message>,
) -> Result<Box<RawValue>, CallError> {
    let _place = doors.admit_stream()?;
    while let Some(item) = stream.next().await {
        let item = item?;
        let text = envelope::stream_item(id, &item.body, item.cursor.as_deref());
        if out.send(Message::Text(text.into())).await.is_err() {
            break;
        }
    }
    serde_json::value::to_raw_value(&serde_json::json!({"type": "end"}))
        .map_err(|_| CallError::internal("end the stream"))
}
