//! The numbers that stand for our enums and amounts in the tables: the same as in SQLite, so that a store can move from one to the other.

use plexus_core::Caller;
use uuid::Uuid;

use crate::contract::{
    ApprovalStatus, ChatStatus, DecidedBy, RuleDecision, RuleScope, ServerState, StoreError,
};
use crate::sqlite::codes;
pub(super) use crate::sqlite::codes::{
    MAX_AMOUNT, TEXT_NODE, approval_status_code, caller_code, chat_status_code, decided_by_code,
    node_code, owner, owner_blob, rule_decision_code, rule_scope_code, server_state_code,
    spend_columns,
};
use crate::sqlite::sql::store_error;

pub(super) fn chat_status(column: usize, code: i64) -> Result<ChatStatus, StoreError> {
    codes::chat_status(column, code).map_err(store_error)
}

pub(super) fn approval_status(column: usize, code: i64) -> Result<ApprovalStatus, StoreError> {
    codes::approval_status(column, code).map_err(store_error)
}

pub(super) fn decided_by(
    column: usize,
    code: i64,
    reference: Option<Uuid>,
) -> Result<DecidedBy, StoreError> {
    codes::decided_by(column, code, reference).map_err(store_error)
}

pub(super) fn rule_decision(column: usize, code: i64) -> Result<RuleDecision, StoreError> {
    codes::rule_decision(column, code).map_err(store_error)
}

pub(super) fn rule_scope(
    column: usize,
    code: i64,
    session: Option<Uuid>,
) -> Result<RuleScope, StoreError> {
    codes::rule_scope(column, code, session).map_err(store_error)
}

pub(super) fn caller(
    column: usize,
    code: i64,
    session: Option<Uuid>,
) -> Result<Caller, StoreError> {
    codes::caller(column, code, session).map_err(store_error)
}

pub(super) fn server_state(column: usize, code: i64) -> Result<ServerState, StoreError> {
    codes::server_state(column, code).map_err(store_error)
}
