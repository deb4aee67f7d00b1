//! Upkeep of a store: `plexus prune` and `plexus migrate`.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use plexus_client::wire::{Method as _, PruneParams, Pruned, method};
use plexus_client::{Client, ClientError};
use plexus_render::error::could_not;
use plexus_render::screen;
use plexus_store::{PostgresOptions, PostgresStore, SqliteOptions};
use serde_json::json;

use crate::PlexusBuilder;
use crate::config::{self, Sources};

/// `plexus prune`: by the running server, or without one.
pub(crate) async fn prune(data_dir: &Path, days: u64, prompts: bool, json: bool) -> Result<()> {
    let client = Client::from_data_dir(data_dir);
    let params = PruneParams::new(days);
    let params = if prompts { params.with_prompts() } else { params };
    let told = match client.server().prune(&params).await {
        Ok(told) => told,
        Err(ClientError::NoServer(_) | ClientError::Unreachable { .. }) => {
            if !data_dir.join("plexus.db").exists() {
                bail!("could not prune: there is no store in {}", data_dir.display());
            }
            let plexus = PlexusBuilder::new(data_dir).with_server().build().map_err(could_not)?;
            let told = plexus.call(method::server::Prune::FULL_NAME, json!(params)).await;
            plexus.store().close().await.map_err(could_not)?;
            serde_json::from_value::<Pruned>(told.map_err(could_not)?)
                .context("could not read what was pruned")?
        }
        Err(error) => return Err(could_not(error)),
    };
    let words = format!(
        "removed {} approvals, the contents of {} events in {} chats, {} prompts, and {} \
         directories of runs",
        told.approvals, told.events, told.chats, told.prompts, told.run_directories
    );
    screen::line(&if json { serde_json::to_string(&told)? } else { words })?;
    Ok(())
}

/// `plexus migrate`: there is one way to move, so the flags only say it.
pub(crate) async fn migrate(data_dir: &Path) -> Result<()> {
    let sources = Sources::of(data_dir);
    let config = config::load(&sources).map_err(could_not)?;
    let url = &config.store.url;
    if url.is_empty() {
        bail!(
            "could not migrate: name the target with DATABASE_URL=postgres://… or store.url in \
             plexus.toml"
        );
    }
    if !data_dir.join("plexus.db").is_file() {
        bail!("could not migrate: there is no plexus.db in {}", data_dir.display());
    }
    let (from, to) = (SqliteOptions::new(data_dir), PostgresOptions::new(url.expose()));
    let rows = PostgresStore::import(&to, &from).await.map_err(could_not)?;
    screen::line(&format!(
        "moved {rows} rows to {url}; plexus.db was left as it is, and is not used while store.url \
         or DATABASE_URL is set"
    ))?;
    Ok(())
}
