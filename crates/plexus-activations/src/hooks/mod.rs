//! Webhooks, up to the outbox: what is told, to whom, and the one-time token by which an answer may come back.
//!
//! In reading order:
//! - [`event`]: what can be told.
//! - this file: who wants to hear it. An entry goes into the outbox in the transaction of what it tells of ([`Hooks::tell`]); the server sends it.
//! - [`token`]: the one-time token of an approval. It is computed when it is needed and stored nowhere.
//! - [`answer`]: an answer that comes back with one.

mod answer;
mod event;
mod token;

use std::sync::{Arc, PoisonError, RwLock};

use plexus_core::{ApprovalId, SecretToken, SessionId};
use plexus_store::{
    ApprovalRecord, ApprovalStatus, Change, Ending, JsonText, OpenApproval, OutboxEntry, Session,
    UnixMillis,
};
use serde_json::{Value, json};
use uuid::Uuid;

pub use answer::HookAnswers;
pub use event::HookEvent;
use token::AnswerKey;

use crate::loopback::shown::{as_decision, as_pending};

/// Inputs larger than this are not told: the receiver learns how large it is and where to look, and gets no token for what it cannot see.
const MAX_TOLD_INPUT_BYTES: usize = 64 * 1024;

/// How long a token works when its approval has no deadline.
const ANSWER_WITHIN: std::time::Duration = std::time::Duration::from_secs(24 * 3_600);

/// The namespace of ids that must be the same when the same thing is told again.
const TOLD_ONCE: Uuid = Uuid::from_u128(0x4f0d_93b2_1c6e_5a58_8f37_20d4_7be1_9a6c);

/// Somebody outside who is told.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HookReceiver {
    /// Its name, which the outbox, the audit and the metrics show: letters, digits, `-` and `_`.
    pub name: String,
    /// What it wants to hear; nothing named is everything.
    pub events: Vec<HookEvent>,
    /// Whether it may decide: what it is told of a pending approval then holds a one-time token.
    pub answers: bool,
}

/// Everybody outside who is told.
pub(crate) struct Hooks {
    /// Changed while the server runs, when its configuration is read again.
    receivers: RwLock<Arc<[HookReceiver]>>,
    key: AnswerKey,
}

impl Hooks {
    /// Nobody yet, for a server whose operator holds `operator`.
    pub(crate) fn new(operator: &SecretToken) -> Self {
        Self { receivers: RwLock::default(), key: AnswerKey::of(operator) }
    }

    /// Tells these from now on, and nobody else.
    pub(crate) fn set_receivers(&self, receivers: Vec<HookReceiver>) {
        *self.receivers.write().unwrap_or_else(PoisonError::into_inner) = receivers.into();
    }

    fn receivers(&self) -> Arc<[HookReceiver]> {
        Arc::clone(&self.receivers.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes the messages that tell of `event`, one for each receiver that wants to hear it. `body` is asked for only if there is one.
    pub(crate) fn tell(&self, event: HookEvent, body: impl FnOnce() -> Value) -> Vec<OutboxEntry> {
        self.entries(event, body, |_| Uuid::now_v7())
    }

    /// The same for what may be noticed again after a restart: `what` names it, and the same again has the same id.
    pub(crate) fn tell_once(
        &self,
        event: HookEvent,
        what: &str,
        body: impl FnOnce() -> Value,
    ) -> Vec<OutboxEntry> {
        self.entries(event, body, |receiver| {
            Uuid::new_v5(&TOLD_ONCE, format!("{} {event} {what}", receiver.name).as_bytes())
        })
    }

    fn entries(
        &self,
        event: HookEvent,
        body: impl FnOnce() -> Value,
        id_for: impl Fn(&HookReceiver) -> Uuid,
    ) -> Vec<OutboxEntry> {
        let receivers = self.receivers();
        let mut wanting = receivers
            .iter()
            .filter(|it| it.events.is_empty() || it.events.contains(&event))
            .peekable();
        if wanting.peek().is_none() {
            return Vec::new();
        }
        let now = UnixMillis::now();
        let mut body = body();
        body["type"] = json!(event);
        body["created_at"] = json!(now.0);
        let entry = |receiver: &HookReceiver| {
            let id = id_for(receiver);
            let mut body = body.clone();
            body["id"] = json!(id);
            if !receiver.answers {
                drop(body.as_object_mut().and_then(|body| body.remove(RESPOND)));
            }
            OutboxEntry {
                id,
                kind: event.to_string(),
                target: receiver.name.clone(),
                body: JsonText::from(body),
                created_at: now,
                due_at: now,
                attempts: 0,
                last_error: None,
            }
        };
        wanting.map(entry).collect()
    }

    /// Tells of a request that somebody has to decide.
    pub(crate) fn requested(&self, open: &OpenApproval, session: &Session) -> Vec<OutboxEntry> {
        self.tell(HookEvent::ApprovalRequested, || {
            let approval = json!({
                "id": open.id, "session_id": open.session, "session_name": session.name,
                "tool_name": open.tool_name, "tool_use_id": open.tool_use_id,
                "input": open.input.to_value(), "input_digest": open.input_digest,
                "description": open.description, "status": ApprovalStatus::Pending,
                "created_at": open.at.as_secs(), "expires_at": open.deadline.map(UnixMillis::as_secs),
            });
            asking(approval, open.input.len(), open.deadline)
        })
    }

    /// Tells of a request that was passed on, or that somebody is reminded of.
    pub(crate) fn escalated(
        &self,
        record: &ApprovalRecord,
        session: &Session,
        to: &Value,
    ) -> Vec<Change> {
        let told = self.tell(HookEvent::ApprovalEscalated, || {
            let mut approval = as_pending(record, &session.name);
            approval["escalated_to"] = to.clone();
            asking(approval, record.input.len(), record.deadline)
        });
        told.into_iter().map(Change::Enqueue).collect()
    }

    /// Tells of a request that needs nobody any more. `record` shows how it stands after the decision.
    pub(crate) fn resolved(&self, record: &ApprovalRecord) -> Vec<OutboxEntry> {
        let event = match record.status {
            ApprovalStatus::Expired => HookEvent::ApprovalExpired,
            ApprovalStatus::Pending
            | ApprovalStatus::Allowed
            | ApprovalStatus::Denied
            | ApprovalStatus::Cancelled => HookEvent::ApprovalResolved,
        };
        self.tell(event, || {
            let mut approval = as_decision(record);
            if let Some(approval) = approval.as_object_mut() {
                // It was told when it was asked; here only what became of it.
                approval.remove("input");
                approval.remove("updated_input");
            }
            json!({ "approval": approval })
        })
    }

    /// Tells of a chat that has ended.
    pub(crate) fn chat_ended(
        &self,
        session: &Session,
        chat: u32,
        ending: &Ending,
        usage: Option<&JsonText>,
    ) -> Vec<Change> {
        let error = match ending {
            Ending::Complete => None,
            Ending::Failed(reason) | Ending::Cancelled(reason) => Some(reason),
        };
        let told = self.tell(HookEvent::SessionEnded, || {
            json!({
                "session": {"id": session.id, "name": session.name, "parent": session.parent}, "chat": chat,
                "status": ending.status(), "error": error, "usage": usage.map(JsonText::to_value),
            })
        });
        told.into_iter().map(Change::Enqueue).collect()
    }

    /// Tells that a run did what nobody allowed.
    pub(crate) fn breach(&self, session: SessionId, what: &str) -> Vec<Change> {
        let told =
            self.tell(HookEvent::Breach, || json!({"session": {"id": session}, "what": what}));
        told.into_iter().map(Change::Enqueue).collect()
    }

    /// Writes a message as it is sent: what is in the outbox, with the token that is kept nowhere. Every attempt gives the same text.
    pub(crate) fn letter(&self, entry: &OutboxEntry, url: Option<&str>) -> String {
        let mut body = entry.body.to_value();
        let approval = serde_json::from_value::<ApprovalId>(body["approval"]["id"].clone()).ok();
        let expires_at = body[RESPOND]["expires_at"].as_i64().map(UnixMillis);
        if let (Some(approval), Some(expires_at)) = (approval, expires_at) {
            let digest = body["approval"]["input_digest"].as_str().unwrap_or_default().to_owned();
            let token = self.key.token(approval, expires_at, &entry.target, &digest);
            body[RESPOND]["token"] = json!(token.expose());
            if let Some(url) = url {
                body[RESPOND]["url"] = json!(format!("{url}/hooks/respond"));
            }
        }
        body.to_string()
    }

    /// Says whether a receiver of this name may decide.
    fn may_answer(&self, name: &str) -> bool {
        self.receivers().iter().any(|receiver| receiver.answers && receiver.name == name)
    }

    /// Whether anybody may decide.
    fn somebody_may_answer(&self) -> bool {
        self.receivers().iter().any(|receiver| receiver.answers)
    }
}

/// Where a message says how to answer it.
const RESPOND: &str = "respond";

/// What is told of a request that waits, with room for an answer if the receiver can see what it is asked.
fn asking(mut approval: Value, input_bytes: usize, deadline: Option<UnixMillis>) -> Value {
    if let Some(approval) = approval.as_object_mut() {
        approval.remove("suggested_rules");
    }
    if input_bytes > MAX_TOLD_INPUT_BYTES {
        approval["input"] = Value::Null;
        approval["input_bytes"] = json!(input_bytes);
        return json!({ "approval": approval });
    }
    let latest = UnixMillis::now().plus(ANSWER_WITHIN);
    let expires_at = deadline.map_or(latest, |deadline| deadline.min(latest));
    json!({ "approval": approval, RESPOND: {"expires_at": expires_at.0} })
}
