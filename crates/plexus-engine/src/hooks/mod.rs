//! Webhooks, up to the outbox: what is told, to whom, and the one-time token with which an answer
//! may come back.
//!
//! In reading order:
//! - this file: who wants to hear what. What can be told is `plexus_wire`'s ([`HookEvent`],
//!   [`HookBody`]). An entry goes into the outbox in the transaction of what it tells of
//!   ([`Hooks::tell`]); the server sends it.
//! - [`token`]: the one-time token of an approval. It is computed when it is needed and stored
//!   nowhere.
//! - [`answer`]: an answer that comes back with one.

mod answer;
mod token;

use std::sync::{Arc, PoisonError, RwLock};

use plexus_core::{SecretToken, SessionId};
use plexus_store::{
    ApprovalRecord, ApprovalStatus, Change, Ending, JsonText, OpenApproval, OutboxEntry, Owner,
    SessionRecord, StoreError, UnixMillis,
};
use plexus_wire::{
    AskedApproval, BareSession, ChatEnded, EndedSession, HookBody, HookEvent, HookMessage,
    HookRespond, ResolvedApproval, RiskLevel,
};
use uuid::Uuid;

pub use answer::HookAnswers;
use token::AnswerKey;
pub use token::shorten;

use crate::approvals::shown::{ApprovalViews, Effect, as_decision, working_dir};

/// A larger input is not sent: the receiver learns its size and where to look, and gets no token to
/// decide what it cannot see.
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
    /// Whether it may decide. If so, each message about a pending approval has a one-time token.
    pub answers: bool,
    /// The lowest risk of a permission request that it is told of; a request whose risk is not
    /// known is told.
    pub from_risk: Option<RiskLevel>,
    /// What it is, for the audit: `webhook`, `telegram`, …
    pub via: &'static str,
}

impl HookReceiver {
    /// Whether it wants to hear of this event.
    fn wants(&self, event: HookEvent) -> bool {
        self.events.is_empty() || self.events.contains(&event)
    }

    /// Whether what happened is grave enough for it.
    fn is_concerned(&self, body: &HookBody) -> bool {
        let HookBody::Asked { approval } = body else { return true };
        let known = approval.risk.as_ref().and_then(|risk| risk.known());
        match (self.from_risk, known) {
            (Some(least), Some(risk)) => risk.level >= least,
            (None, _) | (_, None) => true,
        }
    }
}

/// Everybody outside who is told.
pub struct Hooks {
    /// Changed while the server runs, when its configuration is read again.
    receivers: RwLock<Arc<[HookReceiver]>>,
    key: AnswerKey,
    pub(crate) views: ApprovalViews,
}

impl Hooks {
    /// Nobody yet, for a server whose operator holds `operator`.
    pub(crate) fn new(operator: &SecretToken, views: ApprovalViews) -> Self {
        Self { receivers: RwLock::default(), key: AnswerKey::of(operator), views }
    }

    /// Tells these from now on, and nobody else.
    pub(crate) fn set_receivers(&self, receivers: Vec<HookReceiver>) {
        *self.receivers.write().unwrap_or_else(PoisonError::into_inner) = receivers.into();
    }

    fn receivers(&self) -> Arc<[HookReceiver]> {
        Arc::clone(&self.receivers.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Makes the messages that tell of `event`, one for each receiver that wants to hear it. `told`
    /// is asked for only if there is one.
    fn tell(
        &self,
        event: HookEvent,
        told: impl FnOnce() -> Result<Told, StoreError>,
    ) -> Result<Vec<OutboxEntry>, StoreError> {
        self.entries(event, told, |_| Uuid::now_v7())
    }

    /// Like [`tell`](Self::tell), for something that a restarted server may notice a second time.
    /// The message id is computed from `what`, so the second message has the same id as the first.
    pub(crate) fn tell_once(
        &self,
        event: HookEvent,
        what: &str,
        body: impl FnOnce() -> HookBody,
    ) -> Result<Vec<OutboxEntry>, StoreError> {
        self.entries(
            event,
            || Ok(body().into()),
            |receiver| {
                Uuid::new_v5(&TOLD_ONCE, format!("{} {event} {what}", receiver.name).as_bytes())
            },
        )
    }

    fn entries(
        &self,
        event: HookEvent,
        told: impl FnOnce() -> Result<Told, StoreError>,
        id_for: impl Fn(&HookReceiver) -> Uuid,
    ) -> Result<Vec<OutboxEntry>, StoreError> {
        let receivers = self.receivers();
        let mut wanting = receivers.iter().filter(|it| it.wants(event)).peekable();
        if wanting.peek().is_none() {
            return Ok(Vec::new());
        }
        let now = UnixMillis::now();
        let Told { body, respond } = told()?;
        let entry = |receiver: &HookReceiver| {
            let id = id_for(receiver);
            let respond = respond.clone().filter(|_| receiver.answers);
            let message =
                HookMessage { id, event, created_at: now.into(), body: body.clone(), respond };
            Ok(OutboxEntry {
                id,
                kind: event.to_string(),
                target: receiver.name.clone(),
                body: JsonText::of(&message)?,
                created_at: now,
                due_at: now,
                attempts: 0,
                last_error: None,
            })
        };
        wanting.filter(|it| it.is_concerned(&body)).map(entry).collect()
    }

    /// Tells of a request that somebody has to decide.
    pub(crate) fn requested(
        &self,
        open: &OpenApproval,
        session: &SessionRecord,
    ) -> Result<Vec<OutboxEntry>, StoreError> {
        self.tell(HookEvent::ApprovalRequested, || {
            let Effect { target, risk, question, .. } =
                self.views.effect(session, &open.tool_name, &open.input)?;
            let approval = AskedApproval {
                id: open.id,
                session_id: open.session,
                session_name: session.name.clone(),
                tool_name: open.tool_name.clone(),
                tool_use_id: open.tool_use_id.clone(),
                input: Some(open.input.clone().into()),
                input_bytes: None,
                input_digest: open.input_digest.clone(),
                target,
                description: open.description.clone(),
                status: ApprovalStatus::Pending,
                created_at: open.at.into(),
                expires_at: open.deadline.map(Into::into),
                escalated_to: None,
                working_dir: working_dir(session),
                risk,
                question,
            };
            Ok(asking(approval, open.input.len(), open.deadline))
        })
    }

    /// Tells of a request that was passed on, or that somebody is reminded of.
    pub(crate) fn escalated(
        &self,
        record: &ApprovalRecord,
        session: &SessionRecord,
        to: Owner,
    ) -> Result<Vec<Change>, StoreError> {
        let told = self.tell(HookEvent::ApprovalEscalated, || {
            let shown = self.views.pending(record, session)?;
            let approval = AskedApproval {
                id: shown.id,
                session_id: shown.session_id,
                session_name: shown.session_name,
                tool_name: shown.tool_name,
                tool_use_id: shown.tool_use_id,
                input: Some(shown.input),
                input_bytes: None,
                input_digest: shown.input_digest,
                target: shown.target,
                description: shown.description,
                status: record.status,
                created_at: shown.created_at,
                expires_at: shown.expires_at,
                escalated_to: Some(to),
                working_dir: shown.working_dir,
                risk: shown.risk,
                question: shown.question,
            };
            Ok(asking(approval, record.input.len(), record.deadline))
        })?;
        Ok(told.into_iter().map(Change::Enqueue).collect())
    }

    /// Tells of a request that is settled. `record` is the approval after the decision, `receiver`
    /// whom its answer came through.
    pub(crate) fn resolved(
        &self,
        record: &ApprovalRecord,
        receiver: Option<String>,
    ) -> Result<Vec<OutboxEntry>, StoreError> {
        let event = match record.status {
            ApprovalStatus::Expired => HookEvent::ApprovalExpired,
            ApprovalStatus::Pending
            | ApprovalStatus::Allowed
            | ApprovalStatus::Denied
            | ApprovalStatus::Cancelled => HookEvent::ApprovalResolved,
        };
        self.tell(event, || {
            let approval = ResolvedApproval { receiver, ..as_decision(record).into() };
            Ok(HookBody::Resolved { approval }.into())
        })
    }

    /// Tells of a chat that has ended.
    pub fn chat_ended(
        &self,
        session: &SessionRecord,
        chat: u32,
        ending: &Ending,
        usage: Option<&JsonText>,
    ) -> Result<Vec<Change>, StoreError> {
        let error = match ending {
            Ending::Complete => None,
            Ending::Failed(reason) | Ending::Cancelled(reason) => Some(reason.clone()),
        };
        let told = self.tell(HookEvent::SessionEnded, || {
            let session =
                EndedSession { id: session.id, name: session.name.clone(), parent: session.parent };
            let (status, usage) = (ending.status(), usage.cloned().map(Into::into));
            Ok(HookBody::Ended(ChatEnded { session, chat, status, error, usage }).into())
        })?;
        Ok(told.into_iter().map(Change::Enqueue).collect())
    }

    /// Tells that a run did what nobody allowed.
    pub(crate) fn breach(&self, session: SessionId, what: &str) -> Result<Vec<Change>, StoreError> {
        let told = self.tell(HookEvent::Breach, || {
            let session = BareSession { id: session };
            Ok(HookBody::Breach { session, what: what.to_owned() }.into())
        })?;
        Ok(told.into_iter().map(Change::Enqueue).collect())
    }

    /// Writes a message as it is sent: what is in the outbox, with the token that is kept nowhere.
    /// Every attempt gives the same text.
    pub(crate) fn letter(&self, entry: &OutboxEntry, url: Option<&str>) -> String {
        // A message that cannot be read has no room for a token either, and is sent unchanged.
        self.message(entry, url)
            .and_then(|message| serde_json::to_string(&message).ok())
            .unwrap_or_else(|| entry.body.as_str().to_owned())
    }

    /// The same before it is written; nothing where another version wrote what we cannot read.
    pub(crate) fn message(&self, entry: &OutboxEntry, url: Option<&str>) -> Option<HookMessage> {
        let mut message = entry.body.read::<HookMessage>().ok()?;
        if let (HookBody::Asked { approval }, Some(respond)) =
            (&message.body, message.respond.as_mut())
        {
            let expires_at = UnixMillis(respond.expires_at.0);
            let digest = &approval.input_digest;
            let token = self.key.token(approval.id, expires_at, &entry.target, digest);
            respond.token = Some(token.expose().to_owned());
            let url = url.map(|url| url.trim_end_matches('/'));
            respond.url = url.map(|url| format!("{url}/hooks/respond"));
        }
        Some(message)
    }

    /// Says what a receiver of this name is, if it may decide.
    fn answers_via(&self, name: &str) -> Option<&'static str> {
        let receivers = self.receivers();
        let found = receivers.iter().find(|receiver| receiver.answers && receiver.name == name);
        found.map(|receiver| receiver.via)
    }

    /// Whether anybody may decide.
    fn somebody_may_answer(&self) -> bool {
        self.receivers().iter().any(|receiver| receiver.answers)
    }
}

/// What a message says, and whether it can be answered.
struct Told {
    body: HookBody,
    respond: Option<HookRespond>,
}

impl From<HookBody> for Told {
    fn from(body: HookBody) -> Self {
        Self { body, respond: None }
    }
}

/// The message about a pending request. It can be answered (`respond` is set) only if it holds the
/// whole input.
fn asking(approval: AskedApproval, input_bytes: usize, deadline: Option<UnixMillis>) -> Told {
    if input_bytes > MAX_TOLD_INPUT_BYTES {
        let input_bytes = Some(input_bytes as u64);
        return HookBody::Asked {
            approval: AskedApproval {
                input: None,
                target: None,
                question: None,
                input_bytes,
                ..approval
            },
        }
        .into();
    }
    let latest = UnixMillis::now().plus(ANSWER_WITHIN);
    let expires_at = deadline.map_or(latest, |deadline| deadline.min(latest)).into();
    let respond = Some(HookRespond { expires_at, token: None, url: None });
    Told { body: HookBody::Asked { approval }, respond }
}
