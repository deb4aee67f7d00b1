//! One attempt to send a message. Everything about it is bounded: the time to connect, the time in all, and what is read of the answer, which is
//! its status and nothing else. It goes to the configured address and to no other: redirects are not followed, proxies of the environment not used.

use std::time::Duration;

use plexus_store::{OutboxEntry, UnixMillis};
use reqwest::header::{CONTENT_TYPE, USER_AGENT};
use reqwest::redirect::Policy;

use super::receiver::Receiver;
use super::sign;

/// How long a connection may take to be made.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Sends messages. Cheap to clone.
#[derive(Clone)]
pub(super) struct Poster(reqwest::Client);

/// What became of an attempt.
pub(super) enum Attempt {
    /// The receiver has it.
    Delivered,
    /// The receiver answered something else than 2xx.
    Refused(String),
    /// There was no answer in time.
    Unreachable(String),
}

impl Poster {
    pub(super) fn new() -> Result<Self, reqwest::Error> {
        let client = reqwest::Client::builder()
            .redirect(Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT_WITHIN)
            // A connection that is kept could be one that the receiver has given up; a message a minute is worth a new one.
            .pool_max_idle_per_host(0)
            .build()?;
        Ok(Self(client))
    }

    pub(super) async fn post(&self, receiver: &Receiver, entry: &OutboxEntry, letter: String) -> Attempt {
        let Some(signature) = sign::signature(&receiver.secret, UnixMillis::now().as_secs(), &letter) else {
            return Attempt::Refused("it could not be signed".into());
        };
        let request = self
            .0
            .post(receiver.url.clone())
            .timeout(receiver.timeout)
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("plexus/", env!("CARGO_PKG_VERSION")))
            .header("plexus-webhook-id", entry.id.to_string())
            .header("plexus-webhook-event", entry.kind.as_str())
            .header(sign::HEADER, signature)
            .body(letter);
        match request.send().await {
            // Dropped unread: whatever a receiver has to say beyond its status is not waited for.
            Ok(answer) if answer.status().is_success() => Attempt::Delivered,
            Ok(answer) => Attempt::Refused(format!("it answered {}", answer.status())),
            // Without the URL, which may hold a secret path.
            Err(error) => Attempt::Unreachable(why(&error.without_url())),
        }
    }
}

fn why(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".into();
    }
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}
