//! The task that owns one run. It talks to the server, forwards its lines as events, ends it on
//! request, and reports how it ended.

use std::ops::ControlFlow;

use codex_app::{
    CallError, ClientRequest, CodexConnection, Notification, Outcome, RpcError, ServerBody,
    ServerLine,
    event::answer::{AccountState, ThreadOpened, ThreadPage},
    send::{AccountRead, Initialize},
};
use tokio::sync::OwnedMutexGuard;

use super::{answer, launch::Plan, translate::Translator};
use crate::{
    AgentWrapperEvent, AgentWrapperKind,
    backends::shared::{
        drive::{Ending, Step, Stop, finish, tell, unanswered},
        outcome::Failure,
    },
    extensions::{SessionSelector, SessionStart},
    gate::RunSink,
};

/// One run of the CLI.
pub(super) struct Run {
    pub(super) server: CodexConnection,
    pub(super) plan: Plan,
    /// Held by the first run of a backend until its server has answered.
    pub(super) first: Option<OwnedMutexGuard<bool>>,
    pub(super) translator: Translator,
    pub(super) kind: AgentWrapperKind,
    /// The first event, before any other.
    pub(super) opening: Option<AgentWrapperEvent>,
}

impl Run {
    /// Runs to the end. The process is gone before the sink is told of the end.
    pub(super) async fn drive(self, sink: RunSink) {
        let Self { mut server, plan, first, mut translator, kind, opening } = self;
        let mut talk =
            Talk { server: &mut server, plan: &plan, translator: &mut translator, sink: &sink };
        let stop = tokio::select! {
            biased;
            () = sink.cancelled() => Stop::Cancelled,
            stop = talk.through(opening, first) => stop,
        };
        let termination = server.termination();
        let end = |how| async move {
            match how {
                Ending::Close => server.close().await,
                Ending::Now => server.end().await,
                Ending::Await => server.ended().await,
            }
        };
        finish(stop, termination, end, || translator.told(), &kind, sink).await;
    }
}

/// The connection to the server during a run.
struct Talk<'a> {
    server: &'a mut CodexConnection,
    plan: &'a Plan,
    translator: &'a mut Translator,
    sink: &'a RunSink,
}

impl Talk<'_> {
    /// Runs everything from the handshake to the end of the turn.
    async fn through(
        &mut self,
        opening: Option<AgentWrapperEvent>,
        first: Option<OwnedMutexGuard<bool>>,
    ) -> Stop {
        let steps = async {
            self.tell(opening).await?;
            let hello = Initialize::new("agent_api", env!("CARGO_PKG_VERSION"));
            let greeted = self.server.handshake(hello).await;
            self.answered(greeted, |_| Failure::Handshake)?;
            if let Some(mut first) = first {
                *first = true;
            }
            self.look_at_login().await?;
            let thread_id = self.open_thread().await?;
            let told = self.translator.session(&thread_id);
            self.tell(told).await?;
            let taken = self.server.call(self.plan.turn(&thread_id)).await;
            self.answered(taken, |_| Failure::PromptRefused)?;
            loop {
                self.line(&thread_id).await?;
            }
        };
        let stopped: Step<std::convert::Infallible> = steps.await;
        match stopped {
            ControlFlow::Break(stop) => stop,
        }
    }

    /// Fails before the first prompt if a login is needed and missing.
    async fn look_at_login(&mut self) -> Step {
        let account = ClientRequest::AccountRead(AccountRead::default());
        let state = self.server.call(account).await;
        let state: AccountState = self.read(state, |_| Failure::Handshake)?;
        if state.account.is_none() && state.requires_openai_auth {
            return self.fail(Failure::NotLoggedIn);
        }
        Step::Continue(())
    }

    /// Begins, resumes or forks the thread, and returns its id.
    async fn open_thread(&mut self) -> Step<String> {
        let id = match self.plan.session.selector() {
            None => None,
            Some(SessionSelector::Id(id)) => Some(id.clone()),
            Some(SessionSelector::Last) => {
                let page = self.server.call(self.plan.list_last()).await;
                let page: ThreadPage = self.read(page, |_| Failure::SessionRefused)?;
                match page.data.first() {
                    Some(thread) => Some(thread.id.to_string()),
                    None => return self.fail(Failure::NoSession),
                }
            }
        };
        let open = match (&self.plan.session, id) {
            (SessionStart::Resume(_), Some(id)) => self.plan.resume(id),
            (SessionStart::Fork(_), Some(id)) => self.plan.fork(id),
            (SessionStart::New, _) | (_, None) => self.plan.begin(),
        };
        let is_new = matches!(self.plan.session, SessionStart::New);
        let opened = self.server.call(open).await;
        let opened: ThreadOpened = self.read(opened, |message| match message {
            _ if is_new => Failure::Handshake,
            message if names_no_thread(message) => Failure::SessionNotFound,
            _ => Failure::SessionRefused,
        })?;
        if !self.plan.is_kept_by(&opened) {
            return self.fail(Failure::Limits);
        }
        Step::Continue(opened.thread.id.to_string())
    }

    /// Reads one line and handles it.
    async fn line(&mut self, thread_id: &str) -> Step {
        let line = match self.server.next_line().await {
            None => return Step::Break(Stop::Ended),
            Some(Err(_)) => {
                let earlier = self.translator.unreadable();
                return self.tell(earlier).await;
            }
            Some(Ok(line)) => line,
        };
        let earlier = self.translator.earlier_unreadable();
        self.tell(earlier).await?;
        match &line.body {
            ServerBody::Request { id, request } => {
                // A failure to send means that the server is gone or no longer reads, which the
                // next line or the run's timeout will show.
                let _ = self.server.sender().send(&answer::no(id.clone(), request));
                let declined = self.translator.declined();
                self.tell(Some(declined)).await
            }
            ServerBody::Notification(told) if is_about(&line, thread_id) => {
                let events = self.translator.notification(told, &line);
                for event in events {
                    self.tell(Some(event)).await?;
                }
                match **told {
                    Notification::TurnCompleted(_) => Step::Break(Stop::Over),
                    _ => Step::Continue(()),
                }
            }
            ServerBody::Notification(_) | ServerBody::Answer(_) => Step::Continue(()),
        }
    }

    async fn tell(&mut self, event: Option<AgentWrapperEvent>) -> Step {
        tell(self.sink, event).await
    }

    fn fail<T>(&mut self, failure: Failure) -> Step<T> {
        self.translator.verdict.note_failure(failure);
        Step::Break(Stop::Over)
    }

    /// Returns the answer; `refused` turns the message of a refusal into a failure.
    fn answered<T>(
        &mut self,
        answer: Result<T, CallError>,
        refused: impl FnOnce(&str) -> Failure,
    ) -> Step<T> {
        answer.map_or_else(
            |error| {
                let refused = |error: &RpcError| refused(&error.message);
                Step::Break(unanswered(&mut self.translator.verdict, error, refused))
            },
            Step::Continue,
        )
    }

    /// Returns the typed answer; `refused` turns the message of a refusal into a failure.
    fn read<T: agent_lines::json::FromJson>(
        &mut self,
        answer: Result<Outcome, CallError>,
        refused: impl FnOnce(&str) -> Failure,
    ) -> Step<T> {
        let answer = answer.and_then(|outcome| outcome.read().ok_or(CallError::Unreadable));
        self.answered(answer, refused)
    }
}

/// Returns whether a notification is about the run's own thread, or about none.
fn is_about(line: &ServerLine, thread_id: &str) -> bool {
    line.thread_id.as_deref().is_none_or(|id| id == thread_id)
}

/// Returns whether an error message is about an unknown thread. The server has no code for it, so
/// we match its text in all forms that we have seen.
fn names_no_thread(message: &str) -> bool {
    ["no rollout found", "invalid session id", "invalid thread id"]
        .iter()
        .any(|words| message.starts_with(words))
}
