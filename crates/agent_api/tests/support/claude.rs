//! The `claude_code` backend as a subject of the conformance suite: over the simulator, or over the
//! real CLI.

use std::{
    env, fs,
    io::{self, BufRead, BufReader},
    path::{Path, PathBuf},
    sync::Arc,
};

use agent_api::{
    AgentWrapperBackend, AgentWrapperRunRequest,
    backends::claude_code::{
        ClaudeCodeBackend, ClaudeCodeBackendConfig, ClaudeCodeEnvironment, ClaudeCodeSessionLookup,
        ClaudeCodeTranscripts,
    },
    conformance::{Defaults, Launch, Scenario, Subject},
};
use futures::StreamExt;
use serde_json::json;

use super::{
    Ended,
    stand_in::{self, DESCENDANT, LEAK, REAL_CLI, RECORD_DIR},
};

/// Runs a request and reads everything.
pub(crate) async fn run_to_end(
    backend: &Arc<dyn AgentWrapperBackend>,
    request: AgentWrapperRunRequest,
) -> anyhow::Result<Ended> {
    let handle = backend.run(request).await?;
    let events = handle.events.collect().await;
    Ok(Ended { events, result: handle.completion.await })
}

/// Turns a scenario into a prompt that the agent behind the backend understands, if it can play it
/// in that directory.
pub(crate) type PromptOf = fn(&Scenario, &Path) -> Option<String>;

/// The backend, with folders of its own.
pub(crate) struct ClaudeSubject {
    folder: tempfile::TempDir,
    config: ClaudeCodeBackendConfig,
    prompt_of: PromptOf,
    marker: String,
}

impl ClaudeSubject {
    /// The backend over the simulator.
    pub(crate) fn over_simulator() -> Self {
        let mut subject = Self::new(simulator_prompt, Arc::new(SimulatorTranscripts));
        let config_dir = subject.folder.path().join("config").display().to_string();
        subject.config.env.insert("CLAUDE_CONFIG_DIR".to_owned(), config_dir);
        subject
    }

    /// The backend over the real CLI, with the environment that keeps it away from everything real.
    pub(crate) fn over_real_cli(
        cli: &Path,
        prompt_of: PromptOf,
        env: Vec<(String, String)>,
    ) -> Self {
        let mut subject = Self::new(prompt_of, Arc::new(ClaudeCodeTranscripts));
        subject.config.env.extend(env);
        subject.config.env.insert(REAL_CLI.to_owned(), cli.display().to_string());
        subject.config.environment = ClaudeCodeEnvironment::Clear;
        subject
    }

    fn new(prompt_of: PromptOf, sessions: Arc<dyn ClaudeCodeSessionLookup>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for part in ["work", "records", "config"] {
            fs::create_dir(folder.path().join(part)).unwrap();
        }
        let marker = format!("agent-api-test{}", folder.path().display());
        let records = folder.path().join("records").display().to_string();
        let config = ClaudeCodeBackendConfig {
            binary: Some(env::current_exe().unwrap()),
            env: [
                (RECORD_DIR.to_owned(), records),
                ("AGENT_API_MARKER".to_owned(), marker.clone()),
            ]
            .into(),
            sessions,
            ..ClaudeCodeBackendConfig::default()
        };
        Self { folder, config, prompt_of, marker }
    }

    /// Where the agents work.
    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// A request with this prompt, in this subject's directory.
    pub(crate) fn prompt(&self, prompt: impl Into<String>) -> AgentWrapperRunRequest {
        let mut request = AgentWrapperRunRequest::new(prompt);
        request.working_dir = Some(self.work());
        request
    }
}

impl Subject for ClaudeSubject {
    fn backend(&self) -> Arc<dyn AgentWrapperBackend> {
        Arc::new(ClaudeCodeBackend::new(self.config.clone()))
    }

    fn backend_with(&self, defaults: &Defaults) -> Option<Arc<dyn AgentWrapperBackend>> {
        let mut config = self.config.clone();
        config.env.extend(defaults.env.clone());
        config.default_working_dir = defaults.working_dir.clone();
        config.default_timeout = defaults.timeout;
        Some(Arc::new(ClaudeCodeBackend::new(config)))
    }

    fn backend_in_sandbox(&self) -> Option<Arc<dyn AgentWrapperBackend>> {
        let config =
            ClaudeCodeBackendConfig { allow_external_sandbox_exec: true, ..self.config.clone() };
        Some(Arc::new(ClaudeCodeBackend::new(config)))
    }

    fn request(&self, scenario: &Scenario) -> Option<AgentWrapperRunRequest> {
        let mut request = self.prompt((self.prompt_of)(scenario, &self.work())?);
        match scenario {
            Scenario::Hang { .. } => {
                drop(request.env.insert(DESCENDANT.to_owned(), "1".to_owned()))
            }
            Scenario::Leak { secret, .. } | Scenario::UseTool { secret, .. } => {
                fs::write(self.work().join(format!("{secret}.txt")), format!("{secret}\n"))
                    .unwrap();
                if matches!(scenario, Scenario::Leak { .. }) {
                    request.env.insert(LEAK.to_owned(), secret.clone());
                }
            }
            Scenario::Say { .. }
            | Scenario::NeedLeave { .. }
            | Scenario::Flood { .. }
            | Scenario::Fail { .. } => {}
        }
        Some(request)
    }

    fn launches(&self) -> Vec<Launch> {
        stand_in::launches(&self.folder.path().join("records"))
    }

    fn living(&self) -> usize {
        testkit::process::marked(&self.marker).unwrap().len()
    }
}

/// The scenarios in the simulator's language.
fn simulator_prompt(scenario: &Scenario, _work: &Path) -> Option<String> {
    let read =
        |secret: &str| format!("tool Read {}", json!({"file_path": format!("{secret}.txt")}));
    let script = match scenario {
        Scenario::Say { text } => format!("say {text}"),
        Scenario::UseTool { before, secret, after } => {
            format!("say {before}\n{}\nsay {after}", read(secret))
        }
        Scenario::NeedLeave { text } => {
            format!("say {text}\ntool Bash {}", json!({"command": "touch made"}))
        }
        Scenario::Hang { text } => format!("say {text}\nhang"),
        Scenario::Flood { messages, bytes } => format!("burst {messages} {bytes}"),
        // A step that nobody knows: the simulator fails, and repeats it in its `result`.
        Scenario::Fail { secret } => secret.clone(),
        Scenario::Leak { text, secret } => {
            format!(
                "think {secret}\nstderr {secret}\ngarbage\nunknown\n{}\nsay {text}",
                read(secret)
            )
        }
    };
    Some(format!("sim:\n{script}"))
}

/// The simulator keeps its conversations among the CLI's own, in a folder and a form of its own.
struct SimulatorTranscripts;

impl ClaudeCodeSessionLookup for SimulatorTranscripts {
    fn last(&self, config_dir: &Path, working_dir: &Path) -> io::Result<Option<String>> {
        let entries = match fs::read_dir(config_dir.join("projects/plexus-sim")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            entries => entries?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry?;
            let mut first = String::new();
            BufReader::new(fs::File::open(entry.path())?).read_line(&mut first)?;
            let first: serde_json::Value = serde_json::from_str(&first)?;
            if first["cwd"].as_str().map(Path::new) == Some(working_dir) {
                found.push((entry.metadata()?.modified()?, entry.path()));
            }
        }
        let newest = found
            .into_iter()
            .max()
            .and_then(|(_, path)| Some(path.file_stem()?.to_str()?.to_owned()));
        Ok(newest)
    }
}
