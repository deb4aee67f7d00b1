//! One message of the parent, from its line to its answer.

use std::sync::Arc;

use futures::StreamExt;
use reqwest::{Response, StatusCode};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::link::{Link, LinkError, Rest, Session, first_answer, is_stream, session_id};
use super::sse;
use crate::mcp::{IDEMPOTENT_WITH, Message};

/// The error for a call that may or may not have been executed.
const LOST: &str = "the server was lost while the call was under way, and whether it was done is \
    not known: look before you call again";

/// The outcome of one attempt.
enum Outcome {
    /// The answer was passed on, or there is none to pass on.
    Done,
    /// The server was not reached: nothing happened.
    NotReached,
    /// The server does not know the session: nothing happened.
    NoSession,
    /// The connection was lost while the call was under way.
    Lost,
}

/// Sends one line of the parent to the server and passes on the answer.
pub(super) async fn run(link: Arc<Link>, out: mpsc::Sender<String>, line: String) {
    let Ok(message) = Message::read(line.as_bytes()) else { return };
    let exchange = Exchange { link: &link, out: &out, id: message.id(), line: &line };
    if message.begins_session() {
        exchange.begin().await;
    } else {
        note_subscription(&link, &message);
        exchange.run(&message).await;
    }
}

fn note_subscription(link: &Link, message: &Message<'_>) {
    if let Some((uri, on)) = message.subscription() {
        link.subscribed(&uri, on);
    }
}

struct Exchange<'a> {
    link: &'a Link,
    out: &'a mpsc::Sender<String>,
    id: Option<&'a RawValue>,
    line: &'a str,
}

impl Exchange<'_> {
    /// Starts the parent's session, waiting for the server if necessary.
    async fn begin(&self) {
        let Ok(initialize) = serde_json::from_str::<Value>(self.line) else { return };
        let mut rest = Rest::default();
        loop {
            if let Ok(response) = self.link.post(None, self.line.to_owned()).await {
                if !response.status().is_success() {
                    return self.refused(response).await;
                }
                let session = session_id(&response);
                if let Ok(answer) = first_answer(response).await {
                    if answer.get("result").is_some() {
                        self.link.began(initialize, session, &answer);
                    }
                    return self.say(answer.to_string()).await;
                }
            }
            rest.wait().await;
        }
    }

    async fn run(&self, message: &Message<'_>) {
        if let Err(error) = self.try_run(message).await
            && self.id.is_some()
        {
            self.say(failure(self.id, -32000, &format!("could not {error}"))).await;
        }
    }

    async fn try_run(&self, message: &Message<'_>) -> Result<(), LinkError> {
        let mut rest = Rest::default();
        loop {
            let session = self.link.session().await;
            match self.attempt(&session).await {
                Outcome::Done => return Ok(()),
                Outcome::NotReached => {}
                Outcome::NoSession => self.link.begin_again(&session).await?,
                Outcome::Lost if self.may_be_sent_again(message).await? => {}
                Outcome::Lost => {
                    self.say(failure(self.id, -32000, LOST)).await;
                    return Ok(());
                }
            }
            rest.wait().await;
        }
    }

    async fn attempt(&self, session: &Session) -> Outcome {
        let response = match self.link.post(Some(session), self.line.to_owned()).await {
            Ok(response) => response,
            Err(error) if error.is_connect() => return Outcome::NotReached,
            Err(_) => return Outcome::Lost,
        };
        match response.status() {
            StatusCode::NOT_FOUND => Outcome::NoSession,
            status if !status.is_success() => {
                self.refused(response).await;
                Outcome::Done
            }
            _ if self.id.is_none() => Outcome::Done,
            _ if is_stream(&response) => self.follow(session, response).await,
            _ => match response.text().await {
                Ok(text) => {
                    self.say(one_line(text)).await;
                    Outcome::Done
                }
                Err(_) => Outcome::Lost,
            },
        }
    }

    /// Passes on a stream until its answer, and resumes it where the server gave an event id.
    async fn follow(&self, session: &Session, response: Response) -> Outcome {
        let mut last_event = None;
        let mut response = response;
        loop {
            let mut retry = None;
            let mut events = sse::events(response.bytes_stream());
            while let Some(event) = events.next().await {
                last_event = event.id.or(last_event);
                retry = event.retry.or(retry);
                if event.data.is_empty() {
                    continue;
                }
                let answers =
                    Message::read(event.data.as_bytes()).is_ok_and(|message| message.is_answer());
                self.say(event.data).await;
                if answers {
                    return Outcome::Done;
                }
            }
            let Some(id) = &last_event else { return Outcome::Lost };
            tracing::debug!(retry, "a stream was lost; coming back to it");
            match self.come_back(session, id).await {
                Some(again) => response = again,
                None => return Outcome::Lost,
            }
        }
    }

    /// Resumes a lost stream, in this session or in the one that replaced it. Waits for the server.
    async fn come_back(&self, session: &Session, last_event: &str) -> Option<Response> {
        let mut rest = Rest::default();
        loop {
            match self.link.get(session, Some(last_event)).await {
                Ok(response) if response.status() == StatusCode::OK => return Some(response),
                Ok(response) if response.status().is_server_error() => {}
                Ok(_) => return None,
                Err(_) => {}
            }
            rest.wait().await;
        }
    }

    /// Asks the server, once it is back, whether a call is idempotent. Every request except a tool
    /// call only reads.
    async fn may_be_sent_again(&self, message: &Message<'_>) -> Result<bool, LinkError> {
        let Some(call) = message.tool_call() else { return Ok(true) };
        let (name, arguments) = call.comes_down_to();
        let is_given = |argument: &str| arguments.get(argument).is_some_and(|it| !it.is_null());
        let mut rest = Rest::default();
        loop {
            let session = self.link.session().await;
            match self.link.every_tool(&session).await {
                Ok(answer) => {
                    let tools = answer["result"]["tools"].as_array();
                    let tool =
                        tools.and_then(|tools| tools.iter().find(|tool| tool["name"] == *name));
                    let hint =
                        |name: &str| tool.is_some_and(|tool| tool["annotations"][name] == true);
                    let named = tool.and_then(|tool| tool["_meta"][IDEMPOTENT_WITH].as_array());
                    return Ok(hint("readOnlyHint")
                        || hint("idempotentHint")
                        || named.is_some_and(|named| {
                            named.iter().filter_map(Value::as_str).any(is_given)
                        }));
                }
                // The session may have ended with the old server; this finds out.
                Err(_) => self.link.renew_if_lost(&session).await?,
            }
            rest.wait().await;
        }
    }

    /// Passes on a refusal by the server as the error of this request.
    async fn refused(&self, response: Response) {
        let status = response.status();
        let error = response.json::<Value>().await.ok().and_then(|body| body.get("error").cloned());
        let error = error.unwrap_or_else(
            || json!({"code": -32000, "message": format!("the server answered {status}")}),
        );
        if let Some(id) = self.id {
            self.say(json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string()).await;
        }
    }

    async fn say(&self, line: String) {
        // A parent that is gone also closes its own side; the loop notices that.
        let _gone = self.out.send(line).await;
    }
}

/// Puts a message on one line, as stdio requires.
fn one_line(text: String) -> String {
    if !text.contains(['\n', '\r']) {
        return text;
    }
    serde_json::from_str::<Value>(&text)
        .map_or_else(|_| text.replace(['\n', '\r'], " "), |value| value.to_string())
}

/// Writes an error of the bridge itself.
pub(super) fn failure(id: Option<&RawValue>, code: i64, message: &str) -> String {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}).to_string()
}
