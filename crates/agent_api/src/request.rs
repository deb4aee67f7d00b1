//! The request of a caller to an agent.

use std::{collections::BTreeMap, fmt, path::PathBuf, time::Duration};

use serde_json::Value;

/// A prompt and the circumstances it runs in. Absent fields have the backend's defaults.
#[derive(Clone, Default, PartialEq)]
pub struct AgentWrapperRunRequest {
    /// The prompt; must not be blank.
    pub prompt: String,
    /// The working directory. A relative path is resolved when the run starts.
    pub working_dir: Option<PathBuf>,
    /// The time limit of the run, from its start to the end of its process.
    pub timeout: Option<Duration>,
    /// Environment variables of the run. They override the backend's; the environment of this
    /// process is not changed.
    pub env: BTreeMap<String, String>,
    /// Values by capability id; a key that the backend does not advertise is refused.
    pub extensions: BTreeMap<String, Value>,
}

impl AgentWrapperRunRequest {
    /// Creates a request with a prompt and nothing else.
    pub fn new(prompt: impl Into<String>) -> Self {
        Self { prompt: prompt.into(), ..Self::default() }
    }

    /// Adds an extension value.
    #[must_use]
    pub fn with_extension(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        self.extensions.insert(key.into(), value.into());
        self
    }
}

/// Shows the names of the environment variables without their values, because values may be secrets
/// and requests are logged.
impl fmt::Debug for AgentWrapperRunRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentWrapperRunRequest")
            .field("prompt_bytes", &self.prompt.len())
            .field("working_dir", &self.working_dir)
            .field("timeout", &self.timeout)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("extensions", &self.extensions.keys().collect::<Vec<_>>())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_value() {
        let mut request =
            AgentWrapperRunRequest::new("say hunter2").with_extension("key", "hunter2");
        request.env.insert("TOKEN".to_owned(), "hunter2".to_owned());
        let shown = format!("{request:?}");
        assert!(shown.contains("TOKEN"));
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
