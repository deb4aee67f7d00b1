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

/// The longest text for a program, in bytes: it is as long as the longest input that is told.
const MAX_PROGRAM_TEXT_BYTES: usize = 64 * 1024;

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

    /// The most bytes of a text about one event: a first guess, which [`Self::takes`] corrects.
    pub(super) fn room(&self) -> usize {
        match self {
            Self::Ntfy(_) | Self::Slack(_) | Self::Telegram(_) | Self::Webpush(_) => 4_096,
            Self::Desktop => desktop::MAX_TEXT_BYTES,
            Self::Webhook(_) | Self::Command(_) => MAX_PROGRAM_TEXT_BYTES,
        }
    }

    /// Says whether a finished message is as short as the service wants it.
    pub(super) fn takes(&self, message: &Message) -> bool {
        match self {
            Self::Ntfy(to) => to.takes(message),
            Self::Slack(_) => slack::takes(message),
            Self::Telegram(_) => telegram::takes(message),
            Self::Webpush(_) => webpush::takes(message),
            Self::Desktop => message.body.len() <= desktop::MAX_TEXT_BYTES,
            Self::Webhook(_) | Self::Command(_) => message.body.len() <= MAX_PROGRAM_TEXT_BYTES,
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
