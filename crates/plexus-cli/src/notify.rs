//! `plexus notify`: lists receivers outside, and tests one.

use anyhow::Result;
use plexus_client::Client;
use plexus_client::wire::NotifyTestParams;
use serde_json::json;

use super::args::{Global, Notify, NotifyCommand};
use super::exit;
use super::server::failed;
use plexus_render::receiver;
use plexus_render::{sanitize, screen};

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
                let words = format!("{:<16} {}", receiver.name, receiver::state(&receiver));
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
