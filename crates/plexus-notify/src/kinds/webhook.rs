//! A webhook: the message as it is, signed, to a program that somebody else wrote. Of the answer
//! only the status is read.

use axum::body::Body;
use plexus_core::SecretToken;
use plexus_store::{OutboxEntry, UnixMillis};

use super::{Attempt, sign};
use crate::http::{Address, exchange};
use crate::receiver::Receiver;

/// Where webhooks of a receiver go.
#[derive(Clone, Debug)]
pub(crate) struct Webhook {
    pub(crate) at: Address,
    /// What they are signed with.
    pub(crate) secret: SecretToken,
}

/// Sends a message to its receiver.
pub(crate) async fn send(
    receiver: &Receiver,
    to: &Webhook,
    entry: &OutboxEntry,
    letter: String,
) -> Attempt {
    let Some(signature) =
        sign::signature(&to.secret, UnixMillis::by_the_machine().as_secs(), &letter)
    else {
        return Attempt::Refused("it could not be signed".into());
    };
    let request = to
        .at
        .post_json()
        .header("plexus-webhook-id", entry.id.to_string())
        .header("plexus-webhook-event", entry.kind.as_str())
        .header(sign::HEADER, signature)
        .body(Body::from(letter));
    let request = match request {
        Ok(request) => request,
        Err(error) => return Attempt::Refused(format!("it could not be written: {error}")),
    };
    match exchange(&to.at, request, receiver.timeout, 0).await {
        Ok(answer) if answer.status.is_success() => Attempt::Delivered,
        Ok(answer) => Attempt::Refused(format!("it answered {}", answer.status)),
        Err(error) => Attempt::Unreachable(error.to_string()),
    }
}
