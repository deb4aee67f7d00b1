//! Group commit: all waiting change lists go into one transaction, and one refused list leaves the
//! others alone.
//!
//! Answers and wakes follow the commit. So do refusals, because they may quote what another list of
//! the same group has just written.

use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::oneshot;

use super::newest::{Fresh as FreshRecords, Newest};
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
    /// The lease when the newest group was committed.
    lease: Arc<Mutex<Option<Lease>>>,
    wakes: Wakes,
    /// What was just written, for those who are woken.
    newest: Arc<Newest>,
}

type Reply = oneshot::Sender<Result<Committed, StoreError>>;

/// One list that was written.
pub(crate) struct Written {
    committed: Committed,
    topics: Vec<Topic>,
}

/// A group of lists after its transaction, before its callers are answered.
pub(crate) struct Group {
    replies: Vec<Reply>,
    /// The result of each list, in the order of `replies`; or why nothing of the group is written.
    pub(crate) result: Result<Vec<Result<Written, StoreError>>, StoreError>,
}

/// A group that is applied, before its commit.
struct Applied {
    lists: Vec<Result<Written, StoreError>>,
    /// The number of the newest commit, this group included.
    commits: u64,
    /// How many events the group appended.
    events: u64,
    standing: Standing,
}

impl Committer {
    /// Makes the committer for `handle`.
    pub(crate) fn new(conn: Connection, handle: &Handle) -> Result<Self, StoreError> {
        let commits = ready(sessions::newest_commit(&conn))?;
        let (lease, wakes) = (Arc::clone(&handle.lease), handle.wakes.clone());
        let newest = Arc::clone(&handle.newest);
        Ok(Self { conn, commits, lease, wakes, newest })
    }

    /// Returns the connection, for reading.
    pub(crate) fn conn(&self) -> &Connection {
        &self.conn
    }

    /// Runs work of the store itself in its own transaction.
    pub(crate) fn in_transaction<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.newest.forget_all();
        in_transaction(&self.conn, work)
    }

    /// Writes a group in one transaction. On an error nothing of it is written.
    pub(crate) fn write(&mut self, jobs: Vec<Job>) -> Group {
        let result = self.transact(&jobs).map(|applied| {
            self.commits = applied.commits;
            *self.lease.lock().unwrap_or_else(PoisonError::into_inner) = applied.standing.lease;
            applied.lists
        });
        Group { replies: jobs.into_iter().map(|job| job.reply).collect(), result }
    }

    /// Wakes subscribers, then answers callers.
    pub(crate) fn answer(&self, group: Group) {
        let lists = match group.result {
            Ok(lists) => lists,
            Err(error) => {
                tracing::warn!(%error, "a group of changes could not be written");
                for reply in group.replies {
                    tell(reply, Err(error.clone()));
                }
                return;
            }
        };
        plexus_fault::point!(
            "approval.committed",
            when lists.iter().flatten().flat_map(|it| &it.topics).any(|topic| matches!(topic, Topic::Approval(_)))
        );
        for (reply, list) in group.replies.into_iter().zip(lists) {
            let answer = list.map(|Written { committed, topics }| {
                self.wakes.wake(topics.into_iter().chain([Topic::Commits]), committed.commit);
                committed
            });
            tell(reply, answer);
        }
    }

    /// Applies and commits a group, or rolls all of it back.
    fn transact(&self, jobs: &[Job]) -> Result<Applied, StoreError> {
        let result = self.apply(jobs, false).and_then(|applied| {
            if applied.commits > self.commits {
                self.count(&applied)?;
                let topics: Vec<_> =
                    applied.lists.iter().flatten().flat_map(|it| &it.topics).copied().collect();
                let fresh = FreshRecords::read(&self.conn, &topics)?;
                self.newest.forget(&topics);
                self.commit()?;
                self.newest.keep(fresh);
            }
            Ok(applied)
        });
        // Does nothing after a commit.
        self.rollback()?;
        result
    }

    /// Begins a transaction and applies the lists, so that a refused one leaves the others alone.
    ///
    /// In a savepoint SQLite copies every page before a list changes it, and hardly any list is
    /// refused after it has changed something. So a group has no savepoints until that happens;
    /// then it starts again, with a savepoint for each list.
    fn apply(&self, jobs: &[Job], savepoints: bool) -> Result<Applied, StoreError> {
        let standing = self.begin()?;
        let lists = Vec::with_capacity(jobs.len());
        let mut group = Applied { lists, commits: self.commits, events: 0, standing };
        for job in jobs {
            let before = self.conn.total_changes();
            let commit = group.commits + 1;
            let mut tx = Tx::new(&self.conn, group.standing);
            let mut apply = || apply_list(&mut tx, &job.changes, commit);
            let result = if savepoints { in_savepoint(&self.conn, apply) } else { apply() };
            let list = match result {
                Ok(outcomes) => {
                    group.commits = commit;
                    group.standing = tx.standing;
                    group.events += tx.batches.iter().map(|it| u64::from(it.count)).sum::<u64>();
                    let committed = Committed { commit, outcomes };
                    Ok(Written { committed, topics: tx.topics })
                }
                Err(error) if ends_transaction(&error) => return Err(error),
                Err(error) => {
                    let undone = savepoints || self.conn.total_changes() == before;
                    // A list that is alone is undone with its transaction.
                    if !undone && jobs.len() > 1 {
                        self.rollback()?;
                        return self.apply(jobs, true);
                    }
                    Err(error)
                }
            };
            group.lists.push(list);
        }
        Ok(group)
    }

    /// Begins the transaction. Returns its lease, and whether that is valid.
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

    /// Writes the two counters once for the whole group, in one statement.
    fn count(&self, group: &Applied) -> Result<(), StoreError> {
        let counters = "UPDATE store_meta
                        SET value = CASE key WHEN 'commits' THEN ?1 ELSE value + ?2 END
                        WHERE key IN ('commits', 'events')";
        ready(self.conn.run(counters, params![group.commits, group.events])).map(drop)
    }

    fn rollback(&self) -> Result<(), StoreError> {
        // SQLite may have rolled back by itself, for example when the disk is full.
        if self.conn.is_autocommit() {
            return Ok(());
        }
        self.conn.execute_batch("ROLLBACK").map_err(store_error)
    }
}

/// Applies one list, and writes the rows that carry the number of its commit.
fn apply_list(
    tx: &mut Tx<'_, Connection>,
    changes: &[Change],
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

/// Runs `work` in its own transaction.
fn in_transaction<T>(
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

/// Runs `apply` in a savepoint, which undoes its writes when it is refused.
fn in_savepoint<T>(
    conn: &Connection,
    apply: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
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
    // A caller that has gone needs no answer; the changes remain.
    let _gone = reply.send(result);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::CreateSession;
    use crate::sqlite::open_in_memory;

    #[test]
    fn a_list_that_is_refused_half_written_leaves_the_others_of_its_group_alone() {
        let mut committer = Committer::new(open_in_memory().unwrap(), &Handle::default()).unwrap();
        let [first, half, last] =
            ["first", "half", "last"].map(|name| CreateSession::new(name, None));
        let lists = [
            vec![Change::CreateSession(first.clone())],
            vec![Change::CreateSession(half.clone()), Change::CreateSession(first.clone())],
            vec![Change::CreateSession(last.clone())],
        ];
        let (jobs, answers): (Vec<_>, Vec<_>) = lists
            .into_iter()
            .map(|changes| {
                let (reply, answer) = oneshot::channel();
                (Job { changes, bytes: 0, reply }, answer)
            })
            .unzip();
        let group = committer.write(jobs);
        committer.answer(group);
        let numbers = answers
            .into_iter()
            .map(|mut answer| answer.try_recv().unwrap().map(|committed| committed.commit));
        let numbers: Vec<_> = numbers.collect();
        assert!(
            matches!(numbers[..], [Ok(1), Err(StoreError::Conflict { .. }), Ok(2)]),
            "{numbers:?}"
        );
        let stored = |id| ready(sessions::get(committer.conn(), id)).is_ok();
        assert_eq!([first.id, half.id, last.id].map(stored), [true, false, true]);
        assert_eq!(ready(sessions::newest_commit(committer.conn())).unwrap(), 2);
    }
}
