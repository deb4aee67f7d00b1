//! Questions of an agent to its user: answers become the input that carries them to the agent.

use plexus_core::CallError;
use plexus_store::{ApprovalRecord, JsonText, Verdict};
use plexus_wire::{Answers, Question};
use serde_json::Value;

use super::Approvals;
use super::input::acceptable;
use crate::session::SessionConfig;

/// A verdict, with the answers to a question.
pub(crate) struct Reply {
    pub(crate) verdict: Verdict,
    pub(crate) answers: Option<Answers>,
    /// The receiver that it came through, if any.
    pub(crate) receiver: Option<String>,
}

impl From<Verdict> for Reply {
    fn from(verdict: Verdict) -> Self {
        Self { verdict, answers: None, receiver: None }
    }
}

impl Approvals {
    /// Returns the input that carries the answers of an allow; `None` when the request needs no
    /// answers and has none.
    ///
    /// An allow of a question without answers would tell the agent that nobody answered, so it is
    /// refused.
    pub(crate) fn answered(
        &self,
        record: &ApprovalRecord,
        config: &SessionConfig,
        answers: Option<&Answers>,
    ) -> Result<Option<Value>, CallError> {
        let refused =
            |words: &str| CallError::invalid(format_args!("answer: {words}")).with_field("answers");
        let input = acceptable(&record.input)?;
        let tools = &self.views.tools;
        match (tools.question(config, &record.tool_name, &input), answers) {
            (None | Some(Question::Plan { .. }), None) => Ok(None),
            (None, Some(_)) => Err(refused("this request is not a question")),
            (Some(Question::Choices { .. }), None) => {
                Err(refused("this is a question, and an allow without answers answers nothing")
                    .with_hint("give answers, by the ids of its parts, or deny it"))
            }
            (Some(question), Some(answers)) => {
                question.check(answers).map_err(|words| refused(&words))?;
                let answered = tools.answered(config, &record.tool_name, &input, answers)?;
                acceptable(&JsonText::of(&answered)?)?;
                Ok(Some(answered))
            }
        }
    }
}
