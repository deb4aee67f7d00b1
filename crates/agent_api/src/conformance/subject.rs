//! The interface that the suite needs to check a backend.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{AgentWrapperBackend, AgentWrapperRunRequest};

/// A backend under test, with an agent that plays scenarios.
pub trait Subject: Send + Sync {
    /// Creates the backend with default settings.
    fn backend(&self) -> Arc<dyn AgentWrapperBackend>;

    /// Creates a backend with these defaults in its configuration; `None` if it has no such
    /// defaults.
    fn backend_with(&self, defaults: &Defaults) -> Option<Arc<dyn AgentWrapperBackend>>;

    /// Creates a backend whose configuration allows `agent_api.exec.external_sandbox.v1`; `None` if
    /// it cannot.
    fn backend_in_sandbox(&self) -> Option<Arc<dyn AgentWrapperBackend>>;

    /// Creates the request that makes the agent play `scenario`, or `None` if it cannot play it.
    fn request(&self, scenario: &Scenario) -> Option<AgentWrapperRunRequest>;

    /// Returns the agents that this subject's backends have started so far, in order.
    fn launches(&self) -> Vec<Launch>;

    /// Counts the living processes that this subject's runs have started, descendants included.
    fn living(&self) -> usize;
}

/// The script of the agent. Texts are single lines without spaces at their ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scenario {
    /// Says `text` in one message and succeeds.
    Say {
        /// The text.
        text: String,
    },
    /// Says `before`, uses one tool that needs no permission, says `after` in another message and
    /// succeeds.
    UseTool {
        /// The first text.
        before: String,
        /// The text in the tool's input and output.
        secret: String,
        /// The last text.
        after: String,
    },
    /// Says `text`, then tries a tool that needs permission; continues without it and ends.
    NeedLeave {
        /// The first text.
        text: String,
    },
    /// Says `text`, starts a process of its own if it can, and then does nothing until it is ended.
    Hang {
        /// The first text.
        text: String,
    },
    /// Says `messages` texts of `bytes` bytes each and succeeds.
    Flood {
        /// The number of texts.
        messages: u32,
        /// The size of each text.
        bytes: usize,
    },
    /// Fails, and prints `secret` wherever an agent prints the reason.
    Fail {
        /// The text that no event and no error may contain.
        secret: String,
    },
    /// Says `text` and succeeds; prints `secret` as an unreadable line, to its error output, and
    /// wherever else no reader of events should see it.
    Leak {
        /// The text.
        text: String,
        /// The text that no event and no error may contain.
        secret: String,
    },
}

/// Defaults in a backend's configuration, which a request overrides.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Defaults {
    /// The environment.
    pub env: BTreeMap<String, String>,
    /// The working directory.
    pub working_dir: Option<PathBuf>,
    /// The time limit.
    pub timeout: Option<Duration>,
}

/// The circumstances of one start, as the agent sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// Its working directory.
    pub working_dir: PathBuf,
    /// Its environment, or at least every variable whose name begins with `AGENT_API_`.
    pub env: BTreeMap<String, String>,
    /// The model that the agent was given.
    pub model: Option<String>,
    /// The additional directories that the agent was given.
    pub add_dirs: Vec<PathBuf>,
}
