//! The `codex` backend as a subject of the conformance suite: with a scripted server, or with the
//! real CLI.

use std::{
    env, fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use agent_api::{
    AgentWrapperBackend, AgentWrapperRunRequest,
    backends::codex::{CodexBackend, CodexBackendConfig, CodexEnvironment},
    conformance::{Defaults, Launch, Scenario, Subject},
};
use testkit::responses_api::ResponsesApi;

use super::stand_in::{self, CODEX_SERVER, REAL_CLI, RECORD_DIR};

/// Turns a scenario into a prompt for the backend's agent, if it can play it.
pub(crate) type PromptOf = fn(&Scenario) -> Option<String>;

/// The backend, with directories of its own.
pub(crate) struct CodexSubject {
    folder: tempfile::TempDir,
    config: CodexBackendConfig,
    prompt_of: PromptOf,
    marker: String,
    /// The stand-in service, which knows the model that the real CLI requested.
    api: Option<Arc<ResponsesApi>>,
}

impl CodexSubject {
    /// Creates the backend with a scripted server.
    pub(crate) fn over_stand_in() -> Self {
        let scenario_itself = |scenario: &Scenario| serde_json::to_string(scenario).ok();
        let mut subject = Self::new(env::temp_dir(), scenario_itself);
        let home = subject.folder.path().join("home").display().to_string();
        subject.config.env.insert("CODEX_HOME".to_owned(), home);
        subject.config.env.insert(CODEX_SERVER.to_owned(), "1".to_owned());
        subject
    }

    /// Creates the backend with the real CLI, and with an environment that isolates it from
    /// everything real.
    pub(crate) fn over_real_cli(
        cli: &Path,
        prompt_of: PromptOf,
        env: Vec<(String, String)>,
        api: Arc<ResponsesApi>,
    ) -> Self {
        // The CLI's sandbox hides the directory for temporary files from commands.
        let mut subject = Self::new(PathBuf::from("/var/tmp"), prompt_of);
        subject.config.env.extend(env);
        subject.config.env.insert(REAL_CLI.to_owned(), cli.display().to_string());
        subject.config.environment = CodexEnvironment::Clear;
        subject.api = Some(api);
        subject
    }

    fn new(below: PathBuf, prompt_of: PromptOf) -> Self {
        let folder = tempfile::tempdir_in(below).unwrap();
        for part in ["work", "records", "home"] {
            fs::create_dir(folder.path().join(part)).unwrap();
        }
        let marker = format!("agent-api-test{}", folder.path().display());
        let records = folder.path().join("records").display().to_string();
        let config = CodexBackendConfig {
            binary: Some(env::current_exe().unwrap()),
            env: [
                (RECORD_DIR.to_owned(), records),
                ("AGENT_API_MARKER".to_owned(), marker.clone()),
            ]
            .into(),
            ..CodexBackendConfig::default()
        };
        Self { folder, config, prompt_of, marker, api: None }
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

impl Subject for CodexSubject {
    fn backend(&self) -> Arc<dyn AgentWrapperBackend> {
        Arc::new(CodexBackend::new(self.config.clone()))
    }

    fn backend_with(&self, defaults: &Defaults) -> Option<Arc<dyn AgentWrapperBackend>> {
        let mut config = self.config.clone();
        config.env.extend(defaults.env.clone());
        config.default_working_dir = defaults.working_dir.clone();
        config.default_timeout = defaults.timeout;
        Some(Arc::new(CodexBackend::new(config)))
    }

    fn backend_in_sandbox(&self) -> Option<Arc<dyn AgentWrapperBackend>> {
        let config =
            CodexBackendConfig { allow_external_sandbox_exec: true, ..self.config.clone() };
        Some(Arc::new(CodexBackend::new(config)))
    }

    fn request(&self, scenario: &Scenario) -> Option<AgentWrapperRunRequest> {
        let mut request = self.prompt((self.prompt_of)(scenario)?);
        stand_in::prepare(&mut request, scenario);
        Some(request)
    }

    fn launches(&self) -> Vec<Launch> {
        let mut launches = stand_in::launches(&self.folder.path().join("records"));
        // The model of the real CLI shows in its request to the service.
        if let (Some(api), Some(last)) = (&self.api, launches.last_mut()) {
            let asked = api.requests().pop();
            last.model = asked.and_then(|body| Some(body["model"].as_str()?.to_owned()));
        }
        launches
    }

    fn living(&self) -> usize {
        testkit::process::marked(&self.marker).unwrap().len()
    }
}
