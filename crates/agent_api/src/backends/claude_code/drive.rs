//! The task that owns one run. It reads the CLI's lines, forwards them as events, ends the process
//! on request, and reports how it ended.

use claude_code::{ClaudeCodeError, ClaudePrintStreamJsonHandle};
use futures::StreamExt;

use super::translate::Translator;
use crate::{
    AgentWrapperError, AgentWrapperEvent, AgentWrapperKind, CANCELLED,
    backends::shared::outcome::{Lost, end_of},
    gate::{Forwarded, RunSink},
};

/// One run of the CLI.
pub(super) struct Run {
    pub(super) process: ClaudePrintStreamJsonHandle,
    pub(super) kind: AgentWrapperKind,
    pub(super) translator: Translator,
    /// The first event, before any other.
    pub(super) opening: Option<AgentWrapperEvent>,
}

/// How reading the lines ended.
enum Reading {
    Ended,
    Cancelled,
}

impl Run {
    /// Runs to the end. The process is gone before the sink is told of the end.
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
                    Err(_) => translator.unreadable().into_iter().collect(),
                };
                for event in told {
                    // An event without a reader counts as sent: the run is drained to its end.
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
                // The events are dropped before the wait: nobody reads them any more, and a child
                // that waits for room in a pipe would not notice that it should end.
                drop(events);
                // Only the end matters here, not the exit status.
                let _ = completion.await;
                sink.end(Err(AgentWrapperError::backend(CANCELLED)));
            }
            Reading::Ended => {
                let exit = completion.await.map_err(|error| match error {
                    ClaudeCodeError::Timeout { .. } => Lost::TimedOut,
                    ClaudeCodeError::RunLost => Lost::RuntimeGone,
                    // The other errors are about starting, but the process was started.
                    _ => Lost::Unknown,
                });
                let (verdict, told) = translator.told();
                let (end, last) = end_of(exit, |status| verdict.outcome(status), told, &kind);
                if let Some(last) = last {
                    // If the reader is gone, the completion still says it.
                    let _ = sink.send(last).await;
                }
                sink.end(end);
            }
        }
    }
}
