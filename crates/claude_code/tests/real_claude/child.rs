//! A child on the control channel, and its recorded output.

use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use claude_code::control::{Duplex, DuplexEvent, PermissionRequest};
use claude_code::event::control::{ControlResponse, EchoedDecision};
use claude_code::event::message::{ContentBlock, ToolResultMeta};
use claude_code::event::result::ResultEvent;
use claude_code::event::system::SystemEvent;
use claude_code::{ClaudePrintOutput, ClaudeStreamJsonEvent, EventBody};
use rustix::process::{Pid, Signal, kill_process};
use testkit::messages_api::MessagesApi;
use testkit::real_claude::Sandbox;
use tokio::process::{Child as Process, ChildStdin, ChildStdout, Command};

/// How long the child may take for one expected line. On an idle machine it takes a second at most.
const PATIENCE: Duration = Duration::from_secs(150);

/// The flags of the control channel.
const FLAGS: [&str; 13] = [
    "--print",
    "--input-format",
    "stream-json",
    "--output-format",
    "stream-json",
    "--verbose",
    "--permission-prompt-tool",
    "stdio",
    "--replay-user-messages",
    "--strict-mcp-config",
    "--setting-sources",
    "user",
    "--disallowedTools=SendMessage,ListAgents,CronCreate,ScheduleWakeup",
];

/// Creates the stand-in for the API and the sandbox that every case begins with.
pub(crate) async fn api_and_sandbox() -> Result<(MessagesApi, Sandbox)> {
    let api = MessagesApi::start().await?;
    let sandbox = Sandbox::new(&api)?;
    Ok((api, sandbox))
}

/// A running CLI and the channel to it. Killed when dropped.
pub(crate) struct Child {
    process: Process,
    pub(crate) channel: Duplex<ChildStdout, ChildStdin>,
}

/// The output of a child up to some point.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// One word for each line, in order: `init`, `assistant`, `permission`, `lifecycle:completed`,
    /// `state:idle`, …
    pub(crate) order: Vec<String>,
    /// Every text block of the model.
    pub(crate) texts: Vec<String>,
    /// Every delta of a text.
    pub(crate) deltas: Vec<String>,
    /// Every result of a tool: its text, and the CLI's note about who decided.
    pub(crate) tool_results: Vec<(String, ToolResultMeta)>,
    /// Every tool use as the stream shows it: name and input.
    pub(crate) tool_uses: Vec<(String, serde_json::Value)>,
    /// The prompts that were echoed.
    pub(crate) delivered_prompts: Vec<String>,
    /// The answers that were echoed.
    pub(crate) delivered_answers: Vec<(String, Option<EchoedDecision>)>,
    /// The permission requests that the CLI cancelled.
    pub(crate) cancelled: Vec<String>,
    /// The answers to our requests.
    pub(crate) answered: Vec<ControlResponse>,
    /// The results of turns.
    pub(crate) results: Vec<ResultEvent>,
    /// The ids of the background tasks that were open, at each change.
    pub(crate) tasks: Vec<Vec<String>>,
    /// The session ids, each once.
    pub(crate) sessions: Vec<String>,
    /// Lines whose type or subtype this crate does not know.
    pub(crate) unknown: Vec<String>,
}

impl Child {
    /// Starts the CLI with further flags.
    pub(crate) fn start(cli: &Path, sandbox: &Sandbox, flags: &[&str]) -> Result<Self> {
        let mut process = Command::new(cli)
            .args(FLAGS)
            .args(flags)
            .current_dir(sandbox.work())
            .env_clear()
            .envs(sandbox.env())
            .env("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS", "1")
            .env("CLAUDE_CODE_MAX_RETRIES", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("could not start the CLI")?;
        let stdout = process.stdout.take().context("no stdout")?;
        let stdin = process.stdin.take().context("no stdin")?;
        Ok(Self { process, channel: Duplex::new(stdout, stdin) })
    }

    /// Sends a prompt and returns its uuid.
    pub(crate) fn prompt(&mut self, text: &str) -> Result<String> {
        Ok(self.channel.prompt(text)?.to_string())
    }

    /// Sends a signal to the CLI.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        let pid = self.process.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(kill_process(pid.context("the CLI has ended")?, signal)?)
    }

    /// Reads up to the next permission request.
    pub(crate) async fn permission(&mut self) -> Result<PermissionRequest> {
        Ok(self.permission_after().await?.0)
    }

    /// Reads up to the next permission request, and also returns the output before it.
    pub(crate) async fn permission_after(&mut self) -> Result<(PermissionRequest, Seen)> {
        let mut seen = Seen::default();
        loop {
            match self.next("a permission request", &mut seen).await? {
                Some(Next::Permission(request)) => return Ok((*request, seen)),
                Some(Next::Other) => {}
                None => bail!("the CLI ended instead of asking: {seen:#?}"),
            }
        }
    }

    /// Reads up to and including `idle`, which ends a prompt; a permission request on the way is a
    /// failure.
    pub(crate) async fn until_idle(&mut self) -> Result<Seen> {
        self.until("idle", |seen| seen.order.last().is_some_and(|line| line == "state:idle")).await
    }

    /// Reads until `done` returns true.
    pub(crate) async fn until(&mut self, what: &str, done: impl Fn(&Seen) -> bool) -> Result<Seen> {
        let mut seen = Seen::default();
        while !done(&seen) {
            match self.next(what, &mut seen).await? {
                Some(Next::Permission(request)) => {
                    bail!("asked about {:?} instead of {what}", request.tool)
                }
                Some(Next::Other) => {}
                None => bail!("the CLI ended instead of {what}: {seen:#?}"),
            }
        }
        Ok(seen)
    }

    /// Closes the CLI's input, reads the rest of its output, and returns its exit status.
    pub(crate) async fn close(mut self) -> Result<(ExitStatus, Seen)> {
        self.channel.close();
        self.ended().await
    }

    /// Reads the CLI's output until it ends by itself, and returns its exit status.
    pub(crate) async fn ended(mut self) -> Result<(ExitStatus, Seen)> {
        let mut seen = Seen::default();
        while let Some(next) = self.next("the end of the output", &mut seen).await? {
            if let Next::Permission(request) = next {
                request.forget();
                bail!("asked instead of ending: {seen:#?}");
            }
        }
        let status =
            testkit::wait::within("the end of the CLI", PATIENCE, self.process.wait()).await?;
        Ok((status, seen))
    }

    async fn next(&mut self, what: &str, seen: &mut Seen) -> Result<Option<Next>> {
        let Ok(event) = tokio::time::timeout(PATIENCE, self.channel.next()).await else {
            bail!("this did not come within {PATIENCE:?}: {what}; before it came {seen:#?}");
        };
        match event.transpose()? {
            None => Ok(None),
            Some(DuplexEvent::Permission(request)) => {
                seen.order.push("permission".to_owned());
                Ok(Some(Next::Permission(request)))
            }
            Some(DuplexEvent::Unreadable(error)) => bail!("a line could not be read: {error}"),
            Some(event) => {
                seen.note(event);
                Ok(Some(Next::Other))
            }
        }
    }
}

enum Next {
    Permission(Box<PermissionRequest>),
    Other,
}

impl Seen {
    /// Collects the output of a run in print mode; a line that could not be read is a failure.
    pub(crate) fn of(output: &ClaudePrintOutput) -> Result<Self> {
        let mut seen = Self::default();
        for event in &output.events {
            let word = seen.note_event(event.as_ref().map_err(|error| anyhow::anyhow!("{error}"))?);
            seen.order.push(word);
        }
        Ok(seen)
    }

    /// Returns the only result of a turn; more or fewer is a failure.
    pub(crate) fn only_result(&self) -> Result<&ResultEvent> {
        match self.results.as_slice() {
            [only] => Ok(only),
            other => bail!("{} results instead of one: {other:#?}", other.len()),
        }
    }

    /// Returns the position at which a line first came.
    pub(crate) fn position(&self, line: &str) -> Result<usize> {
        self.order
            .iter()
            .position(|seen| seen == line)
            .with_context(|| format!("no {line} in {:?}", self.order))
    }

    fn note(&mut self, event: DuplexEvent) {
        let word = match event {
            DuplexEvent::Permission(_) | DuplexEvent::Unreadable(_) => return,
            DuplexEvent::PermissionCancelled { request_id } => {
                self.cancelled.push(request_id.to_string());
                "cancelled".to_owned()
            }
            DuplexEvent::PromptDelivered { uuid } => {
                self.delivered_prompts.push(uuid.to_string());
                "prompt".to_owned()
            }
            DuplexEvent::AnswerDelivered { request_id, decision } => {
                self.delivered_answers.push((request_id.to_string(), decision));
                "answer".to_owned()
            }
            DuplexEvent::Answered(response) => {
                self.answered.push(*response);
                "answered".to_owned()
            }
            DuplexEvent::Event(event) => self.note_event(&event),
            other => format!("{other:?}"),
        };
        self.order.push(word);
    }

    fn note_event(&mut self, event: &ClaudeStreamJsonEvent) -> String {
        if event.is_unknown() {
            self.unknown.push(event.raw().to_owned());
        }
        if let Some(id) = event.session_id()
            && !self.sessions.iter().any(|known| known == id)
        {
            self.sessions.push(id.to_owned());
        }
        match &event.body {
            EventBody::Assistant(assistant) => {
                self.note_blocks(assistant.message.content.blocks(), &[])
            }
            EventBody::User(user) => {
                self.note_blocks(user.message.content.blocks(), &user.meta.tool_result_meta)
            }
            EventBody::Result(result) => self.results.push(ResultEvent::clone(result)),
            EventBody::Stream(stream) => {
                use claude_code::event::stream::{Delta, StreamPart};
                if let StreamPart::ContentBlockDelta { delta: Delta::Text(text), .. } =
                    &stream.event
                {
                    self.deltas.push(text.to_string());
                }
            }
            EventBody::System(SystemEvent::BackgroundTasksChanged(change)) => {
                let ids = change
                    .tasks
                    .iter()
                    .map(|task| task.task_id.as_deref().unwrap_or_default().to_owned());
                self.tasks.push(ids.collect());
            }
            EventBody::System(SystemEvent::SessionStateChanged(change)) => {
                return format!("state:{}", change.state.as_deref().unwrap_or_default());
            }
            EventBody::System(system) => return system.subtype().unwrap_or_default().to_owned(),
            EventBody::CommandLifecycle(change) => {
                return format!("lifecycle:{}", change.state.as_deref().unwrap_or_default());
            }
            _ => {}
        }
        event.event_type().to_owned()
    }

    fn note_blocks(&mut self, blocks: &[ContentBlock], meta: &[ToolResultMeta]) {
        for block in blocks {
            match block {
                ContentBlock::Text(text) => self.texts.push(text.to_string()),
                ContentBlock::ToolUse(tool) => {
                    self.tool_uses
                        .push((tool.name.to_string(), tool.input.to_value().unwrap_or_default()));
                }
                ContentBlock::ToolResult(result) => {
                    let meta =
                        meta.iter().find(|meta| meta.id.as_ref() == Some(&result.tool_use_id));
                    self.tool_results
                        .push((result.content.text(), meta.cloned().unwrap_or_default()));
                }
                _ => {}
            }
        }
    }
}
