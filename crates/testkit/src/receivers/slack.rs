//! A stand-in for Slack: its web API and its socket mode, with one channel.

use std::sync::Arc;

use axum::Router;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Json, Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Shared, Site};
use crate::wait::{PATIENCE, eventually_async};

/// The channel that the bot is in.
pub const CHANNEL: &str = "C0PLEXUS";

/// Slack with one app.
#[derive(Debug)]
pub struct Slack {
    site: Site,
    state: Arc<Shared<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    port: u16,
    token: String,
    app_token: String,
    tickets: u64,
    /// The ticket that opens the next socket, once.
    ticket: Option<String>,
    sockets: usize,
    /// Whether it is away: sockets that are open break, and nobody opens another.
    is_down: bool,
    messages: Vec<Value>,
    /// Envelopes that wait for a socket, and the ids of those that were taken.
    waiting: Vec<Value>,
    taken: Vec<String>,
    told: Vec<Value>,
    /// Whether answers to people who pressed wait until they are let go.
    holds: bool,
}

impl Slack {
    /// Starts one whose bot and app have these tokens.
    #[must_use]
    pub fn start(token: &str, app_token: &str) -> Self {
        let mut site = Site::new();
        let state = Shared::new(Kept {
            port: site.port,
            token: token.to_owned(),
            app_token: app_token.to_owned(),
            ..Kept::default()
        });
        let router = Router::new().route("/api/{method}", post(call)).route("/link", get(link));
        site.serve(router.with_state(Arc::clone(&state)));
        Self { site, state }
    }

    /// Where its web API is.
    #[must_use]
    pub fn url(&self) -> String {
        format!("{}/api", self.site.url())
    }

    /// Nobody listens on its port from now on, and its sockets break.
    pub async fn stop(&mut self) {
        self.state.change(|kept| kept.is_down = true);
        self.site.stop().await;
    }

    /// Listens again.
    pub fn start_again(&mut self) {
        self.state.change(|kept| kept.is_down = false);
        self.site.start_again();
    }

    /// The messages as they stand now.
    #[must_use]
    pub fn messages(&self) -> Vec<Value> {
        self.state.lock().messages.clone()
    }

    /// Waits until there are so many messages.
    pub async fn wait_for(&self, count: usize) -> Vec<Value> {
        eventually_async(&format!("{count} messages to Slack"), PATIENCE, || {
            std::future::ready(Some(self.messages()).filter(|all| all.len() >= count))
        })
        .await
    }

    /// Presses a button of a message in a channel, as this user, and returns what the person is
    /// told. `action_ts` is the time that Slack states.
    ///
    /// # Panics
    /// When the message has no such button.
    #[expect(clippy::expect_used, reason = "for tests")]
    pub async fn press(
        &self,
        (user, channel): (&str, &str),
        message: &Value,
        label: &str,
        action_ts: i64,
    ) -> String {
        let blocks = message["blocks"].as_array().expect("blocks");
        let (block, button) = blocks
            .iter()
            .flat_map(|block| {
                block["elements"].as_array().into_iter().flatten().map(move |it| (block, it))
            })
            .find(|(_, button)| button["text"]["text"] == label)
            .expect("the message has this button");
        let mut action = button.clone();
        action["block_id"] = block["block_id"].clone();
        action["action_ts"] = json!(format!("{action_ts}.000100"));
        self.press_with((user, channel), message, &action).await
    }

    /// The same with an action that the sender made up.
    pub async fn press_with(
        &self,
        (user, channel): (&str, &str),
        message: &Value,
        action: &Value,
    ) -> String {
        let told = self.state.lock().told.len();
        self.state.change(|kept| {
            let id = format!("e{}", kept.taken.len() + kept.waiting.len() + 1);
            let payload = json!({
                "type": "block_actions",
                "user": {"id": user},
                "channel": {"id": channel},
                "message": message,
                "actions": [action],
            });
            let envelope = json!({
                "envelope_id": id,
                "type": "interactive",
                "accepts_response_payload": false,
                "payload": payload,
            });
            kept.waiting.push(envelope);
        });
        eventually_async("what Slack tells the person who pressed", PATIENCE, || {
            let kept = self.state.lock();
            let text = kept.told.get(told).map(|it| it["text"].as_str().unwrap_or_default());
            std::future::ready(text.map(str::to_owned))
        })
        .await
    }

    /// From now on it tells nobody anything and answers to that late, until [`Slack::let_go`].
    pub fn hold(&self) {
        self.state.change(|kept| kept.holds = true);
    }

    /// Tells what waits.
    pub fn let_go(&self) {
        self.state.change(|kept| kept.holds = false);
    }

    /// How many answers people who pressed have got.
    #[must_use]
    pub fn told(&self) -> usize {
        self.state.lock().told.len()
    }

    /// Waits until so many envelopes were taken.
    pub async fn wait_until_taken(&self, count: usize) {
        eventually_async(&format!("{count} presses that were taken"), PATIENCE, || {
            std::future::ready((self.state.lock().taken.len() >= count).then_some(()))
        })
        .await;
    }

    /// Asks for a new socket, as Slack does every few hours.
    pub fn renew(&self) {
        self.state.change(|kept| {
            kept.waiting.push(json!({"type": "disconnect", "reason": "refresh_requested"}));
        });
    }

    /// How many sockets were opened so far.
    #[must_use]
    pub fn sockets(&self) -> usize {
        self.state.lock().sockets
    }
}

async fn call(
    State(state): State<Arc<Shared<Kept>>>,
    Path(method): Path<String>,
    headers: HeaderMap,
    Json(params): Json<Value>,
) -> Response {
    let given = headers.get("authorization").and_then(|it| it.to_str().ok()).unwrap_or_default();
    let refuse = |why: &str| axum::Json(json!({"ok": false, "error": why})).into_response();
    let mut answer = json!({"ok": true});
    let wanted = {
        let kept = state.lock();
        let opens = method == "apps.connections.open";
        format!("Bearer {}", if opens { &kept.app_token } else { &kept.token })
    };
    if given != wanted {
        return refuse("invalid_auth");
    }
    if method != "apps.connections.open" && params["channel"] != CHANNEL {
        // The real one lets nobody write where its bot is not.
        return refuse("channel_not_found");
    }
    if repeats_a_block_id(&params["blocks"]) {
        return refuse("invalid_blocks");
    }
    match method.as_str() {
        "apps.connections.open" => {
            let url = state.change(|kept| {
                kept.tickets += 1;
                let ticket = format!("t{}", kept.tickets);
                kept.ticket = Some(ticket.clone());
                format!("ws://127.0.0.1:{}/link?ticket={ticket}", kept.port)
            });
            answer["url"] = json!(url);
        }
        "chat.postMessage" => state.change(|kept| {
            let mut message = params;
            message["ts"] = json!(format!("{}.000000", kept.messages.len() + 1));
            kept.messages.push(message);
        }),
        "chat.update" => state.change(|kept| {
            for message in kept.messages.iter_mut().filter(|it| it["ts"] == params["ts"]) {
                message["blocks"] = params["blocks"].clone();
            }
        }),
        "chat.postEphemeral" => {
            loop {
                let changed = state.changed.notified();
                if !state.lock().holds {
                    break;
                }
                changed.await;
            }
            state.change(|kept| kept.told.push(params));
        }
        _ => return refuse("unknown_method"),
    }
    axum::Json(answer).into_response()
}

/// Whether two blocks of a message have the same id, which the real one refuses.
fn repeats_a_block_id(blocks: &Value) -> bool {
    let blocks = blocks.as_array().into_iter().flatten();
    let mut seen = std::collections::HashSet::new();
    !blocks.filter_map(|block| block["block_id"].as_str()).all(|id| seen.insert(id))
}

#[derive(Deserialize)]
struct Ticket {
    ticket: String,
}

async fn link(
    State(state): State<Arc<Shared<Kept>>>,
    Query(given): Query<Ticket>,
    upgrade: WebSocketUpgrade,
) -> Response {
    let is_known = state.change(|kept| kept.ticket.take_if(|it| *it == given.ticket).is_some());
    if !is_known {
        return StatusCode::FORBIDDEN.into_response();
    }
    upgrade.on_upgrade(move |socket| talk(socket, state))
}

/// Sends what waits, until the other side goes or is asked to.
async fn talk(mut socket: WebSocket, state: Arc<Shared<Kept>>) {
    state.change(|kept| kept.sockets += 1);
    let hello = json!({"type": "hello", "num_connections": 1}).to_string();
    if socket.send(Message::Text(hello.into())).await.is_err() {
        return;
    }
    loop {
        let changed = state.changed.notified();
        let next = {
            let mut kept = state.lock();
            if kept.is_down {
                return;
            }
            if kept.waiting.is_empty() { None } else { Some(kept.waiting.remove(0)) }
        };
        let Some(envelope) = next else {
            tokio::select! {
                () = changed => continue,
                heard = socket.recv() => match heard {
                    Some(Ok(_)) => continue,
                    Some(Err(_)) | None => return,
                },
            }
        };
        if socket.send(Message::Text(envelope.to_string().into())).await.is_err() {
            state.change(|kept| kept.waiting.insert(0, envelope));
            return;
        }
        if envelope["type"] == "disconnect" {
            return;
        }
        // Taken before anything else is sent, as the real one wants it.
        match socket.recv().await {
            Some(Ok(Message::Text(text))) => {
                let taken: Value = serde_json::from_str(&text).unwrap_or_default();
                let id = taken["envelope_id"].as_str().unwrap_or_default().to_owned();
                state.change(|kept| kept.taken.push(id));
            }
            _ => {
                state.change(|kept| kept.waiting.insert(0, envelope));
                return;
            }
        }
    }
}
