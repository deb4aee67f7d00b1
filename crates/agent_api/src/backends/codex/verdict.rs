//! Maps the end of a turn to one of our failures.

use codex_app::event::thread::{ErrorInfo, Turn, TurnStatus};

use crate::backends::shared::outcome::Failure;

/// Returns the outcome of a turn that is over.
pub(super) fn of_turn(turn: &Turn) -> Result<(), Failure> {
    match turn.status {
        TurnStatus::Completed => Ok(()),
        TurnStatus::Interrupted => Err(Failure::Interrupted),
        TurnStatus::Failed => {
            let info = turn.error.as_ref().map(|error| &error.info);
            Err(info.map_or(Failure::Other, failure_of))
        }
        TurnStatus::InProgress | TurnStatus::Unknown => Err(Failure::Execution),
    }
}

/// Maps the server's name for a failure to one of ours.
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

    /// Returns the outcomes of the turns of a recorded conversation.
    fn outcomes(recording: &str) -> Vec<String> {
        let mut parser = CodexParser::new();
        let lines = read(recording).unwrap().into_iter();
        lines
            .filter(|line| line.direction == Direction::Out)
            .filter_map(|line| match parser.parse_line(&line.line).unwrap()?.body {
                ServerBody::Notification(told) => match *told {
                    Notification::TurnCompleted(note) => Some(match of_turn(&note.turn) {
                        Ok(()) => "succeeded".to_owned(),
                        Err(failure) => failure.to_string(),
                    }),
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
    fn a_turn_that_is_not_over_is_a_failure() {
        assert_eq!(of_turn(&Turn::default()), Err(Failure::Execution));
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
