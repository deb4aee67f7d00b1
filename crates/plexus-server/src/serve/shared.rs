//! A store that several servers share: opening it, and who this server is among them.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use plexus_store::{PostgresOptions, PostgresStore, Store, StoreError};

use crate::config::{Config, StoreUrl};
use crate::wiring::Membership;
use plexus_render::error::could_not;

/// How long a database that does not answer is tried at the start: it may be starting too.
const START_DEADLINE: Duration = Duration::from_secs(30);

/// The first pause between two tries; each is twice the one before.
const FIRST_RETRY: Duration = Duration::from_millis(250);

/// Opens the database, waiting a little for one that does not answer yet.
///
/// # Errors
/// When it refuses, or does not answer in time. The password is in no error.
pub(crate) async fn open(url: &StoreUrl) -> Result<Arc<dyn Store>> {
    let options = PostgresOptions::new(url.expose());
    let deadline = tokio::time::Instant::now() + START_DEADLINE;
    let mut pause = FIRST_RETRY;
    loop {
        match PostgresStore::open(&options).await {
            Ok(store) => return Ok(Arc::new(store)),
            Err(error @ StoreError::Unavailable { .. })
                if tokio::time::Instant::now() + pause < deadline =>
            {
                tracing::warn!(%error, database = %url, "the database does not answer; trying \
                    again");
                tokio::time::sleep(pause).await;
                pause *= 2;
            }
            Err(error) => {
                return Err(could_not(error))
                    .with_context(|| format!("could not use the database {url}"));
            }
        }
    }
}

/// Says who this server is among those that share the database.
pub(crate) fn membership(config: &Config) -> Membership {
    let name = match config.node.name.as_str() {
        "" => rustix::system::uname().nodename().to_string_lossy().into_owned(),
        name => name.to_owned(),
    };
    let url =
        (!config.node.url.is_empty()).then(|| config.node.url.trim_end_matches('/').to_owned());
    Membership { name, url, lease: Duration::from_secs(config.node.lease_secs) }
}
