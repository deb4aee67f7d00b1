//! The queue in front of the writer: bounded in entries and in bytes, urgent lists first.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::contract::limits::{MAX_GROUP_BYTES, MAX_QUEUE_BYTES, MAX_QUEUE_ENTRIES};
use crate::contract::{Change, Committed, Priority, StoreError};

/// How many lists one transaction takes at most, so that the first caller of a group does not wait for thousands of others.
const MAX_GROUP_LISTS: usize = 1_024;

/// How many urgent lists still fit when the queue is full: a decision must not wait behind a flood of events.
const URGENT_RESERVE: usize = 1_024;

/// How long a caller waits when the queue is full: a few groups.
const RETRY_FULL: Duration = Duration::from_millis(100);

/// One caller's change list.
pub(super) struct Job {
    pub(super) changes: Vec<Change>,
    pub(super) bytes: usize,
    pub(super) reply: oneshot::Sender<Result<Committed, StoreError>>,
}

/// Work of the store's own on the writer's connection, in a transaction of its own.
pub(super) type Task = Box<dyn FnOnce(&Connection) + Send>;

/// What the writer does next.
pub(super) enum Work {
    /// Commits these lists together.
    Group(Vec<Job>),
    /// Does this alone.
    Task(Task),
}

enum Entry {
    Job(Job),
    Task(Task),
}

#[derive(Default)]
struct State {
    urgent: VecDeque<Entry>,
    normal: VecDeque<Entry>,
    bytes: usize,
    closed: bool,
}

/// The queue.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    filled: Condvar,
}

impl Queue {
    /// Adds a change list, or says that there is no room.
    pub(super) fn push(&self, job: Job, priority: Priority) -> Result<(), StoreError> {
        let mut state = self.state();
        if state.closed {
            return Err(StoreError::Closed);
        }
        let limit = match priority {
            Priority::Urgent => MAX_QUEUE_ENTRIES + URGENT_RESERVE,
            Priority::Normal => MAX_QUEUE_ENTRIES,
        };
        if state.urgent.len() + state.normal.len() >= limit || state.bytes + job.bytes > MAX_QUEUE_BYTES {
            return Err(StoreError::busy("queue the changes: too much waits to be written", RETRY_FULL));
        }
        state.bytes += job.bytes;
        match priority {
            Priority::Urgent => state.urgent.push_back(Entry::Job(job)),
            Priority::Normal => state.normal.push_back(Entry::Job(job)),
        }
        self.filled.notify_one();
        Ok(())
    }

    /// Adds a task of the store's own.
    pub(super) fn push_task(&self, task: Task) -> Result<(), StoreError> {
        let mut state = self.state();
        if state.closed {
            return Err(StoreError::Closed);
        }
        state.normal.push_back(Entry::Task(task));
        self.filled.notify_one();
        Ok(())
    }

    /// Waits for work; `None` once the queue is closed and empty.
    pub(super) fn next(&self) -> Option<Work> {
        let mut state = self.state();
        while state.urgent.is_empty() && state.normal.is_empty() {
            if state.closed {
                return None;
            }
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let (mut group, mut bytes) = (Vec::new(), 0);
        loop {
            let from_urgent = !state.urgent.is_empty();
            let queue = if from_urgent { &mut state.urgent } else { &mut state.normal };
            match queue.pop_front() {
                None => break,
                Some(Entry::Task(task)) if group.is_empty() => return Some(Work::Task(task)),
                Some(entry @ Entry::Task(_)) => {
                    queue.push_front(entry);
                    break;
                }
                Some(Entry::Job(job)) => {
                    if !group.is_empty() && bytes + job.bytes > MAX_GROUP_BYTES {
                        queue.push_front(Entry::Job(job));
                        break;
                    }
                    bytes += job.bytes;
                    state.bytes -= job.bytes;
                    group.push(job);
                    if group.len() == MAX_GROUP_LISTS {
                        break;
                    }
                }
            }
        }
        Some(Work::Group(group))
    }

    /// Returns how many lists wait.
    pub(super) fn len(&self) -> usize {
        let state = self.state();
        state.urgent.len() + state.normal.len()
    }

    /// Takes no more; what is there is still done.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.filled.notify_all();
    }

    /// Takes no more and drops what is there, which its callers learn as their answers are dropped.
    pub(super) fn abandon(&self) {
        let dropped = {
            let mut state = self.state();
            state.closed = true;
            state.bytes = 0;
            (std::mem::take(&mut state.urgent), std::mem::take(&mut state.normal))
        };
        drop(dropped);
        self.filled.notify_all();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // No critical section calls out, so a panic cannot leave the queue half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
