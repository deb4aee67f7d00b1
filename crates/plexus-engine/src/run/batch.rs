//! From lines to one transaction: what a stretch of the journal changes, together with the position behind it.

use std::collections::VecDeque;
use std::sync::Arc;

use agent_lines::journal::{JournalLine, LineContent, Position};
use plexus_core::CallError;
use plexus_store::{
    AppendEvents, ApprovalRecord, Change, Fate, JournalPosition, NewEvent, Origin as ChatOrigin,
    Outcome, Patch, Priority, SessionRecord, SetJournalPosition, SettleApproval, StartChat,
    StoreError, Trace, UnixMillis, UpdateRun, UpdateSession,
};
use plexus_wire::{ChatEvent, PermitAnswer};

use super::live::{Piece, Pieces};
use super::state::{Begun, OpenChat, RunState};
use super::{Keeping, Over, Run};
use crate::driver::step::Hidden;
use crate::driver::{Channel, OutLine, Say, Step};
use crate::event::ToNewEvent;
use crate::prompt::prompt_text;
use crate::replan::Replans;
use crate::session::{SessionConfig, SessionState};
use crate::wait::STORE_RETRY;

/// Lines that go into one transaction at most: more would make the first of them wait for the last.
const LINES_PER_COMMIT: usize = 512;

/// What a run knows of its session between two commits. Nothing in it decides anything: whatever was changed meanwhile is a conflict of the commit.
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
    events: Vec<NewEvent>,
    /// What changes of the session itself: one update, whatever asked for it.
    session: Option<SessionChange>,
    pub(super) after: Vec<After>,
    /// What the driver sends the agent once this is stored.
    sends: Vec<OutLine>,
    live: Pieces,
    /// The position after the line that is looked at.
    at: JournalPosition,
    pub(super) priority: Priority,
    /// Whether the stretch ends here: what comes behind looks at what this changes.
    pub(super) commit_now: bool,
    ended_chat: bool,
}

/// A change of the session, and the revision it was planned on.
pub(super) struct SessionChange {
    revision: u64,
    pub(super) state: SessionState,
    pub(super) conversation: Option<String>,
}

/// What is done once a stretch is committed.
pub(super) enum After {
    /// Send this line to the child.
    Put(Vec<OutLine>),
    /// Send the answers of these records again.
    Resend(Vec<ApprovalRecord>),
    /// Ask the CLI which requests are open: a line was lost to us.
    AskWhatIsOpen,
    /// Interrupt again: our prompt was still queued.
    InterruptAgain,
    /// The child did what nobody allowed: end it.
    Stop(String),
}

/// What becomes of the rest of a line whose events cannot be stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// It counts.
    Counts,
    /// It cannot be stored either: the run is stopped.
    Stops,
}

/// How a stretch went.
enum Tried {
    /// So many lines are stored.
    Stored(usize),
    /// A turn begins that needs a chat of its own first.
    NeedsChat,
}

impl Run {
    /// Stores everything in `unwritten`. Waits while the store cannot be written; nothing is lost meanwhile.
    pub(super) async fn store_lines(&mut self) -> Result<(), Over> {
        let mut stretch = LINES_PER_COMMIT;
        let mut replans = Replans::default();
        while !self.unwritten.is_empty() {
            if self.disowned {
                self.unwritten.clear();
                break;
            }
            // Taken out, so that planning may borrow both the lines and the run.
            let lines = std::mem::take(&mut self.unwritten);
            let count = stretch.min(lines.len());
            let tried = self.try_store(&lines, count).await;
            self.unwritten = lines;
            match tried {
                Ok(Tried::Stored(stored)) => {
                    self.unwritten.drain(..stored);
                    stretch = LINES_PER_COMMIT;
                    replans = Replans::default();
                }
                Ok(Tried::NeedsChat) => {
                    if let Err(error) = self.open_own_chat().await {
                        tracing::warn!(run = %self.key, %error, "could not open a chat for a turn that the child started");
                        tokio::time::sleep(STORE_RETRY).await;
                    }
                }
                // Also a store that is closed or broken: the journal keeps what is not stored until a server can go on.
                Err(
                    StoreError::Unavailable { .. }
                    | StoreError::Busy { .. }
                    | StoreError::Closed
                    | StoreError::Poisoned { .. },
                ) => {
                    // Back to the loop, which looks at commands and at a child that is to be ended meanwhile.
                    tokio::time::sleep(STORE_RETRY).await;
                    return Ok(());
                }
                Err(StoreError::Fenced { .. }) => return Err(Over::Fenced),
                Err(_) if replans.once_more() => self.known = None,
                Err(_) if count > 1 => {
                    stretch = 1;
                    replans = Replans::default();
                }
                Err(error) => self.refuse_line(error).await?,
            }
        }
        Ok(())
    }

    /// Reads the session anew when something has changed under us, and lets go of what is no longer ours.
    pub(super) async fn known(&mut self) -> Result<Option<Arc<Known>>, StoreError> {
        if let Some(known) = &self.known {
            return Ok(Some(Arc::clone(known)));
        }
        let session = match self.store.session(self.key.session).await {
            Ok(session) => session,
            Err(StoreError::NotFound { .. }) => {
                tracing::info!(run = %self.key, "the session was deleted under its child, which has to go");
                self.disowned = true;
                self.state.close();
                self.end_now();
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let open = session.open_chat();
        if self.state.chat.as_ref().is_some_and(|chat| open != Some(chat.number)) {
            // Cancelled before the child was there: whatever it does is for nobody.
            self.state.close();
            self.end_now();
        }
        let config = SessionConfig::of(&session)?;
        let known = Arc::new(Known { session, config });
        self.known = Some(Arc::clone(&known));
        Ok(Some(known))
    }

    async fn try_store(
        &mut self,
        lines: &VecDeque<JournalLine<Position>>,
        count: usize,
    ) -> Result<Tried, StoreError> {
        let Some(known) = self.known().await? else { return Ok(Tried::Stored(count)) };
        let mut draft = Draft::new(self.state.clone(), known);
        let mut stored = 0;
        let mut to = self.position;
        for line in lines.iter().take(count) {
            let Some(steps) = self.steps_of(&mut draft, &line.content) else {
                if stored == 0 {
                    return Ok(Tried::NeedsChat);
                }
                break;
            };
            to = as_stored(line.position_after);
            draft.at = to;
            for step in steps {
                self.apply(&mut draft, step).await?;
            }
            stored += 1;
            if draft.commit_now {
                break;
            }
        }
        self.commit(draft, to).await?;
        Ok(Tried::Stored(stored))
    }

    /// What a line asks of us; `None` when it begins a turn that needs a chat of its own first.
    fn steps_of(&self, draft: &mut Draft, line: &LineContent) -> Option<Vec<Step>> {
        let mut steps = match line {
            LineContent::Whole(bytes) => plexus_shim::stderr_text(bytes).map(Step::Stderr),
            LineContent::TooLong { .. } => None,
        }
        .map_or_else(|| draft.state.mind.read(line), |stderr| vec![stderr]);
        // A child that is leaving works for nobody: no chat is opened, and none taken over, for its last words.
        if draft.state.chat.is_none() && !self.is_leaving() && steps.contains(&Step::TurnBegan) {
            return None;
        }
        steps.retain(|step| *step != Step::TurnBegan);
        Some(steps)
    }

    /// A line could not be read, and a permission request may hide in it: one that names its id is
    /// denied, any other is found by asking what is open.
    fn unreadable(&self, draft: &mut Draft, why: &str, hides: Hidden) -> Result<(), StoreError> {
        if self.channel == Channel::Control {
            let asks = |after: &After| matches!(after, After::AskWhatIsOpen);
            match hides {
                Hidden::Question(id) => {
                    draft.deny(&id, "the request could not be read, so nobody was asked");
                    draft.state.refused.insert(id);
                }
                // The answer to that very question may be what cannot be read: asking again would go on for ever.
                Hidden::OwnAnswer => {}
                Hidden::Anything if draft.after.iter().any(asks) => {}
                Hidden::Anything => draft.after.push(After::AskWhatIsOpen),
            }
        }
        draft.event(&ChatEvent::Error {
            message: format!("a line of the agent could not be read: {why}"),
        })
    }

    async fn commit(&mut self, mut draft: Draft, to: JournalPosition) -> Result<(), StoreError> {
        draft.finish()?;
        let stays_warm = draft.ended_chat && self.may_stay_warm(&draft.state);
        if !draft.sends.is_empty() {
            let lines = std::mem::take(&mut draft.sends);
            draft.state.owe(self.next_line(), lines);
        } else if self.unsent.is_empty() {
            draft.state.owed = None;
        }
        let mut update = UpdateRun::of(self.key);
        if draft.state != self.state {
            update.translation = Patch::Set(draft.state.to_json()?);
        }
        if stays_warm {
            update.idle_since = Patch::Set(UnixMillis::now());
        }
        if update != UpdateRun::of(self.key) {
            draft.changes.push(Change::UpdateRun(update));
        }
        // Before the commit: a piece that came after the event it belongs to would be shown twice.
        let rest = self.show_before(std::mem::take(&mut draft.live));
        // Live text alone is not worth a transaction for every word; after a crash it is read, and shown, again.
        if !draft.changes.is_empty() || to.segment != self.position.segment {
            let (run, expects) = (self.key, self.position);
            draft.changes.push(Change::SetJournalPosition(SetJournalPosition { run, expects, to }));
            plexus_fault::point!("batch.commit.before");
            let appending = self.appending(&draft.changes);
            let committed = self.store.commit(draft.changes, draft.priority).await?;
            self.show_stored(&appending, &committed.outcomes);
            plexus_fault::point!("batch.commit.after");
            plexus_fault::point!("chat.end.committed", when draft.ended_chat);
            self.position = to;
            self.state = draft.state;
            self.drop_stored_segments(expects.segment);
            self.pay_what_is_owed();
            // A rule may have decided in the same transaction: that answer leaves now.
            for outcome in committed.outcomes {
                if let Outcome::Approval { record, .. } = outcome {
                    self.await_decision(&record);
                    self.send_answer(&record);
                }
            }
        }
        self.show_after(rest);
        for after in draft.after {
            self.act(after).await;
        }
        if draft.ended_chat {
            self.known = None;
            self.chat_ended(stays_warm);
        }
        Ok(())
    }

    async fn act(&mut self, after: After) {
        match after {
            After::Put(lines) => self.put(lines),
            After::Resend(records) => records.iter().for_each(|record| self.send_answer(record)),
            After::AskWhatIsOpen => {
                if !self.ask_what_is_open() {
                    let why = "a line of the agent could not be read, and it cannot be asked again";
                    self.kill(why.to_owned()).await;
                }
            }
            After::InterruptAgain => self.begin_cancel(),
            After::Stop(reason) => self.kill(reason).await,
        }
    }

    async fn apply(&self, draft: &mut Draft, step: Step) -> Result<(), StoreError> {
        match step {
            Step::Event(event) => {
                if matches!(event, ChatEvent::Content { .. }) {
                    draft.live.push(draft.at, Piece::Whole);
                }
                draft.event(&event)?;
            }
            // Dealt with before the line is applied.
            Step::TurnBegan => {}
            Step::Conversation(id) => self.note_conversation(draft, id).await?,
            Step::Asked(ask) => self.open(draft, &ask).await?,
            Step::Withdrawn { request_id } => {
                self.withdraw(draft, &request_id, "the agent withdrew its question").await?;
            }
            Step::AnswerTaken { request_id, answer } => {
                self.answer_taken(draft, &request_id, answer).await?
            }
            Step::StillOpen(open) => self.reconcile(draft, open).await?,
            Step::InterruptedTooEarly => {
                // Only of a chat that is to end: an interrupt's late answer says nothing about the chat that came after it.
                if draft.state.chat.as_ref().is_some_and(|chat| chat.stop.is_some()) {
                    draft.after.push(After::InterruptAgain);
                }
            }
            Step::OwnRequestFailed(words) => {
                tracing::warn!(run = %self.key, words, "the agent refused a request of ours");
            }
            Step::Refused { request_id, notice, reply } => {
                draft.state.refused.extend(request_id);
                draft.event(&ChatEvent::notice(notice))?;
                draft.after.push(After::Put(vec![reply]));
            }
            Step::Unreadable { why, hides } => self.unreadable(draft, &why, hides)?,
            Step::Accepted { tool_use_id, by } => {
                self.check_accepted(draft, &tool_use_id, &by).await?
            }
            Step::Stderr(text) => {
                if let Some(notice) = draft.state.stderr(&text) {
                    draft.event(&notice)?;
                }
            }
            Step::Finished { tool_use_id } => self.tool_finished(draft, &tool_use_id).await?,
            Step::Delta(text) => draft.live.push(draft.at, Piece::Text(text)),
            Step::DeltaStart => draft.live.push(draft.at, Piece::MessageStart),
            Step::DeltaEnd => draft.live.push(draft.at, Piece::TextEnd),
            Step::TurnEnded => self.end_chat(draft).await?,
            Step::Send(lines) => draft.sends.extend(lines),
            Step::Ready => self.prompt_now(draft).await?,
            Step::Settled { request_id } => self.settled(draft, &request_id).await?,
            Step::Ran { request_id, what } => {
                self.check_ran(draft, request_id.as_deref(), &what).await?
            }
            Step::Breach(what) => self.breach(draft, None, what)?,
        }
        Ok(())
    }

    async fn note_conversation(&self, draft: &mut Draft, id: String) -> Result<(), StoreError> {
        if draft.state.conversation.as_ref() == Some(&id) {
            return Ok(());
        }
        draft.state.conversation = Some(id.clone());
        if self.keeping == Keeping::Ephemeral {
            return Ok(());
        }
        let change = self.session_change(draft).await?;
        change.state.fork_from = None;
        change.state.fork_of = None;
        change.state.fork_behind = None;
        change.conversation = Some(id);
        Ok(())
    }

    /// Sends the prompt of the open chat, for which the agent is ready now.
    async fn prompt_now(&self, draft: &mut Draft) -> Result<(), StoreError> {
        let Some(chat) = &draft.state.chat else { return Ok(()) };
        let Some(id) = chat.prompt else { return Ok(()) };
        let text = prompt_text(&*self.store, self.key.session, chat.number).await?;
        draft.sends.extend(draft.state.mind.write(&Say::Prompt { id, text: &text }));
        Ok(())
    }

    async fn end_chat(&self, draft: &mut Draft) -> Result<(), StoreError> {
        draft.flush();
        let session = self.store.session(self.key.session).await?;
        let changes = self.ending_changes(&mut draft.state, &session, None)?;
        draft.changes.extend(changes);
        draft.ended_chat = true;
        draft.commit_now = true;
        Ok(())
    }

    /// The one update of the session in this draft. Read anew: the operator may have set a mode since.
    async fn session_change<'a>(
        &self,
        draft: &'a mut Draft,
    ) -> Result<&'a mut SessionChange, StoreError> {
        let change = match draft.session.take() {
            Some(change) => change,
            None => {
                let session = self.store.session(self.key.session).await?;
                let state = SessionState::of(&session)?;
                SessionChange { revision: session.revision, state, conversation: None }
            }
        };
        Ok(draft.session.insert(change))
    }

    /// A line that cannot be stored as it is: an error takes the place of its events, and a request in it is denied. Whatever else it says counts
    /// all the same: an answer that was taken, a tool that ran, the end of the chat.
    async fn refuse_line(&mut self, error: StoreError) -> Result<(), Over> {
        let Some(line) = self.unwritten.pop_front() else { return Ok(()) };
        let error = CallError::from(error);
        tracing::error!(run = %self.key, %error, "a line of the agent could not be stored");
        let mut replans = Replans::default();
        let mut rest = Rest::Counts;
        loop {
            match self.try_refuse(&line, &error.message, rest).await {
                Ok(()) => return Ok(()),
                Err(StoreError::Fenced { .. }) => return Err(Over::Fenced),
                Err(
                    StoreError::Conflict { .. }
                    | StoreError::NotFound { .. }
                    | StoreError::Invalid { .. },
                ) => {
                    if rest == Rest::Stops {
                        return Err(Over::Fenced);
                    }
                    // What it says may itself be what cannot be stored. Nobody could check it then,
                    // and the run is stopped.
                    if !replans.once_more() {
                        rest = Rest::Stops;
                    }
                    self.known = None;
                }
                Err(_) => tokio::time::sleep(STORE_RETRY).await,
            }
        }
    }

    async fn try_refuse(
        &mut self,
        line: &JournalLine<Position>,
        why: &str,
        rest: Rest,
    ) -> Result<(), StoreError> {
        let Some(known) = self.known().await? else { return Ok(()) };
        let mut draft = Draft::new(self.state.clone(), known);
        draft.at = as_stored(line.position_after);
        draft.event(&ChatEvent::Error {
            message: format!("a line of the agent could not be stored: {why}"),
        })?;
        let steps = match rest {
            Rest::Counts => draft.state.mind.read(&line.content),
            Rest::Stops => {
                self.breach(
                    &mut draft,
                    None,
                    "the agent wrote a line that could not be checked".to_owned(),
                )?;
                Vec::new()
            }
        };
        for step in steps {
            match step {
                Step::Event(_) | Step::Unreadable { .. } => {}
                Step::Asked(ask) => {
                    self.refuse(&mut draft, &ask, &format!("take the request: {why}"))?;
                }
                step => self.apply(&mut draft, step).await?,
            }
        }
        self.commit(draft, as_stored(line.position_after)).await
    }

    /// Opens a chat for a turn that nobody here asked for. When somebody starts one in this very moment the turn belongs to that, and its prompt follows.
    async fn open_own_chat(&mut self) -> Result<(), StoreError> {
        let session = self.store.session(self.key.session).await?;
        let mut state = self.state.clone();
        let mut changes = Vec::new();
        let mut prompt = None;
        let open = match session.open_chat() {
            Some(number) => Some(self.store.chat(session.id, Some(number)).await?),
            None => None,
        };
        if open.as_ref().is_some_and(|chat| chat.trace == Trace::Ephemeral) {
            // That chat gets a process of its own, on a copy of the conversation; this one's turn waits for nobody.
            self.end_now();
            return Ok(());
        }
        if let Some(chat) = open {
            let number = chat.number;
            prompt = Some((chat.prompt_uuid, prompt_text(&*self.store, session.id, number).await?));
            state.open(OpenChat::new(number, Some(chat.prompt_uuid), Begun::OnWarm));
        } else {
            let number = session.newest_chat.map_or(0, |chat| chat.number + 1);
            state.open(OpenChat::new(number, None, Begun::OnWarm));
            changes.push(Change::StartChat(StartChat {
                origin: ChatOrigin::SelfStarted,
                run: Some(self.key.n),
                reserve: crate::budget::estimate(&*self.store, session.id).await?,
                ..StartChat::new(self.key.session, "(the agent went on by itself)")
            }));
        }
        if let Err(error) = self.dir.clear_idle() {
            tracing::warn!(run = %self.key, %error, "could not mark a child as busy");
        }
        self.remember(
            state,
            UpdateRun { idle_since: Patch::Clear, ..UpdateRun::of(self.key) },
            changes,
        )
        .await?;
        self.facts.set_idle(None);
        if let Some((id, text)) = &prompt {
            self.say(&Say::Prompt { id: *id, text });
        }
        Ok(())
    }
}

impl Draft {
    fn new(state: RunState, known: Arc<Known>) -> Self {
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
            ended_chat: false,
        }
    }

    pub(super) fn event(&mut self, event: &ChatEvent) -> Result<(), StoreError> {
        if self.state.chat.is_some() {
            self.events.push(event.to_new_event()?);
        } else {
            tracing::debug!(session = %self.known.session.id, kind = event.type_name(), "nothing is open that this could be said in");
        }
        Ok(())
    }

    /// Denies a question of the agent once this is committed.
    pub(super) fn deny(&mut self, request_id: &str, why: &str) {
        let answer = PermitAnswer::deny(why);
        let lines = self.state.mind.write(&Say::Answer { request_id, answer: &answer });
        self.after.push(After::Put(lines));
    }

    /// Events keep their place among the other changes: what was said before a question is stored before it.
    pub(super) fn flush(&mut self) {
        if let (Some(chat), false) = (&self.state.chat, self.events.is_empty()) {
            let (session, chat) = (self.known.session.id, chat.number);
            let events = std::mem::take(&mut self.events);
            self.changes.push(Change::AppendEvents(AppendEvents { session, chat, events }));
        }
    }

    /// Adds what is left to the changes.
    fn finish(&mut self) -> Result<(), StoreError> {
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

    pub(super) fn settle(&mut self, record: &ApprovalRecord, fate: Fate) {
        self.flush();
        self.commit_now = true;
        self.changes.push(Change::SettleApproval(SettleApproval {
            id: record.id,
            fate,
            at: UnixMillis::now(),
        }));
    }
}

fn as_stored(position: Position) -> JournalPosition {
    JournalPosition {
        segment: u32::try_from(position.segment).unwrap_or(u32::MAX),
        offset: position.offset,
    }
}
