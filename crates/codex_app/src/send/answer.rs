//! Answers to the questions of the server.

use serde_json::{Map, Value, json};

use crate::CodexLineError;
use crate::parser::no_line;

/// What we say about a command or a file change. The server knows answers that outlive the question
/// (`acceptForSession`, amendments of its rules); they cannot be said here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It may happen, this once.
    Accept,
    /// It may not; the turn goes on, and the model reads that it was refused.
    Decline,
    /// It may not, and the turn is interrupted.
    Cancel,
}

impl Decision {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Decline => "decline",
            Self::Cancel => "cancel",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::Accept, Self::Decline, Self::Cancel]
            .into_iter()
            .find(|decision| decision.as_str() == word)
    }
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientAnswer {
    /// To a question about a command or a file change.
    Decision(Decision),
    /// To an elicitation.
    Elicitation(ElicitationAnswer),
    /// To a question for more permissions: what is granted, for this turn. Empty grants nothing.
    Permissions(Map<String, Value>),
    /// To questions of the model: the chosen answers by the id of the question.
    UserInput(Map<String, Value>),
    /// Any other result.
    Other(Value),
    /// A refusal. The server takes it for a denial.
    Error(Value),
}

/// The answer to an elicitation.
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitationAnswer {
    /// Yes, with what was asked for.
    Accept {
        /// The content; empty for a question about a tool.
        content: Value,
    },
    /// No.
    Decline,
    /// No answer.
    Cancel,
}

impl ClientAnswer {
    /// The name and value of the answer in its line.
    pub(super) fn to_json(&self) -> (&'static str, Value) {
        let result = match self {
            Self::Decision(decision) => json!({ "decision": decision.as_str() }),
            Self::Elicitation(ElicitationAnswer::Accept { content }) => {
                json!({ "action": "accept", "content": content })
            }
            Self::Elicitation(ElicitationAnswer::Decline) => json!({ "action": "decline" }),
            Self::Elicitation(ElicitationAnswer::Cancel) => json!({ "action": "cancel" }),
            Self::Permissions(permissions) => json!({ "permissions": permissions }),
            Self::UserInput(answers) => json!({ "answers": answers }),
            Self::Other(result) => result.clone(),
            Self::Error(error) => return ("error", error.clone()),
        };
        ("result", result)
    }

    /// Reads an answer. The line does not say which question it is for, so its form decides; what
    /// has another form than ours stays as it is.
    pub(super) fn read(mut line: Map<String, Value>) -> Result<Self, CodexLineError> {
        if let Some(error) = line.remove("error") {
            return Ok(Self::Error(error));
        }
        let result = line.remove("result").ok_or_else(|| no_line("neither result nor error"))?;
        let typed = Self::typed(&result).filter(|typed| typed.to_json().1 == result);
        Ok(typed.unwrap_or(Self::Other(result)))
    }

    fn typed(result: &Value) -> Option<Self> {
        if let Some(decision) = result["decision"].as_str() {
            return Decision::parse(decision).map(Self::Decision);
        }
        if let Some(permissions) = result["permissions"].as_object() {
            return Some(Self::Permissions(permissions.clone()));
        }
        if let Some(answers) = result["answers"].as_object() {
            return Some(Self::UserInput(answers.clone()));
        }
        Some(Self::Elicitation(match result["action"].as_str()? {
            "accept" => ElicitationAnswer::Accept { content: result["content"].clone() },
            "decline" => ElicitationAnswer::Decline,
            "cancel" => ElicitationAnswer::Cancel,
            _ => return None,
        }))
    }
}
