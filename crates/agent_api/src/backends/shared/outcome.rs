//! Why a run failed, in our own words: they contain no output of an agent.

use std::process::ExitStatus;

use serde_json::Value;

use crate::{
    AgentWrapperCompletion, AgentWrapperError, AgentWrapperEvent, AgentWrapperKind,
    AgentWrapperOutcome, NO_SESSION_FOUND, SESSION_NOT_FOUND, TIMED_OUT, gate::RunSink,
    run::failed_status,
};

/// How a run ended, for its completion.
pub(crate) type End = Result<AgentWrapperCompletion, AgentWrapperError>;

/// The data of a run for its completion, besides its outcome.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) final_text: Option<String>,
    /// The facet that names the session.
    pub(crate) session: Option<Value>,
    /// The error for a last line that could not be read; used only if the run succeeds.
    pub(crate) unreadable: Option<AgentWrapperEvent>,
}

/// Why the exit status of a process is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The process exceeded its time limit and was ended.
    TimedOut,
    /// The runtime of its owner was shut down.
    RuntimeGone,
    /// The system did not report it.
    Unknown,
}

/// Combines the lines of a run with the exit of its process. Also returns the last event, which for
/// a failed run is its one terminal error.
pub(crate) fn end_of(
    exit: Result<ExitStatus, Lost>,
    outcome: impl FnOnce(ExitStatus) -> AgentWrapperOutcome,
    told: Told,
    kind: &AgentWrapperKind,
) -> (End, Option<AgentWrapperEvent>) {
    let status = match exit {
        Ok(status) => status,
        Err(lost) => {
            let message = match lost {
                Lost::TimedOut => TIMED_OUT,
                Lost::RuntimeGone => "the run was given up because its runtime was shut down",
                Lost::Unknown => "could not tell how the agent ended",
            };
            let last = AgentWrapperEvent::error(kind, message);
            return (Err(AgentWrapperError::backend(message)), Some(last));
        }
    };
    let outcome = outcome(status);
    let last = match &outcome {
        AgentWrapperOutcome::Succeeded => told.unreadable,
        AgentWrapperOutcome::Failed { reason } => {
            Some(AgentWrapperEvent::error(kind, reason.as_str()))
        }
    };
    let end =
        AgentWrapperCompletion { status, outcome, final_text: told.final_text, data: told.session };
    (Ok(end), last)
}

/// Why a run failed. No backend uses all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    NotLoggedIn,
    SessionNotFound,
    /// There is no session to continue.
    NoSession,
    TurnLimit,
    Budget,
    StructuredOutput,
    /// The service refused a request or failed, with its HTTP status if there was one.
    Service(Option<i64>),
    /// The account has reached its usage limit for now.
    UsageLimit,
    /// The conversation no longer fits into the model's context.
    ContextWindow,
    /// The service does not have the model.
    ModelNotFound,
    /// The turn was interrupted.
    Interrupted,
    /// The agent asked for permission, and nobody was there to answer.
    Declined,
    /// The model reached its limit of tokens.
    TokenLimit,
    /// The model refused to continue.
    ModelRefusal,
    /// The agent lacks a capability that its configuration declares.
    NotOffered,
    /// The agent does not keep to the limits that it was started with.
    Limits,
    /// The agent did not start as its protocol requires.
    Handshake,
    /// The agent refused the prompt.
    PromptRefused,
    /// The session exists but could not be continued.
    SessionRefused,
    /// The agent stopped during the turn, because of its own error or an interrupt.
    Execution,
    /// The agent reports an error that we have no name for.
    Other,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotLoggedIn => {
                f.write_str("the agent is not logged in, or its credentials were refused")
            }
            Self::SessionNotFound => f.write_str(SESSION_NOT_FOUND),
            Self::NoSession => f.write_str(NO_SESSION_FOUND),
            Self::TurnLimit => f.write_str("the agent reached its limit of turns"),
            Self::Budget => f.write_str("the agent reached its limit of cost"),
            Self::StructuredOutput => {
                f.write_str("the agent could not produce the structured output it was asked for")
            }
            Self::Service(Some(429)) => {
                f.write_str("the agent's service refused it: too many requests (status 429)")
            }
            Self::Service(Some(status @ 500..=599)) => {
                write!(f, "the agent's service failed (status {status})")
            }
            Self::Service(Some(status)) => {
                write!(f, "the agent's service refused the request (status {status})")
            }
            Self::Service(None) => {
                f.write_str("the agent could not reach its service, or was refused by it")
            }
            Self::UsageLimit => f.write_str("the agent's account has reached its usage limit"),
            Self::ContextWindow => f.write_str("the conversation no longer fits the agent's model"),
            Self::ModelNotFound => f.write_str("the agent's service does not have that model"),
            Self::Interrupted => f.write_str("the agent's turn was interrupted"),
            Self::Declined => {
                f.write_str("the agent asked for leave, and nobody was there to give it")
            }
            Self::TokenLimit => f.write_str("the agent's model reached its limit of tokens"),
            Self::ModelRefusal => f.write_str("the agent's model refused to go on"),
            Self::NotOffered => f.write_str("the agent does not offer what the request asks for"),
            Self::Limits => f.write_str("the agent did not take the limits that it was given"),
            Self::Handshake => f.write_str("the agent could not be spoken to"),
            Self::PromptRefused => f.write_str("the agent did not take the prompt"),
            Self::SessionRefused => f.write_str("the session could not be continued"),
            Self::Execution => f.write_str("the agent stopped with an error while it worked"),
            Self::Other => f.write_str("the agent reported an error"),
        }
    }
}

/// Describes how a process exited, to follow "the agent".
pub(crate) fn exit_in_words(status: ExitStatus) -> String {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return format!("was ended by signal {signal}");
    }
    match status.code() {
        Some(code) => format!("ended with exit code {code}"),
        None => "ended".to_owned(),
    }
}

/// Returns an error with its causes on one line. It contains no output of an agent, because none
/// was started.
pub(crate) fn in_full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

/// Ends a run that failed before a process was started.
pub(crate) async fn refuse(reason: &str, kind: AgentWrapperKind, sink: RunSink) {
    // If the reader is gone, the completion still says it.
    let _ = sink.send(AgentWrapperEvent::error(&kind, reason)).await;
    sink.end(Ok(AgentWrapperCompletion {
        status: failed_status(),
        outcome: AgentWrapperOutcome::Failed { reason: reason.to_owned() },
        final_text: None,
        data: None,
    }));
}
