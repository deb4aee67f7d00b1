//! Many warm children that write at once, for `throughput` and `nodes`, which compare them with a
//! bare database that gets the same rows.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::future::try_join_all;

use crate::server::Server;
use crate::sizes::Sizes;

/// Rows in one transaction of a writer that nobody waits for: the upper bound of the database
/// itself. The server's own transactions are between this and one row for each child, because it
/// commits together what a child has written in the meantime.
pub(super) const LARGE_BATCH: usize = 4_096;

/// A server whose children wait for their prompts.
pub(super) struct Burst<'a> {
    pub(super) server: Server,
    sessions: Vec<String>,
    sizes: &'a Sizes,
}

impl<'a> Burst<'a> {
    /// Starts a server and warms its children. Its store is the database of this URL, or a file
    /// when the URL is empty.
    pub(super) async fn ready(
        database_url: &str,
        sizes: &'a Sizes,
        live_deltas: &str,
    ) -> Result<Self> {
        let children = sizes.children.to_string();
        let settings = [
            ("limits.running_children", children.clone()),
            ("warm.max", children),
            ("live_deltas", live_deltas.to_owned()),
        ];
        let server = Server::start_on(database_url, &settings).await?;
        let sessions = server.create_many("burst", sizes.children).await?;
        server.chat_many(&sessions, "sim:\nsay ready", "complete").await?;
        Ok(Self { server, sessions, sizes })
    }

    /// Lets every child write. Returns the time from the first prompt to the end of the last chat.
    pub(super) async fn play(&self) -> Result<Duration> {
        let prompt = format!("sim:\nburst {} {}", self.sizes.burst, self.sizes.burst_bytes);
        let started = Instant::now();
        try_join_all(self.sessions.iter().map(|session| self.server.start_chat(session, &prompt)))
            .await?;
        self.server.wait_until_quiet().await?;
        Ok(started.elapsed())
    }

    /// Fails a round that stored less than the children wrote.
    pub(super) fn is_whole(&self, stored: usize) -> Result<()> {
        ensure!(
            stored >= self.sizes.children * self.sizes.burst,
            "only {stored} events were stored"
        );
        Ok(())
    }
}
