//! A server in a sandbox, its thread, and the lines it wrote.

use std::path::{Path, PathBuf};

use agent_lines::child::{ChildOptions, Environment};
use anyhow::{Context as _, Result, bail};
use codex_app::event::answer::ThreadOpened;
use codex_app::event::thread::Turn;
use codex_app::event::{Item, Notification};
use codex_app::send::{Initialize, Input, ThreadOptions, ThreadStart, TurnStart};
use codex_app::{
    ClientLine, ClientRequest, CodexClient, CodexConnection, Decision, Launch, RequestId,
    ServerBody, ServerLine, ServerRequest,
};
use testkit::real_codex::Sandbox;
use testkit::responses_api::{ResponsesApi, Step, prompt};

/// The stand-in and the sandbox of one case.
pub(crate) struct Setting {
    pub(crate) api: ResponsesApi,
    pub(crate) sandbox: Sandbox,
    cli: PathBuf,
}

/// A server with a thread, and every line that it has written.
pub(crate) struct Talk {
    pub(crate) server: CodexConnection,
    pub(crate) thread: String,
    pub(crate) opened: ThreadOpened,
    pub(crate) lines: Vec<ServerLine>,
}

impl Setting {
    pub(crate) async fn new(cli: PathBuf) -> Result<Self> {
        let api = ResponsesApi::start().await?;
        let sandbox = Sandbox::new(&api)?;
        Ok(Self { api, sandbox, cli })
    }

    pub(crate) fn launch(&self) -> Launch {
        Launch::new(self.sandbox.work())
    }

    /// Starts a server and completes its handshake.
    pub(crate) async fn server(&self, launch: &Launch) -> Result<CodexConnection> {
        let mut child = ChildOptions::new(&self.cli).environment(Environment::Clear);
        for (name, value) in self.sandbox.env() {
            child = child.env(name, value);
        }
        let mut server = CodexClient::new(child).start(launch)?;
        let hello = server.handshake(Initialize::new("codex_app_tests", "0")).await;
        let hello = hello.with_context(|| server.stderr_tail().text())?;
        anyhow::ensure!(hello.user_agent.contains('/'), "{hello:?}");
        Ok(server)
    }

    /// Returns the settings of a thread in which every action needs approval.
    pub(crate) fn strict(&self) -> ThreadStart {
        self.policy("untrusted", "danger-full-access")
    }

    pub(crate) fn policy(&self, approval: &str, sandbox: &str) -> ThreadStart {
        let options = ThreadOptions {
            cwd: Some(self.sandbox.work().display().to_string()),
            approval_policy: Some(approval.into()),
            sandbox: Some(sandbox.to_owned()),
            approvals_reviewer: Some("user".to_owned()),
            ..ThreadOptions::default()
        };
        ThreadStart { options, ..ThreadStart::default() }
    }

    /// Starts a server with a strict thread.
    pub(crate) async fn talk(&self) -> Result<Talk> {
        self.talk_with(&self.launch(), ClientRequest::ThreadStart(self.strict())).await
    }

    /// Starts a server with a thread that `open` begins, resumes or forks.
    pub(crate) async fn talk_with(&self, launch: &Launch, open: ClientRequest) -> Result<Talk> {
        let mut server = self.server(launch).await?;
        let opened = server.call(open).await?;
        let opened: ThreadOpened = opened.read().context("no thread")?;
        let thread = opened.thread.id.to_string();
        Ok(Talk { server, thread, opened, lines: Vec::new() })
    }

    /// Returns the text of a file in the working directory; `None` if it does not exist.
    pub(crate) fn file(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.sandbox.work().join(name)).ok()
    }

    /// Waits until every process that a server of this sandbox started is gone.
    pub(crate) async fn nothing_lives(&self) {
        let gone = || {
            let left = testkit::process::marked(self.sandbox.marker());
            std::future::ready(left.is_ok_and(|left| left.is_empty()).then_some(()))
        };
        testkit::eventually_async("the end of everything", testkit::wait::PATIENCE, gone).await;
    }
}

impl Talk {
    /// Sends a prompt that plays these steps.
    pub(crate) fn prompt(&mut self, steps: &[Step]) -> Result<()> {
        self.server.request(ClientRequest::TurnStart(TurnStart {
            thread_id: self.thread.clone(),
            input: vec![Input::text(prompt(steps))],
            ..TurnStart::default()
        }))?;
        Ok(())
    }

    /// Reads one line.
    pub(crate) async fn line(&mut self) -> Result<ServerLine> {
        match self.server.next_line().await {
            Some(Ok(line)) => {
                anyhow::ensure!(!line.is_unknown(), "unknown to this crate: {}", line.raw());
                self.lines.push(line.clone());
                Ok(line)
            }
            Some(Err(error)) => bail!("a line could not be read: {error} ({})", error.details),
            None => bail!("the server ended: {}", self.server.stderr_tail().text()),
        }
    }

    /// Reads up to the next question.
    pub(crate) async fn question(&mut self) -> Result<(RequestId, ServerRequest)> {
        loop {
            if let ServerBody::Request { id, request } = self.line().await?.body {
                return Ok((id, *request));
            }
        }
    }

    pub(crate) fn decide(&self, id: RequestId, decision: Decision) -> Result<()> {
        Ok(self.server.sender().send(&ClientLine::decide(id, decision))?)
    }

    /// Reads to the end of the turn; a question on the way is an error.
    pub(crate) async fn end_of_turn(&mut self) -> Result<Turn> {
        loop {
            let line = self.line().await?;
            match line.body {
                ServerBody::Notification(told) => {
                    if let Notification::TurnCompleted(note) = *told {
                        return Ok(note.turn);
                    }
                }
                ServerBody::Request { .. } => bail!("nobody expected this: {}", line.raw()),
                ServerBody::Answer(_) => {}
            }
        }
    }

    /// Returns the items that were completed.
    pub(crate) fn completed(&self) -> Vec<Item> {
        self.items(|told| match told {
            Notification::ItemCompleted(note) => Some(note.item.clone()),
            _ => None,
        })
    }

    /// Returns the items that were started.
    pub(crate) fn started(&self) -> Vec<Item> {
        self.items(|told| match told {
            Notification::ItemStarted(note) => Some(note.item.clone()),
            _ => None,
        })
    }

    fn items(&self, of: impl Fn(&Notification) -> Option<Item>) -> Vec<Item> {
        let told = self.lines.iter().filter_map(|line| match &line.body {
            ServerBody::Notification(told) => of(told),
            ServerBody::Request { .. } | ServerBody::Answer(_) => None,
        });
        told.collect()
    }
}

/// Returns a path as text for prompts and shells.
pub(crate) fn shown(path: &Path) -> String {
    path.display().to_string()
}
