//! Answers the questions of an agent, and cancels its turns.

use agent_lines::child::InputError;
use agent_lines::rpc::{LineInput, RequestId, SendError};

use super::questions::SharedQuestions;
use crate::send::{ClientAnswer, ClientLine, PermissionAnswer};

/// What we say about a call. The protocol knows answers that outlive the question (`allow_always`);
/// they cannot be said here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It may happen, this once.
    AllowOnce,
    /// It may not; the turn goes on.
    RejectOnce,
}

/// What the agent was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    /// What was decided.
    AsDecided,
    /// That the turn was cancelled: the question came after it was.
    Cancelled,
}

/// Why a question was not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecideError {
    /// It was answered, its turn was cancelled or is over, the agent has withdrawn it, or nobody
    /// ever asked it.
    #[error("the question is not open")]
    NotOpen,
    /// The agent does not offer to allow it once, or asks twice under one id. It is still open.
    #[error("the question cannot be allowed once")]
    NotOffered,
    /// The agent does not read, or is gone.
    #[error(transparent)]
    Input(#[from] InputError),
}

/// Speaks to an agent beside its connection. Cheap to clone; sending only queues, and never waits.
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

    /// Answers a question whether a call may run. The option is chosen by its kind; a rejection
    /// that the agent does not offer is sent as an error, which every agent takes for one.
    pub fn decide(&self, id: &RequestId, decision: Decision) -> Result<Answered, DecideError> {
        // Held while the line is queued, so that no allow is queued after a cancel.
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

    /// Refuses a question of any kind, so that the agent does not wait. For a question whether a
    /// call may run this is a denial.
    pub fn refuse(&self, id: &RequestId, message: &str) -> Result<(), InputError> {
        let mut questions = self.questions.lock();
        self.send(&ClientLine::refuse(id.clone(), message))?;
        questions.close(id);
        Ok(())
    }

    /// Ends the turn of a session. Its open questions are answered with `cancelled`, as the
    /// protocol wants, and nothing of it can be allowed any more.
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
