//! Expiry, reminders, escalation, and requests that a new rule covers. Deadlines are stored as
//! absolute times, so they pass even while no server runs, and are enforced as soon as one does.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use plexus_core::ApprovalId;
use plexus_store::{
    AppendEvents, ApprovalRecord, Change, DecidedBy, EscalateApproval, Owner, Priority,
    SessionRecord, Store, StoreError, Topic, UnixMillis, Verdict,
};
use plexus_wire::ChatEvent;
use tokio_util::sync::CancellationToken;

use super::rejudge::{LOOK_EVERY, Rejudge};
use super::{Approvals, REMIND_EVERY};
use crate::authority::Deed;
use crate::event::ToNewEvent;
use crate::session::SessionConfig;
use crate::tools::ToolReader;
use crate::wait::STORE_RETRY;

/// The longest sleep between two checks: a clock that was set forward is noticed within this time.
const MAX_SLEEP: Duration = Duration::from_secs(60);

/// The shortest time between two reminders that a deadline is near.
const MIN_REMINDER: Duration = Duration::from_secs(15);

/// How long after a rule is added a request may still be stored that was judged without it: far
/// longer than a commit takes.
const LATECOMERS: Duration = Duration::from_secs(60);

/// How long questions gather before they are looked at: a deadline is seconds away, and an agent
/// that asks often would otherwise have the store read twice for each of its questions.
const GATHER: Duration = Duration::from_millis(50);

/// Enforces deadlines until the server stops.
pub(crate) async fn enforce(approvals: Arc<Approvals>, shutdown: CancellationToken) {
    let mut wake = approvals.store.watch(Topic::Pending);
    let mut latecomers = Latecomers::default();
    let mut rejudge = Rejudge::default();
    loop {
        wake.seen();
        let shared = approvals.store.lease().is_some();
        if shared && let Err(error) = rejudge.look(&approvals).await {
            tracing::warn!(%error, "what waits could not be judged again; trying again");
        }
        let sleep = match look(&approvals, &mut latecomers).await {
            Ok(next) => next.map_or(MAX_SLEEP, |next| {
                next.after(UnixMillis::now()).clamp(Duration::from_millis(1), MAX_SLEEP)
            }),
            Err(error) => {
                tracing::warn!(%error, "deadlines could not be looked at; trying again");
                STORE_RETRY
            }
        };
        let sleep = if shared { sleep.min(LOOK_EVERY) } else { sleep };
        tokio::select! {
            () = tokio::time::sleep(sleep) => {}
            _ = wake.changed() => gather(&shutdown).await,
            () = approvals.rulebook.wider() => {}
            () = shutdown.cancelled() => return,
        }
    }
}

async fn gather(shutdown: &CancellationToken) {
    tokio::select! {
        () = tokio::time::sleep(GATHER) => {}
        () = shutdown.cancelled() => {}
    }
}

/// Does everything that is due, and returns when something is due next. A failure for one request
/// does not stop the others.
async fn look(
    approvals: &Approvals,
    latecomers: &mut Latecomers,
) -> Result<Option<UnixMillis>, StoreError> {
    // No deadline waits for what rules could answer.
    let released = latecomers.release(approvals).await;
    if let Err(error) = &released {
        tracing::warn!(%error, "what a new rule covers could not be judged; trying again");
    }
    let due = approvals.store.due(UnixMillis::now()).await?;
    let mut failed = false;
    for record in &due.expired {
        let secs =
            record.deadline.map_or(0, |deadline| deadline.as_secs() - record.created_at.as_secs());
        let message = format!("denied: nobody answered within {secs} s");
        let settled = approvals
            .settle_by_itself(record, Verdict::Expire, DecidedBy::Deadline, &message)
            .await;
        failed |= noted(record, settled);
    }
    for record in &due.to_escalate {
        let escalated = escalate(approvals, record).await;
        failed |= noted(record, escalated);
    }
    let again = UnixMillis::now().plus(STORE_RETRY);
    Ok(match (due.expired.is_empty() && due.to_escalate.is_empty(), failed) {
        (true, _) if released.is_err() => Some(due.next.map_or(again, |next| next.min(again))),
        (true, _) => due.next,
        (false, false) => Some(UnixMillis::now()),
        (false, true) => Some(again),
    })
}

/// Logs the error if there is one, and returns whether there was.
fn noted(record: &ApprovalRecord, result: Result<(), StoreError>) -> bool {
    if let Err(error) = &result {
        tracing::warn!(approval = %record.id, %error, "what was due could not be done; trying \
            again");
    }
    result.is_err()
}

/// Requests that were judged by older rules but stored after a new rule had released what it
/// covers. They are judged again, so that nobody is asked a question that a rule answers.
#[derive(Default)]
struct Latecomers {
    /// The change of the rules that `judged` is about.
    since: Option<UnixMillis>,
    judged: HashSet<ApprovalId>,
}

impl Latecomers {
    async fn release(&mut self, approvals: &Approvals) -> Result<(), StoreError> {
        let Some(widened) = approvals.rulebook.widened_at() else { return Ok(()) };
        if widened.plus(LATECOMERS) < UnixMillis::now() {
            self.judged = HashSet::new();
            return Ok(());
        }
        if self.since != Some(widened) {
            (self.since, self.judged) = (Some(widened), HashSet::new());
        }
        // A request reads the clock before it reads the rules, so a request younger than the change
        // has seen it. Those are not even fetched: this runs with every question for a while after
        // a change and after a start, and thousands may wait.
        let wanted = |record: &ApprovalRecord| self.judged.insert(record.id);
        let released = approvals.release(None, Some(widened), wanted).await;
        if released.is_err() {
            // Those that were to be judged are judged at the next look.
            self.since = None;
        }
        released.map(drop)
    }
}

/// Passes a request on to the next owner above the one who did not answer; at the top it becomes a
/// reminder. The first answer wins, no matter who gives it.
async fn escalate(approvals: &Approvals, record: &ApprovalRecord) -> Result<(), StoreError> {
    let store: &dyn Store = &*approvals.store;
    let session = match store.session(record.session).await {
        Ok(session) => session,
        // The session was deleted meanwhile, and its requests with it.
        Err(StoreError::NotFound { .. }) => return Ok(()),
        Err(error) => return Err(error),
    };
    let config = SessionConfig::of(&session)?;
    let to = match record.owner {
        Owner::Operator => Owner::Operator,
        Owner::Session(id) => {
            let input = record.input.read()?;
            let tool = approvals.views.tools.read(&config, &record.tool_name, &input);
            let deed = Deed::of(record, &config, &tool);
            approvals.authority.above(id, &deed).await?
        }
    };
    let now = UnixMillis::now();
    let left = record.deadline.map(|deadline| deadline.after(now));
    let whom = match to {
        Owner::Operator => "the operator".to_owned(),
        Owner::Session(id) => format!("session {id}"),
    };
    let expiry =
        left.map_or_else(String::new, |left| format!("; it is denied in {} s", whole_secs(left)));
    let words = if to == record.owner {
        format!("still waiting for {whom} to decide about {}{expiry}", record.tool_name)
    } else {
        format!("nobody answered about {}; passed on to {whom}{expiry}", record.tool_name)
    };
    let change = Change::EscalateApproval(EscalateApproval {
        id: record.id,
        expects_owner: record.owner,
        // A reminder does not change the owner. Without this, every server that found it due would
        // remind.
        expects_escalations: record.escalations,
        to,
        escalate_at: next_step(&config, to, left).map(|step| now.plus(step)),
        event: record
            .chat
            .is_some()
            .then(|| ChatEvent::notice(words).to_new_event())
            .transpose()?,
    });
    let mut passed_on = vec![change];
    passed_on.extend(approvals.hooks.escalated(record, &session, to)?);
    let mut changes = passed_on.clone();
    changes.extend(told_to(store, to, record, &session, &approvals.views.tools).await?);
    match store.commit(changes, Priority::Urgent).await {
        Ok(_) => Ok(()),
        // The request was decided meanwhile; or the chat of the new owner has just ended, and its
        // next chat need not hear of it; or another server runs that chat, and `pending` and `wait`
        // show it.
        Err(StoreError::Conflict { .. } | StoreError::Fenced { .. }) => {
            match store.commit(passed_on, Priority::Urgent).await {
                Ok(_) | Err(StoreError::Conflict { .. } | StoreError::NotFound { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        }
        Err(error) => Err(error),
    }
}

/// Rounds up to whole seconds, at least one: the time left is never shown as zero.
fn whole_secs(left: Duration) -> u128 {
    left.as_millis().div_ceil(1_000).max(1)
}

/// Returns when the next step is due: as the session asked, or at half of the time left, so that
/// everybody above hears of it before it expires.
fn next_step(config: &SessionConfig, to: Owner, left: Option<Duration>) -> Option<Duration> {
    let asked = config.escalate_after_secs.map(|secs| Duration::from_secs(secs.max(1)));
    match (asked, left) {
        (asked, None) => Some(asked.unwrap_or(REMIND_EVERY)),
        (Some(asked), Some(left)) if asked < left => Some(asked),
        (_, Some(left)) => match to {
            Owner::Session(_) => Some(left / 2),
            // The last reminder comes shortly before the deadline; after it there is nothing to
            // remind of.
            Owner::Operator => Some(left / 2).filter(|step| *step >= MIN_REMINDER),
        },
    }
}

/// Builds the `tool_request` event in the open chat of the session that now owns the request.
async fn told_to(
    store: &dyn Store,
    to: Owner,
    record: &ApprovalRecord,
    asker: &SessionRecord,
    tools: &ToolReader,
) -> Result<Option<Change>, StoreError> {
    let Owner::Session(id) = to else { return Ok(None) };
    if to == record.owner {
        return Ok(None);
    }
    let Some(chat) = store.session(id).await?.open_chat() else { return Ok(None) };
    let question = match SessionConfig::of(asker) {
        Ok(config) => tools.question(&config, &record.tool_name, &record.input.read()?),
        Err(_) => None,
    };
    let event = ChatEvent::ToolRequest {
        approval_id: record.id,
        session_id: record.session,
        session_name: asker.name.clone(),
        tool_name: record.tool_name.clone(),
        tool_use_id: record.tool_use_id.clone(),
        input: record.input.clone().into(),
        question: question.map(Box::new),
        person_only: record.person_only.clone(),
    };
    Ok(Some(Change::AppendEvents(AppendEvents {
        session: id,
        chat,
        events: vec![event.to_new_event()?],
    })))
}

#[cfg(test)]
mod tests;
