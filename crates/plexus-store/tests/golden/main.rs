//! Databases that earlier releases left behind, which this build must open and continue, and one
//! schema in both engines.

#![expect(clippy::expect_used, reason = "a case may stop loudly, also in the helpers it calls")]

#[path = "../common/mod.rs"]
mod common;
mod data;
mod schema;

use std::path::PathBuf;
use std::process::ExitCode;

use testkit::cases;
use testkit::cases::Cases;
use testkit::fixtures::workspace_root;
use testkit::postgres::Postgres;

fn main() -> ExitCode {
    let cases = cases!(
        Cases::new(),
        schema { sqlite_files_of_earlier_releases_get_the_schema_of_a_new_one }
    );
    let cases = cases!(
        cases.with_postgres(),
        data {
            postgres_databases_of_earlier_releases_read_as_they_did_and_go_on,
        }
        schema {
            sqlite_and_postgres_have_the_same_schema,
            postgres_databases_of_earlier_releases_get_the_schema_of_a_new_one,
        }
    );
    cases.run()
}

/// Returns the folder of each release: its data directory, and the content of its PostgreSQL
/// database.
fn releases() -> anyhow::Result<Vec<PathBuf>> {
    let all = std::fs::read_dir(workspace_root().join("fixtures").join("golden"))?;
    all.map(|entry| Ok(entry?.path())).collect()
}

/// Runs `work` with the cluster of all tests, on a blocking thread.
async fn with_cluster<T: Send + 'static>(
    work: impl FnOnce(&Postgres) -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    tokio::task::spawn_blocking(|| work(testkit::postgres::shared())).await?
}

/// Returns the name of the database in a URL.
fn database(url: &str) -> &str {
    url.rsplit('/').next().expect("a database")
}
