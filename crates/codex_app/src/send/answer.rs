//! Answers to the questions of the server.

use serde_json::{Map, Value, json};

use crate::CodexLineError;
use crate::parser::no_line;

/// Our decision about a command or a file change. The server also accepts answers that outlive the
/// question (`acceptForSession`, amendments of its rules); we never send them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The action may happen, this once.
    Accept,
    /// The action may not happen; the turn continues, and the model is told of the refusal.
    Decline,
    /// The action may not happen, and the turn is interrupted.
    Cancel,
}

impl Decision {
    /// Returns the word as it is on the wire.
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

/// An answer of the client.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientAnswer {
    /// The answer to a question about a command or a file change.
    Decision(Decision),
    /// The answer to an elicitation.
    Elicitation(ElicitationAnswer),
    /// The answer to a request for more permissions: those that are granted, for this turn. An
    /// empty map grants nothing.
    Permissions(Map<String, Value>),
    /// The answer to questions of the model: the chosen answers by the id of the question.
    UserInput(Map<String, Value>),
    /// Any other result.
    Other(Value),
    /// A refusal. The server treats it as a denial.
    Error(Value),
}

/// The answer to an elicitation.
#[derive(Debug, Clone, PartialEq)]
pub enum ElicitationAnswer {
    /// Yes, with the requested content.
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
    /// Returns the name and value of the answer in its line.
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

    /// Reads an answer. The line does not say which question it answers, so its form decides; a
    /// result of any other form is kept as `Other`.
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
