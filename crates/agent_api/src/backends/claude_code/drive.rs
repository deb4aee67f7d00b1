//! The task that owns one run: reads the CLI's lines, forwards what they mean, ends the process when asked, and says how it ended.

use std::process::ExitStatus;

use claude_code::{ClaudeCodeError, ClaudePrintStreamJsonHandle};
use futures::StreamExt;

use super::translate::Translator;
use crate::{
    AgentWrapperCompletion, AgentWrapperError, AgentWrapperEvent, AgentWrapperKind, AgentWrapperOutcome, CANCELLED,
    TIMED_OUT,
    gate::{Forwarded, RunSink},
    run::failed_status,
};

/// One run of the CLI.
pub(super) struct Run {
    pub(super) process: ClaudePrintStreamJsonHandle,
    pub(super) kind: AgentWrapperKind,
    pub(super) translator: Translator,
    /// What is said before everything else.
    pub(super) opening: Option<AgentWrapperEvent>,
}

/// Whether the lines were read to their end.
enum Reading {
    Ended,
    Cancelled,
}

impl Run {
    /// Runs to the end. The process is gone before the sink is told of it.
    pub(super) async fn drive(self, sink: RunSink) {
        let Self { process, kind, mut translator, opening } = self;
        let termination = process.termination();
        let ClaudePrintStreamJsonHandle { mut events, completion, .. } = process;

        let reading = async {
            if let Some(opening) = opening
                && sink.send(opening).await == Forwarded::Cancelled
            {
                return Reading::Cancelled;
            }
            while let Some(line) = events.next().await {
                let told = match line {
                    Ok(line) => translator.line(&line),
                    Err(_) => vec![translator.unreadable()],
                };
                for event in told {
                    // An event that nobody reads is as good as sent: the run is drained to its end.
                    if sink.send(event).await == Forwarded::Cancelled {
                        return Reading::Cancelled;
                    }
                }
            }
            Reading::Ended
        };
        let reading = tokio::select! {
            biased;
            () = sink.cancelled() => Reading::Cancelled,
            reading = reading => reading,
        };
        match reading {
            Reading::Cancelled => {
                termination.terminate();
                // Nobody reads on, and a child that waits for room in a pipe would not hear that it should end.
                drop(events);
                // How it ends does not matter any more, only that it has.
                let _ = completion.await;
                sink.end(Err(AgentWrapperError::backend(CANCELLED)));
            }
            Reading::Ended => {
                let end = end_of(completion.await, translator);
                say_failure(&end, &kind, &sink).await;
                sink.end(end);
            }
        }
    }
}

/// Ends a run whose session was not found, without a process.
pub(super) async fn refuse(reason: &'static str, kind: AgentWrapperKind, sink: RunSink) {
    let end = Ok(AgentWrapperCompletion {
        status: failed_status(),
        outcome: AgentWrapperOutcome::Failed { reason: reason.to_owned() },
        final_text: None,
        data: None,
    });
    say_failure(&end, &kind, &sink).await;
    sink.end(end);
}

/// Joins what was told with how the process exited.
fn end_of(
    exit: Result<ExitStatus, ClaudeCodeError>,
    translator: Translator,
) -> Result<AgentWrapperCompletion, AgentWrapperError> {
    let status = exit.map_err(|error| {
        AgentWrapperError::backend(match error {
            ClaudeCodeError::Timeout { .. } => TIMED_OUT,
            ClaudeCodeError::RunLost => "the run was given up because its runtime was shut down",
            // The others are errors of starting, and the process was started.
            _ => "could not tell how the agent ended",
        })
    })?;
    let told = translator.told();
    let outcome = told.verdict.outcome(status);
    Ok(AgentWrapperCompletion { status, outcome, final_text: told.final_text, data: told.session })
}

/// Sends the one error event that a failed run ends with.
async fn say_failure(end: &Result<AgentWrapperCompletion, AgentWrapperError>, kind: &AgentWrapperKind, sink: &RunSink) {
    let reason = match end {
        Ok(AgentWrapperCompletion { outcome: AgentWrapperOutcome::Succeeded, .. }) => return,
        Ok(AgentWrapperCompletion { outcome: AgentWrapperOutcome::Failed { reason }, .. }) => reason.clone(),
        Err(error) => error.to_string(),
    };
    // A reader that is gone reads the completion instead.
    let _ = sink.send(AgentWrapperEvent::error(kind, reason)).await;
}
