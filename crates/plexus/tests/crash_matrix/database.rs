//! The database as the victim: a PostgreSQL of the case's own, struck while the server stands still
//! at a point, and back after the outage.
//!
//! The server is ordered to freeze at the point, so that the moment is exact; it goes on as soon as
//! the blow is dealt, and then meets a database that is gone or does not answer.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::process::Signal;
use testkit::postgres::{self, Postgres};
use testkit::process;
use tokio::task::JoinHandle;

use crate::case_server::{PATIENCE, struck_pid};
use crate::points::Blow;

/// How often to look whether the server stands still.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// A cluster with one database in it. Dropping it ends it.
pub(crate) struct Database {
    cluster: Arc<Mutex<Postgres>>,
    url: String,
    blow: Option<JoinHandle<Result<()>>>,
}

impl Database {
    /// Starts a cluster.
    pub(crate) fn start() -> Result<Self> {
        let cluster = postgres::own();
        let url = cluster.fresh_database()?;
        Ok(Self { cluster: Arc::new(Mutex::new(cluster)), url, blow: None })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Deals the blow once the server stands at its point, whatever the story does meanwhile.
    pub(crate) fn strike(
        &mut self,
        mark: PathBuf,
        blow: Blow,
        outage: Duration,
        frozen_for: Duration,
    ) {
        let cluster = Arc::clone(&self.cluster);
        self.blow = Some(tokio::spawn(async move {
            let server = struck_pid(&mark).await;
            until_it_stands(server).await?;
            let kills = match blow {
                Blow::Kill | Blow::KillWithServer => true,
                Blow::Freeze | Blow::FreezeAndKill => false,
            };
            on(&cluster, move |cluster| if kills { cluster.kill_9() } else { cluster.freeze() })
                .await?;
            process::signal(server, Signal::CONT);
            tokio::time::sleep(if kills { outage } else { frozen_for }).await;
            on(&cluster, move |cluster| match blow {
                Blow::Kill | Blow::KillWithServer => cluster.start_again(),
                Blow::Freeze => cluster.thaw(),
                Blow::FreezeAndKill => cluster.crash_and_restart(),
            })
            .await
        }));
    }

    /// Waits until the blow is dealt and over.
    pub(crate) async fn is_back(&mut self) -> Result<()> {
        let Some(blow) = self.blow.take() else { return Ok(()) };
        tokio::time::timeout(PATIENCE, blow).await.context("the database did not come back")??
    }
}

/// Waits until a process that was told to stop has stopped: its mark is written just before.
async fn until_it_stands(pid: u32) -> Result<()> {
    let stands =
        || std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| is_stopped(&stat));
    let standing = async {
        while !stands() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    tokio::time::timeout(PATIENCE, standing)
        .await
        .context("the server did not stand still at the point")
}

/// Whether the process is stopped. The state is the first letter after the name, which stands in
/// parentheses and may itself contain any character.
fn is_stopped(stat: &str) -> bool {
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}

/// Runs something slow on the cluster, in parallel to the story.
async fn on(
    cluster: &Arc<Mutex<Postgres>>,
    work: impl FnOnce(&mut Postgres) -> Result<()> + Send + 'static,
) -> Result<()> {
    let cluster = Arc::clone(cluster);
    tokio::task::spawn_blocking(move || {
        work(&mut cluster.lock().unwrap_or_else(PoisonError::into_inner))
    })
    .await?
}
