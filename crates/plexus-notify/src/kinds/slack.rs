//! Slack: a message of a bot to a channel. Presses of its buttons come over a WebSocket that we
//! open (socket mode), so nobody needs to reach this server.
//!
//! A press decides only with the one-time token of its button, by one of the configured users, in
//! the configured channel. Times that Slack states are not used, so no clock matters. Texts of an
//! agent are sent as plain text: they cannot mention anybody or look like a link.

use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::header::AUTHORIZATION;
use futures::{SinkExt as _, StreamExt as _};
use plexus_core::SecretToken;
use plexus_tls::{Connection, connect};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use tokio_util::sync::CancellationToken;
use url::Url;

use super::{Attempt, BUTTONS};
use crate::http::{Address, NoAnswer, exchange};
use crate::listen::{Heard, Listening, Pause};
use crate::message::{Item, Message};
use plexus_render::sanitize;
use plexus_render::screen::cut;

/// The most that is read of an answer, and of a frame. A press brings its whole message along.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;

/// How long a connection may take to be opened.
const OPEN_WITHIN: Duration = Duration::from_secs(20);

/// A connection that says nothing for so long is dead: Slack sends a ping every few seconds.
const SILENCE: Duration = Duration::from_secs(120);

/// A connection that Slack ends sooner than this is not renewed at once, but after a rest.
const SHORT_LIFE: Duration = Duration::from_secs(10);

/// Presses that are taken and not answered yet. While there are so many, Slack keeps the next one
/// and sends it again.
const MAX_WAITING_PRESSES: usize = 64;

/// The most characters of a header and of a section.
const HEADER_CHARS: usize = 150;
const SECTION_CHARS: usize = 2_900;

/// How the actions of our buttons begin.
const ACTION: &str = "plexus_";

/// A bot and its channel.
#[derive(Clone, Debug)]
pub(crate) struct Slack {
    pub(crate) at: Address,
    pub(crate) channel: String,
    pub(crate) token: SecretToken,
    /// Opens the connection over which presses come.
    pub(crate) app_token: Option<SecretToken>,
    /// Who may decide.
    pub(crate) users: Vec<String>,
}

type Socket = WebSocketStream<Box<dyn Connection>>;

impl Slack {
    pub(super) async fn send(&self, message: &Message, within: Duration) -> Attempt {
        let letter = json!({
            "channel": self.channel,
            "text": escaped(&message.title),
            "blocks": blocks(message),
            "unfurl_links": false,
        });
        match self.call("chat.postMessage", &self.token, &letter, within).await {
            Ok(_) => Attempt::Delivered,
            Err(Failure::Refused(why)) => Attempt::Refused(why),
            Err(other) => Attempt::Unreachable(other.to_string()),
        }
    }

    /// Takes presses and decides, until the server stops.
    pub(crate) async fn listen(&self, listening: Listening, stop: CancellationToken) {
        let Some(app_token) = &self.app_token else { return };
        let (taken, presses) = mpsc::channel(MAX_WAITING_PRESSES);
        // A press is taken at once and decided beside it: Slack waits three seconds for the first
        // press, and an answer to the one before it may take longer.
        tokio::join!(
            self.hear(app_token, taken, &listening, &stop),
            self.decide(presses, &listening, &stop),
        );
    }

    /// Takes presses from one socket after the other, until the server stops.
    async fn hear(
        &self,
        app_token: &SecretToken,
        taken: mpsc::Sender<Value>,
        listening: &Listening,
        stop: &CancellationToken,
    ) {
        let mut pause = Pause::default();
        loop {
            let opened = tokio::select! {
                opened = tokio::time::timeout(OPEN_WITHIN, self.open(app_token)) => opened,
                () = stop.cancelled() => return,
            };
            let why = match opened.unwrap_or(Err(Failure::Slow)) {
                Err(why) => why.to_string(),
                Ok(mut socket) => {
                    listening.hears();
                    let opened_at = Instant::now();
                    let ended = tokio::select! {
                        ended = self.take(&mut socket, &taken) => ended,
                        () = stop.cancelled() => return,
                    };
                    let lived = opened_at.elapsed() >= SHORT_LIFE;
                    if lived {
                        pause = Pause::default();
                    }
                    match ended {
                        // Slack renews its connections every few hours, and says so.
                        Ended::Asked if lived => continue,
                        Ended::Asked => "Slack asked for another socket at once".to_owned(),
                        Ended::Broken(why) => why,
                    }
                }
            };
            listening.cannot_hear(&why);
            tokio::select! {
                () = pause.wait() => {}
                () = stop.cancelled() => return,
            }
        }
    }

    /// Decides what was pressed, in the order in which it came. What was taken is decided also when
    /// the server stops, because Slack does not send it again; nobody is told then.
    async fn decide(
        &self,
        mut presses: mpsc::Receiver<Value>,
        listening: &Listening,
        stop: &CancellationToken,
    ) {
        while let Some(payload) = presses.recv().await {
            self.pressed(&payload, listening, stop).await;
        }
    }

    async fn open(&self, app_token: &SecretToken) -> Result<Socket, Failure> {
        let opened = self.call("apps.connections.open", app_token, &json!({}), OPEN_WITHIN).await?;
        let url: Url = opened["url"]
            .as_str()
            .and_then(|url| url.parse().ok())
            .ok_or_else(|| Failure::Refused("Slack named no address for its socket".into()))?;
        // As well protected as the address that we were told to use.
        let expected = if self.at.tls.is_some() { "wss" } else { "ws" };
        if url.scheme() != expected {
            return Err(Failure::Refused(format!("Slack named an address without {expected}://")));
        }
        let stream = connect(&url, self.at.tls.as_ref()).await.map_err(NoAnswer::from)?;
        let bounds = WebSocketConfig::default()
            .max_message_size(Some(MAX_ANSWER_BYTES))
            .max_frame_size(Some(MAX_ANSWER_BYTES));
        let (socket, _) = client_async_with_config(url.as_str(), stream, Some(bounds))
            .await
            .map_err(|error| Failure::Refused(format!("no WebSocket: {error}")))?;
        Ok(socket)
    }

    async fn take(&self, socket: &mut Socket, presses: &mpsc::Sender<Value>) -> Ended {
        loop {
            let frame = match tokio::time::timeout(SILENCE, socket.next()).await {
                Err(_) => return Ended::Broken("the socket was silent for too long".into()),
                Ok(None) => return Ended::Broken("Slack closed the socket".into()),
                Ok(Some(Err(error))) => return Ended::Broken(format!("the socket broke: {error}")),
                Ok(Some(Ok(frame))) => frame,
            };
            let Frame::Text(text) = frame else { continue };
            let Ok(mut told) = serde_json::from_str::<Value>(&text) else { continue };
            if told["type"] == "disconnect" {
                return Ended::Asked;
            }
            let Some(envelope) = told["envelope_id"].as_str() else { continue };
            let Ok(place) = presses.reserve().await else {
                return Ended::Broken("nobody decides any more".into());
            };
            // First: Slack waits three seconds for it, and sends the press again otherwise.
            let taken = json!({"envelope_id": envelope}).to_string();
            if let Err(error) = socket.send(Frame::Text(taken.into())).await {
                return Ended::Broken(format!("the socket broke: {error}"));
            }
            if told["type"] == "interactive" && told["payload"]["type"] == "block_actions" {
                place.send(told["payload"].take());
            }
        }
    }

    async fn pressed(&self, payload: &Value, listening: &Listening, stop: &CancellationToken) {
        let user = payload["user"]["id"].as_str().unwrap_or_default();
        let channel = payload["channel"]["id"].as_str().unwrap_or_default();
        for action in payload["actions"].as_array().into_iter().flatten() {
            let approve = match action["action_id"].as_str().and_then(|it| it.strip_prefix(ACTION))
            {
                Some("allow") => true,
                Some("deny") => false,
                // A link is opened by Slack itself.
                _ => continue,
            };
            let may = channel == self.channel && self.users.iter().any(|allowed| allowed == user);
            let heard = if may {
                let token = SecretToken::new(action["value"].as_str().unwrap_or_default());
                listening.decide(&token, approve).await
            } else {
                let word = |id: &str| match id {
                    "" => "unknown".to_owned(),
                    id => sanitize::one_line(id).into_owned(),
                };
                let who = format!("user {} in channel {} of Slack", word(user), word(channel));
                listening.stranger(&who).await
            };
            let telling = async {
                self.tell(channel, user, heard.words(), listening).await;
                if let Heard::Decided(words) | Heard::Stands(words) = &heard {
                    self.take_buttons_away(payload, action, words, listening).await;
                }
            };
            tokio::select! {
                () = telling => {}
                () = stop.cancelled() => {}
            }
        }
    }

    /// Tells the person who pressed what became of it.
    async fn tell(&self, channel: &str, user: &str, words: &str, listening: &Listening) {
        let told = json!({"channel": channel, "user": user, "text": escaped(words)});
        let within = listening.timeout;
        if let Err(why) = self.call("chat.postEphemeral", &self.token, &told, within).await {
            tracing::warn!(receiver = listening.receiver, %why, "a press could not be answered");
        }
    }

    /// Replaces the buttons of a message with the decision.
    async fn take_buttons_away(
        &self,
        payload: &Value,
        action: &Value,
        words: &str,
        listening: &Listening,
    ) {
        let mut blocks = payload["message"]["blocks"].as_array().cloned().unwrap_or_default();
        for block in &mut blocks {
            if block["block_id"] == action["block_id"] {
                *block = section(words);
            }
        }
        let letter = json!({
            "channel": self.channel,
            "ts": payload["message"]["ts"],
            "text": payload["message"]["text"],
            "blocks": blocks,
        });
        let updated = self.call("chat.update", &self.token, &letter, listening.timeout).await;
        if let Err(why) = updated {
            tracing::debug!(receiver = listening.receiver, %why, "buttons could not be removed");
        }
    }

    /// Calls a method of Slack and returns its answer.
    async fn call(
        &self,
        method: &str,
        token: &SecretToken,
        params: &Value,
        within: Duration,
    ) -> Result<Value, Failure> {
        let at = self.at.at(method);
        let request = at
            .post_json()
            .header(AUTHORIZATION, format!("Bearer {}", token.expose()))
            .body(Body::from(params.to_string()))
            .map_err(|_| Failure::Refused("it could not be written".into()))?;
        let answer = exchange(&at, request, within, MAX_ANSWER_BYTES).await?;
        let said: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        if answer.status.is_success() && said["ok"] == true {
            return Ok(said);
        }
        let why = said["error"].as_str().unwrap_or("without a reason");
        Err(Failure::Refused(format!("Slack answered {} to {method}: {why}", answer.status)))
    }
}

/// How a connection ended.
enum Ended {
    /// Slack asked us to open another one.
    Asked,
    Broken(String),
}

/// Why a method of Slack gave nothing.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Unreachable(#[from] NoAnswer),
    #[error("the socket did not open in time")]
    Slow,
}

/// Says whether a message is short enough: nothing of it is cut in its blocks.
pub(super) fn takes(message: &Message) -> bool {
    let chars = |text: &str| text.encode_utf16().count();
    chars(&message.title) <= HEADER_CHARS && chars(&message.body) <= SECTION_CHARS
}

fn blocks(message: &Message) -> Vec<Value> {
    let title = json!({"type": "plain_text", "text": cut(&message.title, HEADER_CHARS)});
    let mut blocks = vec![json!({"type": "header", "text": title})];
    match message.items.as_slice() {
        [only] => {
            if !message.body.is_empty() {
                blocks.push(section(&message.body));
            }
            blocks.extend(buttons(only));
        }
        several => {
            for (at, item) in several.iter().enumerate() {
                blocks.push(section(&format!("{}. {}\n{}", at + 1, item.title, item.text)));
                blocks.extend(buttons(item));
            }
        }
    }
    if let Some(url) = &message.url {
        let open = json!({
            "type": "button",
            "text": {"type": "plain_text", "text": "Open"},
            "action_id": format!("{ACTION}open"),
            "url": url,
        });
        blocks.push(json!({"type": "actions", "elements": [open]}));
    }
    blocks
}

fn section(text: &str) -> Value {
    json!({"type": "section", "text": {"type": "plain_text", "text": cut(text, SECTION_CHARS)}})
}

fn buttons(item: &Item) -> Option<Value> {
    let press = item.press.as_ref()?;
    let button = |(label, approve): &(&str, bool)| {
        let (action, style) = if *approve { ("allow", "primary") } else { ("deny", "danger") };
        json!({
            "type": "button",
            "text": {"type": "plain_text", "text": label},
            "action_id": format!("{ACTION}{action}"),
            "style": style,
            "value": press.token.expose(),
        })
    };
    let elements: Vec<Value> = BUTTONS.iter().map(button).collect();
    Some(json!({"type": "actions", "block_id": item.approval?.to_string(), "elements": elements}))
}

/// Slack reads some texts as markup.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
