//! `plexus notify`: lists receivers outside, and tests one.

use anyhow::Result;
use plexus_client::Client;
use plexus_wire::{NotifyReceiver, NotifyTestParams};
use serde_json::json;

use super::args::{Global, Notify, NotifyCommand};
use super::screen::{duration, now_ms};
use super::server::failed;
use super::{exit, sanitize, screen};

/// What is said where nobody is told anything.
const NONE: &str = "no receivers; `[[notify]]` in plexus.toml adds one: docs/notify.md says how";

/// Lists receivers, or tests one.
pub(super) async fn notify(global: &Global, arguments: &Notify) -> Result<u8> {
    let client = Client::from_data_dir(global.data_dir()?);
    match &arguments.command {
        None => {
            let listed = client.notify().receivers().await.map_err(failed)?;
            if listed.receivers.is_empty() && !arguments.json {
                screen::line(NONE)?;
            }
            for receiver in listed.receivers {
                let words = format!("{:<16} {}", receiver.name, stands(&receiver));
                screen::line(&if arguments.json {
                    json!(receiver).to_string()
                } else {
                    sanitize::one_line(&words).into_owned()
                })?;
            }
        }
        Some(NotifyCommand::Test { name }) => {
            let told = client.notify().test(&NotifyTestParams::new(name)).await.map_err(failed)?;
            let words = format!("{name} accepted a test message; check that it is shown");
            screen::line(&if arguments.json { json!(told).to_string() } else { words })?;
        }
    }
    Ok(exit::OK)
}

/// Describes the state of a receiver in one line.
pub(super) fn stands(receiver: &NotifyReceiver) -> String {
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
