//! What a stretch of lines changes, before it is committed.

use std::sync::Arc;

use agent_lines::journal::Position;
use plexus_store::{
    AppendEvents, ApprovalRecord, Change, Fate, JournalPosition, NewEvent, Patch, Priority,
    SessionRecord, SettleApproval, StoreError, UnixMillis, UpdateSession,
};
use plexus_wire::{ChatEvent, PermitAnswer};

use super::live::Pieces;
use super::state::RunState;
use crate::driver::{OutLine, Say};
use crate::event::ToNewEvent;
use crate::session::{SessionConfig, SessionState};

/// How many refused requests of one run are remembered. A child with more is looping, and is ended.
const MAX_REFUSED: usize = 4_096;

/// What a run knows of its session between two commits. It may be out of date, which does no harm:
/// every change names the state that it expects, so the commit is then refused as a conflict.
pub(super) struct Known {
    pub(super) session: SessionRecord,
    pub(super) config: SessionConfig,
}

/// What a stretch of lines changes, before it is committed.
pub(super) struct Draft {
    pub(super) state: RunState,
    pub(super) known: Arc<Known>,
    pub(super) changes: Vec<Change>,
    /// Events of the open chat that are not yet among the changes.
    pub(super) events: Vec<NewEvent>,
    /// What changes of the session itself: one update, whatever asked for it.
    pub(super) session: Option<SessionChange>,
    pub(super) after: Vec<After>,
    /// What is sent to the agent once this is stored. It is stored too, until it was sent.
    pub(super) sends: Vec<OutLine>,
    pub(super) live: Pieces,
    /// The position after the line that is looked at.
    pub(super) at: JournalPosition,
    pub(super) priority: Priority,
    /// Whether the batch ends here, because the next line depends on what this one changes.
    pub(super) commit_now: bool,
    /// Whether it notes that an answer has arrived. A line that reads what has arrived comes after
    /// its commit.
    pub(super) has_arrivals: bool,
    pub(super) ended_chat: bool,
    /// The changed files that its end tells of.
    pub(super) outside: Vec<std::path::PathBuf>,
}

/// A change of the session, and the revision it was planned on.
pub(super) struct SessionChange {
    pub(super) revision: u64,
    pub(super) state: SessionState,
    pub(super) conversation: Option<String>,
}

/// What is done once a stretch is committed.
pub(super) enum After {
    /// Send the answers of these records again.
    Resend(Vec<ApprovalRecord>),
    /// Ask the agent which requests are open: a line was lost to us.
    AskWhatIsOpen,
    /// Interrupt again: our prompt was still queued.
    InterruptAgain,
    /// The child did what nobody allowed: end it.
    Stop(String),
}

impl Draft {
    pub(super) fn new(state: RunState, known: Arc<Known>) -> Self {
        Self {
            state,
            known,
            changes: Vec::new(),
            events: Vec::new(),
            session: None,
            after: Vec::new(),
            sends: Vec::new(),
            live: Pieces::default(),
            at: JournalPosition::default(),
            priority: Priority::Normal,
            commit_now: false,
            has_arrivals: false,
            ended_chat: false,
            outside: Vec::new(),
        }
    }

    pub(super) fn event(&mut self, event: &ChatEvent) -> Result<(), StoreError> {
        if self.state.chat.is_some() {
            self.events.push(event.to_new_event()?);
        } else if let Some(prestarted) = &mut self.state.prestarted {
            prestarted.tell(event);
        } else {
            tracing::debug!(session = %self.known.session.id, kind = event.type_name(), "nothing \
                is open that this could be said in");
        }
        Ok(())
    }

    /// Denies a question of the agent once this is committed. No approval says that it was denied,
    /// so the line is stored: a server that takes the run over still sends it.
    pub(super) fn deny(&mut self, request_id: &str, why: &str) {
        let answer = PermitAnswer::deny(why);
        let lines = self.state.mind.write(&Say::Answer { request_id, answer: &answer });
        self.sends.extend(lines);
    }

    /// Notes a request that was refused without an approval, so that its echo is no surprise.
    pub(super) fn note_refused(&mut self, request_id: String) {
        self.state.refused.insert(request_id);
        let stops = |after: &After| matches!(after, After::Stop(_));
        if self.state.refused.len() > MAX_REFUSED && !self.after.iter().any(stops) {
            self.after.push(After::Stop(format!(
                "the agent made more than {MAX_REFUSED} requests that could not be taken"
            )));
        }
    }

    /// Events keep their place among the other changes: what was said before a question is stored
    /// before it.
    pub(super) fn flush(&mut self) {
        if let (Some(chat), false) = (&self.state.chat, self.events.is_empty()) {
            let (session, chat) = (self.known.session.id, chat.number);
            let events = std::mem::take(&mut self.events);
            self.changes.push(Change::AppendEvents(AppendEvents { session, chat, events }));
        }
    }

    /// Adds what is left to the changes.
    pub(super) fn finish(&mut self) -> Result<(), StoreError> {
        self.flush();
        if let Some(change) = self.session.take() {
            self.changes.push(Change::UpdateSession(UpdateSession {
                expects_revision: Some(change.revision),
                state: Some(change.state.to_json()?),
                claude_session_id: change.conversation.map_or(Patch::Keep, Patch::Set),
                ..UpdateSession::of(self.known.session.id)
            }));
        }
        Ok(())
    }

    /// Notes what became of an answer. One that has arrived needs no transaction of its own: the
    /// agent goes on with the call, and says so in the next lines.
    pub(super) fn settle(&mut self, record: &ApprovalRecord, fate: Fate) {
        self.flush();
        match fate {
            Fate::Delivered => self.has_arrivals = true,
            Fate::Void => self.commit_now = true,
        }
        self.changes.push(Change::SettleApproval(SettleApproval {
            id: record.id,
            fate,
            at: UnixMillis::now(),
        }));
    }
}

impl Draft {
    /// Whether it notes that answers have arrived, and nothing else that anybody waits for.
    pub(super) fn only_notes_arrivals(&self) -> bool {
        let is_arrival = |change: &Change| matches!(change, Change::SettleApproval(settle) if settle.fate == Fate::Delivered);
        self.has_arrivals
            && self.changes.iter().all(is_arrival)
            && self.events.is_empty()
            && self.session.is_none()
            && self.after.is_empty()
            && self.sends.is_empty()
            && self.live.is_empty()
            && !self.commit_now
    }
}

/// A position of the journal as the store keeps it.
pub(super) fn as_stored(position: Position) -> JournalPosition {
    JournalPosition {
        segment: u32::try_from(position.segment).unwrap_or(u32::MAX),
        offset: position.offset,
    }
}
