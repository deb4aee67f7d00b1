//! Group commit: lists of changes that wait go into one transaction, each in a savepoint of its
//! own, so that one refused list leaves the others alone.
//!
//! Answers and wakes follow the commit; a refusal too, because it may quote what another list of
//! the same group has just written.

use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::sql::{ends_transaction, store_error};
use crate::contract::{Change, Committed, Lease, Outcome, StoreError, Topic, Wakes};
use crate::queue::Job;
use crate::tables::sql::{Sql as _, params, ready};
use crate::tables::store::Handle;
use crate::tables::tx::{EventBatch, Standing, Tx};
use crate::tables::{servers, sessions};

/// The one connection that writes, and what it has written.
#[derive(Debug)]
pub(crate) struct Committer {
    pub(super) conn: Connection,
    /// The number of the newest commit.
    pub(super) commits: u64,
    /// The lease that stood when the newest group was committed.
    lease: Arc<Mutex<Option<Lease>>>,
    wakes: Wakes,
}

type Reply = oneshot::Sender<Result<Committed, StoreError>>;

/// One list that was written.
struct Applied {
    reply: Reply,
    committed: Committed,
    topics: Vec<Topic>,
}

/// A group of lists after its transaction, before anybody is told.
pub(crate) struct Group {
    applied: Vec<Applied>,
    refused: Vec<(Reply, StoreError)>,
    events: u64,
    /// Whether the transaction was committed.
    pub(crate) result: Result<(), StoreError>,
}

impl Committer {
    /// Makes the one that writes what `handle` promises.
    pub(crate) fn new(conn: Connection, handle: &Handle) -> Result<Self, StoreError> {
        let commits = ready(sessions::newest_commit(&conn))?;
        let (lease, wakes) = (Arc::clone(&handle.lease), handle.wakes.clone());
        Ok(Self { conn, commits, lease, wakes })
    }

    /// Returns the connection, for work in a transaction of its own.
    pub(crate) fn conn(&self) -> &Connection {
        &self.conn
    }

    /// Writes a group in one transaction. On an error nothing of it is written.
    pub(crate) fn write(&mut self, jobs: Vec<Job>) -> Group {
        let mut group =
            Group { applied: Vec::new(), refused: Vec::new(), events: 0, result: Ok(()) };
        match self.apply(jobs, &mut group) {
            Ok(standing) => {
                self.commits += group.applied.len() as u64;
                *self.lease.lock().unwrap_or_else(PoisonError::into_inner) = standing.lease;
            }
            Err(error) => group.result = Err(error),
        }
        group
    }

    /// Wakes, then answers.
    pub(crate) fn answer(&self, group: Group) {
        if let Err(error) = group.result {
            tracing::warn!(%error, "a group of changes could not be written");
            let applied = group.applied.into_iter().map(|it| it.reply);
            for reply in applied.chain(group.refused.into_iter().map(|(reply, _)| reply)) {
                tell(reply, Err(error.clone()));
            }
            return;
        }
        plexus_fault::point!(
            "approval.committed",
            when group.applied.iter().flat_map(|it| &it.topics).any(|topic| matches!(topic, Topic::Approval(_)))
        );
        for applied in group.applied {
            let topics = applied.topics.into_iter().chain([Topic::Commits]);
            self.wakes.wake(topics, applied.committed.commit);
            tell(applied.reply, Ok(applied.committed));
        }
        for (reply, error) in group.refused {
            tell(reply, Err(error));
        }
    }

    /// Applies and commits a group. Every caller is in `group` afterwards, also after an error.
    fn apply(&self, jobs: Vec<Job>, group: &mut Group) -> Result<Standing, StoreError> {
        let begun = self.begin();
        let mut failed = begun.as_ref().err().cloned();
        let mut standing = begun.unwrap_or_default();
        let alone = jobs.len() == 1;
        for Job { changes, reply, .. } in jobs {
            if let Some(error) = &failed {
                group.refused.push((reply, error.clone()));
                continue;
            }
            let commit = self.commits + 1 + group.applied.len() as u64;
            let mut tx = Tx::new(&self.conn, standing);
            match in_savepoint(&self.conn, alone, || apply_list(&mut tx, changes, commit)) {
                Ok(outcomes) => {
                    standing = tx.standing;
                    group.events += tx.batches.iter().map(|it| u64::from(it.count)).sum::<u64>();
                    let committed = Committed { commit, outcomes };
                    group.applied.push(Applied { reply, committed, topics: tx.topics });
                }
                Err(error) => {
                    failed = Some(error.clone()).filter(ends_transaction);
                    group.refused.push((reply, error));
                }
            }
        }
        let result = match failed {
            Some(error) => Err(error),
            None if group.applied.is_empty() => return self.rollback().map(|()| standing),
            None => self.count(group).and_then(|()| self.commit()),
        };
        if result.is_err() {
            self.rollback()?;
        }
        result.map(|()| standing)
    }

    /// Begins the transaction. Returns the lease it is written under, and whether that stands.
    fn begin(&self) -> Result<Standing, StoreError> {
        execute(&self.conn, "BEGIN IMMEDIATE")?;
        let lease = *self.lease.lock().unwrap_or_else(PoisonError::into_inner);
        let valid = match lease {
            Some(lease) => ready(servers::stands(&self.conn, lease))?,
            None => false,
        };
        Ok(Standing { lease, valid })
    }

    fn commit(&self) -> Result<(), StoreError> {
        plexus_fault::point!("store.commit.before");
        if plexus_fault::fails!("store.commit") {
            return Err(StoreError::Unavailable {
                message: "write: a test has the disk refuse it".into(),
                source: None,
            });
        }
        execute(&self.conn, "COMMIT")?;
        plexus_fault::point!("store.commit.after");
        Ok(())
    }

    /// Writes the two counters once for the whole group.
    fn count(&self, group: &Group) -> Result<(), StoreError> {
        let newest = self.commits + group.applied.len() as u64;
        let commits = "UPDATE store_meta SET value = ?1 WHERE key = 'commits'";
        ready(self.conn.run(commits, params![newest]))?;
        if group.events > 0 {
            let events = "UPDATE store_meta SET value = value + ?1 WHERE key = 'events'";
            ready(self.conn.run(events, params![group.events]))?;
        }
        Ok(())
    }

    fn rollback(&self) -> Result<(), StoreError> {
        // SQLite may have rolled back by itself, for example when the disk is full.
        if self.conn.is_autocommit() {
            return Ok(());
        }
        self.conn.execute_batch("ROLLBACK").map_err(store_error)
    }
}

/// Applies one list, and writes what carries the number of its commit.
fn apply_list(
    tx: &mut Tx<'_, Connection>,
    changes: Vec<Change>,
    commit: u64,
) -> Result<Vec<Outcome>, StoreError> {
    let outcomes = ready(tx.apply_all(changes))?;
    let batch = "INSERT INTO event_batches VALUES (?1, ?2, ?3, ?4)";
    for EventBatch { chat, first, count } in &tx.batches {
        ready(tx.conn.run(batch, params![commit, chat, first, count]))?;
    }
    let changed = "INSERT INTO session_changes VALUES (?1, ?2)
                   ON CONFLICT (session) DO UPDATE SET changed = ?2";
    for row in &tx.touched {
        ready(tx.conn.run(changed, params![row, commit]))?;
    }
    Ok(outcomes)
}

/// Runs `work` in a transaction of its own.
pub(crate) fn in_transaction<T>(
    conn: &Connection,
    work: impl FnOnce(&Connection) -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    execute(conn, "BEGIN IMMEDIATE")?;
    let result = work(conn).and_then(|value| execute(conn, "COMMIT").map(|()| value));
    if result.is_err() && !conn.is_autocommit() {
        conn.execute_batch("ROLLBACK").map_err(store_error)?;
    }
    result
}

/// Runs `apply` so that a refusal takes back what it wrote. A list that is alone in its transaction
/// needs no savepoint.
fn in_savepoint<T>(
    conn: &Connection,
    alone: bool,
    apply: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    if alone {
        return apply();
    }
    execute(conn, "SAVEPOINT list")?;
    let result = apply();
    match &result {
        Ok(_) => execute(conn, "RELEASE list")?,
        Err(error) if ends_transaction(error) => {}
        Err(_) => {
            execute(conn, "ROLLBACK TO list")?;
            execute(conn, "RELEASE list")?;
        }
    }
    result
}

/// Runs a statement that has no parameters, prepared once.
pub(super) fn execute(conn: &Connection, sql: &str) -> Result<(), StoreError> {
    ready(conn.run(sql, params![])).map(drop)
}

fn tell(reply: Reply, result: Result<Committed, StoreError>) {
    // A caller that left has no use for its answer; the changes stand all the same.
    let _gone = reply.send(result);
}
