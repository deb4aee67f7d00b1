//! What a receiver can be, one file each: how a message is sent to it, and how a press of its
//! buttons comes back.

pub(super) mod command;
pub(super) mod desktop;
pub(super) mod ntfy;
mod sign;
pub(super) mod slack;
pub(super) mod telegram;
pub(super) mod webhook;
pub(super) mod webpush;

use std::time::Duration;

use super::message::Message;

/// What a receiver is, and where it is reached.
#[derive(Clone, Debug)]
pub(crate) enum To {
    Webhook(webhook::Webhook),
    Ntfy(ntfy::Ntfy),
    Slack(slack::Slack),
    Telegram(telegram::Telegram),
    Webpush(webpush::Webpush),
    Desktop,
    Command(command::Command),
}

/// What became of an attempt.
pub(crate) enum Attempt {
    /// The receiver has it.
    Delivered,
    /// The receiver answered that it does not take it.
    Refused(String),
    /// There was no answer in time.
    Unreachable(String),
}

impl To {
    /// What it is, in a word.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Webhook(_) => "webhook",
            Self::Ntfy(_) => "ntfy",
            Self::Slack(_) => "slack",
            Self::Telegram(_) => "telegram",
            Self::Webpush(_) => "webpush",
            Self::Desktop => "desktop",
            Self::Command(_) => "command",
        }
    }

    /// The longest text that the service takes, in bytes, with room for what we add.
    pub(super) fn room(&self) -> usize {
        match self {
            // ntfy makes an attachment of what is longer than 4096 bytes, and counts the buttons.
            Self::Ntfy(_) => 2_800,
            // 3000 characters in a block.
            Self::Slack(_) => 2_800,
            // 4096 characters.
            Self::Telegram(_) => 3_500,
            // 4096 bytes in all, encrypted, and JSON escapes some of them.
            Self::Webpush(_) => 1_600,
            Self::Desktop => 1_000,
            Self::Webhook(_) | Self::Command(_) => 64 * 1024,
        }
    }

    /// Sends a message. Webhooks are not sent by this: they are told the event itself.
    pub(super) async fn send(
        &self,
        message: &Message,
        within: Duration,
        push: &webpush::PushBox,
    ) -> Attempt {
        match self {
            Self::Webhook(_) => Attempt::Refused("a webhook is sent its event".into()),
            Self::Ntfy(to) => to.send(message, within).await,
            Self::Slack(to) => to.send(message, within).await,
            Self::Telegram(to) => to.send(message, within).await,
            Self::Webpush(to) => to.send(message, within, push).await,
            Self::Desktop => desktop::send(message, within).await,
            Self::Command(to) => to.send(message, within).await,
        }
    }
}

/// The two buttons of a request.
pub(super) const BUTTONS: [(&str, bool); 2] = [("Allow", true), ("Deny", false)];
