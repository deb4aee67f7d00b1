//! The state of a receiver of notifications, in one line.

use plexus_wire::NotifyReceiver;

use crate::screen::{duration, now_ms};

/// Describes the state of a receiver in one line.
pub fn state(receiver: &NotifyReceiver) -> String {
    let ago = |at: plexus_wire::Millis| duration(now_ms().saturating_sub(at.0));
    let mut words = format!("{}: {} sent", receiver.to, receiver.delivered);
    if receiver.waiting > 0 {
        words.push_str(&format!(", {} waiting", receiver.waiting));
    }
    if let Some(subscriptions) = receiver.subscriptions {
        words.push_str(&format!(", {subscriptions} subscriptions"));
    }
    if let Some(failure) = &receiver.last_failure {
        words.push_str(&format!(", failed {} ago: {}", ago(failure.at), failure.why));
    }
    if let Some(deaf) = &receiver.deaf {
        words.push_str(&format!(", its buttons cannot be heard: {}", deaf.why));
    }
    words
}
