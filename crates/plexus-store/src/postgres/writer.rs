//! The writer: one task, one connection, group commit.
//!
//! Everything that waits goes into one transaction. A group of nothing but events and journal
//! positions, which is nearly every group, takes two round trips ([`append`](super::append)); other
//! lists are applied statement by statement, each in a savepoint of its own, so that one refused
//! list leaves the others alone. Answers and wakes follow the commit.
//!
//! Others write too. The sessions that a group touches are locked first, in one order, and so is
//! the lease it writes under; what is read after that stands until the commit. The commit's number
//! is taken in the last statement before it, from a row that stays locked until it is done: numbers
//! are in the order in which commits become visible, on whatever server. (A notification takes such
//! a lock anyway.)
//!
//! A connection that breaks in the middle of a commit leaves its outcome unknown: `unknown` finds
//! it out.

mod unknown;

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use tokio::time::Instant;
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::append::{self, Batch};
use super::connect::Connector;
use super::locks::{self, Locks};
use super::notes;
use super::readers::PATIENCE;
use super::sql::{Class, Conn, RETRY_BUSY, classify};
use crate::contract::{Committed, Lease, Outcome, StoreError, Topic, UnixMillis, Wakes};
use crate::queue::{Job, Queue, Work};
use crate::tables::sql::{self, Sql as _, int, params};
use crate::tables::tx::{EventBatch, Standing, Tx};

/// How long one group may take before its connection is taken for dead.
const GROUP_TIMEOUT: Duration = Duration::from_secs(20);

/// The pauses between attempts to connect: short at first, since most outages are.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(1_000);

/// How often a group is tried again when others are in its way, before its callers are told to come
/// back.
const MAX_TRIES: u32 = 8;

/// The writer's state, owned by its task.
pub(super) struct Writer {
    pub(super) connector: Connector,
    pub(super) conn: Option<Conn>,
    pub(super) queue: Arc<Queue<Infallible>>,
    pub(super) wakes: Wakes,
    /// The lease that stood when the newest group was committed.
    pub(super) lease: Arc<Mutex<Option<Lease>>>,
    /// The process that serves the connection, so that the listener knows our own notifications.
    pub(super) pid: Arc<AtomicI32>,
    /// The row by which an interrupted commit is found again.
    pub(super) id: Uuid,
    /// The number of the newest group.
    pub(super) group: i64,
    /// The process of a connection that was lost: it may still hold its transaction open for
    /// nobody.
    pub(super) remains: Option<String>,
    /// Since when the database is away.
    pub(super) down_since: Option<Instant>,
}

/// What became of one list.
enum Fate {
    /// It is committed with its group, as the `nth` list of it.
    Applied { nth: u64, outcomes: Vec<Outcome>, topics: Vec<Topic> },
    /// It is not.
    Refused(StoreError),
}

/// A group between its first statement and its commit.
#[derive(Default)]
struct Group {
    fates: Vec<Fate>,
    applied: u64,
    /// Chat, first seq, count, and of which list.
    batches: Vec<(i64, u32, u32, u64)>,
    /// The rows of sessions that changed, and in which list last.
    touched: HashMap<i64, u64>,
    events: u64,
    /// The lease, and whether it stands.
    standing: Standing,
}

impl Group {
    fn apply(&mut self, outcomes: Vec<Outcome>, topics: Vec<Topic>) -> u64 {
        let nth = self.applied;
        self.applied += 1;
        self.fates.push(Fate::Applied { nth, outcomes, topics });
        nth
    }
}

/// How a group is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// As fast as it goes.
    Batched,
    /// Each list by itself: a batch was refused, and whose fault it was is to be found.
    ListByList,
}

impl Writer {
    /// Works until the queue is closed and empty.
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
                // Whose fault it was is found by writing each list alone.
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

    /// Wakes, then answers.
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
            // A caller that left has no use for its answer; the changes stand all the same.
            let _gone = job.reply.send(result);
        }
    }

    /// Writes a group, through lost connections and other writers, until it is committed or
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
            let mut group = Group { standing, ..Group::default() };
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

    /// Returns a connection, waiting for a database that is away, but not longer than callers are
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
        // Also when this task is cancelled: nobody must wait for an answer that cannot come.
        self.queue.abandon();
    }
}

/// Why a group was not written.
enum Stuck {
    /// Together it cannot be; each list alone may.
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

/// One attempt to write a group.
struct Writing<'c> {
    conn: &'c Conn,
    writer: Uuid,
    group: i64,
    lease: Option<Lease>,
    /// Whether the commit was asked for: from then on only the database knows.
    asked: AtomicBool,
}

/// The statement that ends a group: the counters, what carries the commits' numbers, the writer's
/// row, and one notification.
const FINISH: &str = "WITH
    c AS (UPDATE store_meta SET value = value + $1::int8
    WHERE key = 'commits' RETURNING value - $1::int8 AS base),
    e AS (UPDATE store_meta SET value = value + $2::int8 WHERE key = 'events' AND $2::int8 > 0),
    b AS (INSERT INTO event_batches SELECT c.base + u.nth + 1, u.chat, u.first, u.count
    FROM c, unnest($3::int8[], $4::int8[], $5::int8[], $6::int8[]) AS u (chat, first, count, nth)),
    s AS (INSERT INTO session_changes SELECT u.session, c.base + u.nth + 1
    FROM c, unnest($7::int8[], $8::int8[]) AS u (session, nth)
          ON CONFLICT (session) DO UPDATE SET changed = EXCLUDED.changed),
    w AS (INSERT INTO writers SELECT $9::uuid, $10::int8, c.base, $12::int8 FROM c
          ON CONFLICT (id) DO UPDATE
          SET last_group = EXCLUDED.last_group, last_base = EXCLUDED.last_base,
          seen_at = EXCLUDED.seen_at),
    n AS (SELECT pg_notify('plexus', c.base || ' ' || (c.base + $1::int8) || ' ' || $11::text)
    FROM c)
    SELECT c.base FROM c, n";

impl Writing<'_> {
    /// Writes the group in one transaction and returns the commit number before it. On an error
    /// nothing of it is written, unless the commit was asked for.
    async fn write(&self, jobs: &[Job], pace: Pace, group: &mut Group) -> Result<u64, StoreError> {
        let batched = |job: &Job| pace == Pace::Batched && append::is_plain(&job.changes);
        self.conn.send("BEGIN");
        let locks = Locks::of(jobs.iter().flat_map(|job| &job.changes));
        let mut at = 0;
        let mut pending: Vec<BoxFuture<'_, Result<(), StoreError>>> = Vec::new();
        let mut batch;
        if let Some(first) = plain_run(jobs, at, batched) {
            // The locks and what is read under them go out together, and the database does one
            // after the other. A statement that is yet to be prepared would be overtaken, so those
            // of the locks are prepared by now.
            locks.prepare(self.conn).await?;
            locks::prepare_lease(self.conn).await?;
            let (begun, read) =
                futures::future::join(self.begin(&locks), Batch::read(self.conn, first)).await;
            group.standing.valid = begun?;
            batch = Some(read?);
        } else {
            group.standing.valid = self.begin(&locks).await?;
            batch = None;
        }
        while at < jobs.len() {
            let Some(run) = plain_run(jobs, at, batched) else {
                all(std::mem::take(&mut pending)).await?;
                self.one_by_one(&jobs[at], group).await?;
                at += 1;
                continue;
            };
            let mut read = match batch.take() {
                Some(read) => read,
                None => {
                    all(std::mem::take(&mut pending)).await?;
                    Batch::read(self.conn, run).await?
                }
            };
            let mut refused = false;
            for job in run {
                let nth = group.applied;
                let Some((outcomes, topics)) = read.apply(
                    &job.changes,
                    nth,
                    group.standing.lease.filter(|_| group.standing.valid),
                ) else {
                    refused = true;
                    break;
                };
                group.apply(outcomes, topics);
                at += 1;
            }
            for (chat, first, count, nth) in read.batches() {
                group.batches.push((chat, first, count, nth));
                group.events += u64::from(count);
            }
            for (session, nth) in read.touched() {
                group.touched.insert(session, nth);
            }
            pending.push(Box::pin(read.write(self.conn)));
            if refused {
                // What is wrong with it is for the longer way to say.
                all(std::mem::take(&mut pending)).await?;
                self.one_by_one(&jobs[at], group).await?;
                at += 1;
            }
        }
        if group.applied == 0 {
            self.conn.send("ROLLBACK");
            return Ok(0);
        }
        self.finish(group, pending).await
    }

    /// Takes the locks. Returns whether the lease stands.
    async fn begin(&self, locks: &Locks) -> Result<bool, StoreError> {
        // The lease before the sessions, as a takeover does: two who lock in opposite orders would
        // wait for each other.
        let lease = async {
            let Some(lease) = self.lease else { return Ok(false) };
            locks::lock_lease(self.conn, lease).await
        };
        let (valid, locked) = futures::future::join(lease, locks.take(self.conn)).await;
        locked?;
        valid
    }

    /// Applies one list, statement by statement.
    async fn one_by_one(&self, job: &Job, group: &mut Group) -> Result<(), StoreError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let mut tx = Tx::new(self.conn, group.standing);
            self.conn.send("SAVEPOINT list");
            match tx.apply_all(job.changes.clone()).await {
                Ok(outcomes) => {
                    self.conn.send("RELEASE list");
                    let topics = std::mem::take(&mut tx.topics);
                    let nth = group.apply(outcomes, topics);
                    for EventBatch { chat, first, count } in &tx.batches {
                        group.batches.push((*chat, *first, *count, nth));
                        group.events += u64::from(*count);
                    }
                    group.touched.extend(tx.touched.iter().map(|row| (*row, nth)));
                    for row in &tx.gone {
                        group.touched.remove(row);
                    }
                    group.standing = tx.standing;
                    return Ok(());
                }
                Err(error) if classify(&error) == Class::Refusal => {
                    self.conn.send("ROLLBACK TO list; RELEASE list");
                    // Somebody may have stored the same between our look and our insert: then the
                    // next look finds it.
                    let raced = matches!(&error, StoreError::Conflict { standing, .. } if standing.is_null());
                    if raced && tries < 2 {
                        continue;
                    }
                    group.fates.push(Fate::Refused(error));
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Ends the transaction: what is still to be written, the end of the group and the commit leave
    /// together.
    async fn finish(
        &self,
        group: &Group,
        pending: Vec<BoxFuture<'_, Result<(), StoreError>>>,
    ) -> Result<u64, StoreError> {
        let statement = self.conn.statement(FINISH).await;
        // A statement that is yet unknown is prepared first; what is pending must not wait unsent
        // behind an error of that.
        let statement = statement?;
        let column = |pick: fn(&(i64, u32, u32, u64)) -> i64| {
            group.batches.iter().map(pick).collect::<Vec<i64>>()
        };
        let (sessions, of_list): (Vec<i64>, Vec<i64>) =
            group.touched.iter().map(|(row, nth)| (*row, int(*nth))).unzip();
        let topics = group.fates.iter().flat_map(|fate| match fate {
            Fate::Applied { topics, .. } => topics.as_slice(),
            Fate::Refused(_) => &[],
        });
        let (applied, events, note) = (int(group.applied), int(group.events), notes::write(topics));
        let now = UnixMillis::now().0;
        let (chats, firsts, counts, nths) = (
            column(|it| it.0),
            column(|it| i64::from(it.1)),
            column(|it| i64::from(it.2)),
            column(|it| int(it.3)),
        );
        let values: &[&(dyn ToSql + Sync)] = &[
            &applied,
            &events,
            &chats,
            &firsts,
            &counts,
            &nths,
            &sessions,
            &of_list,
            &self.writer,
            &self.group,
            &note,
            &now,
        ];
        plexus_fault::point!("store.commit.before");
        self.asked.store(true, Ordering::Relaxed);
        let ending =
            futures::future::join(self.conn.query(&statement, values), self.conn.batch("COMMIT"));
        let (written, (counted, committed)) =
            futures::future::join(join_all(pending), ending).await;
        // The first failure is the cause of those behind it, and makes a rollback of the commit.
        written.into_iter().collect::<Result<Vec<()>, _>>()?;
        let rows = counted?;
        committed?;
        let base = rows.first().map(|row| <sql::Row<'_>>::get(row, 0)).transpose()?;
        base.ok_or_else(|| StoreError::Corrupt {
            message: "the counter of commits is gone".to_owned(),
        })
    }
}

/// Returns the lists from `at` on that can be written together.
fn plain_run(jobs: &[Job], at: usize, batched: impl Fn(&Job) -> bool) -> Option<&[Job]> {
    let rest = jobs.get(at..)?;
    let count = rest.iter().take_while(|job| batched(job)).count();
    (count > 0).then(|| &rest[..count])
}

async fn all(pending: Vec<BoxFuture<'_, Result<(), StoreError>>>) -> Result<(), StoreError> {
    join_all(pending).await.into_iter().collect()
}
