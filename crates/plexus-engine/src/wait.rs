//! Waiting for decisions: subscribe, read, wait. A commit between the read and the subscription
//! would otherwise wake nobody. Methods that wait use
//! [`LongPoll`](crate::reading::long_poll::LongPoll). And waiting for a store that does not answer,
//! and for a task of ours.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use plexus_core::ApprovalId;
use plexus_store::{ApprovalRecord, ApprovalStatus, Store, StoreError, Topic};
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;
use tokio::time::error::Elapsed;

/// How long to wait before a store or disk that refuses is tried again. Nothing is lost meanwhile.
pub const STORE_RETRY: Duration = Duration::from_millis(250);

/// How long a server that picks up its runs waits for a store that does not answer, in all steps
/// together. Its children wait as long, and what they asked is in their journals. A server that
/// gave up sooner would leave them waiting until somebody starts another.
pub(crate) const STORE_PATIENCE: Duration = Duration::from_secs(60);

/// Tries again until `deadline` while the store is away or busy. An attempt that failed must have
/// changed nothing that the next one cannot do again.
pub(crate) async fn patiently<T, F>(
    what: &str,
    deadline: Instant,
    attempt: impl Fn() -> F,
) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let mut is_told = false;
    loop {
        match attempt().await {
            Err(error @ (StoreError::Unavailable { .. } | StoreError::Busy { .. }))
                if Instant::now() < deadline =>
            {
                if !is_told {
                    let secs = deadline.saturating_duration_since(Instant::now()).as_secs();
                    tracing::warn!(%error, "could not {what} yet; trying again for {secs} s");
                    is_told = true;
                }
                tokio::time::sleep(STORE_RETRY).await;
            }
            ended => return ended,
        }
    }
}

/// How finely [`while_awake`] counts. A process that stands still loses at most one of these.
const AWAKE_TICK: Duration = Duration::from_secs(1);

/// Waits for one of our own tasks, for at most `patience`, and does not count the time in which
/// this process stood still. An ordinary timeout would be over when the process wakes, before the
/// other task could answer, although it may have done what was asked.
pub(crate) async fn while_awake<T>(
    patience: Duration,
    answer: impl Future<Output = T>,
) -> Result<T, Elapsed> {
    let mut answer = std::pin::pin!(answer);
    let mut left = patience;
    loop {
        let tick = left.min(AWAKE_TICK);
        left -= tick;
        match tokio::time::timeout(tick, &mut answer).await {
            Err(_) if !left.is_zero() => {}
            ended => return ended,
        }
    }
}

/// How often a caller that waits for a row reads it without a wake: a row that is deleted with its
/// session wakes nobody.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Waits until an approval is decided. Returns its record, or `None` when it is gone.
///
/// While the store cannot be read, this waits on: nothing was decided that anybody could act on.
///
/// # Errors
/// When its record can be found and not understood.
pub async fn decision(
    store: &dyn Store,
    id: ApprovalId,
) -> Result<Option<ApprovalRecord>, StoreError> {
    let mut wake = store.watch(Topic::Approval(id));
    loop {
        wake.seen();
        match store.approval(id).await {
            Ok(record) if record.status == ApprovalStatus::Pending => {
                let _either = tokio::time::timeout(LOOK_AGAIN, wake.changed()).await;
            }
            Ok(record) => return Ok(Some(record)),
            Err(StoreError::NotFound { .. }) => return Ok(None),
            Err(StoreError::Unavailable { .. } | StoreError::Busy { .. }) => {
                tokio::time::sleep(STORE_RETRY).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// What was heard of an approval that was waited for.
pub(crate) type Heard = (ApprovalId, Option<ApprovalRecord>);

/// Waits until an approval is decided or gone, whatever is wrong with the store meanwhile: a run
/// that gave up would leave its agent waiting unseen.
async fn heard_at_last(store: &dyn Store, id: ApprovalId) -> Option<ApprovalRecord> {
    loop {
        match decision(store, id).await {
            Ok(heard) => return heard,
            Err(error) => {
                tracing::error!(approval = %id, %error, "could not read a decision; trying again");
                tokio::time::sleep(STORE_RETRY).await;
            }
        }
    }
}

/// The decisions that one run waits for. Dropped with the run, so that nobody waits for one that is
/// over.
pub(crate) struct Decisions {
    store: Arc<dyn Store>,
    ids: HashSet<ApprovalId>,
    waits: JoinSet<Heard>,
}

impl Decisions {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, ids: HashSet::new(), waits: JoinSet::new() }
    }

    /// Waits for this one too, once.
    pub(crate) fn add(&mut self, id: ApprovalId) {
        if self.ids.insert(id) {
            let store = Arc::clone(&self.store);
            self.waits.spawn(async move { (id, heard_at_last(&*store, id).await) });
        }
    }

    /// Waits for the next decision, for ever while none is awaited. Dropping the future loses
    /// nothing.
    pub(crate) async fn next(&mut self) -> Heard {
        loop {
            match self.waits.join_next().await {
                Some(joined) => {
                    if let Some(heard) = self.heard(joined) {
                        return heard;
                    }
                }
                None => return std::future::pending().await,
            }
        }
    }

    /// Returns a decision that has been heard already, without waiting for one.
    pub(crate) fn ready(&mut self) -> Option<Heard> {
        let joined = self.waits.try_join_next()?;
        self.heard(joined)
    }

    fn heard(&mut self, joined: Result<Heard, JoinError>) -> Option<Heard> {
        match joined {
            Ok(heard) => {
                self.ids.remove(&heard.0);
                Some(heard)
            }
            // It panicked, and said so; what is open is asked when the run is picked up again.
            Err(error) => {
                tracing::error!(%error, "waiting for a decision was cut short");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use plexus_store::Thing;

    use super::*;

    fn away() -> StoreError {
        StoreError::Unavailable { message: "no answer".into(), source: None }
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_comes_back_is_waited_for() {
        let tries = Cell::new(0);
        let deadline = Instant::now() + STORE_PATIENCE;
        let read = patiently("read", deadline, async || {
            tries.set(tries.get() + 1);
            if tries.get() < 3 { Err(away()) } else { Ok(tries.get()) }
        });
        assert_eq!(read.await.unwrap(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_store_that_stays_away_is_given_up_at_the_deadline_of_all_steps() {
        let begun = Instant::now();
        for _step in 0..3 {
            let deadline = begun + STORE_PATIENCE;
            let read = patiently("read", deadline, async || Err::<(), _>(away())).await;
            assert!(matches!(read, Err(StoreError::Unavailable { .. })), "{read:?}");
        }
        assert!(begun.elapsed() >= STORE_PATIENCE);
        assert!(begun.elapsed() < STORE_PATIENCE * 2, "{:?}", begun.elapsed());
    }

    /// Longer than the patience of the tests below.
    const STANDSTILL: Duration = Duration::from_secs(30);

    const PATIENCE: Duration = Duration::from_secs(15);

    #[tokio::test(start_paused = true)]
    async fn a_process_that_stood_still_hears_its_own_task() {
        let (done, answer) = tokio::sync::oneshot::channel();
        let waiting = tokio::spawn(while_awake(PATIENCE, answer));
        tokio::task::yield_now().await;
        tokio::time::advance(STANDSTILL).await;
        done.send("stored").unwrap();
        assert_eq!(waiting.await.unwrap().unwrap().unwrap(), "stored");
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_does_not_answer_is_given_up() {
        let begun = Instant::now();
        assert!(while_awake(PATIENCE, std::future::pending::<()>()).await.is_err());
        assert!(begun.elapsed() >= PATIENCE);
    }

    #[tokio::test(start_paused = true)]
    async fn what_another_try_cannot_mend_is_said_at_once() {
        let tries = Cell::new(0);
        let missing = || StoreError::not_found(Thing::Session, "s1");
        let deadline = Instant::now() + STORE_PATIENCE;
        let read = patiently("read", deadline, async || {
            tries.set(tries.get() + 1);
            Err::<(), _>(missing())
        });
        assert!(matches!(read.await, Err(StoreError::NotFound { .. })));
        assert_eq!(tries.get(), 1);
    }
}
