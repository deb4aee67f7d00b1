//! What a backend must bring to be checked.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{AgentWrapperBackend, AgentWrapperRunRequest};

/// A backend under test, with an agent that plays scenarios.
pub trait Subject: Send + Sync {
    /// Makes the backend as a user without special wishes would.
    fn backend(&self) -> Arc<dyn AgentWrapperBackend>;

    /// Makes a backend with these defaults in its configuration, if it has one.
    fn backend_with(&self, defaults: &Defaults) -> Option<Arc<dyn AgentWrapperBackend>>;

    /// Makes a backend whose configuration allows `agent_api.exec.external_sandbox.v1`, if there is
    /// such a thing.
    fn backend_in_sandbox(&self) -> Option<Arc<dyn AgentWrapperBackend>>;

    /// Makes the request that lets the agent play `scenario`, or `None` when it cannot.
    fn request(&self, scenario: &Scenario) -> Option<AgentWrapperRunRequest>;

    /// Returns what this subject's backends have started so far, in order.
    fn launches(&self) -> Vec<Launch>;

    /// Counts what this subject's runs have started and what still lives, descendants included.
    fn living(&self) -> usize;
}

/// What the agent is to do. Texts are single lines without spaces at their ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scenario {
    /// Says `text` in one message and succeeds.
    Say {
        /// What to say.
        text: String,
    },
    /// Says `before`, uses one tool that needs nobody's leave, says `after` in another message and
    /// succeeds.
    UseTool {
        /// What to say first.
        before: String,
        /// What stands in the tool's input and in its output.
        secret: String,
        /// What to say last.
        after: String,
    },
    /// Says `text`, then wants a tool that somebody would have to allow; goes on without it and
    /// comes to an end.
    NeedLeave {
        /// What to say first.
        text: String,
    },
    /// Says `text`, starts a process of its own if it can, and then does nothing until it is ended.
    Hang {
        /// What to say first.
        text: String,
    },
    /// Says `messages` texts of `bytes` bytes each and succeeds.
    Flood {
        /// How many texts.
        messages: u32,
        /// How long each is.
        bytes: usize,
    },
    /// Fails, printing `secret` wherever an agent prints why.
    Fail {
        /// What must not get out.
        secret: String,
    },
    /// Says `text` and succeeds; prints `secret` as an unreadable line, to its error output, and
    /// wherever else no reader of events should see it.
    Leak {
        /// What to say.
        text: String,
        /// What must not get out.
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

/// What an agent was started with, as seen from its side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// Its working directory.
    pub working_dir: PathBuf,
    /// Its environment, or at least every variable whose name begins with `AGENT_API_`.
    pub env: BTreeMap<String, String>,
    /// The model it was told to use.
    pub model: Option<String>,
    /// The additional directories it was given.
    pub add_dirs: Vec<PathBuf>,
}
