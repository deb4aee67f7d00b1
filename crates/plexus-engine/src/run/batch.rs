//! From lines to one transaction: what a stretch of the journal changes, together with the position
//! after it.

use std::collections::VecDeque;
use std::sync::Arc;

use agent_lines::journal::{JournalLine, LineContent, Position};
use plexus_core::CallError;
use plexus_store::{
    Change, JournalPosition, Origin as ChatOrigin, Outcome, Patch, SetJournalPosition, StartChat,
    StoreError, Trace, UnixMillis, UpdateRun,
};
use plexus_wire::ChatEvent;

use super::draft::{After, Draft, Known, as_stored};
use super::pump::Linger;
use super::state::{Begun, OpenChat, StopReason};
use super::{Over, Run};
use crate::driver::{Say, Step};
use crate::prompt::prompt_of;
use crate::replan::Replans;
use crate::session::SessionConfig;
use crate::wait::STORE_RETRY;

/// Lines that go into one transaction at most: more would make the first of them wait for the last.
const LINES_PER_COMMIT: usize = 512;

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
    /// Nobody waits for what the lines change: they are stored together with the next ones.
    Lingers,
    /// A turn begins that needs a chat of its own first.
    NeedsChat,
}

impl Run {
    /// Stores everything in `unwritten`, except lines that may linger. Waits while the store cannot
    /// be written; nothing is lost meanwhile.
    pub(super) async fn store_lines(&mut self, linger: Linger) -> Result<(), Over> {
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
            let tried = self.try_store(&lines, count, linger).await;
            self.unwritten = lines;
            match tried {
                Ok(Tried::Lingers) => return Ok(()),
                Ok(Tried::Stored(stored)) => {
                    self.unwritten.drain(..stored);
                    stretch = LINES_PER_COMMIT;
                    replans = Replans::default();
                }
                Ok(Tried::NeedsChat) => {
                    if let Err(error) = self.open_own_chat().await {
                        tracing::warn!(run = %self.key, %error, "could not open a chat for a turn \
                            that the child started");
                        tokio::time::sleep(STORE_RETRY).await;
                    }
                }
                // Also a store that is closed or broken: the journal keeps what is not stored until
                // a server can go on.
                Err(
                    StoreError::Unavailable { .. }
                    | StoreError::Busy { .. }
                    | StoreError::Closed
                    | StoreError::Poisoned { .. },
                ) => {
                    // Returns to the loop before the next try, so that commands are handled and a
                    // child can be ended while the store cannot be written.
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

    /// Returns the session, read again after something changed it. Ends the run when the session was
    /// deleted or its chat is no longer the open one.
    pub(super) async fn known(&mut self) -> Result<Option<Arc<Known>>, StoreError> {
        if let Some(known) = &self.known {
            return Ok(Some(Arc::clone(known)));
        }
        let session = match self.store.session(self.key.session).await {
            Ok(session) => session,
            Err(StoreError::NotFound { .. }) => {
                tracing::info!(run = %self.key, "the session was deleted under its child, which \
                    has to go");
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
        linger: Linger,
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
            if stored > 0 && draft.has_arrivals && steps.iter().any(Step::reads_arrivals) {
                // It reads the store, so what comes before it is stored first.
                return Box::pin(self.try_store(lines, stored, Linger::Refused)).await;
            }
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
        if linger == Linger::Allowed && stored == lines.len() && draft.only_notes_arrivals() {
            return Ok(Tried::Lingers);
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
        // A child that is leaving works for nobody: no chat is opened, and none taken over, for its
        // last words.
        if draft.state.chat.is_none() && !self.is_leaving() && steps.contains(&Step::TurnBegan) {
            return None;
        }
        steps.retain(|step| *step != Step::TurnBegan);
        Some(steps)
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
        // Live text alone is not worth a transaction for every word; after a crash it is read, and
        // shown, again.
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
            self.go_on_with(draft.state);
            self.drop_stored_segments(expects.segment);
            plexus_fault::point!("owed.committed", when self.state.owed.is_some());
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
            self.told_outside(draft.outside);
            self.known = None;
            self.chat_ended(stays_warm);
        }
        Ok(())
    }

    async fn act(&mut self, after: After) {
        match after {
            After::Resend(records) => records.iter().for_each(|record| self.send_answer(record)),
            After::AskWhatIsOpen => {
                if !self.ask_what_is_open() {
                    let why = "a line of the agent could not be read, and it cannot be asked again";
                    self.kill(StopReason::Failed, why.to_owned()).await;
                }
            }
            After::InterruptAgain => self.begin_cancel(),
            // A breach was noted before, and is graver.
            After::Stop(words) => self.kill(StopReason::Failed, words).await,
        }
    }

    /// A line that cannot be stored as it is: an error takes the place of its events, and a request
    /// in it is denied. Whatever else it says counts all the same: an answer that was taken, a tool
    /// that ran, the end of the chat.
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

    /// Opens a chat for a turn that nobody here asked for. When somebody starts one in this very
    /// moment the turn belongs to that, and its prompt follows.
    async fn open_own_chat(&mut self) -> Result<(), StoreError> {
        if self.state.prestarted.is_some() {
            tracing::warn!(run = %self.key, "an agent began to work before its first chat; it is \
                ended, and the chat starts another");
            self.end_now();
            return Ok(());
        }
        let session = self.store.session(self.key.session).await?;
        let mut state = self.state.clone();
        let mut changes = Vec::new();
        let mut prompt = None;
        let open = match session.open_chat() {
            Some(number) => Some(self.store.chat(session.id, Some(number)).await?),
            None => None,
        };
        if open.as_ref().is_some_and(|chat| chat.trace == Trace::Ephemeral) {
            // The open chat is ephemeral and gets its own process. Nobody wants the turn that this
            // process began, so it is ended.
            self.end_now();
            return Ok(());
        }
        if let Some(chat) = open {
            let number = chat.number;
            prompt = Some((chat.prompt_uuid, prompt_of(&*self.store, session.id, number).await?));
            state.open(OpenChat::new(number, Some(chat.prompt_uuid), Begun::OnWarm));
        } else {
            let number = session.newest_chat.map_or(0, |chat| chat.number + 1);
            state.open(OpenChat::new(number, None, Begun::OnWarm));
            changes.push(Change::StartChat(StartChat {
                origin: ChatOrigin::SelfStarted,
                run: Some(self.key.n),
                owner: crate::handles::owner(&SessionConfig::of(&session)?.agent),
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
        if let Some((id, prompt)) = &prompt {
            let (text, images) = (&prompt.text, &prompt.images);
            self.say(&Say::Prompt { id: *id, text, images });
        }
        Ok(())
    }
}
