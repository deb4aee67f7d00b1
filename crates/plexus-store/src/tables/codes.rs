//! The numbers that stand for enums in the tables, and how amounts are kept. A number never changes
//! its meaning; a new variant takes a new number.

use plexus_core::{Caller, DeviceId, RuleId, SessionId};
use uuid::Uuid;

use super::sql::{Bind, Column, Param, Row, int};
use crate::contract::{
    ApprovalStatus, ChatStatus, DecidedBy, NodeData, Owner, Parking, RuleDecision, RuleScope,
    SearchKind, ServerState, Spend, StoreError,
};

/// Gives an enum its numbers: `codes! { Type, "kind of thing": First = 0, Second = 1 }`. A variant
/// after a semicolon is stored as another one.
macro_rules! codes {
    (
        $type:ident, $what:literal:
        $($variant:ident = $code:literal),* $(; $same:ident = $as:literal)?
    ) => {
        impl Bind for $type {
            const MISSING: Param<'static> = Param::Int(None);
            fn bind(&self) -> Param<'_> {
                Param::Int(Some(match self {
                    $(Self::$variant => $code,)*
                    $(Self::$same => $as,)?
                }))
            }
        }
        impl Column for $type {
            fn read(row: &Row<'_>, column: usize) -> Result<Option<Self>, StoreError> {
                match row.int(column)? {
                    None => Ok(None),
                    $(Some($code) => Ok(Some(Self::$variant)),)*
                    Some(code) => Err(unknown($what, code)),
                }
            }
        }
    };
}

codes! { ChatStatus, "chat status": Running = 0, Complete = 1, Failed = 2, Cancelled = 3 }

codes! {
    ApprovalStatus, "approval status":
    Pending = 0, Allowed = 1, Denied = 2, Expired = 3, Cancelled = 4
}

codes! { Parking, "step of parking": Parking = 0, Parked = 1, Waking = 2 }

codes! {
    SearchKind, "kind of search entry":
    Prompt = 0, Said = 1, Thought = 2, Call = 3, Result = 4, Decision = 5, Notice = 6, Steered = 7
}

codes! { RuleDecision, "rule decision": Allow = 0, Deny = 1, Ask = 2 }

// An expired server is stored as one that is alive: only the clock tells them apart.
codes! { ServerState, "server state": Alive = 0, Retired = 1, TakenOver = 2; Expired = 0 }

/// The error for a number that stands for nothing: somebody else wrote this store.
fn unknown(what: &str, code: i64) -> StoreError {
    StoreError::Corrupt { message: format!("{code} is no {what}") }
}

// Enums with an id: a number and, where the variant has one, the id beside it.

pub(super) fn decided_by_columns(by: DecidedBy) -> (i64, Option<Uuid>) {
    match by {
        DecidedBy::Operator => (0, None),
        DecidedBy::Session(id) => (1, Some(*id.as_uuid())),
        DecidedBy::Rule(id) => (2, Some(*id.as_uuid())),
        DecidedBy::Deadline => (3, None),
        DecidedBy::AgentEnded => (4, None),
        DecidedBy::Webhook => (5, None),
        DecidedBy::Device(id) => (6, Some(*id.as_uuid())),
    }
}

pub(super) fn decided_by(code: i64, reference: Option<Uuid>) -> Result<DecidedBy, StoreError> {
    match (code, reference) {
        (0, _) => Ok(DecidedBy::Operator),
        (1, Some(id)) => Ok(DecidedBy::Session(SessionId::from_uuid(id))),
        (2, Some(id)) => Ok(DecidedBy::Rule(RuleId::from_uuid(id))),
        (3, _) => Ok(DecidedBy::Deadline),
        (4, _) => Ok(DecidedBy::AgentEnded),
        (5, _) => Ok(DecidedBy::Webhook),
        (6, Some(id)) => Ok(DecidedBy::Device(DeviceId::from_uuid(id))),
        _ => Err(unknown("decider", code)),
    }
}

pub(super) fn owner(session: Option<SessionId>) -> Owner {
    session.map_or(Owner::Operator, Owner::Session)
}

pub(super) fn rule_scope_columns(scope: RuleScope) -> (i64, Option<SessionId>) {
    match scope {
        RuleScope::Session(id) => (0, Some(id)),
        RuleScope::Subtree(id) => (1, Some(id)),
        RuleScope::All => (2, None),
    }
}

pub(super) fn rule_scope(code: i64, session: Option<SessionId>) -> Result<RuleScope, StoreError> {
    match (code, session) {
        (0, Some(id)) => Ok(RuleScope::Session(id)),
        (1, Some(id)) => Ok(RuleScope::Subtree(id)),
        (2, _) => Ok(RuleScope::All),
        _ => Err(unknown("rule scope", code)),
    }
}

pub(super) fn caller_columns(caller: Caller) -> (i64, Option<SessionId>, Option<DeviceId>) {
    match caller {
        Caller::Operator => (0, None, None),
        Caller::Session(id) => (1, Some(id), None),
        Caller::Child(id) => (2, Some(id), None),
        Caller::Device(id) => (3, None, Some(id)),
    }
}

pub(super) fn caller(
    code: i64,
    session: Option<SessionId>,
    device: Option<DeviceId>,
) -> Result<Caller, StoreError> {
    match (code, session, device) {
        (0, _, _) => Ok(Caller::Operator),
        (1, Some(id), _) => Ok(Caller::Session(id)),
        (2, Some(id), _) => Ok(Caller::Child(id)),
        (3, _, Some(id)) => Ok(Caller::Device(id)),
        _ => Err(unknown("caller", code)),
    }
}

// Nodes.

const TEXT_NODE: i64 = 0;
const HANDLE_NODE: i64 = 1;

/// Returns a node's kind, and the text that is stored with it.
pub(super) fn node_columns(data: &NodeData) -> (i64, String) {
    match data {
        NodeData::Text { content } => (TEXT_NODE, content.clone()),
        NodeData::External { handle } => (HANDLE_NODE, handle.to_string()),
        // An empty prompt is a pruned one.
        NodeData::Pruned {} => (TEXT_NODE, String::new()),
    }
}

pub(super) fn node_data(kind: i64, text: String) -> Result<NodeData, StoreError> {
    match kind {
        TEXT_NODE => Ok(NodeData::Text { content: text }),
        HANDLE_NODE => {
            let handle = text.parse().map_err(|error| StoreError::Corrupt {
                message: format!("a node's handle cannot be read: {error}"),
            })?;
            Ok(NodeData::External { handle })
        }
        _ => Err(unknown("kind of node", kind)),
    }
}

// Amounts.

/// The largest amount that is kept: far beyond any bill, and small enough that the sum over all
/// sessions fits into a column.
pub(super) const MAX_AMOUNT: i64 = 1 << 45;

/// Returns an amount as its columns: cost, turns, tokens in, tokens out, time.
pub(super) fn spend_columns(amount: Spend) -> [i64; 5] {
    [amount.cost_micros, amount.turns, amount.input_tokens, amount.output_tokens, amount.wall_ms]
        .map(|part| int(part).min(MAX_AMOUNT))
}
