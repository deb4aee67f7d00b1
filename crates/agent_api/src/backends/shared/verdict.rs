//! How a run with one turn ended.
//!
//! The turn decides. Once it is over, the exit of the process adds nothing, because the process
//! ends when we close its input. If the turn did not end, the exit is the only evidence.

use std::process::ExitStatus;

use super::outcome::{Failure, exit_in_words};
use crate::AgentWrapperOutcome;

/// The evidence about the end of a run.
#[derive(Debug, Default)]
pub(crate) struct TurnVerdict {
    /// How the turn ended.
    turn: Option<Result<(), Failure>>,
    /// Whether we answered a question with no.
    declined: bool,
}

impl TurnVerdict {
    /// Records how the turn ended.
    pub(crate) fn note_turn(&mut self, turn: Result<(), Failure>) {
        self.turn = Some(turn);
    }

    /// Records why there was no turn, or why it could not be completed.
    pub(crate) fn note_failure(&mut self, failure: Failure) {
        self.turn = Some(Err(failure));
    }

    pub(crate) fn note_declined(&mut self) {
        self.declined = true;
    }

    /// Combines the turn with the exit of the process.
    pub(crate) fn outcome(&self, status: ExitStatus) -> AgentWrapperOutcome {
        let reason = match &self.turn {
            Some(Ok(())) if !self.declined => return AgentWrapperOutcome::Succeeded,
            Some(Ok(())) => Failure::Declined.to_string(),
            Some(Err(failure)) => failure.to_string(),
            None => format!("the agent {} without a result", exit_in_words(status)),
        };
        AgentWrapperOutcome::Failed { reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::failed_status;

    #[test]
    fn a_declined_question_and_a_missing_end_are_failures() {
        let mut verdict = TurnVerdict::default();
        let reason = |verdict: &TurnVerdict| match verdict.outcome(failed_status()) {
            AgentWrapperOutcome::Failed { reason } => reason,
            AgentWrapperOutcome::Succeeded => panic!("succeeded"),
        };
        assert_eq!(reason(&verdict), "the agent ended with exit code 1 without a result");
        verdict.note_turn(Ok(()));
        assert_eq!(verdict.outcome(failed_status()), AgentWrapperOutcome::Succeeded);
        verdict.note_declined();
        assert_eq!(reason(&verdict), "the agent asked for leave, and nobody was there to give it");
        verdict.note_failure(Failure::Execution);
        assert_eq!(reason(&verdict), "the agent stopped with an error while it worked");
    }
}
