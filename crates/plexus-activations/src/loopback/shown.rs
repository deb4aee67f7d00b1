//! Approvals as the wire shows them: those that wait, and those that are decided. Their times are in seconds.

use plexus_store::{ApprovalRecord, Owner};
use serde_json::{Value, json};

use super::answer::decided_by;

/// An approval as `pending` and `poll` show it.
pub(crate) fn as_pending(record: &ApprovalRecord, session_name: &str) -> Value {
    let mut shown = json!({
        "id": record.id,
        "session_id": record.session,
        "session_name": session_name,
        "tool_name": record.tool_name,
        "tool_use_id": record.tool_use_id,
        "input": record.input.to_value(),
        "input_digest": record.input_digest,
        "suggested_rules": record.suggestions.to_value(),
        "status": record.status,
        "created_at": record.created_at.as_secs(),
    });
    if let Some(description) = &record.description {
        shown["description"] = json!(description);
    }
    if let Some(deadline) = record.deadline {
        shown["expires_at"] = json!(deadline.as_secs());
    }
    if record.escalations > 0 {
        shown["escalated_to"] = match record.owner {
            Owner::Operator => json!("operator"),
            Owner::Session(id) => json!({ "session": id }),
        };
    }
    shown
}

/// An approval as `history` shows it, and as a conflict names what stands.
pub(crate) fn as_decision(record: &ApprovalRecord) -> Value {
    let mut shown = json!({
        "approval_id": record.id,
        "session_id": record.session,
        "tool_name": record.tool_name,
        "tool_use_id": record.tool_use_id,
        "input": record.input.to_value(),
        "input_digest": record.input_digest,
        "status": record.status,
        "created_at": record.created_at.as_secs(),
    });
    if let Some(decision) = &record.decision {
        shown["decided_by"] = decided_by(&decision.by);
        shown["decided_at"] = json!(decision.at.as_secs());
        if let Some(message) = &decision.message {
            shown["message"] = json!(message);
        }
        if let Some(input) = &decision.updated_input {
            shown["updated_input"] = input.to_value();
        }
    }
    if let Some(at) = record.delivered_at {
        shown["delivered_at"] = json!(at.as_secs());
    }
    if let Some(breach) = &record.breach {
        shown["breach"] = json!(breach);
    }
    shown
}
