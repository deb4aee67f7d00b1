//! The answer to a permission request, as the driver of the agent gets it.

use plexus_store::{ApprovalRecord, ApprovalStatus};
use plexus_wire::PermitAnswer;
use serde_json::value::RawValue;

/// Returns the answer to send for a record; `None` while it is pending.
///
/// An allow is sent only for a record that is allowed: every other state, including those added
/// later, is a denial.
#[must_use]
pub fn answer_of(record: &ApprovalRecord) -> Option<PermitAnswer> {
    let message = record.decision.as_ref().and_then(|decision| decision.message.clone());
    let deny =
        |otherwise: &str| PermitAnswer::deny(message.unwrap_or_else(|| otherwise.to_owned()));
    Some(match record.status {
        ApprovalStatus::Pending => return None,
        ApprovalStatus::Allowed => {
            let edited =
                record.decision.as_ref().and_then(|decision| decision.updated_input.clone());
            let updated_input = edited.unwrap_or_else(|| record.input.clone()).into();
            PermitAnswer::Allow { updated_input }
        }
        ApprovalStatus::Denied => deny(&format!("{} was denied", record.tool_name)),
        ApprovalStatus::Expired => deny("nobody answered in time"),
        ApprovalStatus::Cancelled => deny("the request was withdrawn"),
    })
}

/// Writes the exact JSON that the permission tool returns.
#[must_use]
pub fn exact_json(answer: &PermitAnswer) -> Box<RawValue> {
    serde_json::value::to_raw_value(answer).unwrap_or_else(|_| denial_of_last_resort())
}

/// Returns a fixed denial. An answer always serializes; should that ever fail, the child is denied.
fn denial_of_last_resort() -> Box<RawValue> {
    let text = r#"{"behavior":"deny","message":"the answer could not be written"}"#.to_owned();
    RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
}
