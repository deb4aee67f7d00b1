//! An agent in a sandbox, its session, and the lines it wrote.

use std::path::PathBuf;

use acp_lines::event::answer::{Initialized, PromptEnded, SessionOpened};
use acp_lines::event::request::PermissionRequest;
use acp_lines::event::tool::ToolCall;
use acp_lines::send::{Block, Initialize, Prompt, SessionNew, SessionReopen};
use acp_lines::{
    AcpClient, AcpConnection, AgentBody, AgentLine, AgentRequest, ClientRequest, Decision,
    Notification, Outcome, RequestId, SessionUpdate, StopReason, ToolStatus,
};
use agent_lines::child::{ChildOptions, Environment};
use anyhow::{Context as _, Result, bail, ensure};
use serde_json::json;
use testkit::messages_api::{MessagesApi, Step, prompt};
use testkit::real_acp::{Agent, Sandbox};

/// The stand-in and the sandbox of one case.
pub(crate) struct Setting {
    pub(crate) api: MessagesApi,
    pub(crate) sandbox: Sandbox,
    agent: Agent,
    cli: PathBuf,
}

/// An agent with a session, and every line that it has written.
pub(crate) struct Talk {
    pub(crate) connection: AcpConnection,
    pub(crate) hello: Initialized,
    pub(crate) session: String,
    pub(crate) lines: Vec<AgentLine>,
    agent: Agent,
    turn: Option<RequestId>,
}

impl Setting {
    pub(crate) async fn new(agent: Agent, cli: PathBuf) -> Result<Self> {
        let api = MessagesApi::start().await?;
        let sandbox = Sandbox::new(agent, &api)?;
        Ok(Self { api, sandbox, agent, cli })
    }

    /// Starts an agent with a session in which every tool call needs permission.
    pub(crate) async fn talk(&self) -> Result<Talk> {
        let session = SessionNew {
            cwd: self.work(),
            extra: self.agent.session_meta(),
            ..SessionNew::default()
        };
        self.open(ClientRequest::SessionNew(session), None).await
    }

    /// Starts a new process with an earlier session.
    pub(crate) async fn load(&self, session_id: &str) -> Result<Talk> {
        let session = SessionReopen {
            session_id: session_id.to_owned(),
            cwd: self.work(),
            mcp_servers: Some(Vec::new()),
            extra: self.agent.session_meta(),
            ..SessionReopen::default()
        };
        self.open(ClientRequest::SessionLoad(session), Some(session_id)).await
    }

    async fn open(&self, open: ClientRequest, known: Option<&str>) -> Result<Talk> {
        let child = ChildOptions::new(&self.cli)
            .environment(Environment::Clear)
            .working_dir(self.sandbox.work());
        let env = self.sandbox.env();
        let child = env.iter().fold(child, |child, (name, value)| child.env(name, value));
        let mut connection = AcpClient::new(child).start(self.agent.arguments())?;
        let hello = connection.handshake(Initialize::new("acp_lines_tests", "0")).await;
        let hello = hello.with_context(|| connection.stderr_tail().text())?;
        let opened = connection.call(open).await;
        let opened = opened.with_context(|| connection.stderr_tail().text())?;
        let opened: SessionOpened = opened.read().context("no session")?;
        let mode = opened.mode();
        ensure!(mode.as_deref() == Some(self.agent.mode()), "the session's mode is {mode:?}");
        let session = opened.session_id.as_deref().or(known).context("no session")?.to_owned();
        let mut lines = Vec::new();
        while let Some(held) = connection.next_held() {
            lines.push(held?);
        }
        Ok(Talk { connection, hello, session, lines, agent: self.agent, turn: None })
    }

    fn work(&self) -> String {
        self.sandbox.work().display().to_string()
    }

    /// Returns the text of a file in the working directory; `None` if it does not exist.
    pub(crate) fn file(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.sandbox.work().join(name)).ok()
    }

    /// Waits until a file exists in the working directory.
    pub(crate) async fn wait_for_file(&self, name: &str) {
        let there = || std::future::ready(self.file(name));
        let what = format!("the file {name}");
        testkit::eventually_async(&what, testkit::wait::PATIENCE, there).await;
    }

    /// Waits until every process that an agent of this sandbox started is gone.
    pub(crate) async fn nothing_lives(&self) {
        let gone = || {
            let left = testkit::process::marked(self.sandbox.marker());
            std::future::ready(left.is_ok_and(|left| left.is_empty()).then_some(()))
        };
        testkit::eventually_async("the end of everything", testkit::wait::PATIENCE, gone).await;
    }

    /// Returns the tool results that the model got.
    pub(crate) fn results(&self) -> String {
        self.api.tool_results().iter().map(|result| format!("{result:?}\n")).collect()
    }
}

impl Talk {
    /// Returns an answer of the model that runs shell commands.
    pub(crate) fn shell(&self, commands: &[&str]) -> Step {
        let tool = self.agent.shell_tool();
        commands.iter().fold(Step::default(), |step, command| {
            step.and_tool(tool, json!({"command": command, "description": "a step"}))
        })
    }

    /// Sends a prompt that plays these steps.
    pub(crate) fn prompt(&mut self, steps: &[Step]) -> Result<()> {
        let turn = self.connection.request(ClientRequest::Prompt(Prompt {
            session_id: self.session.clone(),
            prompt: vec![Block::text(prompt(steps))],
            ..Prompt::default()
        }))?;
        self.turn = Some(turn);
        Ok(())
    }

    /// Reads one line, and refuses every request that is not a question about a call.
    async fn line(&mut self) -> Result<AgentLine> {
        match self.connection.next_line().await {
            Some(Ok(line)) => {
                ensure!(!line.is_unknown(), "unknown to this crate: {}", line.raw());
                self.lines.push(line.clone());
                Ok(line)
            }
            Some(Err(error)) => bail!("a line could not be read: {error} ({})", error.details),
            None => bail!("the agent ended: {}", self.connection.stderr_tail().text()),
        }
    }

    /// Reads up to the next question about a call.
    pub(crate) async fn question(&mut self) -> Result<(RequestId, PermissionRequest)> {
        loop {
            let line = self.line().await?;
            match line.body {
                AgentBody::Request { id, request } => match *request {
                    AgentRequest::Permission(asked) => return Ok((id, *asked)),
                    _ => self.connection.sender().refuse(&id, "not served here")?,
                },
                AgentBody::Answer(answer) if Some(&answer.id) == self.turn.as_ref() => {
                    bail!("the turn ended without a question: {:?}", answer.outcome)
                }
                _ => {}
            }
        }
    }

    pub(crate) fn decide(&self, id: &RequestId, decision: Decision) -> Result<()> {
        self.connection.sender().decide(id, decision)?;
        Ok(())
    }

    /// Reads to the end of the turn; a question on the way is an error.
    pub(crate) async fn end_of_turn(&mut self) -> Result<StopReason> {
        loop {
            let line = self.line().await?;
            match line.body {
                AgentBody::Answer(answer) if Some(&answer.id) == self.turn.as_ref() => {
                    return match answer.outcome {
                        Outcome::Error(error) => bail!("the turn failed: {error:?}"),
                        ended => ended
                            .read()
                            .and_then(|ended: PromptEnded| ended.stop_reason)
                            .context("no reason"),
                    };
                }
                AgentBody::Request { id, request } => match *request {
                    AgentRequest::Permission(asked) => bail!("nobody expected {asked:?}"),
                    _ => self.connection.sender().refuse(&id, "not served here")?,
                },
                _ => {}
            }
        }
    }

    /// Returns a call with all its updates merged.
    pub(crate) fn call(&self, id: &str) -> ToolCall {
        let mut whole = ToolCall::default();
        for update in self.updates() {
            if let SessionUpdate::ToolCall(call) | SessionUpdate::ToolCallUpdate(call) = update
                && call.tool_call_id == id
            {
                whole.merge(call);
            }
        }
        whole
    }

    /// Returns whether any call was completed.
    pub(crate) fn is_any_completed(&self) -> bool {
        self.updates().any(|update| match update {
            SessionUpdate::ToolCall(call) | SessionUpdate::ToolCallUpdate(call) => {
                call.status == Some(ToolStatus::Completed)
            }
            _ => false,
        })
    }

    /// Returns everything that the model wrote.
    pub(crate) fn text(&self) -> String {
        self.updates()
            .filter_map(|update| match update {
                SessionUpdate::AgentMessageChunk(chunk) => chunk.content.text.as_deref(),
                _ => None,
            })
            .collect()
    }

    fn updates(&self) -> impl Iterator<Item = &SessionUpdate> {
        self.lines.iter().filter_map(|line| match &line.body {
            AgentBody::Notification(told) => match &**told {
                Notification::Update(update) => Some(update),
                _ => None,
            },
            _ => None,
        })
    }
}
