//! Answers to the questions of an agent.

use serde_json::{Map, Value, json};

use crate::AcpLineError;
use crate::parser::no_line;

/// An answer of the client.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientAnswer {
    /// The answer to a question whether a tool call may run.
    Permission(PermissionAnswer),
    /// Any other result.
    Other(Value),
    /// A refusal. Every agent treats it as a denial.
    Error(Value),
}

/// The answer to a question whether a tool call may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermissionAnswer {
    /// One of the options that the question offered.
    Selected {
        /// The option.
        option_id: String,
    },
    /// The turn was cancelled.
    Cancelled,
}

impl ClientAnswer {
    /// Returns the name and value of the answer in its line.
    pub(super) fn to_json(&self) -> (&'static str, Value) {
        let outcome = match self {
            Self::Permission(PermissionAnswer::Selected { option_id }) => {
                json!({ "outcome": "selected", "optionId": option_id })
            }
            Self::Permission(PermissionAnswer::Cancelled) => json!({ "outcome": "cancelled" }),
            Self::Other(result) => return ("result", result.clone()),
            Self::Error(error) => return ("error", error.clone()),
        };
        ("result", json!({ "outcome": outcome }))
    }

    /// Reads an answer. The line does not say which question it answers, so its form decides; a
    /// result of any other form is kept as `Other`.
    pub(super) fn read(mut line: Map<String, Value>) -> Result<Self, AcpLineError> {
        if let Some(error) = line.remove("error") {
            return Ok(Self::Error(error));
        }
        let result = line.remove("result").ok_or_else(|| no_line("neither result nor error"))?;
        let typed = Self::typed(&result).filter(|typed| typed.to_json().1 == result);
        Ok(typed.unwrap_or(Self::Other(result)))
    }

    fn typed(result: &Value) -> Option<Self> {
        let outcome = &result["outcome"];
        Some(Self::Permission(match outcome["outcome"].as_str()? {
            "selected" => {
                let option_id = outcome["optionId"].as_str()?.to_owned();
                PermissionAnswer::Selected { option_id }
            }
            "cancelled" => PermissionAnswer::Cancelled,
            _ => return None,
        }))
    }
}
