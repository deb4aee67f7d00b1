//! ntfy: a message to a topic. Its buttons are posted by the app itself, to this server, with the
//! one-time token.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::AUTHORIZATION;
use plexus_core::SecretToken;
use plexus_wire::RiskLevel;
use serde_json::{Value, json};

use super::{Attempt, BUTTONS};
use crate::http::{Address, exchange};
use crate::message::Message;

/// How much is read of an answer. It repeats the message.
const MAX_ANSWER_BYTES: usize = 64 * 1024;

/// The longest message that is sent, in bytes, with its title and its buttons. ntfy makes an
/// attachment of a text of more than 4,096, and its app shows less of a push that has more in all.
const MAX_LETTER_BYTES: usize = 3_600;

/// A topic of a server.
#[derive(Clone, Debug)]
pub(crate) struct Ntfy {
    pub(crate) at: Address,
    pub(crate) topic: String,
    pub(crate) token: Option<SecretToken>,
}

impl Ntfy {
    pub(super) async fn send(&self, message: &Message, within: Duration) -> Attempt {
        let mut request = self.at.post_json();
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {}", token.expose()));
        }
        let request = match request.body(Body::from(self.letter(message).to_string())) {
            Ok(request) => request,
            Err(error) => return Attempt::Refused(format!("it could not be written: {error}")),
        };
        match exchange(&self.at, request, within, MAX_ANSWER_BYTES).await {
            Ok(answer) => {
                let said: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
                let has_id = said["id"].as_str().is_some_and(|id| !id.is_empty());
                match (answer.status.is_success(), has_id) {
                    (true, true) => return Attempt::Delivered,
                    // A page of some other server at a wrong address is a 200 too.
                    (true, false) => {
                        return Attempt::Refused(format!(
                            "what answered ({}) is no ntfy server: check its url",
                            answer.status
                        ));
                    }
                    (false, _) => {}
                }
                let why = said["error"].as_str().map(|why| format!(": {why}")).unwrap_or_default();
                Attempt::Refused(format!("ntfy answered {}{why}", answer.status))
            }
            Err(error) => Attempt::Unreachable(error.to_string()),
        }
    }

    /// Says whether a message is short enough.
    pub(super) fn takes(&self, message: &Message) -> bool {
        self.letter(message).to_string().len() <= MAX_LETTER_BYTES
    }

    fn letter(&self, message: &Message) -> Value {
        let mut letter = json!({
            "topic": self.topic,
            "title": message.title,
            "message": if message.body.is_empty() { &message.title } else { &message.body },
            "priority": match message.level {
                Some(RiskLevel::Critical) => 5,
                Some(RiskLevel::High) => 4,
                Some(RiskLevel::Medium | RiskLevel::Low) | None => 3,
            },
        });
        if let Some(url) = &message.url {
            letter["click"] = json!(url);
        }
        // A message has at most three buttons, so only one request has room for its two.
        if let [item] = message.items.as_slice()
            && let Some(press) = &item.press
        {
            let button = |(label, approve): &(&str, bool)| {
                json!({
                    "action": "http",
                    "label": label,
                    "url": press.url,
                    "method": "POST",
                    "headers": {"content-type": "application/json"},
                    "body": json!({"token": press.token.expose(), "approve": approve}).to_string(),
                    "clear": true,
                })
            };
            letter["actions"] = BUTTONS.iter().map(button).collect();
        }
        letter
    }
}
