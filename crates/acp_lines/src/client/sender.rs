//! Answers the questions of an agent, and cancels its turns.

use agent_lines::child::InputError;
use agent_lines::rpc::{LineInput, RequestId, SendError};

use super::questions::SharedQuestions;
use crate::send::{ClientAnswer, ClientLine, PermissionAnswer};

/// Our decision about a tool call. The protocol also has answers that outlive the question
/// (`allow_always`); we never send them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The call may run, this once.
    AllowOnce,
    /// The call may not run; the turn continues.
    RejectOnce,
}

/// The answer that the agent got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    /// Our decision.
    AsDecided,
    /// `cancelled`, because the question came after its turn was cancelled.
    Cancelled,
}

/// Why a question was not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecideError {
    /// The question was already answered, its turn was cancelled or is over, the agent withdrew it,
    /// or it was never asked.
    #[error("the question is not open")]
    NotOpen,
    /// The agent does not offer to allow it once, or uses one id for two questions. The question is
    /// still open.
    #[error("the question cannot be allowed once")]
    NotOffered,
    /// The agent does not read its input, or is gone.
    #[error(transparent)]
    Input(#[from] InputError),
}

/// Sends lines to an agent, independently of its connection. Cheap to clone; sending only queues a
/// line and never waits.
#[derive(Debug, Clone)]
pub struct Sender {
    input: LineInput,
    questions: SharedQuestions,
}

impl Sender {
    pub(super) fn new(input: LineInput, questions: SharedQuestions) -> Self {
        Self { input, questions }
    }

    pub(super) fn send(&self, line: &ClientLine) -> Result<(), InputError> {
        self.input.send(line.to_line())
    }

    /// Answers a question whether a tool call may run. The option is chosen by its kind. If the
    /// agent offers no rejection, an error is sent, which every agent treats as one.
    pub fn decide(&self, id: &RequestId, decision: Decision) -> Result<Answered, DecideError> {
        // The lock is held while the line is queued, so that no allow is queued after a cancel.
        let mut questions = self.questions.lock();
        let question = questions.get(id).ok_or(DecideError::NotOpen)?;
        let selected = |option_id: &Option<String>| {
            let option_id = option_id.clone()?;
            Some(ClientAnswer::Permission(PermissionAnswer::Selected { option_id }))
        };
        let (answer, answered) = if question.is_cancelled {
            (Some(ClientAnswer::Permission(PermissionAnswer::Cancelled)), Answered::Cancelled)
        } else {
            match decision {
                Decision::AllowOnce => {
                    let allow = selected(&question.allow).ok_or(DecideError::NotOffered)?;
                    (Some(allow), Answered::AsDecided)
                }
                Decision::RejectOnce => (selected(&question.reject), Answered::AsDecided),
            }
        };
        let line = match answer {
            Some(answer) => ClientLine::answer(id.clone(), answer),
            None => ClientLine::refuse(id.clone(), "rejected"),
        };
        self.send(&line)?;
        questions.close(id);
        Ok(answered)
    }

    /// Refuses a question of any kind, so that the agent does not wait. A tool call that the
    /// question is about is thereby denied.
    pub fn refuse(&self, id: &RequestId, message: &str) -> Result<(), InputError> {
        let mut questions = self.questions.lock();
        self.send(&ClientLine::refuse(id.clone(), message))?;
        questions.close(id);
        Ok(())
    }

    /// Cancels the turn of a session. Its open questions are answered with `cancelled`, as the
    /// protocol requires, and none of its tool calls can be allowed any more.
    pub fn cancel(&self, session_id: &str) -> Result<(), SendError> {
        let mut questions = self.questions.lock();
        let open = questions.cancel(session_id);
        self.send(&ClientLine::cancel(session_id))?;
        for id in open {
            let cancelled = ClientAnswer::Permission(PermissionAnswer::Cancelled);
            self.send(&ClientLine::answer(id, cancelled))?;
        }
        Ok(())
    }

    /// Closes the agent's input once everything queued is written. Most agents then end.
    pub fn close(&self) {
        self.input.close();
    }
}
