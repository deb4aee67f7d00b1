//! The task that owns one run. It talks to the agent, forwards its lines as events, ends it on
//! request, and reports how it ended.

use std::ops::ControlFlow;

use acp_lines::{
    AcpConnection, AgentBody, AgentLine, AgentRequest, Answered, CLOSE_GRACE, CallError, Decision,
    HandshakeError, Notification, Outcome, RequestId, RpcError, SessionUpdate,
    event::answer::ConfigOption, send::Initialize,
};
use agent_lines::{LineError, json::FromJson};

use super::{launch::Plan, session::OpenSession, translate::Translator, verdict::of_answer};
use crate::{
    AgentWrapperEvent, AgentWrapperKind,
    backends::shared::{
        drive::{Ending, Step, Stop, finish, tell, unanswered},
        outcome::Failure,
    },
    gate::RunSink,
};

/// The message for an agent that asks for something we do not offer.
const NOT_SERVED: &str = "nobody is there to answer";

/// One run of an agent.
pub(super) struct Run {
    pub(super) agent: AcpConnection,
    pub(super) plan: Plan,
    pub(super) translator: Translator,
    pub(super) kind: AgentWrapperKind,
    /// The first event, before any other.
    pub(super) opening: Option<AgentWrapperEvent>,
}

impl Run {
    /// Runs to the end. The process is gone before the sink is told of the end.
    pub(super) async fn drive(self, sink: RunSink) {
        let Self { mut agent, plan, mut translator, kind, opening } = self;
        let mut talk =
            Talk { agent: &mut agent, plan: &plan, translator: &mut translator, sink: &sink };
        let stop = tokio::select! {
            biased;
            () = sink.cancelled() => Stop::Cancelled,
            stop = talk.through(opening) => stop,
        };
        let termination = agent.termination();
        let end = |how| async move {
            match how {
                Ending::Close => agent.close().await,
                Ending::Now => agent.end().await,
                Ending::Await => agent.ended().await,
            }
        };
        finish(stop, termination, end, || translator.told(), &kind, sink).await;
    }
}

/// The connection to the agent during a run.
pub(super) struct Talk<'a> {
    pub(super) agent: &'a mut AcpConnection,
    pub(super) plan: &'a Plan,
    pub(super) translator: &'a mut Translator,
    pub(super) sink: &'a RunSink,
}

impl Talk<'_> {
    /// Runs everything from the handshake to the end of the turn.
    async fn through(&mut self, opening: Option<AgentWrapperEvent>) -> Stop {
        let steps = async {
            self.tell(opening).await?;
            let hello = Initialize::new("agent_api", env!("CARGO_PKG_VERSION"));
            let can = match self.agent.handshake(hello).await {
                Ok(hello) => hello.capabilities,
                Err(HandshakeError::Version { .. }) => return self.fail(Failure::Handshake),
                Err(HandshakeError::Call(error)) => {
                    self.answered(Err(error), |_| Failure::Handshake)?
                }
            };
            let session = self.open_session(&can).await?;
            self.check_mode(session.opened.mode())?;
            let told = self.translator.session(&session.id);
            self.tell(told).await?;
            self.set_model(&session).await?;
            self.skip_history().await?;
            let prompt = self.agent.request(self.plan.turn(&session.id)).map_err(CallError::Send);
            let prompt = self.answered(prompt, |_| Failure::PromptRefused)?;
            while !self.line(&session.id, &prompt).await? {}
            self.read_on(&session.id).await
        };
        let stopped: Step<std::convert::Infallible> = steps.await;
        match stopped {
            ControlFlow::Break(stop) => stop,
        }
    }

    /// Sets the model that the request names.
    async fn set_model(&mut self, session: &OpenSession) -> Step {
        let Some(model) = &self.plan.model else { return Step::Continue(()) };
        let Some(option) = session.opened.option("model") else {
            return self.fail(Failure::NotOffered);
        };
        let set = self.agent.set_option(&session.id, option, model).await;
        self.answered(set, |_| Failure::ModelNotFound)?;
        Step::Continue(())
    }

    /// Skips the lines before the prompt: the history of a session that is continued.
    async fn skip_history(&mut self) -> Step {
        while let Some(line) = self.agent.next_held() {
            let Ok(line) = line else { continue };
            match &line.body {
                AgentBody::Request { id, request } => self.request(id, request).await?,
                AgentBody::Notification(told) => self.check_told(told)?,
                AgentBody::Answer(_) | AgentBody::Complaint(_) => {}
            }
        }
        Step::Continue(())
    }

    /// Reads one line and handles it. Returns whether it ends the turn.
    async fn line(&mut self, session_id: &str, prompt: &RequestId) -> Step<bool> {
        match self.agent.next_line().await {
            None => Step::Break(Stop::Ended),
            Some(line) => self.take(line, session_id, Some(prompt)).await,
        }
    }

    /// Handles a line. Returns whether it answers `prompt`, which is `None` once the prompt was
    /// answered.
    async fn take(
        &mut self,
        line: Result<AgentLine, LineError>,
        session_id: &str,
        prompt: Option<&RequestId>,
    ) -> Step<bool> {
        let Ok(line) = line else {
            let earlier = self.translator.unreadable();
            self.tell(earlier).await?;
            return Step::Continue(false);
        };
        let earlier = self.translator.earlier_unreadable();
        self.tell(earlier).await?;
        match &line.body {
            AgentBody::Request { id, request } => self.request(id, request).await?,
            AgentBody::Notification(told) => {
                self.check_told(told)?;
                let events = match &**told {
                    Notification::Update(update) if is_about(&line, session_id) => {
                        self.translator.update(update)
                    }
                    Notification::Unknown { .. } => vec![self.translator.unknown()],
                    Notification::Update(_)
                    | Notification::CancelRequest(_)
                    | Notification::Extension { .. } => Vec::new(),
                };
                self.tell_all(events).await?;
            }
            AgentBody::Answer(answer) if Some(&answer.id) == prompt => {
                self.translator.verdict.note_turn(of_answer(&answer.outcome));
                return Step::Continue(true);
            }
            AgentBody::Answer(_) | AgentBody::Complaint(_) => {}
        }
        Step::Continue(false)
    }

    /// Reads the lines after the end of the turn, until the agent ends. Some agents send their last
    /// updates only now. Some never end by themselves, and are ended after a grace.
    async fn read_on(&mut self, session_id: &str) -> Step<std::convert::Infallible> {
        self.agent.sender().close();
        let until = tokio::time::Instant::now() + CLOSE_GRACE;
        loop {
            match tokio::time::timeout_at(until, self.agent.next_line()).await {
                Ok(None) => return Step::Break(Stop::Ended),
                Ok(Some(line)) => drop(self.take(line, session_id, None).await?),
                Err(_) => {
                    self.agent.termination().terminate();
                    return Step::Break(Stop::Over);
                }
            }
        }
    }

    /// Answers a question. A failure to send means that the agent is gone or no longer reads, which
    /// the next line or the run's timeout will show.
    async fn request(&mut self, id: &RequestId, request: &AgentRequest) -> Step {
        match request {
            AgentRequest::Permission(asked) => {
                let events = self.translator.asked(&asked.tool_call);
                self.tell_all(events).await?;
                self.decide(id).await
            }
            // Some agents ask although we do not offer it, and continue without it.
            AgentRequest::FileSystem { .. } | AgentRequest::Terminal { .. } => {
                let _ = self.agent.sender().refuse(id, NOT_SERVED);
                Step::Continue(())
            }
            AgentRequest::Unknown { .. } => {
                let _ = self.agent.sender().refuse(id, NOT_SERVED);
                let declined = self.translator.declined();
                self.tell(Some(declined)).await
            }
        }
    }

    async fn decide(&mut self, id: &RequestId) -> Step {
        let sender = self.agent.sender();
        if self.plan.decision == Decision::AllowOnce
            && sender.decide(id, Decision::AllowOnce) == Ok(Answered::AsDecided)
        {
            return Step::Continue(());
        }
        if sender.decide(id, Decision::RejectOnce).is_err() {
            let _ = sender.refuse(id, NOT_SERVED);
        }
        let declined = self.translator.declined();
        self.tell(Some(declined)).await
    }

    /// Ends an agent that reports a change to another mode.
    fn check_told(&mut self, told: &Notification) -> Step {
        match told {
            Notification::Update(SessionUpdate::CurrentMode(mode)) => {
                self.check_mode(Some(mode.current_mode_id.to_string()))
            }
            Notification::Update(SessionUpdate::ConfigOptions(options)) => {
                let is_mode = |option: &&ConfigOption| option.category.as_deref() == Some("mode");
                match options.config_options.iter().find(is_mode) {
                    Some(mode) => self.check_mode(mode.value()),
                    None => Step::Continue(()),
                }
            }
            _ => Step::Continue(()),
        }
    }

    fn check_mode(&mut self, mode: Option<String>) -> Step {
        if self.plan.expected_mode.is_none() || self.plan.expected_mode == mode {
            return Step::Continue(());
        }
        // The agent may act without permission by now, so it is ended at once.
        self.agent.termination().terminate();
        self.fail(Failure::Limits)
    }

    async fn tell(&mut self, event: Option<AgentWrapperEvent>) -> Step {
        tell(self.sink, event).await
    }

    async fn tell_all(&mut self, events: Vec<AgentWrapperEvent>) -> Step {
        for event in events {
            self.tell(Some(event)).await?;
        }
        Step::Continue(())
    }

    pub(super) fn fail<T>(&mut self, failure: Failure) -> Step<T> {
        self.translator.verdict.note_failure(failure);
        Step::Break(Stop::Over)
    }

    /// Returns the answer; `refused` turns a refusal into a failure.
    fn answered<T>(
        &mut self,
        answer: Result<T, CallError>,
        refused: impl FnOnce(&RpcError) -> Failure,
    ) -> Step<T> {
        answer.map_or_else(
            |error| Step::Break(unanswered(&mut self.translator.verdict, error, refused)),
            Step::Continue,
        )
    }

    /// Returns the typed answer; `refused` turns a refusal into a failure.
    pub(super) fn read<T: FromJson>(
        &mut self,
        answer: Result<Outcome, CallError>,
        refused: impl FnOnce(&RpcError) -> Failure,
    ) -> Step<T> {
        let answer = answer.and_then(|outcome| outcome.read().ok_or(CallError::Unreadable));
        self.answered(answer, refused)
    }
}

/// Returns whether a line is about the run's own session, or about none.
fn is_about(line: &AgentLine, session_id: &str) -> bool {
    line.session_id.as_deref().is_none_or(|id| id == session_id)
}
