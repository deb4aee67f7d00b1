//! Sends what waits in the outbox to the configured receivers: one task for each, so that a slow or
//! dead one delays no other.
//!
//! The transaction that stores a fact also puts its entry into the outbox. The entry leaves when
//! its receiver has answered 2xx, or when it is too old. After a crash in between, the entry is
//! sent again with the same id: delivery is at least once. In reading order: [`receiver`] is who is
//! told, `post` one attempt, [`sign`] the signature, [`stats`] what `/metrics` shows; this file is
//! the loop.

mod post;
pub mod receiver;
mod sign;
mod stats;

use std::sync::Arc;
use std::time::Duration;

use plexus_engine::Engine;
use plexus_store::{
    AuditLine, Change, JsonText, MarkOutbox, OutboxEntry, Priority, Sending, Store, StoreError,
    Topic, UnixMillis,
};
use plexus_wire::GivenUp;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub(crate) use post::connect;
use post::{Attempt, post};
pub use receiver::Receiver;
pub(crate) use stats::HookStats;

/// Entries that are read at once. They are sent one after the other, so this bounds memory, not
/// speed.
const BATCH: usize = 16;

/// How long a receiver rests after its first failure; twice as long after each further one.
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// The longest rest between two attempts: a receiver that comes back is noticed within this time.
const LONGEST_RETRY: Duration = Duration::from_secs(300);

/// How much longer than the receiver's timeout this server holds a message, where servers share a
/// store. If the server dies meanwhile, another one sends the message after that time.
const BEGUN_FOR: Duration = Duration::from_secs(30);

/// How long to wait when the store cannot be asked.
const STORE_RETRY: Duration = Duration::from_secs(1);

/// The longest sleep between two looks: a clock that was set is noticed within this time.
const MAX_SLEEP: Duration = Duration::from_secs(60);

/// How much is kept of why an attempt failed.
const MAX_ERROR_CHARS: usize = 200;

/// Who is told. They can be changed while a server runs. Cheap to clone.
#[derive(Clone)]
pub struct Receivers {
    engine: Arc<Engine>,
    stats: Arc<HookStats>,
    now: watch::Sender<Arc<[Receiver]>>,
}

impl Receivers {
    pub(crate) fn new(engine: Arc<Engine>, receivers: Vec<Receiver>) -> Self {
        let new = Self { engine, stats: Arc::default(), now: watch::Sender::default() };
        new.set(receivers);
        new
    }

    /// Tells these receivers from now on, and no others. What still waits for others is given up.
    pub fn set(&self, receivers: Vec<Receiver>) {
        self.engine.set_hook_receivers(receivers.iter().map(Receiver::wants).collect());
        self.stats.count_for(&receivers);
        // Last: by now nothing more is put into the outbox for receivers that are gone.
        self.now.send_replace(receivers.into());
    }

    pub(crate) fn stats(&self) -> Arc<HookStats> {
        Arc::clone(&self.stats)
    }
}

/// Sends until the server stops.
pub(crate) struct Sender {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) receivers: Receivers,
}

impl Sender {
    /// Gives every receiver its task, anew whenever they change, and waits until all have noticed
    /// that the server stops.
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        let mut changes = self.receivers.now.subscribe();
        loop {
            let receivers = Arc::clone(&changes.borrow_and_update());
            self.drop_what_nobody_gets(&receivers).await;
            let (tasks, stop) = (TaskTracker::new(), shutdown.child_token());
            for receiver in receivers.iter().cloned() {
                let line = Line {
                    store: Arc::clone(&self.store),
                    engine: Arc::clone(&self.receivers.engine),
                    stats: self.receivers.stats(),
                    receiver,
                    failures: 0,
                };
                tasks.spawn(line.run(stop.clone()));
            }
            tasks.close();
            tokio::select! {
                // A message that is being sent is aborted and sent again: it may arrive twice, as
                // after a crash.
                _changed = changes.changed() => stop.cancel(),
                () = shutdown.cancelled() => {}
            }
            tasks.wait().await;
            if shutdown.is_cancelled() {
                return;
            }
        }
    }

    /// Drops what waits for receivers that are no longer configured, and notes it in the audit.
    async fn drop_what_nobody_gets(&self, receivers: &[Receiver]) {
        // Where servers share a store, the receiver may be configured at another server.
        if self.store.lease().is_some() {
            return;
        }
        let given_up = async {
            for waiting in self.store.outbox_waiting().await? {
                if receivers.iter().any(|receiver| receiver.name == waiting.target) {
                    continue;
                }
                loop {
                    let end = UnixMillis(i64::MAX);
                    let entries = self.store.outbox_due(&waiting.target, end, BATCH).await?.entries;
                    if entries.is_empty() {
                        break;
                    }
                    for entry in &entries {
                        let why = "its receiver is no longer configured";
                        self.store.commit(give_up(entry, why)?, Priority::Normal).await?;
                    }
                }
            }
            Ok::<_, StoreError>(())
        };
        if let Err(error) = given_up.await {
            tracing::warn!(%error, "could not look for messages to receivers that are gone");
        }
    }
}

/// What goes to one receiver.
struct Line {
    store: Arc<dyn Store>,
    engine: Arc<Engine>,
    stats: Arc<HookStats>,
    receiver: Receiver,
    /// How often in a row it could not be reached.
    failures: u32,
}

impl Line {
    async fn run(mut self, shutdown: CancellationToken) {
        let mut wake = self.store.watch(Topic::Outbox);
        loop {
            wake.seen();
            let look = tokio::select! {
                look = self.look() => look,
                () = shutdown.cancelled() => return,
            };
            let (sleep, resting) = match look {
                Ok(Look::Next(next)) => {
                    let until = next.map_or(MAX_SLEEP, |next| next.after(UnixMillis::now()));
                    (until.clamp(Duration::from_millis(1), MAX_SLEEP), false)
                }
                Ok(Look::Rest(rest)) => (rest, true),
                Err(error) => {
                    tracing::warn!(receiver = self.receiver.name, %error, "the outbox could not \
                        be used; trying again");
                    (STORE_RETRY, true)
                }
            };
            tokio::select! {
                () = tokio::time::sleep(sleep) => {}
                // New messages do not shorten the rest of a receiver that could not be reached.
                _ = wake.changed(), if !resting => {}
                () = shutdown.cancelled() => return,
            }
        }
    }

    /// Sends what is due. A message that is refused does not delay those after it; a receiver that
    /// cannot be reached is left alone.
    async fn look(&mut self) -> Result<Look, StoreError> {
        loop {
            let due = self.store.outbox_due(&self.receiver.name, UnixMillis::now(), BATCH).await?;
            if due.entries.is_empty() {
                return Ok(Look::Next(due.next));
            }
            for entry in &due.entries {
                if !self.begin(entry).await? {
                    continue;
                }
                let letter = self.engine.hook_letter(entry);
                let attempt = post(&self.receiver, entry, letter).await;
                let unreachable = matches!(attempt, Attempt::Unreachable(_));
                self.note(entry, attempt).await?;
                if unreachable {
                    self.failures = self.failures.saturating_add(1);
                    return Ok(Look::Rest(backoff(self.failures)));
                }
                self.failures = 0;
            }
        }
    }

    /// Claims the message for this server. Where others share the store, one of them may have been
    /// quicker.
    async fn begin(&self, entry: &OutboxEntry) -> Result<bool, StoreError> {
        if self.store.lease().is_none() {
            return Ok(true);
        }
        let until = UnixMillis::now().plus(self.receiver.timeout + BEGUN_FOR);
        let begun = mark(entry, Sending::Begun { due_at: entry.due_at, until });
        match self.store.commit(begun, Priority::Normal).await {
            Ok(_) => Ok(true),
            Err(StoreError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Stores the outcome of an attempt, and then counts it: a reader of the count finds the
    /// outcome in the store.
    async fn note(&self, entry: &OutboxEntry, attempt: Attempt) -> Result<(), StoreError> {
        let name = &self.receiver.name;
        match attempt {
            Attempt::Delivered => {
                self.commit(mark(entry, Sending::Sent)).await?;
                self.stats.delivered(name);
            }
            Attempt::Refused(why) | Attempt::Unreachable(why) => {
                let why: String = why.chars().take(MAX_ERROR_CHARS).collect();
                let now = UnixMillis::now();
                if now.after(entry.created_at) >= self.receiver.give_up_after {
                    tracing::error!(receiver = name, id = %entry.id, kind = entry.kind, why, "a message was given up");
                    self.commit(give_up(entry, &why)?).await?;
                    self.stats.given_up(name);
                } else {
                    tracing::warn!(receiver = name, id = %entry.id, kind = entry.kind, why, "a \
                        message could not be sent; trying again");
                    let retry_at = now.plus(backoff(entry.attempts.saturating_add(1)));
                    self.commit(mark(entry, Sending::Failed { retry_at, error: why })).await?;
                }
                self.stats.failed(name);
            }
        }
        Ok(())
    }

    async fn commit(&self, changes: Vec<Change>) -> Result<(), StoreError> {
        match self.store.commit(changes, Priority::Normal).await {
            // Somebody else has marked it; nothing is lost by that.
            Ok(_) | Err(StoreError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// What a look at the outbox says about the next one.
enum Look {
    /// When something is due, if anything is.
    Next(Option<UnixMillis>),
    /// The receiver could not be reached: not before this time.
    Rest(Duration),
}

fn mark(entry: &OutboxEntry, result: Sending) -> Vec<Change> {
    vec![Change::MarkOutbox(MarkOutbox { id: entry.id, result })]
}

/// A message that will never arrive: it goes, and the audit says so.
fn give_up(entry: &OutboxEntry, why: &str) -> Result<Vec<Change>, StoreError> {
    let given_up = GivenUp {
        id: entry.id,
        event: entry.kind.clone(),
        receiver: entry.target.clone(),
        attempts: entry.attempts.saturating_add(1),
        why: why.to_owned(),
    };
    let line = AuditLine {
        at: UnixMillis::now(),
        kind: "webhook.given_up".into(),
        session: None,
        body: JsonText::of(&given_up)?,
    };
    let mut changes = mark(entry, Sending::GivenUp);
    changes.push(Change::AppendAudit(line));
    Ok(changes)
}

/// How long to wait after the n-th failure.
fn backoff(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(16);
    FIRST_RETRY.saturating_mul(1 << doublings).min(LONGEST_RETRY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_double_up_to_the_longest() {
        let secs: Vec<u64> = [0, 1, 2, 3, 9, 10, 40, u32::MAX].map(|n| backoff(n).as_secs()).into();
        assert_eq!(secs, [1, 1, 2, 4, 256, 300, 300, 300]);
    }
}
