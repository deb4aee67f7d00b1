//! The writer: one task, one connection, group commit.
//!
//! All waiting lists go into one transaction. A group of only events and journal positions, which
//! is nearly every group, takes two round trips ([`append`](super::append)). Other lists are
//! applied statement by statement, each in its own savepoint, so that one refused list leaves the
//! others alone. Answers and wakes follow the commit.
//!
//! Other servers write too. A group first locks its lease and the sessions that it touches, in one
//! order; what it reads after that is unchanged until the commit. The last statement before the
//! commit takes the commit's number, from a row that stays locked until the commit is done. So
//! numbers are in the order in which commits become visible, on whatever server. (A notification
//! takes such a lock anyway.)
//!
//! `attempt` writes a group once. When a connection breaks in the middle of a commit, its outcome
//! is unknown: `unknown` finds it out.

mod attempt;
mod unknown;

use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use self::attempt::{Fate, Group, Pace, Writing};
use super::connect::Connector;
use super::readers::PATIENCE;
use super::sql::{Class, Conn, RETRY_BUSY, classify};
use crate::contract::{Committed, Lease, StoreError, Topic, Wakes};
use crate::queue::{Job, Queue, Work};
use crate::tables::sql::{Sql as _, params};
use crate::tables::tx::Standing;

/// How long one group may take before its connection is considered dead.
const GROUP_TIMEOUT: Duration = Duration::from_secs(20);

/// The pauses between attempts to connect: short at first, because most outages are short.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(1_000);

/// How often a group is retried when other transactions interfere, before its callers are told to
/// retry later.
const MAX_TRIES: u32 = 8;

/// The writer's state, owned by its task.
pub(super) struct Writer {
    pub(super) connector: Connector,
    pub(super) conn: Option<Conn>,
    pub(super) queue: Arc<Queue<Infallible>>,
    pub(super) wakes: Wakes,
    /// The lease when the newest group was committed.
    pub(super) lease: Arc<Mutex<Option<Lease>>>,
    /// The backend process of the connection, so that the listener recognises our own
    /// notifications.
    pub(super) pid: Arc<AtomicI32>,
    /// The id of the row that tells whether an interrupted commit was done.
    pub(super) id: Uuid,
    /// The number of the newest group.
    pub(super) group: i64,
    /// The backend process of a lost connection, which may still hold its transaction open.
    pub(super) remains: Option<String>,
    /// When the database became unreachable.
    pub(super) down_since: Option<Instant>,
}

impl Writer {
    /// Runs until the queue is closed and empty.
    pub(super) async fn run(mut self) {
        while let Some(work) = self.queue.next_async().await {
            match work {
                Work::Group(jobs) => self.commit_group(jobs).await,
                Work::Task(never) => match never {},
            }
        }
        if let Some(conn) = &self.conn {
            let gone =
                async { conn.run("DELETE FROM writers WHERE id = ?1", params![self.id]).await };
            match tokio::time::timeout(GROUP_TIMEOUT, gone).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => tracing::debug!(%error, "could not remove the writer's row"),
                Err(_) => tracing::debug!("could not remove the writer's row in time"),
            }
        }
        tracing::debug!(groups = self.group, "the store is closed");
    }

    async fn commit_group(&mut self, jobs: Vec<Job>) {
        match self.write_until_done(&jobs, Pace::Batched).await {
            Ok((group, base)) => self.answer(jobs, group, base),
            Err(Stuck::Split) => {
                // Writing each list alone finds the one that is at fault.
                for job in jobs {
                    let one = [job];
                    let result = self.write_until_done(&one, Pace::ListByList).await;
                    let jobs = Vec::from(one);
                    match result {
                        Ok((group, base)) => self.answer(jobs, group, base),
                        Err(Stuck::Split) => refuse(jobs, &in_the_way()),
                        Err(Stuck::Error(error)) => refuse(jobs, &error),
                    }
                }
            }
            Err(Stuck::Error(error)) => {
                tracing::warn!(%error, "a group of changes could not be written");
                refuse(jobs, &error);
            }
        }
    }

    /// Wakes subscribers, then answers callers.
    fn answer(&mut self, jobs: Vec<Job>, group: Group, base: u64) {
        *self.lease.lock().unwrap_or_else(PoisonError::into_inner) = group.standing.lease;
        plexus_fault::point!(
            "approval.committed",
            when group.fates.iter().any(|fate| matches!(fate, Fate::Applied { topics, .. } if topics.iter().any(|topic| matches!(topic, Topic::Approval(_)))))
        );
        for (job, fate) in jobs.into_iter().zip(group.fates) {
            let result = match fate {
                Fate::Applied { nth, outcomes, topics } => {
                    let commit = base + nth + 1;
                    self.wakes.wake(topics.into_iter().chain([Topic::Commits]), commit);
                    Ok(Committed { commit, outcomes })
                }
                Fate::Refused(error) => Err(error),
            };
            // A caller that has gone needs no answer; the changes remain.
            let _gone = job.reply.send(result);
        }
    }

    /// Writes a group, despite lost connections and other writers, until it is committed or
    /// refused. Returns the commit number before it.
    async fn write_until_done(&mut self, jobs: &[Job], pace: Pace) -> Result<(Group, u64), Stuck> {
        for attempt in 1.. {
            let conn = self.connected().await.map_err(Stuck::Error)?;
            self.group += 1;
            let lease = *self.lease.lock().unwrap_or_else(PoisonError::into_inner);
            let writing = Writing {
                conn: &conn,
                writer: self.id,
                group: self.group,
                lease,
                asked: AtomicBool::new(false),
            };
            let standing = Standing { lease, valid: false };
            let mut group = Group::new(standing);
            let late = || StoreError::Unavailable {
                message: format!("the database did not answer within {GROUP_TIMEOUT:?}"),
                source: None,
            };
            let written =
                tokio::time::timeout(GROUP_TIMEOUT, writing.write(jobs, pace, &mut group)).await;
            let asked = writing.asked.into_inner();
            let error = match written.unwrap_or_else(|_| Err(late())) {
                Ok(base) => {
                    self.conn = Some(conn);
                    return Ok((group, base));
                }
                Err(error) => error,
            };
            match classify(&error) {
                Class::Lost => {
                    tracing::warn!(%error, commit_was_sent = asked, "lost the connection to the database");
                    self.remains = Some(conn.process.clone());
                    drop(conn);
                    self.down_since.get_or_insert_with(Instant::now);
                    if asked && let Some(base) = self.outcome().await.map_err(Stuck::Error)? {
                        return Ok((group, base));
                    }
                }
                Class::Again if attempt < MAX_TRIES => {
                    conn.send("ROLLBACK");
                    self.conn = Some(conn);
                    tokio::time::sleep(RETRY_BUSY / 4 * attempt).await;
                }
                Class::Again | Class::Refusal if jobs.len() > 1 || pace == Pace::Batched => {
                    conn.send("ROLLBACK");
                    self.conn = Some(conn);
                    return Err(Stuck::Split);
                }
                Class::Again => {
                    conn.send("ROLLBACK");
                    self.conn = Some(conn);
                    return Err(Stuck::Error(in_the_way()));
                }
                Class::Refusal | Class::Broken => {
                    conn.send("ROLLBACK");
                    self.conn = Some(conn);
                    return Err(Stuck::Error(error));
                }
            }
        }
        Err(Stuck::Split)
    }

    /// Returns a connection. Waits for a database that is away, but not longer than callers are
    /// willing to.
    async fn connected(&mut self) -> Result<Conn, StoreError> {
        if let Some(conn) = self.conn.take().filter(|conn| !conn.is_closed()) {
            return Ok(conn);
        }
        let mut pause = FIRST_PAUSE;
        loop {
            match self.connect().await {
                Ok(conn) => return Ok(conn),
                Err(error) => {
                    let since = *self.down_since.get_or_insert_with(Instant::now);
                    if since.elapsed() >= PATIENCE || self.queue.is_closed() {
                        return Err(error);
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    async fn connect(&mut self) -> Result<Conn, StoreError> {
        let conn = self.connector.connect().await?;
        self.end_remains(&conn).await?;
        self.pid.store(conn.pid, Ordering::Relaxed);
        if let Some(since) = self.down_since.take() {
            tracing::info!(after = ?since.elapsed(), "the database is back");
        }
        Ok(conn)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Runs also when this task is cancelled: no caller must wait for an answer that cannot
        // come.
        self.queue.abandon();
    }
}

/// Why a group was not written.
enum Stuck {
    /// It cannot be written as a whole; each list alone may be.
    Split,
    /// It is refused.
    Error(StoreError),
}

fn in_the_way() -> StoreError {
    StoreError::busy("write it: others are in the way", RETRY_BUSY)
}

fn refuse(jobs: Vec<Job>, error: &StoreError) {
    for job in jobs {
        let _gone = job.reply.send(Err(error.clone()));
    }
}
