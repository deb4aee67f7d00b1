//! Long polls: subscribe, read, wait, in this order for every method that waits.
//!
//! A change between the read and the subscription would otherwise wake nobody. Before each read a
//! call takes one of its caller's turns, so that one commit does not make thousands of calls read
//! at the same time.

use std::time::Duration;

use plexus_core::Caller;
use plexus_store::Wake;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::scopes::Watch;
use super::turns::Turns;

/// A call that reads again and again until there is something to tell or its time is over.
pub struct LongPoll<'a> {
    turns: &'a Turns,
    caller: Caller,
    deadline: Instant,
    wakes: Vec<Wake>,
    scope: Option<Watch>,
}

/// The turn of one read.
#[must_use = "a turn is held while the call reads, and ends when it waits"]
pub struct Turn {
    _held: Option<OwnedSemaphorePermit>,
}

impl<'a> LongPoll<'a> {
    /// Makes a call that waits for `wait` at most. It is woken by nothing yet.
    pub fn new(turns: &'a Turns, caller: Caller, wait: Duration) -> Self {
        let deadline = Instant::now() + wait;
        Self { turns, caller, deadline, wakes: Vec::new(), scope: None }
    }

    /// Is also woken by these. They were subscribed to before the first read.
    #[must_use]
    pub fn on(mut self, wakes: impl IntoIterator<Item = Wake>) -> Self {
        self.wakes.extend(wakes);
        self
    }

    /// Is also woken by a change in this scope.
    #[must_use]
    pub fn on_scope(mut self, scope: Option<Watch>) -> Self {
        self.scope = scope;
        self
    }

    /// Waits for the turn to read. A change that this read does not see ends the next wait.
    pub async fn turn(&self) -> Turn {
        Turn { _held: self.turns.take(self.caller).await }
    }

    /// Says whether the time is over: what was read is then the answer, even if it is nothing.
    #[must_use]
    pub fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// Gives the turn back and waits for a change, in the scope one after commit `after`, or until
    /// the time is over.
    pub async fn wait(&mut self, turn: Turn, after: u64) {
        drop(turn);
        let Self { wakes, scope, deadline, .. } = self;
        let woken = async {
            let woken = async {
                if wakes.is_empty() {
                    std::future::pending::<()>().await;
                }
                let any = wakes.iter_mut().map(|wake| Box::pin(wake.changed()));
                futures::future::select_all(any).await;
            };
            match scope {
                Some(scope) => tokio::select! {
                    () = woken => {}
                    () = scope.changed_after(after) => {}
                },
                None => woken.await,
            }
        };
        let _either = tokio::time::timeout_at(*deadline, woken).await;
        // The next read sees everything that was heard until now.
        for wake in wakes {
            wake.seen();
        }
        if let Some(scope) = scope {
            scope.seen();
        }
    }
}

#[cfg(test)]
mod tests {
    use plexus_store::{Change, CreateSession, MemoryStore, Priority, Store, Topic};

    use super::*;

    const HOUR: Duration = Duration::from_secs(60 * 60);

    async fn change(store: &MemoryStore, name: &str) {
        let create = CreateSession::new(name, None);
        store.commit(vec![Change::CreateSession(create)], Priority::Normal).await.unwrap();
    }

    #[tokio::test]
    async fn a_change_during_a_read_ends_the_wait_after_it() {
        let (store, turns) = (MemoryStore::new(), Turns::default());
        let mut poll =
            LongPoll::new(&turns, Caller::Operator, HOUR).on([store.watch(Topic::Commits)]);
        for name in ["first", "second"] {
            let turn = poll.turn().await;
            change(&store, name).await;
            tokio::time::timeout(Duration::from_secs(60), poll.wait(turn, 0))
                .await
                .expect("the change is told");
            assert!(!poll.is_over());
        }
    }

    #[tokio::test]
    async fn a_poll_that_may_not_wait_is_over_after_one_read() {
        let (store, turns) = (MemoryStore::new(), Turns::default());
        let mut poll = LongPoll::new(&turns, Caller::Operator, Duration::ZERO)
            .on([store.watch(Topic::Commits)]);
        let turn = poll.turn().await;
        assert!(poll.is_over());
        poll.wait(turn, 0).await;
    }
}
