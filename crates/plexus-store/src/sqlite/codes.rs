//! The numbers that stand for our enums and amounts in the tables. They never change; a new variant takes a new number.

use plexus_core::{Caller, RuleId, SessionId};
use rusqlite::types::Type;
use uuid::Uuid;

use super::sql::int;
use crate::contract::{
    ApprovalStatus, ChatStatus, DecidedBy, NodeData, Owner, RuleDecision, RuleScope, ServerState,
    Spend,
};

/// The error for a number that stands for nothing: somebody else wrote this file.
fn unknown(column: usize, what: &str, code: i64) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(
        column,
        Type::Integer,
        format!("{code} is no {what}").into(),
    )
}

pub(crate) fn chat_status_code(status: ChatStatus) -> i64 {
    match status {
        ChatStatus::Running => 0,
        ChatStatus::Complete => 1,
        ChatStatus::Failed => 2,
        ChatStatus::Cancelled => 3,
    }
}

pub(crate) fn chat_status(column: usize, code: i64) -> rusqlite::Result<ChatStatus> {
    match code {
        0 => Ok(ChatStatus::Running),
        1 => Ok(ChatStatus::Complete),
        2 => Ok(ChatStatus::Failed),
        3 => Ok(ChatStatus::Cancelled),
        _ => Err(unknown(column, "chat status", code)),
    }
}

pub(crate) fn approval_status_code(status: ApprovalStatus) -> i64 {
    match status {
        ApprovalStatus::Pending => 0,
        ApprovalStatus::Allowed => 1,
        ApprovalStatus::Denied => 2,
        ApprovalStatus::Expired => 3,
        ApprovalStatus::Cancelled => 4,
    }
}

pub(crate) fn approval_status(column: usize, code: i64) -> rusqlite::Result<ApprovalStatus> {
    match code {
        0 => Ok(ApprovalStatus::Pending),
        1 => Ok(ApprovalStatus::Allowed),
        2 => Ok(ApprovalStatus::Denied),
        3 => Ok(ApprovalStatus::Expired),
        4 => Ok(ApprovalStatus::Cancelled),
        _ => Err(unknown(column, "approval status", code)),
    }
}

pub(crate) fn decided_by_code(by: DecidedBy) -> (i64, Option<[u8; 16]>) {
    match by {
        DecidedBy::Operator => (0, None),
        DecidedBy::Session(id) => (1, Some(*id.as_uuid().as_bytes())),
        DecidedBy::Rule(id) => (2, Some(*id.as_uuid().as_bytes())),
        DecidedBy::Deadline => (3, None),
        DecidedBy::AgentEnded => (4, None),
        DecidedBy::Webhook => (5, None),
    }
}

pub(crate) fn decided_by(
    column: usize,
    code: i64,
    reference: Option<Uuid>,
) -> rusqlite::Result<DecidedBy> {
    match (code, reference) {
        (0, _) => Ok(DecidedBy::Operator),
        (1, Some(id)) => Ok(DecidedBy::Session(SessionId::from_uuid(id))),
        (2, Some(id)) => Ok(DecidedBy::Rule(RuleId::from_uuid(id))),
        (3, _) => Ok(DecidedBy::Deadline),
        (4, _) => Ok(DecidedBy::AgentEnded),
        (5, _) => Ok(DecidedBy::Webhook),
        _ => Err(unknown(column, "decider", code)),
    }
}

pub(crate) fn owner_blob(owner: Owner) -> Option<[u8; 16]> {
    match owner {
        Owner::Operator => None,
        Owner::Session(id) => Some(*id.as_uuid().as_bytes()),
    }
}

pub(crate) fn owner(session: Option<Uuid>) -> Owner {
    session.map_or(Owner::Operator, |id| Owner::Session(SessionId::from_uuid(id)))
}

pub(crate) fn rule_decision_code(decision: RuleDecision) -> i64 {
    match decision {
        RuleDecision::Allow => 0,
        RuleDecision::Deny => 1,
        RuleDecision::Ask => 2,
    }
}

pub(crate) fn rule_decision(column: usize, code: i64) -> rusqlite::Result<RuleDecision> {
    match code {
        0 => Ok(RuleDecision::Allow),
        1 => Ok(RuleDecision::Deny),
        2 => Ok(RuleDecision::Ask),
        _ => Err(unknown(column, "rule decision", code)),
    }
}

pub(crate) fn rule_scope_code(scope: RuleScope) -> (i64, Option<[u8; 16]>) {
    let session = scope.session().map(|id| *id.as_uuid().as_bytes());
    match scope {
        RuleScope::Session(_) => (0, session),
        RuleScope::Subtree(_) => (1, session),
        RuleScope::All => (2, session),
    }
}

pub(crate) fn rule_scope(
    column: usize,
    code: i64,
    session: Option<Uuid>,
) -> rusqlite::Result<RuleScope> {
    match (code, session.map(SessionId::from_uuid)) {
        (0, Some(id)) => Ok(RuleScope::Session(id)),
        (1, Some(id)) => Ok(RuleScope::Subtree(id)),
        (2, _) => Ok(RuleScope::All),
        _ => Err(unknown(column, "rule scope", code)),
    }
}

pub(crate) fn caller_code(caller: Caller) -> (i64, Option<[u8; 16]>) {
    let session = caller.session().map(|id| *id.as_uuid().as_bytes());
    match caller {
        Caller::Operator => (0, session),
        Caller::Session(_) => (1, session),
        Caller::Child(_) => (2, session),
    }
}

pub(crate) fn caller(column: usize, code: i64, session: Option<Uuid>) -> rusqlite::Result<Caller> {
    match (code, session.map(SessionId::from_uuid)) {
        (0, _) => Ok(Caller::Operator),
        (1, Some(id)) => Ok(Caller::Session(id)),
        (2, Some(id)) => Ok(Caller::Child(id)),
        _ => Err(unknown(column, "caller", code)),
    }
}

/// An expired server is stored as one that is alive: only the clock tells them apart.
pub(crate) fn server_state_code(state: ServerState) -> i64 {
    match state {
        ServerState::Alive | ServerState::Expired => 0,
        ServerState::Retired => 1,
        ServerState::TakenOver => 2,
    }
}

pub(crate) fn server_state(column: usize, code: i64) -> rusqlite::Result<ServerState> {
    match code {
        0 => Ok(ServerState::Alive),
        1 => Ok(ServerState::Retired),
        2 => Ok(ServerState::TakenOver),
        _ => Err(unknown(column, "server state", code)),
    }
}

/// A node whose text stands in its row; every other kind is [`NodeData::External`].
pub(crate) const TEXT_NODE: i64 = 0;
const EXTERNAL_NODE: i64 = 1;

/// Returns a node's kind, and the text that is stored with it.
pub(crate) fn node_code(data: &NodeData) -> (i64, String) {
    match data {
        NodeData::Text { content } => (TEXT_NODE, content.clone()),
        NodeData::External { handle } => (EXTERNAL_NODE, handle.to_string()),
    }
}

/// The largest amount that is kept: far beyond any bill, and small enough that the sum over all sessions fits.
pub(crate) const MAX_AMOUNT: i64 = 1 << 45;

/// Returns an amount as its columns: cost, turns, tokens in, tokens out, time.
pub(crate) fn spend_columns(amount: Spend) -> [i64; 5] {
    [amount.cost_micros, amount.turns, amount.input_tokens, amount.output_tokens, amount.wall_ms]
        .map(|part| int(part).min(MAX_AMOUNT))
}
