//! Expiry, reminders and escalation. Times are stored, so they keep counting while no server runs, and are enforced as soon as one does.

use std::sync::Arc;
use std::time::Duration;

use plexus_store::{
    ApprovalRecord, Change, DecidedBy, EscalateApproval, Owner, Priority, Store, StoreError, Topic, UnixMillis, Verdict,
};
use tokio_util::sync::CancellationToken;

use super::approvals::{Approvals, REMIND_EVERY};
use crate::claudecode::config::SessionConfig;
use crate::claudecode::event::ChatEvent;

/// The longest sleep between two looks: a clock that was set forward is noticed within this time.
const MAX_SLEEP: Duration = Duration::from_secs(60);

/// How long to wait before the store is asked again when it cannot be read.
const STORE_RETRY: Duration = Duration::from_secs(1);

/// Enforces deadlines until the server stops.
pub(crate) async fn enforce(approvals: Arc<Approvals>, shutdown: CancellationToken) {
    let mut wake = approvals.store.watch(Topic::Pending);
    loop {
        wake.seen();
        let sleep = match look(&approvals).await {
            Ok(next) => {
                next.map_or(MAX_SLEEP, |next| next.after(UnixMillis::now()).clamp(Duration::from_millis(1), MAX_SLEEP))
            }
            Err(error) => {
                tracing::warn!(%error, "deadlines could not be looked at; trying again");
                STORE_RETRY
            }
        };
        tokio::select! {
            () = tokio::time::sleep(sleep) => {}
            _ = wake.changed() => {}
            () = shutdown.cancelled() => return,
        }
    }
}

/// Does everything that is due, and says when something will be again.
async fn look(approvals: &Approvals) -> Result<Option<UnixMillis>, StoreError> {
    let due = approvals.store.due(UnixMillis::now()).await?;
    for record in &due.expired {
        let secs = record.deadline.map_or(0, |deadline| deadline.as_secs() - record.created_at.as_secs());
        let message = format!("denied: nobody answered within {secs} s");
        approvals.settle_by_itself(record, Verdict::Expire, DecidedBy::Deadline, &message).await?;
    }
    for record in &due.to_escalate {
        escalate(approvals, record).await?;
    }
    Ok(if due.expired.is_empty() && due.to_escalate.is_empty() { due.next } else { Some(UnixMillis::now()) })
}

/// Passes a request on to the parent of whoever did not answer; at the top it becomes a reminder. The first answer wins, whoever gives it.
async fn escalate(approvals: &Approvals, record: &ApprovalRecord) -> Result<(), StoreError> {
    let store: &dyn Store = &*approvals.store;
    let to = match record.owner {
        Owner::Operator => Owner::Operator,
        Owner::Session(id) => store.session(id).await?.parent.map_or(Owner::Operator, Owner::Session),
    };
    let session = store.session(record.session).await?;
    let config = SessionConfig::of(&session)?;
    let every = config.escalate_after_secs.map_or(REMIND_EVERY, Duration::from_secs).max(Duration::from_secs(1));
    let now = UnixMillis::now();
    let left = record.deadline.map(|deadline| deadline.after(now));
    // A last reminder shortly before the end; behind the deadline there is nothing to remind of.
    let next = match left {
        Some(left) if left > every => Some(now.plus(every)),
        Some(_) => None,
        None => Some(now.plus(every)),
    };
    let whom = match to {
        Owner::Operator => "the operator".to_owned(),
        Owner::Session(id) => format!("session {id}"),
    };
    let expiry = left.map_or_else(String::new, |left| format!("; it is denied in {} s", left.as_secs()));
    let words = if to == record.owner {
        format!("still waiting for {whom} to decide about {}{expiry}", record.tool_name)
    } else {
        format!("nobody answered about {}; passed on to {whom}{expiry}", record.tool_name)
    };
    let event = record.chat.is_some().then(|| ChatEvent::notice(words).to_new_event()).transpose()?;
    let change = Change::EscalateApproval(EscalateApproval {
        id: record.id,
        expects_owner: record.owner,
        to,
        escalate_at: next,
        event,
    });
    match store.commit(vec![change], Priority::Urgent).await {
        Ok(_) | Err(StoreError::Conflict { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
