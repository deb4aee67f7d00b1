//! The answer to a permission request, in the CLI's exact words, and the decision it is made of.

use plexus_store::{ApprovalRecord, ApprovalStatus, DecidedBy, JsonText};
use serde::Serialize;
use serde_json::{Value, json};

/// What the CLI is told, on either channel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PermitResponse {
    /// Allow or deny.
    pub behavior: PermitBehavior,
}

/// Allow with the whole input, or deny with a reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PermitBehavior {
    /// The tool runs with this input. Always the whole of it: older CLIs run a bare allow with empty arguments.
    Allow {
        /// The input.
        updated_input: JsonText,
    },
    /// The tool does not run.
    Deny {
        /// What the model reads.
        message: String,
    },
}

impl PermitResponse {
    /// A denial.
    pub fn deny(message: impl Into<String>) -> Self {
        Self { behavior: PermitBehavior::Deny { message: message.into() } }
    }

    /// Returns the answer that a record stands for; `None` while it is pending.
    ///
    /// An allow is sent only for a record that is allowed: every other state, whatever it may be called tomorrow, is a denial.
    #[must_use]
    pub fn of(record: &ApprovalRecord) -> Option<Self> {
        let message = record.decision.as_ref().and_then(|decision| decision.message.clone());
        Some(match record.status {
            ApprovalStatus::Pending => return None,
            ApprovalStatus::Allowed => {
                let edited =
                    record.decision.as_ref().and_then(|decision| decision.updated_input.clone());
                let updated_input = edited.unwrap_or_else(|| record.input.clone());
                Self { behavior: PermitBehavior::Allow { updated_input } }
            }
            ApprovalStatus::Denied => {
                Self::deny(message.unwrap_or_else(|| format!("{} was denied", record.tool_name)))
            }
            ApprovalStatus::Expired => {
                Self::deny(message.unwrap_or_else(|| "nobody answered in time".to_owned()))
            }
            ApprovalStatus::Cancelled => {
                Self::deny(message.unwrap_or_else(|| "the request was withdrawn".to_owned()))
            }
        })
    }

    /// Writes the exact JSON that the permission tool returns.
    #[must_use]
    pub fn to_json(&self) -> Box<serde_json::value::RawValue> {
        let text = match &self.behavior {
            PermitBehavior::Allow { updated_input } => {
                format!(r#"{{"behavior":"allow","updatedInput":{}}}"#, updated_input.as_str())
            }
            PermitBehavior::Deny { message } => {
                json!({"behavior": "deny", "message": message}).to_string()
            }
        };
        serde_json::value::RawValue::from_string(text).unwrap_or_else(|_| denial_of_last_resort())
    }
}

/// Both forms above are JSON by construction; should that ever fail, the answer is still a denial.
fn denial_of_last_resort() -> Box<serde_json::value::RawValue> {
    let text = r#"{"behavior":"deny","message":"the answer could not be written"}"#.to_owned();
    serde_json::value::RawValue::from_string(text)
        .unwrap_or_else(|_| serde_json::value::RawValue::NULL.to_owned())
}

/// Writes who decided as the wire shows it: `"operator"`, `{"session": ID}`, `{"rule": ID}`, `"deadline"`, `"agent_ended"`, `"webhook"`.
#[must_use]
pub(crate) fn decided_by(by: &DecidedBy) -> Value {
    #[derive(Serialize)]
    #[serde(transparent)]
    struct Wire<'a>(&'a DecidedBy);
    serde_json::to_value(Wire(by)).unwrap_or(Value::Null)
}
