//! The `acp` backend as a subject of the conformance suite, with a scripted agent.

use std::{env, fs, path::PathBuf, sync::Arc};

use agent_api::{
    AgentWrapperBackend, AgentWrapperRunRequest,
    backends::acp::{AcpBackend, AcpBackendConfig, AcpOffer},
    conformance::{Defaults, Launch, Scenario, Subject},
};

use super::stand_in::{self, ACP_HOME, RECORD_DIR};

/// The backend, with directories of its own.
pub(crate) struct AcpSubject {
    folder: tempfile::TempDir,
    pub(crate) config: AcpBackendConfig,
    marker: String,
}

impl AcpSubject {
    /// Creates the backend with a scripted agent that supports everything.
    pub(crate) fn over_stand_in() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for part in ["work", "records", "home"] {
            fs::create_dir(folder.path().join(part)).unwrap();
        }
        let marker = format!("agent-api-test{}", folder.path().display());
        let path = |part: &str| folder.path().join(part).display().to_string();
        let mut config = AcpBackendConfig::new(env::current_exe().unwrap(), ["acp"]);
        config.env = [
            (RECORD_DIR.to_owned(), path("records")),
            (ACP_HOME.to_owned(), path("home")),
            ("AGENT_API_MARKER".to_owned(), marker.clone()),
        ]
        .into();
        config.offers =
            [AcpOffer::Resume, AcpOffer::Fork, AcpOffer::Model, AcpOffer::AddDirs].into();
        config.expected_mode = Some("ask".to_owned());
        Self { folder, config, marker }
    }

    /// Returns the working directory of the agents.
    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Returns a request with this prompt, in this subject's directory.
    pub(crate) fn prompt(&self, prompt: impl Into<String>) -> AgentWrapperRunRequest {
        let mut request = AgentWrapperRunRequest::new(prompt);
        request.working_dir = Some(self.work());
        request
    }
}

impl Subject for AcpSubject {
    fn backend(&self) -> Arc<dyn AgentWrapperBackend> {
        Arc::new(AcpBackend::new(self.config.clone()))
    }

    fn backend_with(&self, defaults: &Defaults) -> Option<Arc<dyn AgentWrapperBackend>> {
        let mut config = self.config.clone();
        config.env.extend(defaults.env.clone());
        config.default_working_dir = defaults.working_dir.clone();
        config.default_timeout = defaults.timeout;
        Some(Arc::new(AcpBackend::new(config)))
    }

    fn backend_in_sandbox(&self) -> Option<Arc<dyn AgentWrapperBackend>> {
        let config = AcpBackendConfig { allow_external_sandbox_exec: true, ..self.config.clone() };
        Some(Arc::new(AcpBackend::new(config)))
    }

    fn request(&self, scenario: &Scenario) -> Option<AgentWrapperRunRequest> {
        let mut request = self.prompt(serde_json::to_string(scenario).ok()?);
        stand_in::prepare(&mut request, scenario);
        Some(request)
    }

    fn launches(&self) -> Vec<Launch> {
        stand_in::launches(&self.folder.path().join("records"))
    }

    fn living(&self) -> usize {
        testkit::process::marked(&self.marker).unwrap().len()
    }
}
