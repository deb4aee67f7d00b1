//! The loop that shows a chat and asks about its tool calls. Every cause of work is one arm: an
//! event, a typed line, a signal.

use std::collections::VecDeque;

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use plexus_client::wire::{
    ApprovalId, CancelParams, ChatCancelled, ChatEvent, DecidedBy, Delta, ErrorKind, FollowParams,
    Said, Session, SessionId, SessionRef, SessionStatus, Usage,
};
use plexus_client::{Client, ClientError, Event, FollowItem};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

use super::keyboard::{self, Echo, Reading, Typed};
use super::question::{Move, Question};
use super::view::{Form, Refused, View};
use super::{code_of, editor, pager};
use crate::cli::render::Extent;
use crate::cli::screen::{self, Screen, now_ms};
use crate::cli::server::failed;
use crate::cli::{exit, preview, sanitize};

/// Rings the terminal: a question needs somebody who may look elsewhere.
const BELL: &str = "\u{7}";

/// What is watched.
pub(in crate::cli) struct Watched {
    pub(in crate::cli) session: Session,
    pub(in crate::cli) chat: u32,
    /// The position before the chat.
    pub(in crate::cli) cursor: Option<String>,
}

/// Shows a chat until it ends, and asks about its tool calls.
pub(in crate::cli) struct Supervision {
    client: Client,
    session: Session,
    chat: u32,
    cursor: Option<String>,
    screen: Screen,
    view: View,
    asks: Asks,
    waiting: VecDeque<(ApprovalId, SessionId)>,
    open: Option<(Question, Reading)>,
    interrupts: u32,
    /// A wish to cancel that is on its way to the server.
    cancelling: Option<JoinHandle<Result<ChatCancelled, ClientError>>>,
    started_ms: i64,
    usage: Option<Usage>,
    refused: Refused,
    /// Whether the person has left what waits to others.
    is_detached: bool,
}

/// Whether there is somebody to ask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Asks {
    /// A person at a terminal.
    Here,
    /// Nobody: approvals wait for an answer from elsewhere.
    Elsewhere,
}

/// Whether the loop goes on.
enum Flow {
    On,
    End(u8),
}

impl Supervision {
    pub(in crate::cli) fn new(
        client: Client,
        watched: Watched,
        screen: Screen,
        form: Form,
    ) -> Self {
        let asks = if form == Form::Text && keyboard::is_interactive() {
            Asks::Here
        } else {
            Asks::Elsewhere
        };
        Self {
            client,
            session: watched.session,
            chat: watched.chat,
            cursor: watched.cursor,
            screen,
            view: View::of_one_chat(screen, form),
            asks,
            waiting: VecDeque::new(),
            open: None,
            interrupts: 0,
            cancelling: None,
            started_ms: now_ms(),
            usage: None,
            refused: Refused::default(),
            is_detached: false,
        }
    }

    /// Runs until the chat has ended or the person has gone.
    pub(in crate::cli) async fn run(mut self) -> Result<u8> {
        let mut interrupts =
            signal(SignalKind::interrupt()).context("could not listen for Ctrl-C")?;
        let mut events = self.client.follow(FollowParams {
            cursor: self.cursor.take(),
            ..FollowParams::of(self.session.id).with_deltas()
        });
        loop {
            let flow = tokio::select! {
                item = events.next() => match item {
                    Some(Ok(item)) => self.heard(item).await?,
                    Some(Err(error)) => return Err(failed(error)),
                    None => Flow::End(exit::FAILED),
                },
                typed = typed_line(&mut self.open) => {
                    self.typed(typed.context("could not read from the terminal")?).await?;
                    Flow::On
                }
                _ = interrupts.recv() => self.interrupted()?,
                outcome = told(&mut self.cancelling) => self.cancel_told(outcome).await?,
            };
            match flow {
                Flow::On if self.is_detached => {
                    self.view.line("")?;
                    let name = self.name();
                    self.view.remark(&format!(
                        "left; it goes on: `plexus attach {name}`, `plexus pending`, `plexus \
                         review`"
                    ))?;
                    return Ok(exit::OK);
                }
                Flow::On => self.ask_next().await?,
                Flow::End(code) => return Ok(code),
            }
        }
    }

    async fn heard(&mut self, item: FollowItem) -> Result<Flow> {
        match item {
            FollowItem::Live(live) => match live.event {
                Delta::Delta { text } => self.view.delta(&text)?,
                Delta::DeltaStart => self.view.message_starts()?,
            },
            FollowItem::Lost => self
                .view
                .remark("  (the server is away; the agent goes on, waiting for it to come back)")?,
            FollowItem::Back => self.view.remark("  (the server is back)")?,
            FollowItem::Event(event) if event.at.chat == self.chat => {
                return self.happened(*event).await;
            }
            _ => {}
        }
        Ok(Flow::On)
    }

    async fn happened(&mut self, Event { at, event, .. }: Event) -> Result<Flow> {
        let when = at.event.timestamp.0;
        if matches!(event, ChatEvent::Start { .. }) {
            self.started_ms = when;
        }
        if let ChatEvent::ApprovalResolved { approval_id, approved, decided_by, .. } = &event {
            self.withdraw(*approval_id, *decided_by)?;
            self.refused.note(*approved, *decided_by);
        }
        self.view.event(&at, &event)?;
        match event {
            ChatEvent::AwaitingApproval { approval_id, .. } => {
                self.asked(approval_id, self.session.id)?
            }
            ChatEvent::ToolRequest { approval_id, session_id, .. } => {
                self.asked(approval_id, session_id)?
            }
            ChatEvent::Complete { usage, .. } => {
                self.usage = Some(usage);
                return self.perhaps_ended(when).await;
            }
            // An error may be one line that could not be read, or the end: the session knows.
            ChatEvent::Error { .. } => return self.perhaps_ended(when).await,
            ChatEvent::Start { .. }
            | ChatEvent::Content { .. }
            | ChatEvent::Thinking { .. }
            | ChatEvent::ToolUse { .. }
            | ChatEvent::ApprovalResolved { .. }
            | ChatEvent::ToolResult { .. }
            | ChatEvent::Notice { .. }
            | ChatEvent::Passthrough { .. }
            | ChatEvent::Pruned { .. }
            | ChatEvent::Steered { .. }
            | ChatEvent::Other(_) => {}
        }
        Ok(Flow::On)
    }

    fn asked(&mut self, approval: ApprovalId, session: SessionId) -> Result<()> {
        match self.asks {
            // A person who has pressed Ctrl-C is not asked any more.
            Asks::Here if self.interrupts > 0 => {}
            Asks::Here => self.waiting.push_back((approval, session)),
            Asks::Elsewhere => {
                let words = format!(
                    "  waits for an answer: `plexus approve {approval}`, `plexus deny {approval} \
                     --reason …`, `plexus dashboard`, or a rule"
                );
                self.view.remark(&words)?;
            }
        }
        Ok(())
    }

    /// Closes a question that was answered elsewhere.
    fn withdraw(&mut self, approval: ApprovalId, by: DecidedBy) -> Result<()> {
        self.waiting.retain(|(waiting, _)| *waiting != approval);
        if self.open.as_ref().is_some_and(|(question, _)| question.approval.id == approval) {
            self.open = None;
            self.view.remark(match by {
                DecidedBy::Deadline => "  (nobody answered in time: it expired)",
                DecidedBy::AgentEnded => "  (the agent no longer asks)",
                _ => "  (answered elsewhere)",
            })?;
        }
        Ok(())
    }

    async fn ask_next(&mut self) -> Result<()> {
        while self.open.is_none() {
            let Some((id, session)) = self.waiting.pop_front() else { return Ok(()) };
            // The record has what the event has not: the digest that binds the answer, and rules
            // that would fit.
            let pending = self.client.pending(Some(session)).await.map_err(failed)?;
            let Some(approval) = pending.into_iter().find(|approval| approval.id == id) else {
                continue;
            };
            let question = Question::new(approval);
            screen::print(BELL)?;
            for line in question.shown(Extent::Short, self.screen) {
                self.view.line(&line)?;
            }
            self.put_question(question)?;
        }
        Ok(())
    }

    fn put_question(&mut self, question: Question) -> Result<()> {
        keyboard::forget_typed_ahead();
        self.view.prompt(&question.prompt(self.screen))?;
        let echo = Echo::for_secret(question.is_secret());
        let reading = Reading::start(echo).context("could not read from the terminal")?;
        self.open = Some((question, reading));
        Ok(())
    }

    async fn typed(&mut self, typed: Typed) -> Result<()> {
        let Some((mut question, _)) = self.open.take() else { return Ok(()) };
        self.view.entered();
        let moved = match typed {
            Typed::Line(line) if line == "d" && question.is_at_start() => {
                self.is_detached = true;
                return Ok(());
            }
            Typed::Line(line) => question.take(&line, self.screen),
            Typed::End => {
                self.asks = Asks::Elsewhere;
                self.view.line("")?;
                self.waiting.push_front((question.approval.id, question.approval.session_id));
                let left: Vec<_> = self.waiting.drain(..).collect();
                return left
                    .into_iter()
                    .try_for_each(|(approval, session)| self.asked(approval, session));
            }
        };
        self.make(question, moved).await
    }

    async fn make(&mut self, mut question: Question, moved: Move) -> Result<()> {
        match moved {
            Move::Ask(lines) => {
                for line in lines {
                    self.view.line(&line)?;
                }
                self.put_question(question)
            }
            Move::View(lines) => {
                if let Err(error) = pager::show(&lines).await {
                    tracing::debug!(%error, "no pager");
                    // Without a pager there is still the terminal's own scrollback.
                    lines.iter().try_for_each(|line| self.view.line(line))?;
                }
                self.put_question(question)
            }
            Move::Preview => {
                self.view.remark(preview::TRYING)?;
                let lines = preview::tried(&self.client, &question.approval, self.screen).await;
                Box::pin(self.make(question, Move::View(lines))).await
            }
            Move::Edit(editing) => {
                let moved = match editor::edit(&editing.text, editing.ending).await {
                    Ok(text) => question.edited(&editing, &text, self.screen),
                    Err(error) => {
                        Move::Ask(vec![format!("  {}", sanitize::one_line(&format!("{error:#}")))])
                    }
                };
                Box::pin(self.make(question, moved)).await
            }
            Move::Decide(answer) => match self.client.loopback().respond(&answer).await {
                Ok(_) => Ok(()),
                Err(ClientError::Call(error))
                    if error.kind == ErrorKind::Conflict || error.kind == ErrorKind::Expired =>
                {
                    Ok(self
                        .view
                        .remark(&format!("  (could not {})", sanitize::one_line(&error.message)))?)
                }
                Err(ClientError::Call(error)) => {
                    question.start_over();
                    let words = format!(
                        "  could not {}. {}",
                        sanitize::one_line(&error.message),
                        sanitize::one_line(&error.hint)
                    );
                    Box::pin(self.make(question, Move::Ask(vec![words]))).await
                }
                Err(error) => {
                    question.start_over();
                    let words = format!(
                        "  could not {}; try again in a moment",
                        sanitize::one_line(&error.to_string())
                    );
                    Box::pin(self.make(question, Move::Ask(vec![words]))).await
                }
            },
        }
    }

    /// The first Ctrl-C asks the agent to stop, the second ends the run, the third leaves.
    fn interrupted(&mut self) -> Result<Flow> {
        self.interrupts += 1;
        self.open = None;
        self.waiting.clear();
        let (words, reason) = match self.interrupts {
            1 => ("asking the agent to stop; Ctrl-C again ends it", "the user pressed Ctrl-C"),
            2 => ("ending the agent; Ctrl-C again leaves at once", "the user pressed Ctrl-C twice"),
            _ => {
                let words = format!("left; `plexus logs {}` shows what happened", self.name());
                self.view.remark(&words)?;
                return Ok(Flow::End(exit::INTERRUPTED));
            }
        };
        self.view.line("")?;
        self.view.remark(words)?;
        // In a task of its own: a server that is slow to answer must not keep the next Ctrl-C
        // waiting.
        let client = self.client.clone();
        let params = CancelParams {
            reason: Some(reason.to_owned()),
            ..CancelParams::new(SessionRef::id(self.session.id))
        };
        self.cancelling = Some(tokio::spawn(async move { client.agents().cancel(&params).await }));
        Ok(Flow::On)
    }

    async fn cancel_told(&mut self, outcome: Result<(), ClientError>) -> Result<Flow> {
        match outcome {
            Ok(()) => Ok(Flow::On),
            // It ended in this very moment; the event is on its way.
            Err(ClientError::Call(error)) if error.kind == ErrorKind::Conflict => {
                self.perhaps_ended(now_ms()).await
            }
            Err(error) => {
                self.view.line(&format!("could not {}", sanitize::one_line(&error.to_string())))?;
                Ok(Flow::On)
            }
        }
    }

    /// Ends when the session says that this chat is over.
    async fn perhaps_ended(&mut self, at_ms: i64) -> Result<Flow> {
        let session = match self.client.session(&SessionRef::id(self.session.id)).await {
            Ok(session) => session,
            Err(error) if error.is_absence() => return Ok(Flow::On),
            Err(error) => return Err(failed(error)),
        };
        let status = match session.status {
            _ if session.chat != Some(self.chat) => SessionStatus::Complete,
            Said::Known(status) if !status.is_busy() => status,
            // A status that this version does not know is no end.
            Said::Known(_) | Said::Unknown(_) => return Ok(Flow::On),
        };
        let name = self.name();
        let next = [
            format!("  go on:  plexus run --session {name} \"PROMPT\""),
            format!("  read:   plexus logs {name}"),
        ];
        self.view.ended(
            status,
            at_ms - self.started_ms,
            self.usage.as_ref(),
            self.refused,
            &next,
        )?;
        let code = if self.interrupts > 0 && status == SessionStatus::Cancelled {
            exit::INTERRUPTED
        } else {
            code_of(status, self.refused)
        };
        Ok(Flow::End(code))
    }

    /// The session's name as a shell takes it.
    fn name(&self) -> String {
        let plain =
            self.session.name.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
        if plain { self.session.name.clone() } else { self.session.id.to_string() }
    }
}

/// Waits for a line; for ever when nothing is asked.
async fn typed_line(open: &mut Option<(Question, Reading)>) -> std::io::Result<Typed> {
    match open {
        Some((_, reading)) => reading.line().await,
        None => std::future::pending().await,
    }
}

/// Waits for the answer to a wish to cancel; for ever when there is none.
async fn told(
    cancelling: &mut Option<JoinHandle<Result<ChatCancelled, ClientError>>>,
) -> Result<(), ClientError> {
    let Some(task) = cancelling else { return std::future::pending().await };
    let outcome = task.await;
    *cancelling = None;
    outcome.map_or(Ok(()), |told| told.map(drop))
}
