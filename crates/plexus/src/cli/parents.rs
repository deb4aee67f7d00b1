//! `plexus parents`: who outside has an identity, and the end of its tokens.

use anyhow::Result;
use plexus_client::Client;
use serde_json::{Value, json};

use super::args::{Global, Parents, ParentsCommand};
use super::server::failed;
use super::{exit, sanitize, screen};

/// Lists parents, or revokes the tokens of one.
pub(super) async fn parents(global: &Global, arguments: &Parents) -> Result<u8> {
    let client = Client::from_data_dir(global.data_dir()?);
    match &arguments.command {
        None => list(&client, arguments.json).await?,
        Some(ParentsCommand::Revoke { name }) => {
            let told: Value =
                client.call("identity.revoke", json!({"name": name})).await.map_err(failed)?;
            let words = format!("ended {} tokens", told["tokens"]);
            screen::line(&if arguments.json { told.to_string() } else { words })?;
        }
    }
    Ok(exit::OK)
}

async fn list(client: &Client, as_json: bool) -> Result<()> {
    let mut cursor = Value::Null;
    loop {
        let params = json!({"limit": 1000, "cursor": cursor});
        let told: Value = client.call("identity.parents", params).await.map_err(failed)?;
        for parent in told["parents"].as_array().into_iter().flatten() {
            let name = sanitize::one_line(parent["name"].as_str().unwrap_or_default());
            let id = parent["session_id"].as_str().unwrap_or_default();
            screen::line(&if as_json { parent.to_string() } else { format!("{id}  {name}") })?;
        }
        cursor = told["cursor"].clone();
        if cursor.is_null() {
            return Ok(());
        }
    }
}
