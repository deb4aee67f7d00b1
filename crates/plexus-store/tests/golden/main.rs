//! Databases that earlier releases left behind, which this build must open and continue, and one
//! schema in both engines.

#![expect(clippy::expect_used, reason = "a case may stop loudly, also in the helpers it calls")]

#[path = "../common/mod.rs"]
mod common;
mod data;
mod schema;

use std::path::PathBuf;

use testkit::fixtures::workspace_root;
use testkit::postgres::Postgres;

/// Returns the folder of each release: its data directory, and the content of its PostgreSQL
/// database.
fn releases() -> anyhow::Result<Vec<PathBuf>> {
    let all = std::fs::read_dir(workspace_root().join("fixtures").join("golden"))?;
    all.map(|entry| Ok(entry?.path())).collect()
}

/// Runs `work` with the cluster of all tests, on a blocking thread; `None` where PostgreSQL is not
/// installed.
async fn with_cluster<T: Send + 'static>(
    work: impl FnOnce(&Postgres) -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<Option<T>> {
    tokio::task::spawn_blocking(|| testkit::postgres::shared().map(work).transpose()).await?
}

/// Returns the name of the database in a URL.
fn database(url: &str) -> &str {
    url.rsplit('/').next().expect("a database")
}
