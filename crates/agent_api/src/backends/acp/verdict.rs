//! Maps the end of a turn to one of our failures.

use acp_lines::{Outcome, StopReason, event::answer::PromptEnded};

use crate::backends::shared::outcome::Failure;

/// The error code for an agent that is not logged in.
const AUTH_REQUIRED: i64 = -32000;

/// Returns the outcome of a turn whose prompt was answered.
pub(super) fn of_answer(answer: &Outcome) -> Result<(), Failure> {
    let error = match answer {
        Outcome::Result(_) => {
            let ended: PromptEnded = answer.read().unwrap_or_default();
            return of_reason(ended.stop_reason);
        }
        Outcome::Error(error) => error,
    };
    // Some agents pass the HTTP status of their service on as the code.
    Err(match error.code {
        AUTH_REQUIRED | 401 | 403 => Failure::NotLoggedIn,
        status @ 400..=599 => Failure::Service(Some(status)),
        _ => Failure::Other,
    })
}

fn of_reason(reason: Option<StopReason>) -> Result<(), Failure> {
    match reason {
        Some(StopReason::EndTurn) => Ok(()),
        Some(StopReason::MaxTokens) => Err(Failure::TokenLimit),
        Some(StopReason::MaxTurnRequests) => Err(Failure::TurnLimit),
        Some(StopReason::Refusal) => Err(Failure::ModelRefusal),
        Some(StopReason::Cancelled) => Err(Failure::Interrupted),
        None => Err(Failure::Execution),
    }
}

#[cfg(test)]
mod tests {
    use acp_lines::{AcpParser, AgentBody};
    use testkit::fixtures::acp::{Direction, read};

    use super::*;

    fn answer(line: &str) -> Option<Outcome> {
        match AcpParser::new().parse_line(line).unwrap()?.body {
            AgentBody::Answer(answer) => Some(answer.outcome),
            _ => None,
        }
    }

    /// Returns the outcome of the last turn of a recorded conversation.
    fn last_turn(recording: &str) -> Result<(), Failure> {
        let lines = read(recording).unwrap().into_iter();
        let mut answers = lines
            .filter(|line| line.direction == Direction::Out)
            .filter_map(|line| answer(&line.line));
        of_answer(&answers.next_back().unwrap())
    }

    #[test]
    fn recorded_turns_end_as_their_agents_say() {
        for agent in ["gemini", "opencode", "goose", "claude-agent-acp"] {
            assert_eq!(last_turn(&format!("{agent}-allow")), Ok(()), "{agent}");
        }
        assert_eq!(last_turn("gemini-api_error"), Err(Failure::NotLoggedIn));
        assert_eq!(last_turn("gemini-cancel_tool"), Err(Failure::Interrupted));
    }

    #[test]
    fn only_the_end_of_a_turn_is_a_success() {
        let turn = |result: &str| of_answer(&answer(&format!(r#"{{"id":1,{result}}}"#)).unwrap());
        let reason = |word: &str| turn(&format!(r#""result":{{"stopReason":"{word}"}}"#));
        assert_eq!(reason("end_turn"), Ok(()));
        assert_eq!(reason("max_tokens"), Err(Failure::TokenLimit));
        assert_eq!(reason("max_turn_requests"), Err(Failure::TurnLimit));
        assert_eq!(reason("refusal"), Err(Failure::ModelRefusal));
        assert_eq!(reason("a new one"), Err(Failure::Execution));
        assert_eq!(turn(r#""result":{}"#), Err(Failure::Execution));
        assert_eq!(turn(r#""result":null"#), Err(Failure::Execution));
        let error = |code: i64| turn(&format!(r#""error":{{"code":{code},"message":"m"}}"#));
        assert_eq!(error(-32000), Err(Failure::NotLoggedIn));
        assert_eq!(error(429), Err(Failure::Service(Some(429))));
        assert_eq!(error(-32603), Err(Failure::Other));
    }
}
