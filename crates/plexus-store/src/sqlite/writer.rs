//! The writer: one thread, one connection, group commit.
//!
//! Everything that waits goes into one transaction, each caller's list in a savepoint of its own, so that one refused list leaves the others alone.
//! Answers and wakes follow the commit; a refusal too, since it may quote what another list of the same group has just written.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rusqlite::{Connection, params};
use tokio::sync::oneshot;

use super::Task;
use super::checkpoint::Checkpointer;
use super::lock::Lock;
use super::sql::{Sql, ends_transaction, int, store_error};
use super::tx::Tx;
use crate::contract::{Committed, Lease, StoreError, Topic, Wakes};
use crate::queue::{Job, Queue, Work};

/// Whether the store can still be trusted.
#[derive(Debug, Default)]
pub(super) struct Health(OnceLock<String>);

impl Health {
    /// Refuses once a flush has failed.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        match self.0.get() {
            None => Ok(()),
            Some(message) => Err(StoreError::Poisoned { message: message.clone() }),
        }
    }

    /// Remembers a failed flush for good.
    pub(super) fn note(&self, error: &StoreError) {
        if let StoreError::Poisoned { message } = error {
            tracing::error!(%message, "a flush to disk failed: the store takes no more changes, stop the server");
            // The first failure is the one that matters.
            let _first = self.0.set(message.clone());
        }
    }
}

/// The writer's state, owned by its thread.
pub(super) struct Writer {
    pub(super) conn: Connection,
    pub(super) queue: Arc<Queue<Task>>,
    pub(super) wakes: Wakes,
    pub(super) health: Arc<Health>,
    pub(super) checkpointer: Checkpointer,
    pub(super) wal: PathBuf,
    /// The number of the newest commit.
    pub(super) commits: u64,
    /// The lease that stood when the newest group was committed.
    pub(super) lease: Arc<Mutex<Option<Lease>>>,
    /// Held until the last change is written.
    pub(super) lock: Lock,
}

/// One list that will be committed with its group.
struct Applied {
    reply: oneshot::Sender<Result<Committed, StoreError>>,
    committed: Committed,
    topics: Vec<Topic>,
    events: u64,
    lease: Option<Lease>,
}

/// One list that was refused.
struct Refused {
    reply: oneshot::Sender<Result<Committed, StoreError>>,
    error: StoreError,
}

/// What became of a group before its commit.
#[derive(Default)]
struct Group {
    applied: Vec<Applied>,
    refused: Vec<Refused>,
}

impl Writer {
    /// Works until the queue is closed and empty.
    pub(super) fn run(mut self) {
        while let Some(work) = self.queue.next() {
            match work {
                Work::Group(jobs) => self.commit_group(jobs),
                Work::Task(task) => task(&self.conn),
            }
        }
        self.checkpointer.finish(&self.conn);
        tracing::debug!(lock = ?self.lock, commits = self.commits, "the store is closed");
    }

    fn commit_group(&mut self, jobs: Vec<Job>) {
        let bytes: usize = jobs.iter().map(|job| job.bytes).sum();
        let mut group = Group::default();
        let result = self.health.check().and_then(|()| self.write(jobs, &mut group));
        match result {
            Ok(()) => {
                self.commits += group.applied.len() as u64;
                if let Some(last) = group.applied.last() {
                    *self.lease.lock().unwrap_or_else(PoisonError::into_inner) = last.lease;
                }
                plexus_fault::point!(
                    "approval.committed",
                    when group.applied.iter().flat_map(|it| &it.topics).any(|topic| matches!(topic, Topic::Approval(_)))
                );
                for applied in group.applied {
                    let topics = applied.topics.into_iter().chain([Topic::Commits]);
                    self.wakes.wake(topics, applied.committed.commit);
                    answer(applied.reply, Ok(applied.committed));
                }
                for refused in group.refused {
                    answer(refused.reply, Err(refused.error));
                }
                self.checkpointer.wrote(bytes, &self.conn, &self.wal, &self.health);
            }
            Err(error) => {
                self.health.note(&error);
                tracing::warn!(%error, "a group of changes could not be written");
                let replies = group
                    .applied
                    .into_iter()
                    .map(|it| it.reply)
                    .chain(group.refused.into_iter().map(|it| it.reply));
                for reply in replies {
                    answer(reply, Err(error.clone()));
                }
            }
        }
    }

    /// Writes a group in one transaction. On an error nothing of it is written, and every caller is in `group` all the same.
    fn write(&self, jobs: Vec<Job>, group: &mut Group) -> Result<(), StoreError> {
        let mut failed = self.conn.run("BEGIN IMMEDIATE", []).err();
        let alone = jobs.len() == 1;
        let mut lease = *self.lease.lock().unwrap_or_else(PoisonError::into_inner);
        for job in jobs {
            let Job { changes, reply, .. } = job;
            if let Some(error) = &failed {
                group.refused.push(Refused { reply, error: error.clone() });
                continue;
            }
            let mut tx = Tx::new(&self.conn, self.commits + 1 + group.applied.len() as u64, lease);
            let result = in_savepoint(&self.conn, alone, || tx.apply_all(changes));
            match result {
                Ok(outcomes) => {
                    let Tx { commit, topics, events, .. } = tx;
                    lease = tx.lease;
                    let committed = Committed { commit, outcomes };
                    group.applied.push(Applied { reply, committed, topics, events, lease });
                }
                Err(error) => {
                    failed = Some(error.clone()).filter(ends_transaction);
                    group.refused.push(Refused { reply, error });
                }
            }
        }
        let result = match failed {
            Some(error) => Err(error),
            None if group.applied.is_empty() => return self.rollback(),
            None => self.count(group).and_then(|()| self.commit()),
        };
        if result.is_err() {
            self.rollback()?;
        }
        result
    }

    fn commit(&self) -> Result<(), StoreError> {
        plexus_fault::point!("store.commit.before");
        if plexus_fault::fails!("store.commit") {
            return Err(StoreError::Unavailable {
                message: "write: a test has the disk refuse it".into(),
                source: None,
            });
        }
        self.conn.run("COMMIT", [])?;
        plexus_fault::point!("store.commit.after");
        Ok(())
    }

    /// Writes the two counters once for the whole group.
    fn count(&self, group: &Group) -> Result<(), StoreError> {
        let newest = group.applied.last().map_or(self.commits, |last| last.committed.commit);
        let events: u64 = group.applied.iter().map(|applied| applied.events).sum();
        self.conn.run("UPDATE store_meta SET value = ?1 WHERE key = 'commits'", [int(newest)])?;
        if events > 0 {
            self.conn.run(
                "UPDATE store_meta SET value = value + ?1 WHERE key = 'events'",
                params![int(events)],
            )?;
        }
        Ok(())
    }

    fn rollback(&self) -> Result<(), StoreError> {
        // SQLite may have rolled back by itself, for example when the disk is full.
        if self.conn.is_autocommit() {
            Ok(())
        } else {
            self.conn.execute_batch("ROLLBACK").map_err(store_error)
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Also when this thread panics: nobody must wait for an answer that cannot come.
        self.queue.abandon();
    }
}

/// Runs `apply` so that a refusal takes back what it wrote. A list that is alone in its transaction needs no savepoint.
fn in_savepoint<T>(
    conn: &Connection,
    alone: bool,
    apply: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    if alone {
        return apply();
    }
    conn.run("SAVEPOINT list", [])?;
    let result = apply();
    match &result {
        Ok(_) => conn.run("RELEASE list", [])?,
        Err(error) if ends_transaction(error) => 0,
        Err(_) => conn.run("ROLLBACK TO list", []).and_then(|_| conn.run("RELEASE list", []))?,
    };
    result
}

fn answer(
    reply: oneshot::Sender<Result<Committed, StoreError>>,
    result: Result<Committed, StoreError>,
) {
    // A caller that left has no use for its answer; the changes stand all the same.
    let _gone = reply.send(result);
}
