//! `plexus parents`: lists parents outside that have an identity, and revokes their tokens.

use anyhow::Result;
use plexus_client::Client;
use plexus_client::wire::{ParentsParams, RevokeParams};
use serde_json::json;

use super::args::{Global, Parents, ParentsCommand};
use super::exit;
use super::server::failed;
use plexus_render::{sanitize, screen};

/// Lists parents, or revokes the tokens of one.
pub(super) async fn parents(global: &Global, arguments: &Parents) -> Result<u8> {
    let client = Client::from_data_dir(global.data_dir()?);
    match &arguments.command {
        None => list(&client, arguments.json).await?,
        Some(ParentsCommand::Revoke { name }) => {
            let told = client.identity().revoke(&RevokeParams::new(name)).await.map_err(failed)?;
            let words = format!("ended {}", screen::counted(told.tokens, "token"));
            screen::line(&if arguments.json { json!(told).to_string() } else { words })?;
        }
    }
    Ok(exit::OK)
}

async fn list(client: &Client, as_json: bool) -> Result<()> {
    let mut params = ParentsParams::default();
    let mut any = false;
    loop {
        let page = client.identity().parents(&params).await.map_err(failed)?;
        for parent in page.parents {
            any = true;
            let words = format!("{}  {}", parent.session_id, sanitize::one_line(&parent.name));
            screen::line(&if as_json { json!(parent).to_string() } else { words })?;
        }
        params.cursor = page.cursor;
        if params.cursor.is_none() {
            if !any && !as_json {
                screen::line("no parents; `plexus mcp-config --as NAME` makes one")?;
            }
            return Ok(());
        }
    }
}
