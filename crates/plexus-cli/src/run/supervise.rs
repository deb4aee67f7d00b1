//! The loop that shows a chat and asks about its tool calls. Every cause of work is one arm: an
//! event, a key, a signal.
//!
//! [`asking`](super::asking) has its part about questions, [`talking`](super::talking) the part
//! about lines that the person types to the agent, [`ending`](super::ending) the end of a chat.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use plexus_client::wire::{
    ApprovalId, ChatCancelled, ChatEvent, Delta, ErrorKind, FollowParams, Refused, Session,
    SessionId, Usage,
};
use plexus_client::{Client, ClientError, Event, FollowItem};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

use super::keyboard::{self, Reading};
use super::line::Typed;
use super::question::Question;
use super::view::{Form, View, note_decision};
use crate::exit;
use crate::server::failed;
use plexus_render::sanitize;
use plexus_render::screen::{Screen, now_ms};

/// How many events wait while something is typed. The server keeps the others.
const MAX_HELD: usize = 10_000;

/// How often the activity indicator is drawn.
const DRAW_EVERY: Duration = Duration::from_millis(250);

/// After how many of those the server is asked again: whether a question still waits, and whether
/// the chat is over where it could not say.
pub(super) const LOOK_AFTER_TICKS: usize = 8;

/// What is watched.
pub(crate) struct Watched {
    pub(crate) session: Session,
    pub(crate) chat: u32,
    /// The position before the chat.
    pub(crate) cursor: Option<String>,
}

/// Whether there is a next chat after this one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Talk {
    /// The command ends with the chat.
    Once,
    /// The person's next line is the next chat.
    On,
}

/// Shows a chat until it ends, and asks about its tool calls.
pub(crate) struct Supervision {
    pub(super) client: Client,
    pub(super) session: Session,
    pub(super) chat: u32,
    cursor: Option<String>,
    pub(super) screen: Screen,
    pub(super) view: View,
    pub(super) asks: Asks,
    pub(super) talk: Talk,
    pub(super) stage: Stage,
    pub(super) waiting: VecDeque<(ApprovalId, SessionId)>,
    /// The question that is open.
    pub(super) question: Option<Question>,
    /// The keyboard, unless nobody sits there or another program has it.
    pub(super) keys: Option<Reading>,
    /// Whether the cursor is on a line that the person types to the agent.
    pub(super) typing: bool,
    /// What was typed too late for a chat: the next prompt.
    pub(super) next: Option<String>,
    /// What happened while something was typed, in order.
    held: VecDeque<FollowItem>,
    pub(super) interrupts: u32,
    /// A cancel request that is on its way to the server.
    pub(super) cancelling: Option<JoinHandle<Result<ChatCancelled, ClientError>>>,
    pub(super) started_ms: i64,
    /// How many events of the chat were shown.
    pub(super) shown: u32,
    /// How many events the chat has, once the session has said that it is over.
    pub(super) whole: Option<u32>,
    /// When the chat may have ended, while the server that knows was away or busy.
    pub(super) unsure_end_ms: Option<i64>,
    pub(super) usage: Option<Usage>,
    /// What the session had cost when its newest chat ended.
    pub(super) spent_usd: f64,
    pub(super) refused: Refused,
    /// Whether the person was told what the prompt is for.
    pub(super) knows_prompt: bool,
    /// How often it was time to draw the activity indicator.
    pub(super) ticks: usize,
}

/// Whether there is somebody to ask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Asks {
    /// A person at a terminal.
    Here,
    /// Nobody: approvals wait for an answer from elsewhere.
    Elsewhere,
}

/// What the agent is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// The chat is open.
    Working,
    /// The chat has ended, and the next line is the next prompt.
    Idle {
        /// The exit code for how the chat ended.
        code: u8,
    },
}

/// Whether the loop goes on.
pub(super) enum Flow {
    On,
    End(u8),
}

impl Supervision {
    pub(crate) fn new(
        client: Client,
        watched: Watched,
        screen: Screen,
        form: Form,
        talk: Talk,
    ) -> Self {
        let asks = if form == Form::Text && keyboard::is_interactive() {
            Asks::Here
        } else {
            Asks::Elsewhere
        };
        Self {
            client,
            spent_usd: watched.session.spent.cost_usd,
            session: watched.session,
            chat: watched.chat,
            cursor: watched.cursor,
            screen,
            view: View::watch(screen, form),
            asks,
            // A next line can come only from a person.
            talk: if asks == Asks::Here { talk } else { Talk::Once },
            stage: Stage::Working,
            waiting: VecDeque::new(),
            question: None,
            keys: None,
            typing: false,
            next: None,
            held: VecDeque::new(),
            interrupts: 0,
            cancelling: None,
            started_ms: now_ms(),
            shown: 0,
            whole: None,
            unsure_end_ms: None,
            usage: None,
            refused: Refused::default(),
            knows_prompt: false,
            ticks: 0,
        }
    }

    /// Runs until the chat has ended or the person has gone.
    pub(crate) async fn run(mut self) -> Result<u8> {
        let mut interrupts =
            signal(SignalKind::interrupt()).context("could not listen for Ctrl-C")?;
        // The terminal is restored on the way out.
        let mut ends = signal(SignalKind::terminate()).context("could not listen for signals")?;
        let mut hangups = signal(SignalKind::hangup()).context("could not listen for signals")?;
        let mut events = self.client.follow(FollowParams {
            cursor: self.cursor.take(),
            ..FollowParams::of(self.session.id).with_deltas()
        });
        let mut draws = tokio::time::interval(DRAW_EVERY);
        draws.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        self.listen()?;
        loop {
            let may_read = self.held.len() < MAX_HELD;
            let flow = tokio::select! {
                item = events.next(), if may_read => match item {
                    Some(Ok(item)) => self.heard(item).await?,
                    Some(Err(error)) => return Err(failed(error)),
                    None => Flow::End(exit::FAILED),
                },
                typed = next_typed(&mut self.keys) => {
                    self.typed(typed.context("could not read from the terminal")?).await?
                }
                _ = interrupts.recv() => self.interrupted()?,
                _ = ends.recv() => self.left()?,
                _ = hangups.recv() => return Ok(exit::OK),
                outcome = told(&mut self.cancelling) => self.cancel_told(outcome).await?,
                _ = draws.tick() => self.ticked().await?,
            };
            if let Flow::End(code) = self.settle(flow).await? {
                return Ok(code);
            }
        }
    }

    pub(super) async fn ticked(&mut self) -> Result<Flow> {
        self.ticks += 1;
        self.draw()?;
        if !self.ticks.is_multiple_of(LOOK_AFTER_TICKS) {
            return Ok(Flow::On);
        }
        self.look_again().await?;
        match self.unsure_end_ms {
            Some(at_ms) if !self.holds() => self.perhaps_ended(at_ms).await,
            Some(_) | None => Ok(Flow::On),
        }
    }

    /// Asks what is to be asked, and shows what was held.
    async fn settle(&mut self, mut flow: Flow) -> Result<Flow> {
        loop {
            if let Flow::End(_) = flow {
                return Ok(flow);
            }
            if !self.is_typed_on() {
                self.ask_next().await?;
            }
            if self.holds() {
                return Ok(Flow::On);
            }
            flow = match self.held.pop_front() {
                Some(item) => self.happens(item).await?,
                None => return Ok(Flow::On),
            };
        }
    }

    /// Whether the person is in the middle of a line to the agent.
    fn is_typed_on(&self) -> bool {
        self.question.is_none() && self.keys.as_ref().is_some_and(|keys| !keys.is_blank())
    }

    /// Whether output waits: a question and a line that is being typed are not written over.
    fn holds(&self) -> bool {
        self.question.is_some() || self.is_typed_on()
    }

    async fn heard(&mut self, item: FollowItem) -> Result<Flow> {
        if !self.holds() {
            return self.happens(item).await;
        }
        if let FollowItem::Event(event) = &item {
            match &event.event {
                ChatEvent::ApprovalResolved { approval_id, decided_by, .. } => {
                    self.withdraw(*approval_id, *decided_by)?;
                }
                ChatEvent::AwaitingApproval { .. } | ChatEvent::ToolRequest { .. } => {
                    self.ring()?;
                }
                _ => {}
            }
        }
        self.held.push_back(item);
        Ok(Flow::On)
    }

    async fn happens(&mut self, item: FollowItem) -> Result<Flow> {
        match item {
            FollowItem::Live(_) if self.stage != Stage::Working => {}
            FollowItem::Live(live) => match live.event {
                Delta::Delta { text } => self.view.delta(&text)?,
                Delta::DeltaStart => self.view.message_starts()?,
            },
            FollowItem::Lost => {
                let words =
                    "  (the server is away; the agent keeps running, waiting for it to come back)";
                self.view.remark(words)?;
                self.prompt_again()?;
            }
            FollowItem::Back => {
                self.view.remark("  (the server is back)")?;
                self.prompt_again()?;
            }
            FollowItem::Event(event) if event.at.chat == self.chat => {
                return self.happened(*event).await;
            }
            FollowItem::Event(event) if event.at.chat > self.chat && self.talk == Talk::On => {
                self.view.remark("  (it continues with another prompt)")?;
                self.begin(event.at.chat);
                return self.happened(*event).await;
            }
            _ => {}
        }
        Ok(Flow::On)
    }

    /// Notes that a chat has begun.
    pub(super) fn begin(&mut self, chat: u32) {
        self.chat = chat;
        self.stage = Stage::Working;
        self.typing = false;
        self.interrupts = 0;
        self.shown = 0;
        self.whole = None;
        self.unsure_end_ms = None;
        self.usage = None;
        self.refused = Refused::default();
        self.started_ms = now_ms();
    }

    async fn happened(&mut self, Event { at, event, .. }: Event) -> Result<Flow> {
        let when = at.event.timestamp.0;
        if matches!(event, ChatEvent::Start { .. }) {
            self.started_ms = when;
        }
        if let ChatEvent::ApprovalResolved { approval_id, approved, decided_by, .. } = &event {
            self.withdraw(*approval_id, *decided_by)?;
            note_decision(&mut self.refused, *approved, *decided_by);
        }
        self.view.event(&at, &event)?;
        self.shown = at.event.seq.saturating_add(1);
        match event {
            ChatEvent::AwaitingApproval { approval_id, .. } => {
                self.asked(approval_id, self.session.id)?
            }
            ChatEvent::ToolRequest { approval_id, session_id, .. } => {
                self.asked(approval_id, session_id)?
            }
            ChatEvent::Complete { usage, .. } => {
                self.usage = Some(usage);
                self.spent_usd += usage.cost_usd;
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
        // The session said earlier that the chat is over, and this was the last of it.
        if self.whole.is_some_and(|whole| self.shown >= whole) {
            return self.perhaps_ended(when).await;
        }
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

    /// The commands that go on from here.
    pub(super) fn ways_on(&self) -> [String; 2] {
        let name = self.name();
        [
            format!("  go on:  plexus run --session {name} \"PROMPT\""),
            format!("  read:   plexus logs {name}"),
        ]
    }

    /// The session's name as a shell takes it.
    pub(super) fn name(&self) -> String {
        name_for_a_shell(&self.session)
    }
}

/// Returns a session's name where a shell takes it as it is, else its id.
pub(super) fn name_for_a_shell(session: &Session) -> String {
    let plain = session.name.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c));
    if plain { session.name.clone() } else { session.id.to_string() }
}

/// Waits for a key that means something; for ever where nobody types.
async fn next_typed(keys: &mut Option<Reading>) -> std::io::Result<Typed> {
    match keys {
        Some(keys) => keys.next().await,
        None => std::future::pending().await,
    }
}

/// Waits for the answer to a cancel request; for ever when there is none.
async fn told(
    cancelling: &mut Option<JoinHandle<Result<ChatCancelled, ClientError>>>,
) -> Result<(), ClientError> {
    let Some(task) = cancelling else { return std::future::pending().await };
    let outcome = task.await;
    *cancelling = None;
    outcome.map_or(Ok(()), |told| told.map(drop))
}
