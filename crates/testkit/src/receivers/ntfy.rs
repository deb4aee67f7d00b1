//! A stand-in for an ntfy server and its app.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Json, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use serde_json::{Value, json};

use super::{Shared, Site};
use crate::wait::{PATIENCE, eventually_async};

/// The most buttons of a message.
const MAX_ACTIONS: usize = 3;

/// The most bytes of a message; ntfy makes an attachment of a longer one.
const MAX_MESSAGE_BYTES: usize = 4_096;

/// An ntfy server that wants a token.
#[derive(Debug)]
pub struct Ntfy {
    site: Site,
    state: Arc<Shared<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    token: String,
    messages: Vec<Value>,
    /// Whether answers wait until they are let go.
    holds: bool,
    /// Requests that came, also those that wait for their answer.
    begun: usize,
}

impl Ntfy {
    /// Starts one that takes this token.
    #[must_use]
    pub fn start(token: &str) -> Self {
        let state = Shared::new(Kept { token: token.to_owned(), ..Kept::default() });
        let mut site = Site::new();
        site.serve(Router::new().route("/", post(publish)).with_state(Arc::clone(&state)));
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

    /// From now on it takes messages and answers nothing, until [`Ntfy::let_go`].
    pub fn hold(&self) {
        self.state.change(|kept| kept.holds = true);
    }

    /// Answers what waits.
    pub fn let_go(&self) {
        self.state.change(|kept| kept.holds = false);
    }

    /// How many requests came so far.
    #[must_use]
    pub fn begun(&self) -> usize {
        self.state.lock().begun
    }

    /// What it has taken, in the order it came.
    #[must_use]
    pub fn messages(&self) -> Vec<Value> {
        self.state.lock().messages.clone()
    }

    /// Waits until it has so many messages.
    pub async fn wait_for(&self, count: usize) -> Vec<Value> {
        eventually_async(&format!("{count} messages to ntfy"), PATIENCE, || {
            std::future::ready(Some(self.messages()).filter(|all| all.len() >= count))
        })
        .await
    }

    /// Presses a button of a message, as the app does. Returns what the server answered.
    ///
    /// # Panics
    /// When the message has no such button.
    #[expect(clippy::expect_used, reason = "for tests")]
    pub async fn press(message: &Value, label: &str) -> (u16, Value) {
        let action = message["actions"]
            .as_array()
            .and_then(|all| all.iter().find(|action| action["label"] == label))
            .expect("the message has this button");
        let text = |field: &str| action[field].as_str().expect("a text").to_owned();
        assert_eq!((text("action").as_str(), text("method").as_str()), ("http", "POST"));
        let client = reqwest::Client::builder().no_proxy().build().expect("a client");
        let mut request = client.post(text("url")).body(text("body"));
        for (name, value) in action["headers"].as_object().into_iter().flatten() {
            request = request.header(name, value.as_str().unwrap_or_default());
        }
        let answer = request.send().await.expect("an answer");
        (answer.status().as_u16(), answer.json().await.unwrap_or(Value::Null))
    }
}

async fn publish(
    State(state): State<Arc<Shared<Kept>>>,
    headers: HeaderMap,
    Json(message): Json<Value>,
) -> Response {
    let refuse = |status: StatusCode, why: &str| {
        let error = json!({"code": status.as_u16(), "http": status.as_u16(), "error": why});
        (status, axum::Json(error)).into_response()
    };
    let expected = format!("Bearer {}", state.lock().token);
    let given = headers.get("authorization").and_then(|it| it.to_str().ok()).unwrap_or_default();
    if given != expected {
        return refuse(StatusCode::FORBIDDEN, "forbidden");
    }
    let actions = message["actions"].as_array().map_or(0, Vec::len);
    let bytes = message["message"].as_str().map_or(0, str::len);
    if message["topic"].as_str().is_none_or(str::is_empty) || actions > MAX_ACTIONS {
        return refuse(StatusCode::BAD_REQUEST, "invalid request: topic or actions");
    }
    if bytes > MAX_MESSAGE_BYTES {
        return refuse(StatusCode::PAYLOAD_TOO_LARGE, "message too large");
    }
    state.change(|kept| kept.begun += 1);
    loop {
        let changed = state.changed.notified();
        if !state.lock().holds {
            break;
        }
        changed.await;
    }
    state.change(|kept| kept.messages.push(message.clone()));
    axum::Json(json!({"id": "m", "event": "message", "topic": message["topic"]})).into_response()
}
