//! Turns a checked request into a server process and the requests to send to it.

use agent_lines::child::ChildOptions;
use codex_app::{
    ClientRequest, CodexClient, CodexConnection, Launch, Trust,
    event::answer::ThreadOpened,
    send::{Input, ThreadFork, ThreadList, ThreadOptions, ThreadResume, ThreadStart, TurnStart},
};

use super::config::{CodexBackendConfig, CodexProjectSettings};
use crate::{
    AgentWrapperError, AgentWrapperRunRequest,
    backends::shared::{drive::child_options, outcome::in_full},
    extensions::SessionStart,
    validate::CheckedRequest,
};

/// The requests to send to the server.
#[derive(Debug)]
pub(super) struct Plan {
    launch: Launch,
    cwd: String,
    prompt: String,
    model: Option<String>,
    limits: Limits,
    pub(super) session: SessionStart,
}

/// What the agent may do, in the server's words: sent to it, and expected in its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Limits {
    approval_policy: &'static str,
    sandbox: &'static str,
    /// The sandbox as the answer spells it.
    sandbox_type: &'static str,
}

/// The agent is sandboxed. It asks for anything more, and we decline.
const SANDBOXED: Limits = Limits {
    approval_policy: "on-request",
    sandbox: "workspace-write",
    sandbox_type: "workspaceWrite",
};

/// The host isolates the agent: it may do anything that the process may, and asks nobody.
const UNCHECKED: Limits = Limits {
    approval_policy: "never",
    sandbox: "danger-full-access",
    sandbox_type: "dangerFullAccess",
};

/// Sends questions to us, and not to a model that would answer in our place.
const REVIEWER: &str = "user";

impl Plan {
    pub(super) fn new(
        config: &CodexBackendConfig,
        request: &AgentWrapperRunRequest,
        checked: CheckedRequest,
    ) -> Result<Self, AgentWrapperError> {
        // The server compares directories by their absolute path, and a path through a link would
        // not match.
        let cwd = checked.working_dir.canonicalize().map_err(|_| {
            AgentWrapperError::invalid_request("the working directory does not exist")
        })?;
        let trust = match config.project_settings {
            CodexProjectSettings::Ignore => Trust::Untrusted,
            CodexProjectSettings::Trust => Trust::Trusted,
        };
        let launch = Launch::new(&cwd).trust(trust);
        let launch = checked.add_dirs.iter().fold(launch, |launch, dir| launch.writable(dir));
        let cwd = cwd.into_os_string().into_string().map_err(|_| {
            AgentWrapperError::invalid_request("the working directory's path is not UTF-8")
        })?;
        Ok(Self {
            launch,
            cwd,
            prompt: request.prompt.clone(),
            model: checked.model,
            limits: if checked.external_sandbox { UNCHECKED } else { SANDBOXED },
            session: checked.session,
        })
    }

    /// Builds the request for the last thread of the directory, whatever started it.
    pub(super) fn list_last(&self) -> ClientRequest {
        ClientRequest::ThreadList(ThreadList {
            cwd: Some(self.cwd.clone()),
            limit: Some(1),
            sort_key: Some("updated_at".to_owned()),
            model_providers: Some(Vec::new()),
            ..ThreadList::default()
        })
    }

    /// Builds the request for a new thread.
    pub(super) fn begin(&self) -> ClientRequest {
        ClientRequest::ThreadStart(ThreadStart { options: self.options(), ..Default::default() })
    }

    /// Builds the request that continues a thread. The server stores its limits, but we send them
    /// again.
    pub(super) fn resume(&self, thread_id: String) -> ClientRequest {
        ClientRequest::ThreadResume(ThreadResume {
            thread_id,
            exclude_turns: Some(true),
            options: self.options(),
            ..ThreadResume::default()
        })
    }

    /// Builds the request that continues a copy of a thread.
    pub(super) fn fork(&self, thread_id: String) -> ClientRequest {
        ClientRequest::ThreadFork(ThreadFork {
            thread_id,
            exclude_turns: Some(true),
            options: self.options(),
            ..ThreadFork::default()
        })
    }

    fn options(&self) -> ThreadOptions {
        ThreadOptions {
            cwd: Some(self.cwd.clone()),
            model: self.model.clone(),
            approval_policy: Some(self.limits.approval_policy.into()),
            sandbox: Some(self.limits.sandbox.to_owned()),
            approvals_reviewer: Some(REVIEWER.to_owned()),
            ..ThreadOptions::default()
        }
    }

    /// Builds the request that sends the prompt.
    pub(super) fn turn(&self, thread_id: &str) -> ClientRequest {
        ClientRequest::TurnStart(TurnStart {
            thread_id: thread_id.to_owned(),
            input: vec![Input::text(self.prompt.as_str())],
            ..TurnStart::default()
        })
    }

    /// Returns whether the server confirms the limits that it was given.
    pub(super) fn is_kept_by(&self, opened: &ThreadOpened) -> bool {
        let policy: Option<String> =
            opened.approval_policy.as_ref().and_then(|policy| policy.parse().ok());
        let sandbox = opened.sandbox.as_ref().and_then(|sandbox| sandbox.to_value().ok());
        let sandbox_type = sandbox.as_ref().and_then(|sandbox| sandbox["type"].as_str());
        policy.as_deref() == Some(self.limits.approval_policy)
            && sandbox_type == Some(self.limits.sandbox_type)
            && opened.approvals_reviewer.as_deref() == Some(REVIEWER)
    }
}

/// Starts the process, which is running when this returns.
pub(super) fn start(
    config: &CodexBackendConfig,
    request: AgentWrapperRunRequest,
    plan: &Plan,
) -> Result<CodexConnection, AgentWrapperError> {
    let binary = config.binary.as_deref().unwrap_or("codex".as_ref());
    let child = child_options(
        ChildOptions::new(binary),
        config.environment,
        config.env.iter().chain(&request.env),
        config.termination_grace,
        request.timeout.or(config.default_timeout),
    );
    CodexClient::new(child)
        .start(&plan.launch)
        .map_err(|error| AgentWrapperError::backend(in_full(&error)))
}
