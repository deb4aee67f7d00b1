//! What can be told to somebody outside. The names are part of the wire.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Something that happened.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum HookEvent {
    /// A permission request waits for somebody.
    #[serde(rename = "approval.requested")]
    ApprovalRequested,
    /// It was passed on to somebody above, or somebody is reminded of it.
    #[serde(rename = "approval.escalated")]
    ApprovalEscalated,
    /// It was allowed, denied or withdrawn.
    #[serde(rename = "approval.resolved")]
    ApprovalResolved,
    /// Nobody answered in time: it is denied.
    #[serde(rename = "approval.expired")]
    ApprovalExpired,
    /// A chat of a session has ended: complete, failed or cancelled.
    #[serde(rename = "session.ended")]
    SessionEnded,
    /// Most of a budget is used up.
    #[serde(rename = "budget.warned")]
    BudgetWarned,
    /// A budget is used up, and every chat below it is stopped.
    #[serde(rename = "budget.stopped")]
    BudgetStopped,
    /// A run did what nobody allowed, and was stopped.
    #[serde(rename = "breach")]
    Breach,
}

impl fmt::Display for HookEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ApprovalRequested => "approval.requested",
            Self::ApprovalEscalated => "approval.escalated",
            Self::ApprovalResolved => "approval.resolved",
            Self::ApprovalExpired => "approval.expired",
            Self::SessionEnded => "session.ended",
            Self::BudgetWarned => "budget.warned",
            Self::BudgetStopped => "budget.stopped",
            Self::Breach => "breach",
        })
    }
}
