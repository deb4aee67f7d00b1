//! What a caller holds while a run goes on, and what it gets at the end.

use std::{fmt, process::ExitStatus, sync::Arc};

use futures::{future::BoxFuture, stream::BoxStream};
use serde_json::Value;

use crate::{AgentWrapperError, AgentWrapperEvent};

/// The events of a run, while it goes on.
pub type DynAgentWrapperEventStream = BoxStream<'static, AgentWrapperEvent>;
/// How a run ended, once it has.
pub type DynAgentWrapperCompletion =
    BoxFuture<'static, Result<AgentWrapperCompletion, AgentWrapperError>>;

/// A run: what it does, and how it ends.
///
/// `completion` resolves once the process has exited **and** `events` has yielded its end. Whoever
/// does not want the events drops them; the run then goes on to its end unseen. Dropping both
/// cancels it.
#[must_use = "dropping the handle cancels the run"]
pub struct AgentWrapperRunHandle {
    /// What happens, in order, each thing once. A reader that is slow makes the agent wait.
    pub events: DynAgentWrapperEventStream,
    /// How it ended. Await it after the end of `events`, or without them, or beside them; never
    /// instead of them.
    pub completion: DynAgentWrapperCompletion,
}

impl fmt::Debug for AgentWrapperRunHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentWrapperRunHandle").finish_non_exhaustive()
    }
}

/// A run that can be cancelled.
#[must_use = "dropping the handle cancels the run"]
#[derive(Debug)]
pub struct AgentWrapperRunControl {
    /// The run.
    pub handle: AgentWrapperRunHandle,
    /// Ends it before its time. Dropping this does nothing.
    pub cancel: AgentWrapperCancelHandle,
}

/// Ends a run before its time.
///
/// From the moment of [`cancel`](Self::cancel) no event is forwarded, `events` ends, the agent and
/// everything it started die, and then `completion` is `Err(Backend { message: "cancelled" })`,
/// also when the run had come to its end but nobody had seen it, and whether or not anybody reads
/// `events` to its end. After `completion` was observed, it does nothing.
#[derive(Clone)]
pub struct AgentWrapperCancelHandle {
    act: Arc<dyn Fn() + Send + Sync>,
}

impl AgentWrapperCancelHandle {
    /// Makes a handle of what to do when somebody cancels. `act` may be called any number of times,
    /// from any thread.
    pub fn new(act: impl Fn() + Send + Sync + 'static) -> Self {
        Self { act: Arc::new(act) }
    }

    /// Asks for the end of the run. Returns at once; `completion` says when it is over.
    pub fn cancel(&self) {
        (self.act)();
    }
}

impl fmt::Debug for AgentWrapperCancelHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentWrapperCancelHandle").finish_non_exhaustive()
    }
}

/// How a run that came to an end of its own ended.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentWrapperCompletion {
    /// How the process exited. A run that failed before a process was started has the status of a
    /// command that failed (code 1).
    pub status: ExitStatus,
    /// Whether the agent did what it was asked.
    pub outcome: AgentWrapperOutcome,
    /// The text of the last assistant message.
    pub final_text: Option<String>,
    /// The facet that names the session, where the backend has sessions.
    pub data: Option<Value>,
}

/// Whether the agent did what it was asked. An exit status alone does not tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentWrapperOutcome {
    /// The agent says that it is done, and its backend has declined nothing that it asked for.
    Succeeded,
    /// It is not done.
    Failed {
        /// Why, in our own words.
        reason: String,
    },
}

/// The status of a run that failed before a process was started.
#[cfg(any(feature = "claude_code", feature = "codex", feature = "acp"))]
pub(crate) fn failed_status() -> ExitStatus {
    #[cfg(unix)]
    return std::os::unix::process::ExitStatusExt::from_raw(1 << 8);
    #[cfg(windows)]
    return std::os::windows::process::ExitStatusExt::from_raw(1);
}
