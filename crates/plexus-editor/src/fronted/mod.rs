//! One session that the editor has open: its turn, its dialogs, and what the editor is shown.
//!
//! In reading order: this file holds the state and what is heard; [`turns`] is the life of a
//! prompt, [`asking`] that of a question, [`below`] what sessions below ask, [`modes`] the
//! session's options.

mod asking;
mod below;
mod modes;
mod turns;

use std::collections::{BTreeMap, VecDeque};

use acp_lines::serve::{Titled, Update};
use acp_lines::{RequestId, ServedLine};
use plexus_client::wire::{ApprovalId, ChatEvent, Session, SessionId, ToolTarget};
use serde_json::Value;

use super::hands::{Hands, Task};
use super::options::Options;
use super::questions::Questions;
use super::reader::{self, Heard, Start};
use super::refusal::Refusal;
use super::view::{View, When};
use plexus_render::screen::now_ms;

pub(super) use asking::Undecided;
pub(super) use modes::Via;
use turns::{Ended, Turn};

/// Tells an editor that waits for the end of a prompt that the server is away.
const AWAY: &str = "the server is away; the agent keeps running, waiting for it to come back";

/// Decided approvals that are remembered: a list of what waits may be older than a decision.
const MAX_RESOLVED: usize = 256;

/// One session that the editor has open.
#[derive(Debug)]
pub(super) struct Fronted {
    id: SessionId,
    /// Its id as the editor names it.
    name: String,
    view: View,
    questions: Questions,
    /// The newest approvals that were decided.
    resolved: VecDeque<ApprovalId>,
    turn: Turn,
    /// The newest chat that seemed to end.
    ended: Option<Ended>,
    /// Prompts that the editor has cancelled before anybody knew whether they had arrived.
    given_up: VecDeque<String>,
    options: Options,
    /// The request that opens the session, which is answered when its history has been told.
    opening: Option<RequestId>,
    /// What the editor is told with its first prompt.
    notes: Vec<String>,
    /// The task that looks at the mode again when it ends.
    mode_ends: Option<Task>,
    /// The sessions that the agent has started and that have asked, each with the task that watches
    /// it.
    below: BTreeMap<SessionId, Task>,
    _reading: Task,
}

/// How a session is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum How {
    /// As a new conversation. If the command line names the session, it may have a history, which is
    /// sent afterwards.
    New,
    /// Again, with its history before the answer.
    Load,
    /// Again, without its history.
    Resume,
}

impl Fronted {
    /// Opens a session, and answers the request unless its history comes first.
    pub(super) async fn open(
        session: &Session,
        request: RequestId,
        how: How,
        notes: Vec<String>,
        hands: &Hands,
    ) -> Self {
        let options = Options::of(session, now_ms() / 1_000);
        let name = session.id.to_string();
        let opening = match how {
            How::New => {
                let mut result = options.opened();
                result["sessionId"] = Value::String(name.clone());
                hands.say(&ServedLine::Result { id: request, result }).await;
                let titled = Titled { title: Some(session.name.clone()), ..Titled::default() };
                hands.tell(&name, Update::SessionInfoUpdate(titled)).await;
                None
            }
            How::Load | How::Resume => Some(request),
        };
        let start = match how {
            How::New | How::Load => Start::Beginning,
            How::Resume => Start::End,
        };
        Self {
            id: session.id,
            name,
            view: View::new(session.working_dir.clone()),
            questions: Questions::default(),
            resolved: VecDeque::new(),
            turn: Turn::None,
            ended: None,
            given_up: VecDeque::new(),
            options,
            opening,
            notes,
            mode_ends: None,
            below: BTreeMap::new(),
            _reading: reader::read(hands.server().clone(), session, start, hands.causes()),
        }
    }

    /// Takes what was heard of the session.
    pub(super) async fn heard(&mut self, heard: Heard, hands: &mut Hands) {
        match heard {
            Heard::Prompt { chat, text, when } => self.prompted(chat, text, when, hands).await,
            Heard::Event { chat, event, target, when } => {
                self.happened(chat, (&event, target.as_ref()), when, hands).await;
            }
            Heard::Piece(piece) => {
                let update = self.view.piece(&piece);
                self.tell(update, hands).await;
            }
            Heard::CaughtUp => {
                if let Some(id) = self.opening.take() {
                    let result = self.options.opened();
                    hands.say(&ServedLine::Result { id, result }).await;
                }
                self.look_for_questions(hands);
            }
            // The door drops the session with this.
            Heard::Over(refusal) => self.over(refusal, hands).await,
        }
    }

    async fn happened(
        &mut self,
        chat: u32,
        (event, target): (&ChatEvent, Option<&ToolTarget>),
        when: When,
        hands: &mut Hands,
    ) {
        match event {
            ChatEvent::AwaitingApproval { .. } if when == When::Now => {
                self.look_for_questions(hands);
            }
            ChatEvent::ToolRequest { session_id, session_name, .. } => {
                self.asked_below(*session_id, session_name, hands).await;
            }
            ChatEvent::ApprovalResolved { approval_id, .. } => {
                self.withdraw(*approval_id, hands).await;
            }
            ChatEvent::Complete { usage, .. } => {
                self.may_have_ended(Ended { chat, usage: Some(*usage), error: None }, hands);
            }
            ChatEvent::Error { message } if when == When::Now => {
                let error = Some(message.clone());
                self.may_have_ended(Ended { chat, usage: None, error }, hands);
                if self.turn.is_of(chat) {
                    // The session is asked whether this is the end; if it is, the prompt is
                    // answered then.
                    return;
                }
            }
            _ => {}
        }
        let updates = self.view.event(event, target, when);
        self.tell(updates, hands).await;
    }

    async fn tell(&self, updates: impl IntoIterator<Item = Update>, hands: &Hands) {
        for update in updates {
            hands.tell(&self.name, update).await;
        }
    }

    async fn note(&mut self, words: &str, hands: &Hands) {
        let update = self.view.note(words);
        self.tell([update], hands).await;
    }

    /// Tells those who wait for the end of a prompt that the server went away or came back.
    pub(super) async fn note_absence(&mut self, is_away: bool, hands: &Hands) {
        self.note_in_turn(if is_away { AWAY } else { "the server is back" }, hands).await;
    }

    /// Says something to those who wait for the end of a prompt, if any do.
    async fn note_in_turn(&mut self, words: &str, hands: &Hands) {
        if self.is_busy() {
            self.note(words, hands).await;
        }
    }

    /// Answers everything that is open: the session cannot be read any more.
    async fn over(&mut self, refusal: Refusal, hands: &Hands) {
        let prompt = std::mem::take(&mut self.turn).into_request();
        for id in [self.opening.take(), prompt].into_iter().flatten() {
            hands.say(&refusal.clone().answer(id)).await;
        }
        self.close_dialogs(hands).await;
    }
}
