//! How a run ended, in our own words.
//!
//! The turn says it: `completed`, `failed` with a reason, or `interrupted`. The exit of the process
//! adds nothing once the turn is over, because the process ends when we close its input; without a
//! turn that is over it is all there is.

use std::process::ExitStatus;

use codex_app::event::thread::{ErrorInfo, Turn, TurnStatus};

use crate::{
    AgentWrapperOutcome,
    backends::shared::outcome::{Failure, exit_in_words},
};

/// What is known about the end of a run.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    /// How the turn ended.
    turn: Option<Result<(), Failure>>,
    /// Whether a question was answered with no.
    declined: bool,
}

impl Verdict {
    pub(super) fn note_turn(&mut self, turn: &Turn) {
        self.turn = Some(match turn.status {
            TurnStatus::Completed => Ok(()),
            TurnStatus::Interrupted => Err(Failure::Interrupted),
            TurnStatus::Failed => {
                let info = turn.error.as_ref().map(|error| &error.info);
                Err(info.map_or(Failure::Other, failure_of))
            }
            TurnStatus::InProgress | TurnStatus::Unknown => Err(Failure::Execution),
        });
    }

    /// Notes why there was no turn, or why it could not be brought to its end.
    pub(super) fn note_failure(&mut self, failure: Failure) {
        self.turn = Some(Err(failure));
    }

    pub(super) fn note_declined(&mut self) {
        self.declined = true;
    }

    /// Joins what was said with how the process exited.
    pub(super) fn outcome(&self, status: ExitStatus) -> AgentWrapperOutcome {
        let reason = match &self.turn {
            Some(Ok(())) if !self.declined => return AgentWrapperOutcome::Succeeded,
            Some(Ok(())) => Failure::Declined.to_string(),
            Some(Err(failure)) => failure.to_string(),
            None => format!("the agent {} without a result", exit_in_words(status)),
        };
        AgentWrapperOutcome::Failed { reason }
    }
}

/// The server's name for a failure, as one of ours.
fn failure_of(info: &ErrorInfo) -> Failure {
    match (info.name.as_str(), info.http_status) {
        ("unauthorized", _) | (_, Some(401 | 403)) => Failure::NotLoggedIn,
        ("usageLimitExceeded", _) => Failure::UsageLimit,
        ("rateLimitExceeded", _) => Failure::Service(Some(429)),
        ("contextWindowExceeded", _) => Failure::ContextWindow,
        ("sessionBudgetExceeded", _) => Failure::Budget,
        ("serverOverloaded", _) => Failure::Service(Some(503)),
        ("internalServerError", _) => Failure::Service(Some(500)),
        ("modelNotFound", _) => Failure::ModelNotFound,
        ("sandboxError" | "threadRollbackFailed" | "tooManyDenials", _) => Failure::Execution,
        (
            "httpConnectionFailed"
            | "responseStreamConnectionFailed"
            | "responseStreamDisconnected"
            | "responseTooManyFailedAttempts",
            status,
        ) => Failure::Service(status.map(i64::from)),
        _ => Failure::Other,
    }
}

#[cfg(test)]
mod tests {
    use codex_app::{CodexParser, Notification, ServerBody};
    use testkit::fixtures::codex::{Direction, read};

    use super::*;
    use crate::run::failed_status;

    /// The outcomes of the turns of a recorded conversation.
    fn outcomes(recording: &str) -> Vec<String> {
        let mut parser = CodexParser::new();
        let lines = read(recording).unwrap().into_iter();
        lines
            .filter(|line| line.direction == Direction::Out)
            .filter_map(|line| match parser.parse_line(&line.line).unwrap()?.body {
                ServerBody::Notification(told) => match *told {
                    Notification::TurnCompleted(note) => {
                        let mut verdict = Verdict::default();
                        verdict.note_turn(&note.turn);
                        Some(match verdict.outcome(failed_status()) {
                            AgentWrapperOutcome::Succeeded => "succeeded".to_owned(),
                            AgentWrapperOutcome::Failed { reason } => reason,
                        })
                    }
                    _ => None,
                },
                _ => None,
            })
            .collect()
    }

    #[test]
    fn only_a_completed_turn_is_a_success() {
        assert_eq!(outcomes("accept_command"), ["succeeded"]);
        assert_eq!(outcomes("cancel_command"), ["the agent's turn was interrupted"]);
        assert_eq!(outcomes("interrupt_leaves_command"), ["the agent's turn was interrupted"]);
        assert_eq!(
            outcomes("model_errors"),
            [
                "succeeded",
                "the agent's service failed (status 500)",
                "the agent's account has reached its usage limit",
                "succeeded",
            ]
        );
    }

    #[test]
    fn a_declined_question_and_a_missing_end_are_failures() {
        let mut verdict = Verdict::default();
        let reason = |verdict: &Verdict| match verdict.outcome(failed_status()) {
            AgentWrapperOutcome::Failed { reason } => reason,
            AgentWrapperOutcome::Succeeded => panic!("succeeded"),
        };
        assert_eq!(reason(&verdict), "the agent ended with exit code 1 without a result");
        verdict.note_turn(&Turn { status: TurnStatus::Completed, ..Turn::default() });
        verdict.note_declined();
        assert_eq!(reason(&verdict), "the agent asked for leave, and nobody was there to give it");
        verdict.note_turn(&Turn::default());
        assert_eq!(reason(&verdict), "the agent stopped with an error while it worked");
    }

    #[test]
    fn names_of_failures_become_words_of_ours() {
        let failure =
            |name: &str, http_status| failure_of(&ErrorInfo { name: name.into(), http_status });
        assert_eq!(failure("httpConnectionFailed", Some(401)), Failure::NotLoggedIn);
        assert_eq!(failure("unauthorized", None), Failure::NotLoggedIn);
        assert_eq!(
            failure("responseTooManyFailedAttempts", Some(429)),
            Failure::Service(Some(429))
        );
        assert_eq!(failure("contextWindowExceeded", None), Failure::ContextWindow);
        assert_eq!(failure("somethingNew", None), Failure::Other);
    }
}
