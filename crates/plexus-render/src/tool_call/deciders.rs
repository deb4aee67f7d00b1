//! Decisions in a few words: who decided, and how much of a chat was not allowed.

use plexus_wire::{DecidedBy, Refused};

/// Says how much of a chat was not allowed, to stand after its status.
pub fn refused(refused: Refused) -> String {
    [(refused.denied, "denied"), (refused.expired, "expired")]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!(" · {count} {word}"))
        .collect()
}

/// Says who decided, with the id of a session, a rule or a device.
pub fn decider_whole(by: DecidedBy) -> String {
    match by {
        DecidedBy::Session(id) => format!("session {id}"),
        DecidedBy::Rule(id) => format!("rule {id}"),
        DecidedBy::Device(id) => format!("device {id}"),
        DecidedBy::Operator | DecidedBy::Deadline | DecidedBy::AgentEnded | DecidedBy::Webhook => {
            decider(by).to_owned()
        }
    }
}

/// Says who decided, in a word.
pub fn decider(by: DecidedBy) -> &'static str {
    match by {
        DecidedBy::Operator => "operator",
        DecidedBy::Session(_) => "session",
        DecidedBy::Rule(_) => "rule",
        DecidedBy::Deadline => "deadline",
        DecidedBy::AgentEnded => "agent ended",
        DecidedBy::Webhook => "webhook",
        DecidedBy::Device(_) => "device",
    }
}
