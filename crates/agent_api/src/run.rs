//! The handles that a caller holds during a run, and the result at its end.

use std::{fmt, process::ExitStatus, sync::Arc};

use futures::{future::BoxFuture, stream::BoxStream};
use serde_json::Value;

use crate::{AgentWrapperError, AgentWrapperEvent};

/// The events of a run, while it continues.
pub type DynAgentWrapperEventStream = BoxStream<'static, AgentWrapperEvent>;
/// A future that resolves to how a run ended.
pub type DynAgentWrapperCompletion =
    BoxFuture<'static, Result<AgentWrapperCompletion, AgentWrapperError>>;

/// A run: its events, and how it ends.
///
/// `completion` resolves once the process has exited **and** `events` has yielded its end. A caller
/// that does not need the events drops them; the run then continues to its end. Dropping both
/// cancels the run.
#[must_use = "dropping the handle cancels the run"]
pub struct AgentWrapperRunHandle {
    /// The events, in order, each once. A slow reader makes the agent wait (back-pressure).
    pub events: DynAgentWrapperEventStream,
    /// How the run ended. Await it after the end of `events`, concurrently with reading them, or
    /// after dropping them. While `events` is held but not read to its end, it resolves only if
    /// the run is cancelled.
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
    /// Cancels the run. Dropping this does nothing.
    pub cancel: AgentWrapperCancelHandle,
}

/// Cancels a run.
///
/// After [`cancel`](Self::cancel) no event is forwarded, `events` ends, the agent and everything it
/// started die, and then `completion` is `Err(Backend { message: "cancelled" })`. This holds even
/// if the run had already ended but nobody had observed it, and whether or not anybody reads
/// `events` to its end. After `completion` was observed, a cancel does nothing.
#[derive(Clone)]
pub struct AgentWrapperCancelHandle {
    act: Arc<dyn Fn() + Send + Sync>,
}

impl AgentWrapperCancelHandle {
    /// Creates a handle that calls `act` on a cancel. `act` may be called any number of times, from
    /// any thread.
    pub fn new(act: impl Fn() + Send + Sync + 'static) -> Self {
        Self { act: Arc::new(act) }
    }

    /// Asks the run to end. Returns at once; `completion` resolves when it is over.
    pub fn cancel(&self) {
        (self.act)();
    }
}

impl fmt::Debug for AgentWrapperCancelHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentWrapperCancelHandle").finish_non_exhaustive()
    }
}

/// How a run ended that ended by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentWrapperCompletion {
    /// The exit status of the process. A run that failed before a process was started has the
    /// status of a failed command (code 1).
    pub status: ExitStatus,
    /// Whether the agent did its task.
    pub outcome: AgentWrapperOutcome,
    /// The text of the last assistant message.
    pub final_text: Option<String>,
    /// The facet that names the session, if the backend has sessions.
    pub data: Option<Value>,
}

/// Whether the agent did its task. An exit status alone does not tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentWrapperOutcome {
    /// The agent reports success, and its backend has declined none of its requests.
    Succeeded,
    /// The agent did not finish its task.
    Failed {
        /// The reason, in our own words.
        reason: String,
    },
}

/// Returns the status of a run that failed before a process was started.
#[cfg(any(feature = "claude_code", feature = "codex", feature = "acp"))]
pub(crate) fn failed_status() -> ExitStatus {
    #[cfg(unix)]
    return std::os::unix::process::ExitStatusExt::from_raw(1 << 8);
    #[cfg(windows)]
    return std::os::windows::process::ExitStatusExt::from_raw(1);
}
