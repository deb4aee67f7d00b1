//! Telegram: a message of a bot to a chat. Presses of its buttons are fetched by long polling, so
//! nobody needs to reach this server.
//!
//! A button carries at most 64 bytes, so it holds the short form of the one-time token. Only the
//! configured users decide, and only in the configured chat.

use std::time::{Duration, Instant};

use axum::body::Body;
use plexus_core::SecretToken;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{Attempt, BUTTONS};
use crate::http::{Address, NoAnswer, exchange};
use crate::listen::{Heard, Listening, Pause};
use crate::message::Message;

/// How long Telegram holds a poll that has no updates, in seconds.
const POLL_SECS: u64 = 25;

/// How much longer than that we wait for its answer.
const POLL_GRACE: Duration = Duration::from_secs(10);

/// A poll that ends sooner than this without updates is followed by a pause of this length.
const SHORT_POLL: Duration = Duration::from_secs(1);

/// Presses in one answer.
const MAX_UPDATES: u64 = 20;

/// The most that is read of an answer. A press brings its whole message along.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;

/// The longest text, in UTF-16 units, as Telegram counts them.
const MAX_TEXT: usize = 4_096;

/// A bot and its chat.
#[derive(Clone, Debug)]
pub(crate) struct Telegram {
    pub(crate) at: Address,
    pub(crate) chat: i64,
    pub(crate) token: SecretToken,
    /// Who may decide.
    pub(crate) users: Vec<i64>,
}

impl Telegram {
    pub(super) async fn send(&self, message: &Message, within: Duration) -> Attempt {
        let mut params = json!({
            "chat_id": self.chat,
            "text": message.text(),
            "link_preview_options": {"is_disabled": true},
        });
        let mut rows: Vec<Value> = Vec::new();
        for (at, item) in message.items.iter().enumerate() {
            let Some(short) =
                item.press.as_ref().and_then(|it| plexus_engine::hooks::shorten(&it.token))
            else {
                continue;
            };
            let number = (message.items.len() > 1).then(|| format!("{}. ", at + 1));
            let number = number.unwrap_or_default();
            let button = |(label, approve): &(&str, bool)| {
                let word = if *approve { "a" } else { "d" };
                json!({"text": format!("{number}{label}"), "callback_data": format!("{word}{short}")})
            };
            rows.push(BUTTONS.iter().map(button).collect());
        }
        // Telegram takes no button that leads to a host without a name.
        if let Some(url) = message.url.as_ref().filter(|url| url.starts_with("https://")) {
            rows.push(json!([{"text": "Open", "url": url}]));
        }
        if !rows.is_empty() {
            params["reply_markup"] = json!({"inline_keyboard": rows});
        }
        match self.call("sendMessage", &params, within).await {
            Ok(_) => Attempt::Delivered,
            Err(Failure::Refused(why)) => Attempt::Refused(why),
            Err(Failure::Unreachable(error)) => Attempt::Unreachable(error.to_string()),
        }
    }

    /// Fetches presses and decides, until the server stops.
    pub(crate) async fn listen(&self, listening: Listening, stop: CancellationToken) {
        let mut offset: Option<i64> = None;
        let mut pause = Pause::default();
        loop {
            let params = json!({
                "offset": offset,
                "timeout": POLL_SECS,
                "limit": MAX_UPDATES,
                "allowed_updates": ["callback_query"],
            });
            let within = Duration::from_secs(POLL_SECS) + POLL_GRACE;
            let began = Instant::now();
            let polled = tokio::select! {
                polled = self.call("getUpdates", &params, within) => polled,
                () = stop.cancelled() => return,
            };
            let updates = match polled {
                Ok(updates) => updates,
                Err(why) => {
                    listening.cannot_hear(&why.to_string());
                    tokio::select! {
                        () = pause.wait() => continue,
                        () = stop.cancelled() => return,
                    }
                }
            };
            listening.hears();
            pause = Pause::default();
            if updates.as_array().is_none_or(Vec::is_empty) && began.elapsed() < SHORT_POLL {
                // A server that answers a poll at once would be polled in a busy loop.
                tokio::select! {
                    () = tokio::time::sleep(SHORT_POLL) => continue,
                    () = stop.cancelled() => return,
                }
            }
            for update in updates.as_array().into_iter().flatten() {
                // A restart may fetch the same press again; it is answered with the decision.
                offset = update["update_id"].as_i64().map(|id| id + 1).or(offset);
                if update["callback_query"].is_object() {
                    plexus_fault::point!("press.heard");
                    self.pressed(&update["callback_query"], &listening).await;
                }
            }
        }
    }

    async fn pressed(&self, query: &Value, listening: &Listening) {
        let user = query["from"]["id"].as_i64();
        let chat = query["message"]["chat"]["id"].as_i64();
        let data = query["data"].as_str().unwrap_or_default();
        let may = chat == Some(self.chat) && user.is_some_and(|user| self.users.contains(&user));
        let heard = match (may, data.split_at_checked(1)) {
            (false, _) => {
                let word = |id: Option<i64>| id.map_or("unknown".to_owned(), |id| id.to_string());
                let who = format!("user {} in chat {} of Telegram", word(user), word(chat));
                listening.stranger(&who).await
            }
            (true, Some((word @ ("a" | "d"), short))) => {
                match listening.answers.whole_token(&listening.receiver, short).await {
                    Ok(token) => listening.decide(&token, word == "a").await,
                    Err(error) => Heard::no(&error),
                }
            }
            (true, _) => Heard::Nothing("This server did not make this button.".to_owned()),
        };
        plexus_fault::point!("press.decided");
        let told = json!({
            "callback_query_id": query["id"],
            "text": heard.words(),
            "show_alert": !matches!(heard, Heard::Decided(_)),
        });
        let within = listening.timeout;
        if let Err(why) = self.call("answerCallbackQuery", &told, within).await {
            tracing::warn!(receiver = listening.receiver, %why, "a press could not be answered");
        }
        if matches!(heard, Heard::Decided(_) | Heard::Stands(_)) {
            self.take_buttons_away(&query["message"], data, listening).await;
        }
    }

    /// Removes the row of a button from its message: what it asked is decided.
    async fn take_buttons_away(&self, message: &Value, data: &str, listening: &Listening) {
        let rows = message["reply_markup"]["inline_keyboard"].as_array().cloned();
        let has_it = |row: &Value| {
            row.as_array().into_iter().flatten().any(|button| button["callback_data"] == data)
        };
        let left: Vec<Value> =
            rows.unwrap_or_default().into_iter().filter(|row| !has_it(row)).collect();
        let params = json!({
            "chat_id": self.chat,
            "message_id": message["message_id"],
            "reply_markup": {"inline_keyboard": left},
        });
        if let Err(why) = self.call("editMessageReplyMarkup", &params, listening.timeout).await {
            tracing::debug!(receiver = listening.receiver, %why, "buttons could not be removed");
        }
    }

    /// Calls a method of the bot and returns its result.
    async fn call(&self, method: &str, params: &Value, within: Duration) -> Result<Value, Failure> {
        let at = self.at.at(&format!("bot{}/{method}", self.token.expose()));
        let request = at
            .post_json()
            .body(Body::from(params.to_string()))
            .map_err(|_| Failure::Refused("it could not be written".into()))?;
        let answer = exchange(&at, request, within, MAX_ANSWER_BYTES).await?;
        let mut said: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        if answer.status.is_success() && said["ok"] == true {
            return Ok(said["result"].take());
        }
        let why = said["description"].as_str().unwrap_or("without a reason").to_owned();
        Err(Failure::Refused(format!("Telegram answered {}: {why}", answer.status)))
    }
}

/// Says whether a message is short enough.
pub(super) fn takes(message: &Message) -> bool {
    message.text().encode_utf16().count() <= MAX_TEXT
}

/// Why a method of the bot gave nothing. No text of it holds the address, which holds the token.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Unreachable(#[from] NoAnswer),
}
