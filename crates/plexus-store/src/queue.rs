//! The queue in front of an engine's writer: bounded in entries and in bytes, urgent lists first.
//!
//! `T` is a task of the store itself, done between two groups. A writer with a thread waits in
//! [`Queue::next`], one that is a task in [`Queue::next_async`].

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use plexus_core::Latency;
use tokio::sync::{Notify, oneshot};

use crate::contract::limits::{MAX_GROUP_BYTES, MAX_QUEUE_BYTES, MAX_QUEUE_ENTRIES};
use crate::contract::{Change, Committed, Priority, StoreError, check};

/// How many lists one transaction takes at most, so that the first caller of a group does not wait
/// for thousands of others.
const MAX_GROUP_LISTS: usize = 1_024;

/// How many urgent lists still fit when the queue is full: a decision must not wait for a flood of
/// events.
const URGENT_RESERVE: usize = 1_024;

/// How long a caller waits when the queue is full: a few groups.
const RETRY_FULL: Duration = Duration::from_millis(100);

/// One caller's change list.
pub(crate) struct Job {
    pub(crate) changes: Vec<Change>,
    pub(crate) bytes: usize,
    pub(crate) reply: oneshot::Sender<Result<Committed, StoreError>>,
}

/// What the writer does next.
pub(crate) enum Work<T> {
    /// Commit these lists together.
    Group(Vec<Job>),
    /// Do this alone.
    Task(T),
}

enum Entry<T> {
    Job(Job),
    Task(T),
}

struct State<T> {
    urgent: VecDeque<Entry<T>>,
    normal: VecDeque<Entry<T>>,
    bytes: usize,
    closed: bool,
    /// Whether the writer waits for work. Waking it otherwise would be a needless system call.
    idle: bool,
}

/// The queue.
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
    /// Does what `filled` does, for a writer that is a task. There is one writer, so one permit is
    /// enough.
    filled_async: Notify,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        let (urgent, normal) = (VecDeque::new(), VecDeque::new());
        let state = State { urgent, normal, bytes: 0, closed: false, idle: false };
        Self { state: Mutex::new(state), filled: Condvar::new(), filled_async: Notify::new() }
    }
}

impl<T> std::fmt::Debug for Queue<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("waiting", &self.len()).finish()
    }
}

impl<T> Queue<T> {
    /// Passes a change list to the writer and waits for its answer; `latency` records how long that
    /// took.
    pub(crate) async fn commit(
        &self,
        changes: Vec<Change>,
        priority: Priority,
        latency: &Latency,
    ) -> Result<Committed, StoreError> {
        let bytes = check::change_list(&changes)?;
        let since = Instant::now();
        let (reply, answer) = oneshot::channel();
        self.push(Job { changes, bytes, reply }, priority)?;
        let committed = answer.await.map_err(|_| StoreError::Closed)?;
        if committed.is_ok() {
            latency.note(since.elapsed());
        }
        committed
    }

    /// Adds a change list, or refuses it when there is no room.
    pub(crate) fn push(&self, job: Job, priority: Priority) -> Result<(), StoreError> {
        let mut state = self.state();
        if state.closed {
            return Err(StoreError::Closed);
        }
        let limit = match priority {
            Priority::Urgent => MAX_QUEUE_ENTRIES + URGENT_RESERVE,
            Priority::Normal => MAX_QUEUE_ENTRIES,
        };
        if state.urgent.len() + state.normal.len() >= limit
            || state.bytes + job.bytes > MAX_QUEUE_BYTES
        {
            return Err(StoreError::busy(
                "queue the changes: too much waits to be written",
                RETRY_FULL,
            ));
        }
        state.bytes += job.bytes;
        match priority {
            Priority::Urgent => state.urgent.push_back(Entry::Job(job)),
            Priority::Normal => state.normal.push_back(Entry::Job(job)),
        }
        self.wake_writer(state);
        Ok(())
    }

    /// Adds a task of the store itself.
    pub(crate) fn push_task(&self, task: T) -> Result<(), StoreError> {
        let mut state = self.state();
        if state.closed {
            return Err(StoreError::Closed);
        }
        state.normal.push_back(Entry::Task(task));
        self.wake_writer(state);
        Ok(())
    }

    /// Waits for work; `None` once the queue is closed and empty.
    pub(crate) fn next(&self) -> Option<Work<T>> {
        let mut state = self.state();
        while state.urgent.is_empty() && state.normal.is_empty() {
            if state.closed {
                return None;
            }
            state.idle = true;
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Some(take(&mut state))
    }

    /// Does what [`Queue::next`] does, for a writer that is a task.
    pub(crate) async fn next_async(&self) -> Option<Work<T>> {
        loop {
            {
                let mut state = self.state();
                if !state.urgent.is_empty() || !state.normal.is_empty() {
                    return Some(take(&mut state));
                }
                if state.closed {
                    return None;
                }
                state.idle = true;
            }
            // A permit that was given after the check above is still there.
            self.filled_async.notified().await;
        }
    }

    /// Returns whether nothing more will be accepted.
    pub(crate) fn is_closed(&self) -> bool {
        self.state().closed
    }

    /// Wakes the writer if it waits. The lock is released first, because the writer takes it at
    /// once.
    fn wake_writer(&self, mut state: MutexGuard<'_, State<T>>) {
        let idle = std::mem::take(&mut state.idle);
        drop(state);
        if idle {
            self.filled.notify_one();
            self.filled_async.notify_one();
        }
    }

    /// Returns how many lists are waiting.
    pub(crate) fn len(&self) -> usize {
        let state = self.state();
        state.urgent.len() + state.normal.len()
    }

    /// Accepts no more; queued work is still done.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        self.wake_writer(state);
    }

    /// Accepts no more and drops queued work. Its callers notice when their reply channels close.
    pub(crate) fn abandon(&self) {
        let mut state = self.state();
        state.closed = true;
        state.bytes = 0;
        let dropped = (std::mem::take(&mut state.urgent), std::mem::take(&mut state.normal));
        self.wake_writer(state);
        drop(dropped);
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        // No critical section calls other code, so a panic cannot leave the queue half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes the next work out of a queue that is not empty.
fn take<T>(state: &mut State<T>) -> Work<T> {
    let (mut group, mut bytes) = (Vec::new(), 0);
    loop {
        let from_urgent = !state.urgent.is_empty();
        let queue = if from_urgent { &mut state.urgent } else { &mut state.normal };
        match queue.pop_front() {
            None => break,
            Some(Entry::Task(task)) if group.is_empty() => return Work::Task(task),
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
    Work::Group(group)
}
