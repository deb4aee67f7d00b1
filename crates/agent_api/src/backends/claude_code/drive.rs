//! The task that owns one run: reads the CLI's lines, forwards what they mean, ends the process
//! when asked, and says how it ended.

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
                    Err(_) => translator.unreadable().into_iter().collect(),
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
                // Nobody reads on, and a child that waits for room in a pipe would not hear that it
                // should end.
                drop(events);
                // How it ends does not matter any more, only that it has.
                let _ = completion.await;
                sink.end(Err(AgentWrapperError::backend(CANCELLED)));
            }
            Reading::Ended => {
                let exit = completion.await.map_err(|error| match error {
                    ClaudeCodeError::Timeout { .. } => Lost::TimedOut,
                    ClaudeCodeError::RunLost => Lost::RuntimeGone,
                    // The others are errors of starting, and the process was started.
                    _ => Lost::Unknown,
                });
                let (verdict, told) = translator.told();
                let (end, last) = end_of(exit, |status| verdict.outcome(status), told, &kind);
                if let Some(last) = last {
                    // A reader that is gone reads the completion instead.
                    let _ = sink.send(last).await;
                }
                sink.end(end);
            }
        }
    }
}
