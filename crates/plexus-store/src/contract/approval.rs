//! Approvals: `pending → decided (allowed|denied|expired|cancelled) → delivered | void`. Every
//! change names the state it expects.
//!
//! Beside that goes whether the agent has a process while it waits: `parking → parked → waking →`
//! a process again. An approval is decided in any of these.

use plexus_core::{ApprovalId, SessionId};
pub use plexus_wire::{ApprovalStatus, DecidedBy, Owner};
use serde::Serialize;

use super::audit::OutboxEntry;
use super::event::NewEvent;
use super::json::JsonText;
use super::run::RunKey;
use super::time::UnixMillis;

/// A decision.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// The tool may run, with the input it asked for or with this one.
    Allow {
        /// The input as the decider edited it.
        updated_input: Option<JsonText>,
    },
    /// It may not.
    Deny,
    /// The deadline passed.
    Expire,
    /// The question went away.
    Cancel,
}

impl Verdict {
    /// Returns the status an approval has after it.
    #[must_use]
    pub fn status(&self) -> ApprovalStatus {
        match self {
            Self::Allow { .. } => ApprovalStatus::Allowed,
            Self::Deny => ApprovalStatus::Denied,
            Self::Expire => ApprovalStatus::Expired,
            Self::Cancel => ApprovalStatus::Cancelled,
        }
    }

    /// Returns the edited input, if the decider edited it.
    #[must_use]
    pub fn updated_input(&self) -> Option<&JsonText> {
        match self {
            Self::Allow { updated_input } => updated_input.as_ref(),
            Self::Deny | Self::Expire | Self::Cancel => None,
        }
    }
}

/// One permission request and its single decision.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct ApprovalRecord {
    /// Its id.
    pub id: ApprovalId,
    /// The session that asks.
    pub session: SessionId,
    /// The chat in which it asks, if there is one.
    pub chat: Option<u32>,
    /// The run that asks, if it is one of ours.
    pub run: Option<u32>,
    /// The channel that carries the answer: `control` or `mcp`.
    pub channel: String,
    /// The idempotency key: the CLI's `request_id`, or the `tool_use_id`.
    pub request_id: String,
    /// The tool.
    pub tool_name: String,
    /// The CLI's id of the tool call.
    pub tool_use_id: String,
    /// The tool's input, as it was asked for.
    pub input: JsonText,
    /// The digest of the input, to which the decision is bound.
    pub input_digest: String,
    /// The CLI's own description of the call.
    pub description: Option<String>,
    /// Why only a person may allow it; `None` where rules, modes and sessions may too.
    pub person_only: Option<String>,
    /// Rules the CLI or we suggest; an array.
    pub suggestions: JsonText,
    /// Who is asked now.
    pub owner: Owner,
    /// How often it was passed on.
    pub escalations: u32,
    /// Whether it waits, and how it was decided.
    pub status: ApprovalStatus,
    /// When it was asked.
    pub created_at: UnixMillis,
    /// When it expires; `None` for never.
    pub deadline: Option<UnixMillis>,
    /// When it is passed on next; `None` for never.
    pub escalate_at: Option<UnixMillis>,
    /// The decision.
    pub decision: Option<Decision>,
    /// When the child had the answer.
    pub delivered_at: Option<UnixMillis>,
    /// When the answer lost its meaning: the CLI withdrew first, or the run ended. A void answer is
    /// not sent again.
    pub void_at: Option<UnixMillis>,
    /// How the child deviated from the decision, if it did.
    pub breach: Option<String>,
    /// Whether the request's key is free again (the tool's result was seen).
    pub retired: bool,
    /// Where it is on the way to having no process and back; `None` while its agent has one.
    pub parking: Option<Parking>,
    /// What wakes it, from the time it was parked; an object.
    pub parked: Option<JsonText>,
    /// When an allow was about to be sent to a woken agent. From then on the call may have run.
    pub allow_sent_at: Option<UnixMillis>,
}

/// Where an approval is on the way to having no process and back.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Parking {
    /// The process is being ended. No answer is sent to it any more.
    Parking,
    /// There is no process.
    Parked,
    /// A process is being started that asks again.
    Waking,
}

/// Moves an approval one step towards having no process, or back. Each step begins in one state; an
/// approval in another state is a conflict that names the state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParkApproval {
    /// The approval.
    pub id: ApprovalId,
    /// The step.
    pub step: ParkStep,
}

/// Keeps the transcript of a parked agent with its chat, which must be open, in the place of an
/// earlier one. It goes when the chat ends. A takeover leaves an agent parked only where its
/// transcript is here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeepTranscript {
    /// The session.
    pub session: SessionId,
    /// The chat.
    pub chat: u32,
    /// The transcript, compressed; at most
    /// [`MAX_TRANSCRIPT_BYTES`](super::limits::MAX_TRANSCRIPT_BYTES).
    pub data: Vec<u8>,
}

/// A step of parking.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ParkStep {
    /// Pending, with a process → being parked. From here on no answer is sent to that process.
    Begin,
    /// Being parked → parked, with what wakes it; an object.
    Done(JsonText),
    /// Being parked → with a process: it is not ended after all.
    Stay,
    /// Parked and decided, in a chat that no server owns → in a chat of this server, with what
    /// wakes it here; an object. Of several servers that try, one does it.
    Adopt(JsonText),
    /// Parked and decided → being woken. Of several servers that try, one does it.
    Wake,
    /// Being woken → parked, with what wakes it the next time; an object.
    Again(JsonText),
    /// Being woken → with a process: this run has asked again, under this key. If the approval is
    /// allowed, the allow counts as sent from here on; if it was sent before, this is a conflict.
    Asked {
        /// The run.
        run: u32,
        /// The idempotency key of the new question.
        request_id: String,
        /// When.
        at: UnixMillis,
    },
    /// Parked or being woken → over: nothing wakes it any more.
    GiveUp,
}

/// The decision on an approval.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Decision {
    /// Who.
    pub by: DecidedBy,
    /// When.
    pub at: UnixMillis,
    /// Why, for the child and the audit.
    pub message: Option<String>,
    /// The input as the decider edited it.
    pub updated_input: Option<JsonText>,
}

/// Opens an approval, with its `awaiting_approval` event and, when the parent session has an open
/// chat, the `tool_request` event there.
///
/// Idempotent on the run (or session) and `request_id` until
/// [`Change::RetireApproval`](super::Change::RetireApproval): the same input digest returns the
/// record that stands, another one is a conflict that names it. More than
/// [`MAX_PENDING_PER_SESSION`](super::limits::MAX_PENDING_PER_SESSION) pending ones are `busy`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenApproval {
    /// Its id, made by the caller.
    pub id: ApprovalId,
    /// The session that asks.
    pub session: SessionId,
    /// The chat in which it asks.
    pub chat: Option<u32>,
    /// The run that asks.
    pub run: Option<u32>,
    /// `control` or `mcp`.
    pub channel: String,
    /// The idempotency key.
    pub request_id: String,
    /// The tool.
    pub tool_name: String,
    /// The CLI's id of the tool call.
    pub tool_use_id: String,
    /// The input.
    pub input: JsonText,
    /// Its digest ([`plexus_core::digest::input_digest`]).
    pub input_digest: String,
    /// The CLI's own description of the call.
    pub description: Option<String>,
    /// Why only a person may allow it; `None` where rules, modes and sessions may too.
    pub person_only: Option<String>,
    /// Suggested rules; an array.
    pub suggestions: JsonText,
    /// Who is asked.
    pub owner: Owner,
    /// When it is asked.
    pub at: UnixMillis,
    /// When it expires.
    pub deadline: Option<UnixMillis>,
    /// When it is passed on.
    pub escalate_at: Option<UnixMillis>,
    /// The `awaiting_approval` event, appended to `chat` while that is open.
    pub event: Option<NewEvent>,
    /// The `tool_request` event, appended to the open chat of the session's parent, if it has one.
    pub parent_event: Option<NewEvent>,
    /// Messages that go into the outbox if this change makes the approval; none when it was there.
    pub outbox: Vec<OutboxEntry>,
}

/// Whether the same decision again is fine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Again {
    /// It is, and changes nothing.
    #[default]
    Fine,
    /// It is a conflict: another decider made the decision that stands.
    Refused,
}

/// Decides an approval once.
///
/// Decided already with the same status and edit: the record that stands, unchanged
/// ([`Fresh::Found`](super::Fresh)), unless `again` refuses that. With another: a conflict that
/// names it. A digest other than the approval's is a conflict too: the decider saw another input.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DecideApproval {
    /// The approval.
    pub id: ApprovalId,
    /// The digest of the input that the decider saw, if it said so.
    pub expects_digest: Option<String>,
    /// The decision.
    pub verdict: Verdict,
    /// Who decides.
    pub by: DecidedBy,
    /// Why.
    pub message: Option<String>,
    /// When.
    pub at: UnixMillis,
    /// The `approval_resolved` event, appended to the approval's chat while that is open.
    pub event: Option<NewEvent>,
    /// Whether the same decision again is fine.
    pub again: Again,
    /// Messages that go into the outbox if this change decides it.
    pub outbox: Vec<OutboxEntry>,
}

/// Passes a pending approval on to somebody else. It must be pending, owned by `expects_owner`, and
/// have taken `expects_escalations` steps: of several servers that find the same step due, one
/// takes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EscalateApproval {
    /// The approval.
    pub id: ApprovalId,
    /// Who must own it.
    pub expects_owner: Owner,
    /// How often it must have been passed on or reminded of before.
    pub expects_escalations: u32,
    /// Who owns it from now on. The same owner again is a reminder.
    pub to: Owner,
    /// When it is passed on next.
    pub escalate_at: Option<UnixMillis>,
    /// A `notice` for the approval's chat, while that is open.
    pub event: Option<NewEvent>,
}

/// How the answer to a decided approval fared. It must be decided, and neither delivered nor void.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SettleApproval {
    /// The approval.
    pub id: ApprovalId,
    /// Whether the answer reached the child.
    pub fate: Fate,
    /// When.
    pub at: UnixMillis,
}

/// Whether an answer reached the child.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fate {
    /// The child has it.
    Delivered,
    /// It has lost its meaning.
    Void,
}

/// Which approvals a list shows. Everything that is set must hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ApprovalFilter {
    /// Pending or decided ones.
    pub stage: Stage,
    /// Of this session.
    pub session: Option<SessionId>,
    /// Of strict descendants of this session.
    pub under: Option<SessionId>,
    /// Owned by this one.
    pub owner: Option<Owner>,
    /// Asked by this run.
    pub run: Option<RunKey>,
    /// Asked then or earlier.
    pub asked_until: Option<UnixMillis>,
}

/// Which stage of approvals a list shows. Pending ones come oldest first, all others newest first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Stage {
    /// Every one.
    #[default]
    Any,
    /// Those that wait.
    Pending,
    /// Those that are decided.
    Decided,
    /// Decided, and neither delivered nor void: the answers to send after a restart. Oldest first.
    Undelivered,
    /// On the way to having no process or back, decided or not. Oldest first.
    Parked,
    /// Parked, and decided: what has to be woken. Oldest first.
    ToWake,
    /// Being woken. Oldest first.
    Waking,
}

/// Approvals that are due, for the timer that enforces deadlines.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Due {
    /// Pending approvals whose deadline has passed, oldest deadline first, at most a page.
    pub expired: Vec<ApprovalRecord>,
    /// Pending approvals that are to be passed on and have not expired.
    pub to_escalate: Vec<ApprovalRecord>,
    /// When something else becomes due; `None` when nothing will.
    pub next: Option<UnixMillis>,
}
