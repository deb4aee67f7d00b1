//! Turns a checked request into a process and the requests to send to it.

use std::path::PathBuf;

use acp_lines::{
    AcpClient, AcpConnection, ClientRequest, Decision,
    send::{Block, Prompt, SessionList, SessionNew, SessionReopen},
};
use agent_lines::child::ChildOptions;
use serde_json::{Map, Value};

use super::config::AcpBackendConfig;
use crate::{
    AgentWrapperError, AgentWrapperRunRequest,
    backends::shared::{drive::child_options, outcome::in_full},
    extensions::SessionStart,
    validate::CheckedRequest,
};

/// The requests to send to the agent.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) cwd: String,
    prompt: String,
    pub(super) model: Option<String>,
    pub(super) add_dirs: Vec<String>,
    /// `_meta` of the request that opens the session, if there is any.
    meta: Map<String, Value>,
    pub(super) expected_mode: Option<String>,
    pub(super) session: SessionStart,
    /// The answer to every question.
    pub(super) decision: Decision,
}

impl Plan {
    pub(super) fn new(
        config: &AcpBackendConfig,
        request: &AgentWrapperRunRequest,
        checked: CheckedRequest,
    ) -> Result<Self, AgentWrapperError> {
        // Agents list sessions by their absolute path, and a path through a link would not match.
        let cwd = checked.working_dir.canonicalize().map_err(|_| {
            AgentWrapperError::invalid_request("the working directory does not exist")
        })?;
        let add_dirs: Result<Vec<_>, _> = checked.add_dirs.into_iter().map(text).collect();
        let meta = config.session_meta.clone();
        Ok(Self {
            cwd: text(cwd)?,
            prompt: request.prompt.clone(),
            model: checked.model,
            add_dirs: add_dirs?,
            meta: match meta.is_empty() {
                true => Map::new(),
                false => Map::from_iter([("_meta".to_owned(), Value::Object(meta))]),
            },
            expected_mode: config.expected_mode.clone(),
            session: checked.session,
            decision: match checked.external_sandbox {
                true => Decision::AllowOnce,
                false => Decision::RejectOnce,
            },
        })
    }

    /// Builds the request for one page of the sessions of the directory.
    pub(super) fn list(&self, cursor: Option<String>) -> ClientRequest {
        let cwd = Some(self.cwd.clone());
        ClientRequest::SessionList(SessionList { cwd, cursor, ..SessionList::default() })
    }

    /// Builds the request for a new session.
    pub(super) fn begin(&self) -> ClientRequest {
        ClientRequest::SessionNew(SessionNew {
            cwd: self.cwd.clone(),
            additional_directories: self.additional_directories(),
            extra: self.meta.clone(),
            ..SessionNew::default()
        })
    }

    /// Builds the parameters for a session to continue or copy.
    pub(super) fn reopen(&self, session_id: &str) -> SessionReopen {
        SessionReopen {
            session_id: session_id.to_owned(),
            cwd: self.cwd.clone(),
            mcp_servers: Some(Vec::new()),
            additional_directories: self.additional_directories(),
            extra: self.meta.clone(),
        }
    }

    /// Builds the request that sends the prompt.
    pub(super) fn turn(&self, session_id: &str) -> ClientRequest {
        ClientRequest::Prompt(Prompt {
            session_id: session_id.to_owned(),
            prompt: vec![Block::text(self.prompt.as_str())],
            ..Prompt::default()
        })
    }

    fn additional_directories(&self) -> Option<Vec<String>> {
        (!self.add_dirs.is_empty()).then(|| self.add_dirs.clone())
    }
}

/// Returns a path as the protocol writes it.
fn text(path: PathBuf) -> Result<String, AgentWrapperError> {
    path.into_os_string()
        .into_string()
        .map_err(|_| AgentWrapperError::invalid_request("the path of a directory is not UTF-8"))
}

/// Starts the process, which is running when this returns.
pub(super) fn start(
    config: &AcpBackendConfig,
    request: AgentWrapperRunRequest,
    plan: &Plan,
) -> Result<AcpConnection, AgentWrapperError> {
    let child = child_options(
        ChildOptions::new(&config.program).working_dir(&plan.cwd),
        config.environment,
        config.env.iter().chain(&request.env),
        config.termination_grace,
        request.timeout.or(config.default_timeout),
    );
    AcpClient::new(child)
        .start(&config.arguments)
        .map_err(|error| AgentWrapperError::backend(in_full(&error)))
}
