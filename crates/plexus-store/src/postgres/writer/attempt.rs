//! One attempt of the [`Writer`](super::Writer) to write a group, in one transaction.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::{BoxFuture, join_all};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use crate::contract::{Lease, Outcome, StoreError, Topic, UnixMillis};
use crate::postgres::append::{self, Batch};
use crate::postgres::locks::{self, Locks};
use crate::postgres::notes;
use crate::postgres::sql::{Class, Conn, classify};
use crate::queue::Job;
use crate::tables::sql::{self, int};
use crate::tables::tx::{EventBatch, Standing, Tx};

/// The result of one list.
pub(super) enum Fate {
    /// It is committed with its group, as the `nth` list of it.
    Applied { nth: u64, outcomes: Vec<Outcome>, topics: Vec<Topic> },
    /// It is not committed.
    Refused(StoreError),
}

/// A group between its first statement and its commit.
#[derive(Default)]
pub(super) struct Group {
    pub(super) fates: Vec<Fate>,
    applied: u64,
    /// Chat, first seq, count, and the list's number.
    batches: Vec<(i64, u32, u32, u64)>,
    /// The rows of changed sessions, each with the number of the last list that changed it.
    touched: HashMap<i64, u64>,
    events: u64,
    /// The lease, and whether it is valid.
    pub(super) standing: Standing,
}

impl Group {
    pub(super) fn new(standing: Standing) -> Self {
        Self { standing, ..Self::default() }
    }

    fn apply(&mut self, outcomes: Vec<Outcome>, topics: Vec<Topic>) -> u64 {
        let nth = self.applied;
        self.applied += 1;
        self.fates.push(Fate::Applied { nth, outcomes, topics });
        nth
    }
}

/// How a group is written.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// Lists of the fast path are batched.
    Batched,
    /// Each list by itself: a batch was refused, and the writer looks for the list that caused it.
    ListByList,
}

/// One attempt to write a group.
pub(super) struct Writing<'c> {
    pub(super) conn: &'c Conn,
    pub(super) writer: Uuid,
    pub(super) group: i64,
    pub(super) lease: Option<Lease>,
    /// Whether the commit was sent: from then on only the database knows the outcome.
    pub(super) asked: AtomicBool,
}

/// Ends a group: updates the counters, writes the rows that carry commit numbers and the writer's
/// row, and sends one notification.
const FINISH: &str = "WITH
    c AS (UPDATE store_meta SET value = value + $1::int8 WHERE key = 'commits'
          RETURNING value - $1::int8 AS base),
    e AS (UPDATE store_meta SET value = value + $2::int8 WHERE key = 'events' AND $2::int8 > 0),
    b AS (INSERT INTO event_batches SELECT c.base + u.nth + 1, u.chat, u.first, u.count
          FROM c, unnest($3::int8[], $4::int8[], $5::int8[], $6::int8[])
                  AS u (chat, first, count, nth)),
    s AS (INSERT INTO session_changes SELECT u.session, c.base + u.nth + 1
          FROM c, unnest($7::int8[], $8::int8[]) AS u (session, nth)
          ON CONFLICT (session) DO UPDATE SET changed = EXCLUDED.changed),
    w AS (INSERT INTO writers SELECT $9::uuid, $10::int8, c.base, $12::int8 FROM c
          ON CONFLICT (id) DO UPDATE SET last_group = EXCLUDED.last_group,
              last_base = EXCLUDED.last_base, seen_at = EXCLUDED.seen_at),
    n AS (SELECT pg_notify('plexus',
                           c.base || ' ' || (c.base + $1::int8) || ' ' || $11::text) FROM c)
    SELECT c.base FROM c, n";

impl Writing<'_> {
    /// Writes the group in one transaction and returns the commit number before it. On an error
    /// nothing of it is written, unless the commit was already sent.
    pub(super) async fn write(
        &self,
        jobs: &[Job],
        pace: Pace,
        group: &mut Group,
    ) -> Result<u64, StoreError> {
        let batched = |job: &Job| pace == Pace::Batched && append::is_plain(&job.changes);
        self.conn.send("BEGIN");
        let locks = Locks::of(jobs.iter().flat_map(|job| &job.changes));
        let mut at = 0;
        let mut pending: Vec<BoxFuture<'_, Result<(), StoreError>>> = Vec::new();
        let mut batch;
        if let Some(first) = plain_run(jobs, at, batched) {
            // The lock statements and the reads under them are sent together, and the database runs
            // them in order. Preparing a statement would let later ones overtake it, so those of
            // the locks are prepared before.
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
                // The slow path reports what is wrong with it.
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

    /// Takes the locks. Returns whether the lease is valid.
    async fn begin(&self, locks: &Locks) -> Result<bool, StoreError> {
        // The lease is locked before the sessions, as in a takeover: opposite orders would
        // deadlock.
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
            match tx.apply_all(&job.changes).await {
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
                    // Another transaction may have inserted the same between our read and our
                    // insert: the next read finds it.
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

    /// Ends the transaction: sends the pending writes, the end of the group and the commit
    /// together.
    async fn finish(
        &self,
        group: &Group,
        pending: Vec<BoxFuture<'_, Result<(), StoreError>>>,
    ) -> Result<u64, StoreError> {
        let statement = self.conn.statement(FINISH).await;
        // Prepared before the pending writes are sent, so that an error of the preparation returns
        // before any of them.
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
        // The first failure causes the later ones, and turns the commit into a rollback.
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
