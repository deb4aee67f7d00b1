//! Decides how a run ended, in our own words.
//!
//! The CLI reports this in several places that may disagree: a `result` line with `success` may be
//! a failed login, exit code 0 may be an interrupt, and a killed run has no `result` at all. The
//! order of precedence is: a failing `result`, then the exit of the process, then the absence of a
//! `result`.

use std::process::ExitStatus;

use claude_code::event::{message::AssistantMeta, result::ResultEvent};

use crate::{
    AgentWrapperOutcome,
    backends::shared::outcome::{Failure, exit_in_words},
};

/// The evidence in the lines of a run about its end.
#[derive(Debug, Default)]
pub(super) struct ResultVerdict {
    /// The last `result`: a background task can cause a second one.
    result: Option<Result<(), Failure>>,
    /// A failure that the CLI reported as a message before its `result`; it is more precise than
    /// the `result`.
    reported: Option<Failure>,
}

impl ResultVerdict {
    pub(super) fn note_result(&mut self, result: &ResultEvent) {
        self.result = Some(if result.failed() { Err(Failure::of_result(result)) } else { Ok(()) });
    }

    pub(super) fn note_failure(&mut self, failure: Failure) {
        self.reported = Some(failure);
    }

    pub(super) fn is_session_not_found(&self) -> bool {
        matches!(self.result, Some(Err(Failure::SessionNotFound)))
    }

    /// Combines the lines with the exit of the process.
    pub(super) fn outcome(&self, status: ExitStatus) -> AgentWrapperOutcome {
        let reason = match (&self.result, status.success()) {
            (Some(Ok(())), true) => return AgentWrapperOutcome::Succeeded,
            (Some(Ok(())), false) => {
                format!("the agent reported success and then {}", exit_in_words(status))
            }
            (Some(Err(failure)), _) => self.more_precise(failure).to_string(),
            (None, false) => match &self.reported {
                Some(failure) => failure.to_string(),
                None => format!("the agent {} without a result", exit_in_words(status)),
            },
            (None, true) => "the agent ended without a result".to_owned(),
        };
        AgentWrapperOutcome::Failed { reason }
    }

    /// Returns the failure of the earlier message if that of the `result` is not specific.
    fn more_precise<'a>(&'a self, failure: &'a Failure) -> &'a Failure {
        match (failure, &self.reported) {
            (Failure::Service(_) | Failure::Other, Some(reported)) => reported,
            _ => failure,
        }
    }
}

impl Failure {
    /// Returns the failure that the CLI reported in place of a message of the model.
    pub(super) fn of_message(meta: &AssistantMeta) -> Self {
        match meta.error.as_deref() {
            Some("authentication_failed" | "oauth_org_not_allowed") => Self::NotLoggedIn,
            _ => Self::of_status(meta.api_error_status),
        }
    }

    fn of_result(result: &ResultEvent) -> Self {
        match result.subtype.as_str() {
            "error_max_turns" => Self::TurnLimit,
            "error_max_budget_usd" => Self::Budget,
            "error_max_structured_output_retries" => Self::StructuredOutput,
            // The CLI has no code for this one, so we match its text, of which we have seen two
            // forms.
            _ if result.errors.iter().any(|error| names_no_session(error)) => Self::SessionNotFound,
            "success" => Self::of_status(result.api_error_status),
            "error_during_execution" => Self::Execution,
            _ => Self::Other,
        }
    }

    fn of_status(status: Option<i64>) -> Self {
        match status {
            Some(401 | 403) => Self::NotLoggedIn,
            status => Self::Service(status),
        }
    }
}

fn names_no_session(error: &str) -> bool {
    error.starts_with("No conversation found with session ID")
        || (error.contains("--resume requires a valid session ID")
            && error.contains("does not match any session"))
}

#[cfg(test)]
mod tests;
