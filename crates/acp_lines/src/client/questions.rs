//! The open questions of an agent, and which of them may no longer be allowed.
//!
//! OpenCode runs a tool even if the allow comes after its turn was cancelled, and other agents may
//! too. So a question is closed for good as soon as its session is cancelled, its turn is over, or
//! the agent withdraws it. A question is recorded when its line is read, before a caller sees it:
//! if its session was cancelled meanwhile, the caller gets it as cancelled.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent_lines::rpc::RequestId;
use agent_lines::{LineError, LineParser};

use crate::event::request::PermissionRequest;
use crate::event::{AgentBody, AgentLine, AgentRequest, Notification};
use crate::parser::AcpParser;
use crate::words::OptionKind;

/// How many questions may be open. Agents ask one at a time. Beyond this limit a question is not
/// recorded, and a question that is not recorded cannot be allowed.
pub const MAX_OPEN_QUESTIONS: usize = 256;

/// The questions that the parser, the connection and its senders share.
#[derive(Debug, Clone, Default)]
pub(super) struct SharedQuestions(Arc<Mutex<Questions>>);

/// The open questions, and the turns that they belong to.
#[derive(Debug, Default)]
pub(super) struct Questions {
    open: HashMap<RequestId, Question>,
    /// The sessions of the prompts whose turns are not over.
    prompts: HashMap<RequestId, String>,
    /// Sessions whose turn was cancelled and is not over.
    cancelled: Vec<String>,
}

/// An open question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Question {
    session_id: String,
    /// The option that allows it once.
    pub(super) allow: Option<String>,
    /// The option that rejects it once.
    pub(super) reject: Option<String>,
    /// Whether the question came after its turn was cancelled.
    pub(super) is_cancelled: bool,
}

impl SharedQuestions {
    pub(super) fn lock(&self) -> MutexGuard<'_, Questions> {
        // A poisoned lock is fine: nothing in here panics half way through a change.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Questions {
    /// Records a prompt before it is sent.
    pub(super) fn prompted(&mut self, id: RequestId, session_id: &str) {
        self.prompts.insert(id, session_id.to_owned());
    }

    /// Forgets a prompt that was not sent.
    pub(super) fn not_prompted(&mut self, id: &RequestId) {
        self.prompts.remove(id);
    }

    /// Closes every question of a session and returns their ids, each to be answered with
    /// `cancelled`. Questions that come before the turn is over are cancelled as well.
    pub(super) fn cancel(&mut self, session_id: &str) -> Vec<RequestId> {
        let is_running = self.prompts.values().any(|session| session == session_id);
        if is_running && !self.is_cancelled(session_id) {
            self.cancelled.push(session_id.to_owned());
        }
        self.close_session(session_id)
    }

    /// Returns an open question.
    pub(super) fn get(&self, id: &RequestId) -> Option<&Question> {
        self.open.get(id)
    }

    /// Closes a question.
    pub(super) fn close(&mut self, id: &RequestId) {
        self.open.remove(id);
    }

    /// Records the changes that a line of the agent makes.
    fn note(&mut self, line: &AgentLine) {
        match &line.body {
            AgentBody::Request { id, request } => {
                if let AgentRequest::Permission(asked) = &**request {
                    self.asked(id, asked);
                }
            }
            AgentBody::Notification(told) => {
                if let Notification::CancelRequest(withdrawn) = &**told
                    && let Some(id) = &withdrawn.request_id
                {
                    self.open.remove(id);
                }
            }
            AgentBody::Answer(answer) => self.answered(&answer.id),
            AgentBody::Complaint(_) => {}
        }
    }

    fn asked(&mut self, id: &RequestId, asked: &PermissionRequest) {
        let option = |kind| asked.option(kind).map(|option| option.option_id.to_string());
        // An answer cannot distinguish two open questions with one id, so neither may be allowed.
        let is_repeated = self.open.contains_key(id);
        if !is_repeated && self.open.len() >= MAX_OPEN_QUESTIONS {
            return;
        }
        let question = Question {
            session_id: asked.session_id.to_string(),
            allow: option(OptionKind::AllowOnce).filter(|_| !is_repeated),
            reject: option(OptionKind::RejectOnce),
            is_cancelled: self.is_cancelled(&asked.session_id),
        };
        self.open.insert(id.clone(), question);
    }

    /// Ends the turn whose prompt was answered, and closes its questions.
    fn answered(&mut self, id: &RequestId) {
        let Some(session_id) = self.prompts.remove(id) else { return };
        if !self.prompts.values().any(|session| *session == session_id) {
            self.cancelled.retain(|session| *session != session_id);
            self.close_session(&session_id);
        }
    }

    fn close_session(&mut self, session_id: &str) -> Vec<RequestId> {
        let closed: Vec<_> = self
            .open
            .iter()
            .filter(|(_, question)| question.session_id == session_id)
            .map(|(id, _)| id.clone())
            .collect();
        for id in &closed {
            self.open.remove(id);
        }
        closed
    }

    fn is_cancelled(&self, session_id: &str) -> bool {
        self.cancelled.iter().any(|session| session == session_id)
    }
}

/// Reads the lines of an agent and records its questions.
#[derive(Debug)]
pub(super) struct NotingParser {
    parser: AcpParser,
    questions: SharedQuestions,
}

impl NotingParser {
    pub(super) fn new(questions: SharedQuestions) -> Self {
        Self { parser: AcpParser::new(), questions }
    }
}

impl LineParser for NotingParser {
    type Event = AgentLine;

    fn parse_bytes(&mut self, line: &[u8]) -> Result<Option<AgentLine>, LineError> {
        let line = self.parser.parse_bytes(line)?;
        if let Some(line) = &line {
            self.questions.lock().note(line);
        }
        Ok(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(questions: &mut Questions, line: &str) {
        let line = AcpParser::new().parse_line(line).unwrap().unwrap();
        questions.note(&line);
    }

    fn ask(questions: &mut Questions, id: i64, session: &str) {
        let options = r#"[{"optionId":"always","kind":"allow_always","name":"A"},
            {"optionId":"yes","kind":"allow_once","name":"Y"},
            {"optionId":"no","kind":"reject_once","name":"N"}]"#;
        note(
            questions,
            &format!(
                r#"{{"id":{id},"method":"session/request_permission","params":{{"sessionId":"{session}",
                "toolCall":{{"toolCallId":"c"}},"options":{options}}}}}"#
            )
            .replace('\n', " "),
        );
    }

    #[test]
    fn options_are_found_by_their_kind() {
        let mut questions = Questions::default();
        ask(&mut questions, 0, "s");
        let question = questions.get(&0.into()).unwrap();
        assert_eq!(question.allow.as_deref(), Some("yes"));
        assert_eq!(question.reject.as_deref(), Some("no"));
    }

    #[test]
    fn a_cancelled_session_has_no_open_question_and_gets_none_until_its_turn_is_over() {
        let mut questions = Questions::default();
        questions.prompted(3.into(), "s");
        ask(&mut questions, 0, "s");
        ask(&mut questions, 1, "other");
        assert_eq!(questions.cancel("s"), [RequestId::Number(0)]);
        assert_eq!(questions.get(&0.into()), None);
        assert!(!questions.get(&1.into()).unwrap().is_cancelled);
        // The question was on its way when the turn was cancelled.
        ask(&mut questions, 2, "s");
        assert!(questions.get(&2.into()).unwrap().is_cancelled);
        note(&mut questions, r#"{"id":3,"result":{"stopReason":"cancelled"}}"#);
        assert_eq!(questions.get(&2.into()), None);
        ask(&mut questions, 4, "s");
        assert!(!questions.get(&4.into()).unwrap().is_cancelled);
    }

    #[test]
    fn the_end_of_a_turn_and_a_withdrawal_close_questions() {
        let mut questions = Questions::default();
        questions.prompted(3.into(), "s");
        questions.prompted(4.into(), "s");
        ask(&mut questions, 0, "s");
        ask(&mut questions, 1, "s");
        note(&mut questions, r#"{"method":"$/cancel_request","params":{"requestId":0}}"#);
        assert_eq!(questions.get(&0.into()), None);
        note(&mut questions, r#"{"id":3,"result":{}}"#);
        assert!(questions.get(&1.into()).is_some(), "another turn of the session runs");
        note(&mut questions, r#"{"id":4,"error":{"code":1,"message":"no"}}"#);
        assert_eq!(questions.get(&1.into()), None);
    }

    #[test]
    fn a_repeated_id_and_questions_beyond_the_limit_cannot_be_allowed() {
        let mut questions = Questions::default();
        ask(&mut questions, 0, "s");
        ask(&mut questions, 0, "s");
        assert_eq!(questions.get(&0.into()).unwrap().allow, None);
        for id in 1..=MAX_OPEN_QUESTIONS {
            ask(&mut questions, id as i64, "s");
        }
        assert_eq!(questions.open.len(), MAX_OPEN_QUESTIONS);
        assert_eq!(questions.get(&(MAX_OPEN_QUESTIONS as i64).into()), None);
    }
}
