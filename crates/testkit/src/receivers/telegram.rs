//! A stand-in for Telegram's Bot API, with one chat.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Json, Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use serde_json::{Value, json};

use super::{Shared, Site};
use crate::wait::{PATIENCE, eventually_async};

/// The most bytes that a button carries, and the most characters of a message.
const MAX_DATA_BYTES: usize = 64;
const MAX_TEXT_CHARS: usize = 4_096;

/// The longest that this one holds a poll.
const HOLD: Duration = Duration::from_secs(2);

/// Telegram with one bot.
#[derive(Debug)]
pub struct Telegram {
    site: Site,
    state: Arc<Shared<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    token: String,
    /// Messages as they stand now, with what editing took away.
    messages: Vec<Value>,
    updates: Vec<Value>,
    last_update: i64,
    /// The answers to presses, in the order they came.
    answers: Vec<Value>,
}

impl Telegram {
    /// Starts one whose bot has this token.
    #[must_use]
    pub fn start(token: &str) -> Self {
        let state = Shared::new(Kept { token: token.to_owned(), ..Kept::default() });
        let mut site = Site::new();
        let router = Router::new().route("/{bot}/{method}", post(call));
        site.serve(router.with_state(Arc::clone(&state)));
        Self { site, state }
    }

    /// Where it is.
    #[must_use]
    pub fn url(&self) -> String {
        self.site.url()
    }

    /// Nobody listens on its port from now on.
    pub async fn stop(&mut self) {
        self.site.stop().await;
    }

    /// Listens again.
    pub fn start_again(&mut self) {
        self.site.start_again();
    }

    /// The messages as they stand now.
    #[must_use]
    pub fn messages(&self) -> Vec<Value> {
        self.state.lock().messages.clone()
    }

    /// Waits until there are so many messages.
    pub async fn wait_for(&self, count: usize) -> Vec<Value> {
        eventually_async(&format!("{count} messages to Telegram"), PATIENCE, || {
            std::future::ready(Some(self.messages()).filter(|all| all.len() >= count))
        })
        .await
    }

    /// Presses the button of this label, as this user, and returns what the person is told.
    ///
    /// # Panics
    /// When the message has no such button.
    #[expect(clippy::expect_used, reason = "for tests")]
    pub async fn press(&self, user: i64, message: &Value, label: &str) -> String {
        let rows = message["reply_markup"]["inline_keyboard"].as_array().expect("buttons");
        let button = rows
            .iter()
            .flat_map(|row| row.as_array().into_iter().flatten())
            .find(|button| button["text"] == label)
            .expect("the message has this button");
        let data = button["callback_data"].as_str().expect("a button of ours").to_owned();
        self.press_with(user, message, &data).await
    }

    /// The same with data that the sender made up.
    pub async fn press_with(&self, user: i64, message: &Value, data: &str) -> String {
        let id = self.state.change(|kept| {
            kept.last_update += 1;
            let id = format!("q{}", kept.last_update);
            let query = json!({"id": id, "from": {"id": user}, "message": message, "data": data});
            kept.updates.push(json!({"update_id": kept.last_update, "callback_query": query}));
            id
        });
        eventually_async("the answer to a press", PATIENCE, || {
            let kept = self.state.lock();
            let found = kept.answers.iter().find(|it| it["callback_query_id"] == id.as_str());
            let text = found.map(|it| it["text"].as_str().unwrap_or_default().to_owned());
            std::future::ready(text)
        })
        .await
    }
}

async fn call(
    State(state): State<Arc<Shared<Kept>>>,
    Path((bot, method)): Path<(String, String)>,
    Json(params): Json<Value>,
) -> Response {
    let refuse = |status: StatusCode, why: &str| {
        let body = json!({"ok": false, "error_code": status.as_u16(), "description": why});
        (status, axum::Json(body)).into_response()
    };
    if bot != format!("bot{}", state.lock().token) {
        return refuse(StatusCode::UNAUTHORIZED, "Unauthorized");
    }
    let result = match method.as_str() {
        "sendMessage" => {
            let text = params["text"].as_str().unwrap_or_default();
            if text.is_empty() || text.chars().count() > MAX_TEXT_CHARS {
                return refuse(StatusCode::BAD_REQUEST, "Bad Request: message text");
            }
            let rows = params["reply_markup"]["inline_keyboard"].as_array();
            let mut buttons =
                rows.into_iter().flatten().flat_map(|row| row.as_array().into_iter().flatten());
            let is_too_long = |it: &Value| {
                it["callback_data"].as_str().is_some_and(|it| it.len() > MAX_DATA_BYTES)
            };
            if buttons.any(is_too_long) {
                return refuse(StatusCode::BAD_REQUEST, "Bad Request: BUTTON_DATA_INVALID");
            }
            state.change(|kept| {
                let message = json!({
                    "message_id": kept.messages.len() + 1,
                    "chat": {"id": params["chat_id"]},
                    "text": text,
                    "reply_markup": params["reply_markup"],
                });
                kept.messages.push(message.clone());
                message
            })
        }
        "getUpdates" => updates(&state, params["offset"].as_i64()).await,
        "answerCallbackQuery" => {
            state.change(|kept| kept.answers.push(params));
            json!(true)
        }
        "editMessageReplyMarkup" => {
            state.change(|kept| {
                let id = &params["message_id"];
                for message in kept.messages.iter_mut().filter(|it| it["message_id"] == *id) {
                    message["reply_markup"] = params["reply_markup"].clone();
                }
            });
            json!(true)
        }
        _ => return refuse(StatusCode::NOT_FOUND, "Not Found"),
    };
    axum::Json(json!({"ok": true, "result": result})).into_response()
}

/// Forgets what was confirmed, and waits for something else.
async fn updates(state: &Shared<Kept>, offset: Option<i64>) -> Value {
    let found = async {
        loop {
            let changed = state.changed.notified();
            {
                let mut kept = state.lock();
                if let Some(offset) = offset {
                    kept.updates.retain(|it| it["update_id"].as_i64() >= Some(offset));
                }
                if !kept.updates.is_empty() {
                    return Value::Array(kept.updates.clone());
                }
            }
            changed.await;
        }
    };
    tokio::time::timeout(HOLD, found).await.unwrap_or_else(|_| json!([]))
}
