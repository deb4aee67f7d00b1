//! The helpers that the test programs of this crate share.

#![allow(dead_code, reason = "each test program uses its own part of this")]

#[cfg(target_os = "linux")]
pub(crate) mod acp;
pub(crate) mod acp_agent;
pub(crate) mod cases;
#[cfg(target_os = "linux")]
pub(crate) mod claude;
#[cfg(target_os = "linux")]
pub(crate) mod codex;
pub(crate) mod codex_server;
pub(crate) mod kept;
pub(crate) mod scripted;
pub(crate) mod stand_in;

use agent_api::{
    AgentWrapperCompletion, AgentWrapperError, AgentWrapperEvent, AgentWrapperEventKind,
    AgentWrapperOutcome,
};
use anyhow::{Result, bail, ensure};

/// A run that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) events: Vec<AgentWrapperEvent>,
    pub(crate) result: Result<AgentWrapperCompletion, AgentWrapperError>,
}

impl Ended {
    /// Returns the text of all events, joined.
    pub(crate) fn text(&self) -> String {
        self.events.iter().filter_map(|event| event.text.as_deref()).collect()
    }

    pub(crate) fn count(&self, kind: AgentWrapperEventKind) -> usize {
        self.events.iter().filter(|event| event.kind == kind).count()
    }

    /// Returns the completion of a run that must have succeeded.
    pub(crate) fn succeeded(&self) -> Result<&AgentWrapperCompletion> {
        match &self.result {
            Ok(completion) if completion.outcome == AgentWrapperOutcome::Succeeded => {
                Ok(completion)
            }
            other => bail!("the run ended with {other:?} after {:?}", self.events),
        }
    }

    /// Checks that an answer broke off in the middle and its text was forwarded once all the same.
    pub(crate) fn broke_off_and_was_said_once(&self, text: &str) -> Result<()> {
        self.succeeded()?;
        let retried = |event: &AgentWrapperEvent| {
            event.message.as_deref().is_some_and(|said| said.contains("tried again"))
        };
        let before = self.events.iter().take_while(|event| !retried(event));
        let seen: String = before.filter_map(|event| event.text.as_deref()).collect();
        ensure!(
            !seen.is_empty() && seen.len() < text.len(),
            "the answer did not break in the middle: {seen:?}"
        );
        ensure!(self.text() == text, "{:?} in {:#?}", self.text(), self.events);
        Ok(())
    }

    /// Checks that the run failed for this reason and that its last event says so.
    pub(crate) fn failed_with(&self, expected: &str) -> Result<()> {
        let Ok(AgentWrapperCompletion { outcome: AgentWrapperOutcome::Failed { reason }, .. }) =
            &self.result
        else {
            bail!("the run ended with {:?}", self.result);
        };
        ensure!(reason == expected, "the run failed because {reason:?}");
        let last = self.events.last();
        ensure!(
            last.is_some_and(|event| event.kind == AgentWrapperEventKind::Error
                && event.message.as_deref() == Some(expected)),
            "the last event is {last:?}"
        );
        Ok(())
    }
}
