//! A second kind of agent: no process, no sessions, no choice of model. It plays the scenario in
//! its prompt.
//!
//! It shows that a backend can be added with only the public parts of the crate and without
//! changing another one. It can also break one rule of the contract at a time, which shows that the
//! conformance suite notices.

use std::{
    process::ExitStatus,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use agent_api::{
    AgentWrapperBackend, AgentWrapperCapabilities, AgentWrapperCompletion, AgentWrapperError,
    AgentWrapperEvent, AgentWrapperEventKind, AgentWrapperKind, AgentWrapperOutcome,
    AgentWrapperRunControl, AgentWrapperRunHandle, AgentWrapperRunRequest, TIMED_OUT, capabilities,
    conformance::{Defaults, Launch, Scenario, Subject},
    gate::{self, Forwarded, RunSink},
    validate,
};
use futures::{FutureExt, StreamExt, future::BoxFuture, stream};
use serde_json::json;

/// A rule that a careless backend breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    SaysTextTwice,
    LosesText,
    TellsAWrongFinalText,
    ResolvesBeforeTheStreamEnds,
    GoesOnAfterACancel,
    StaysAliveAfterACancel,
    CallsACancelASuccess,
    ClaimsSuccess,
    FailsWithoutAnErrorEvent,
    FailsWithTwoErrorEvents,
    LeaksTheSecret,
    ShowsToolOutput,
    RepeatsToolCalls,
    IgnoresTheTimeout,
    AcceptsABlankPrompt,
    AcceptsUnknownKeys,
    IgnoresTheRequestsEnvironment,
    IgnoresTheWorkingDirectory,
    HasNoRunControl,
    WaitsForAReaderThatIsGone,
    AdvertisesASandbox,
}

/// What can be observed of the scripted agents of one subject.
#[derive(Default)]
struct Observed {
    launches: Mutex<Vec<Launch>>,
    living: AtomicUsize,
}

/// The subject of the conformance suite for the scripted backend.
#[derive(Default)]
pub(crate) struct ScriptedSubject {
    world: Arc<Observed>,
    fault: Option<Fault>,
    working_dir: Option<tempfile::TempDir>,
}

impl ScriptedSubject {
    pub(crate) fn new() -> Self {
        Self { working_dir: Some(tempfile::tempdir().unwrap()), ..Self::default() }
    }

    pub(crate) fn with_fault(fault: Fault) -> Self {
        Self { fault: Some(fault), ..Self::new() }
    }
}

impl Subject for ScriptedSubject {
    fn backend(&self) -> Arc<dyn AgentWrapperBackend> {
        self.backend_with(&Defaults::default()).unwrap()
    }

    fn backend_with(&self, defaults: &Defaults) -> Option<Arc<dyn AgentWrapperBackend>> {
        let world = Arc::clone(&self.world);
        Some(Arc::new(ScriptedBackend { world, defaults: defaults.clone(), fault: self.fault }))
    }

    fn backend_in_sandbox(&self) -> Option<Arc<dyn AgentWrapperBackend>> {
        None
    }

    fn request(&self, scenario: &Scenario) -> Option<AgentWrapperRunRequest> {
        let mut request = AgentWrapperRunRequest::new(serde_json::to_string(scenario).unwrap());
        request.working_dir = self.working_dir.as_ref().map(|dir| dir.path().to_owned());
        Some(request)
    }

    fn launches(&self) -> Vec<Launch> {
        self.world.launches.lock().unwrap().clone()
    }

    fn living(&self) -> usize {
        self.world.living.load(Ordering::SeqCst)
    }
}

/// The backend for the agent kind `scripted`.
struct ScriptedBackend {
    world: Arc<Observed>,
    defaults: Defaults,
    fault: Option<Fault>,
}

impl AgentWrapperBackend for ScriptedBackend {
    fn kind(&self) -> AgentWrapperKind {
        AgentWrapperKind::new("scripted").unwrap()
    }

    fn capabilities(&self) -> AgentWrapperCapabilities {
        let mut ids = vec![
            capabilities::RUN,
            capabilities::EVENTS,
            capabilities::EVENTS_LIVE,
            capabilities::CONTROL_CANCEL,
            capabilities::TOOLS_STRUCTURED,
            capabilities::TOOLS_RESULTS,
            capabilities::FINAL_TEXT,
        ];
        if self.has(Fault::AdvertisesASandbox) {
            ids.push(capabilities::EXEC_EXTERNAL_SANDBOX);
        }
        ids.into_iter().collect()
    }

    fn run(
        &self,
        request: AgentWrapperRunRequest,
    ) -> BoxFuture<'_, Result<AgentWrapperRunHandle, AgentWrapperError>> {
        async move { Ok(self.start(request)?.handle) }.boxed()
    }

    fn run_control(
        &self,
        request: AgentWrapperRunRequest,
    ) -> BoxFuture<'_, Result<AgentWrapperRunControl, AgentWrapperError>> {
        if self.has(Fault::HasNoRunControl) {
            let refusal =
                AgentWrapperError::unsupported(&self.kind(), capabilities::CONTROL_CANCEL);
            return std::future::ready(Err(refusal)).boxed();
        }
        async move { self.start(request) }.boxed()
    }
}

impl ScriptedBackend {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    fn start(
        &self,
        mut request: AgentWrapperRunRequest,
    ) -> Result<AgentWrapperRunControl, AgentWrapperError> {
        let capabilities = self.capabilities();
        if self.has(Fault::AcceptsABlankPrompt) && request.prompt.trim().is_empty() {
            request.prompt =
                serde_json::to_string(&Scenario::Say { text: "?".to_owned() }).unwrap();
        }
        if self.has(Fault::AcceptsUnknownKeys) {
            request.extensions.retain(|key, _| capabilities.contains(key));
        }
        let checked = validate::check(
            &self.kind(),
            &capabilities,
            &request,
            self.defaults.working_dir.as_deref(),
        )?;
        let scenario = serde_json::from_str(&request.prompt)
            .map_err(|_| AgentWrapperError::backend("this agent plays scenarios only"))?;

        let mut env = self.defaults.env.clone();
        if !self.has(Fault::IgnoresTheRequestsEnvironment) {
            env.extend(request.env);
        }
        let working_dir = if self.has(Fault::IgnoresTheWorkingDirectory) {
            "/".into()
        } else {
            checked.working_dir
        };
        self.world.launches.lock().unwrap().push(Launch { working_dir, env, ..Launch::default() });
        self.world.living.fetch_add(1, Ordering::SeqCst);

        let (control, sink) = gate::open(self.kind());
        let timeout = request
            .timeout
            .or(self.defaults.timeout)
            .filter(|_| !self.has(Fault::IgnoresTheTimeout));
        let agent = Agent { kind: self.kind(), fault: self.fault, world: Arc::clone(&self.world) };
        tokio::spawn(agent.live(scenario, timeout, sink));
        Ok(self.with_faulty_handle(control))
    }

    /// Breaks a rule that the gate would otherwise enforce.
    fn with_faulty_handle(&self, control: AgentWrapperRunControl) -> AgentWrapperRunControl {
        let AgentWrapperRunControl { handle: AgentWrapperRunHandle { events, completion }, cancel } =
            control;
        let handle = match self.fault {
            Some(Fault::ResolvesBeforeTheStreamEnds) => {
                // The events are read in advance, so the gate has nothing to wait for.
                let hidden = tokio::spawn(events.collect::<Vec<_>>());
                let events = stream::once(async move { stream::iter(hidden.await.unwrap()) })
                    .flatten()
                    .boxed();
                AgentWrapperRunHandle { events, completion }
            }
            Some(Fault::GoesOnAfterACancel) => {
                let kind = self.kind();
                let late =
                    stream::once(async move { AgentWrapperEvent::status(&kind, "one more thing") });
                AgentWrapperRunHandle { events: events.chain(late).boxed(), completion }
            }
            Some(Fault::CallsACancelASuccess) => {
                let completion =
                    completion.map(|result| result.or_else(|_| Ok(success(None)))).boxed();
                AgentWrapperRunHandle { events, completion }
            }
            Some(Fault::WaitsForAReaderThatIsGone) => {
                // A task holds the events and waits for a reader that never comes.
                let (tx, mut rx) = tokio::sync::mpsc::channel(1);
                tokio::spawn(async move {
                    let mut events = events;
                    while let Some(event) = events.next().await {
                        if tx.send(event).await.is_err() {
                            std::future::pending::<()>().await;
                        }
                    }
                });
                let events = stream::poll_fn(move |cx| rx.poll_recv(cx)).boxed();
                AgentWrapperRunHandle { events, completion }
            }
            _ => AgentWrapperRunHandle { events, completion },
        };
        AgentWrapperRunControl { handle, cancel }
    }
}

/// One scripted agent during its run.
struct Agent {
    kind: AgentWrapperKind,
    fault: Option<Fault>,
    world: Arc<Observed>,
}

/// How the agent's script ended.
enum End {
    Done { last: Option<String> },
    Failed,
    Cancelled,
}

impl Agent {
    fn has(&self, fault: Fault) -> bool {
        self.fault == Some(fault)
    }

    async fn live(self, scenario: Scenario, timeout: Option<Duration>, sink: RunSink) {
        let limit = async {
            match timeout {
                Some(timeout) => tokio::time::sleep(timeout).await,
                None => std::future::pending().await,
            }
        };
        let end = tokio::select! {
            end = self.play(&scenario, &sink) => Some(end),
            () = sink.cancelled() => Some(End::Cancelled),
            () = limit => None,
        };
        if !(self.has(Fault::StaysAliveAfterACancel) && sink.is_cancelled()) {
            self.world.living.fetch_sub(1, Ordering::SeqCst);
        }
        let result = match end {
            None => {
                let _ = sink.send(AgentWrapperEvent::error(&self.kind, TIMED_OUT)).await;
                Err(AgentWrapperError::backend(TIMED_OUT))
            }
            Some(End::Cancelled) => Err(AgentWrapperError::backend("ended")),
            Some(End::Done { last }) => {
                let last = if self.has(Fault::TellsAWrongFinalText) {
                    Some("else".to_owned())
                } else {
                    last
                };
                Ok(success(last))
            }
            Some(End::Failed) => Ok(self.fail(&sink).await),
        };
        sink.end(result);
    }

    async fn fail(&self, sink: &RunSink) -> AgentWrapperCompletion {
        let reason = "the script says so".to_owned();
        let errors = match self.fault {
            Some(Fault::FailsWithoutAnErrorEvent) => 0,
            Some(Fault::FailsWithTwoErrorEvents) => 2,
            _ => 1,
        };
        for _ in 0..errors {
            let _ = sink.send(AgentWrapperEvent::error(&self.kind, reason.clone())).await;
        }
        let outcome = if self.has(Fault::ClaimsSuccess) {
            AgentWrapperOutcome::Succeeded
        } else {
            AgentWrapperOutcome::Failed { reason }
        };
        AgentWrapperCompletion { status: failed_status(), outcome, final_text: None, data: None }
    }

    async fn play(&self, scenario: &Scenario, sink: &RunSink) -> End {
        let said = |text: &String| End::Done { last: Some(text.clone()) };
        match scenario {
            Scenario::Say { text } => self.say(text, sink).await.unwrap_or_else(|| said(text)),
            Scenario::UseTool { before, secret, after } => {
                let _ = self.say(before, sink).await;
                self.tool(AgentWrapperEventKind::ToolCall, secret, sink).await;
                self.tool(AgentWrapperEventKind::ToolResult, secret, sink).await;
                self.say(after, sink).await.unwrap_or_else(|| said(after))
            }
            Scenario::NeedLeave { text } => {
                self.say(text, sink).await.unwrap_or_else(|| said(text))
            }
            Scenario::Hang { text } => {
                let _ = self.say(text, sink).await;
                std::future::pending().await
            }
            Scenario::Flood { messages, bytes } => {
                let text = "x".repeat(*bytes);
                for _ in 0..*messages {
                    if let Some(end) = self.say(&text, sink).await {
                        return end;
                    }
                }
                said(&text)
            }
            Scenario::Fail { .. } => End::Failed,
            Scenario::Leak { text, secret } => {
                if self.has(Fault::LeaksTheSecret) {
                    let _ = sink
                        .send(AgentWrapperEvent::status(&self.kind, format!("stderr: {secret}")))
                        .await;
                }
                self.say(text, sink).await.unwrap_or_else(|| said(text))
            }
        }
    }

    /// Sends a text; returns the end if the run was cancelled meanwhile.
    async fn say(&self, text: &str, sink: &RunSink) -> Option<End> {
        let times = match self.fault {
            Some(Fault::SaysTextTwice) => 2,
            Some(Fault::LosesText) if text.len() > 50 => 0,
            _ => 1,
        };
        for _ in 0..times {
            if sink.send(AgentWrapperEvent::text(&self.kind, text)).await == Forwarded::Cancelled {
                return Some(End::Cancelled);
            }
        }
        None
    }

    async fn tool(&self, kind: AgentWrapperEventKind, secret: &str, sink: &RunSink) {
        let mut tool = json!({"tool_name": "look", "tool_use_id": "use-1"});
        if self.has(Fault::ShowsToolOutput) {
            tool["output"] = json!(secret);
        }
        let facet = json!({"schema": capabilities::TOOLS_STRUCTURED, "tool": tool});
        let times = if self.has(Fault::RepeatsToolCalls) { 2 } else { 1 };
        for _ in 0..times {
            let _ =
                sink.send(AgentWrapperEvent::bare(&self.kind, kind).with_data(facet.clone())).await;
        }
    }
}

fn success(final_text: Option<String>) -> AgentWrapperCompletion {
    AgentWrapperCompletion {
        status: ExitStatus::default(),
        outcome: AgentWrapperOutcome::Succeeded,
        final_text,
        data: None,
    }
}

#[cfg(unix)]
fn failed_status() -> ExitStatus {
    std::os::unix::process::ExitStatusExt::from_raw(1 << 8)
}

#[cfg(windows)]
fn failed_status() -> ExitStatus {
    std::os::windows::process::ExitStatusExt::from_raw(1)
}
