//! What goes to one receiver: reads what is due, sends it, and notes what became of it.
//!
//! A webhook is sent each event by itself. Every other receiver is sent what is due as one message,
//! is left alone in its quiet hours, and is not told of requests that were decided meanwhile or of
//! which it is told something newer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use plexus_core::ApprovalId;
use plexus_engine::wait::STORE_RETRY;
use plexus_store::{
    ApprovalStatus, AuditLine, Change, JsonText, MarkOutbox, OutboxEntry, Priority, Sending, Store,
    StoreError, Topic, UnixMillis,
};
use plexus_wire::{GivenUp, HookBody, HookMessage, RiskLevel};
use tokio_util::sync::CancellationToken;

use crate::Receivers;
use crate::kinds::{Attempt, To, webhook};
use crate::message::{Frame, Message, names};
use crate::receiver::Receiver;

/// Entries that are read at once. They are sent one after the other, so this bounds memory, not
/// speed.
pub(crate) const BATCH: usize = 16;

/// How long a receiver rests after its first failure; twice as long after each further one.
const FIRST_RETRY: Duration = Duration::from_secs(1);

/// The longest rest between two attempts: a receiver that comes back is noticed within this time.
const LONGEST_RETRY: Duration = Duration::from_secs(300);

/// How much longer than the receiver's timeout this server holds a message, where servers share a
/// store. If the server dies meanwhile, another one sends the message after that time.
const BEGUN_FOR: Duration = Duration::from_secs(30);

/// The longest sleep between two looks: a clock that was set is noticed within this time.
const MAX_SLEEP: Duration = Duration::from_secs(60);

/// How much is kept of why an attempt failed.
const MAX_ERROR_CHARS: usize = 200;

/// What goes to one receiver.
pub(crate) struct Line {
    store: Arc<dyn Store>,
    receivers: Receivers,
    receiver: Receiver,
    /// How often in a row it could not be reached.
    failures: u32,
}

impl Line {
    pub(crate) fn new(store: Arc<dyn Store>, receivers: Receivers, receiver: Receiver) -> Self {
        Self { store, receivers, receiver, failures: 0 }
    }

    pub(crate) async fn run(mut self, shutdown: CancellationToken) {
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
    ///
    /// A message is given up when it is too old and was tried in vain. An attempt that does not
    /// reach the receiver speaks for everything that is due: a receiver that stays away is tried a
    /// few hundred times a day, and the outbox must not grow by all the rest.
    async fn look(&mut self) -> Result<Look, StoreError> {
        loop {
            let due = self.store.outbox_due(&self.receiver.name, UnixMillis::now(), BATCH).await?;
            if due.entries.is_empty() {
                return Ok(Look::Next(due.next));
            }
            let now = UnixMillis::now();
            // What was never tried is sent whatever its age: quiet hours put it off, or this server
            // did not run.
            let (old, due): (Vec<_>, Vec<_>) = due
                .entries
                .into_iter()
                .partition(|entry| entry.attempts > 0 && self.is_too_old(entry, now));
            self.give_up(&old, None).await?;
            let due = self.newest_of_each(due).await?;
            let at_once = if self.receiver.burst.is_zero() { 1 } else { BATCH };
            for due in due.chunks(at_once) {
                let mut entries = Vec::with_capacity(due.len());
                for entry in due {
                    if self.is_for_now(entry).await? && self.begin(entry).await? {
                        entries.push(entry.clone());
                    }
                }
                if entries.is_empty() {
                    continue;
                }
                plexus_fault::point!("hook.send.before");
                let attempt = self.send(&entries).await;
                plexus_fault::point!("hook.taken", when matches!(attempt, Attempt::Delivered));
                let unreachable = match &attempt {
                    Attempt::Unreachable(why) => Some(cut(why)),
                    Attempt::Delivered | Attempt::Refused(_) => None,
                };
                self.note(&entries, attempt).await?;
                plexus_fault::point!("hook.noted");
                if let Some(why) = unreachable {
                    self.give_up_what_is_old(&why).await?;
                    self.failures = self.failures.saturating_add(1);
                    return Ok(Look::Rest(backoff(self.failures)));
                }
                self.failures = 0;
                if !self.receiver.burst.is_zero() {
                    // What comes meanwhile goes together in the next message.
                    return Ok(Look::Rest(self.receiver.burst));
                }
            }
        }
    }

    /// Drops each message about a request of which a newer one is due too. An outage or a night
    /// leaves many reminders of one request, and a message of Slack must not have two blocks about
    /// it.
    async fn newest_of_each(&self, due: Vec<OutboxEntry>) -> Result<Vec<OutboxEntry>, StoreError> {
        if let To::Webhook(_) = self.receiver.to {
            return Ok(due);
        }
        let mut kept: Vec<OutboxEntry> = Vec::with_capacity(due.len());
        let mut places: HashMap<ApprovalId, usize> = HashMap::new();
        for entry in due {
            let place = asks_about(&entry).map(|id| *places.entry(id).or_insert(kept.len()));
            let known = place.and_then(|place| kept.get_mut(place));
            let older = match known {
                None => {
                    kept.push(entry);
                    continue;
                }
                Some(known) if entry.created_at < known.created_at => entry,
                Some(known) => std::mem::replace(known, entry),
            };
            self.commit(mark(&older, Sending::Sent)).await?;
        }
        Ok(kept)
    }

    /// Sends these as one message.
    async fn send(&self, entries: &[OutboxEntry]) -> Attempt {
        let (engine, public_url) = (&self.receivers.engine, self.receivers.public_url());
        if let (To::Webhook(to), [entry]) = (&self.receiver.to, entries) {
            let letter = engine.hook_letter(entry, public_url);
            return webhook::send(&self.receiver, to, entry, letter).await;
        }
        let events: Vec<HookMessage> =
            entries.iter().filter_map(|entry| engine.hook_message(entry, public_url)).collect();
        let names = match names(&*self.store, &events).await {
            Ok(names) => names,
            Err(problem) => return Attempt::Unreachable(problem.to_string()),
        };
        let (detail, to) = (self.receiver.detail, &self.receiver.to);
        let frame = Frame { detail, to, names: &names, public_url };
        if let To::Webpush(_) = self.receiver.to
            && let Err(problem) = self.receivers.forget_revoked(&*self.store).await
        {
            return Attempt::Unreachable(problem);
        }
        match Message::about(events, frame) {
            Some(message) => {
                let (to, within) = (&self.receiver.to, self.receiver.timeout);
                to.send(&message, within, &self.receivers.push).await
            }
            None => Attempt::Refused("another version wrote it, and it cannot be read".into()),
        }
    }

    /// Says whether a message is to be sent now. A message about a request that was decided
    /// meanwhile is dropped, and a message in quiet hours waits for their end.
    async fn is_for_now(&self, entry: &OutboxEntry) -> Result<bool, StoreError> {
        if let To::Webhook(_) = self.receiver.to {
            return Ok(true);
        }
        let message: Option<HookMessage> = entry.body.read().ok();
        let mut level = None;
        if let Some(HookBody::Asked { approval }) = message.as_ref().map(|it| &it.body) {
            level = approval.risk.as_ref().and_then(|it| it.known()).map(|risk| risk.level);
            let waits = match self.store.approval(approval.id).await {
                Ok(record) => record.status == ApprovalStatus::Pending,
                Err(StoreError::NotFound { .. }) => false,
                Err(error) => return Err(error),
            };
            if !waits {
                self.commit(mark(entry, Sending::Sent)).await?;
                return Ok(false);
            }
        }
        if let Some(HookBody::Breach { .. }) = message.as_ref().map(|it| &it.body) {
            level = Some(RiskLevel::Critical);
        }
        let quiet = self.receiver.quiet.as_ref();
        let Some(until) = quiet.and_then(|quiet| quiet.until(UnixMillis::by_the_machine(), level))
        else {
            return Ok(true);
        };
        // This is how a message is put off without counting as a failure.
        self.commit(mark(entry, Sending::Begun { due_at: entry.due_at, until })).await?;
        Ok(false)
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
    async fn note(&self, entries: &[OutboxEntry], attempt: Attempt) -> Result<(), StoreError> {
        let (name, stats) = (&self.receiver.name, &self.receivers.stats);
        let why: String = match attempt {
            Attempt::Delivered => {
                for entry in entries {
                    self.commit(mark(entry, Sending::Sent)).await?;
                    stats.delivered(name);
                }
                return Ok(());
            }
            Attempt::Refused(why) | Attempt::Unreachable(why) => cut(&why),
        };
        for entry in entries {
            let now = UnixMillis::now();
            if self.is_too_old(entry, now) {
                let attempts = entry.attempts.saturating_add(1);
                self.give_up(&[OutboxEntry { attempts, ..entry.clone() }], Some(&why)).await?;
            } else {
                tracing::warn!(receiver = name, id = %entry.id, kind = entry.kind, why, "a \
                    message could not be sent; trying again");
                let retry_at = now.plus(backoff(entry.attempts.saturating_add(1)));
                let failed = Sending::Failed { retry_at, error: why.clone() };
                self.commit(mark(entry, failed)).await?;
            }
            stats.failed(name, &why);
        }
        Ok(())
    }

    fn is_too_old(&self, entry: &OutboxEntry, now: UnixMillis) -> bool {
        now.after(entry.created_at) >= self.receiver.give_up_after
    }

    /// Gives up everything that is due and too old, a batch at a time. Call it only when the
    /// receiver could not be reached.
    async fn give_up_what_is_old(&self, why: &str) -> Result<(), StoreError> {
        loop {
            let now = UnixMillis::now();
            let due = self.store.outbox_due(&self.receiver.name, now, BATCH).await?;
            let mut old = due.entries;
            old.retain(|entry| self.is_too_old(entry, now));
            // No entry is due before it was made, and what is due first comes first. So an old
            // one that follows a whole page of young ones was tried not long ago; its turn comes.
            if old.is_empty() {
                return Ok(());
            }
            self.give_up(&old, Some(why)).await?;
        }
    }

    /// Gives these messages up, for this reason or else each for its own last failure.
    async fn give_up(&self, entries: &[OutboxEntry], why: Option<&str>) -> Result<(), StoreError> {
        let name = &self.receiver.name;
        let each = entries.iter().map(async |entry| {
            let why = why.or(entry.last_error.as_deref()).unwrap_or_default();
            tracing::error!(receiver = name, id = %entry.id, kind = entry.kind, why, "a message was given up");
            self.commit(give_up(entry, why)?).await?;
            self.receivers.stats.given_up(name);
            Ok(())
        });
        // Each is a commit of its own, because another server may have marked one of them. Together
        // they wait for the disk once.
        futures::future::try_join_all(each).await?;
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

/// The request that a message asks somebody to decide.
fn asks_about(entry: &OutboxEntry) -> Option<ApprovalId> {
    let message: HookMessage = entry.body.read().ok()?;
    match message.body {
        HookBody::Asked { approval } => Some(approval.id),
        HookBody::Resolved { .. }
        | HookBody::Ended(_)
        | HookBody::Budget(_)
        | HookBody::Breach { .. } => None,
    }
}

fn mark(entry: &OutboxEntry, result: Sending) -> Vec<Change> {
    vec![Change::MarkOutbox(MarkOutbox { id: entry.id, result })]
}

/// A message that will never arrive: it goes, and the audit says so.
pub(crate) fn give_up(entry: &OutboxEntry, why: &str) -> Result<Vec<Change>, StoreError> {
    let given_up = GivenUp {
        id: entry.id,
        event: entry.kind.clone(),
        receiver: entry.target.clone(),
        attempts: entry.attempts,
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

/// Why an attempt failed, as it is kept.
fn cut(why: &str) -> String {
    why.chars().take(MAX_ERROR_CHARS).collect()
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
