//! What each step of a line adds to the draft. Questions and answers are in
//! [`permission`](super::permission).

use plexus_store::StoreError;
use plexus_wire::{BreachKind, ChatEvent};

use super::draft::{After, Draft, SessionChange};
use super::live::Piece;
use super::{Keeping, Run};
use crate::driver::step::Hidden;
use crate::driver::{Channel, Say, Step};
use crate::prompt::prompt_of;
use crate::session::SessionState;

impl Run {
    /// Adds one step.
    pub(super) async fn apply(&self, draft: &mut Draft, step: Step) -> Result<(), StoreError> {
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
                // The interrupt is repeated only in a chat that is to end. Its answer may also come
                // late, and then says nothing about the chat that came after it.
                if draft.state.chat.as_ref().is_some_and(|chat| chat.stop.is_some()) {
                    draft.after.push(After::InterruptAgain);
                }
            }
            Step::OwnRequestFailed(words) => {
                tracing::warn!(run = %self.key, words, "the agent refused a request of ours");
            }
            Step::Refused { request_id, notice, reply } => {
                request_id.into_iter().for_each(|id| draft.note_refused(id));
                draft.event(&ChatEvent::notice(notice))?;
                draft.sends.push(reply);
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
            Step::UnpromptedTurn(what) => {
                self.breach_of(BreachKind::UnpromptedTurn, draft, None, what)?;
            }
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

    /// Sends the prompt of the open chat, for which the agent is ready now, unless the chat is to
    /// end.
    async fn prompt_now(&self, draft: &mut Draft) -> Result<(), StoreError> {
        let Some(chat) = &draft.state.chat else { return Ok(()) };
        let Some(id) = chat.prompt.filter(|_| !draft.state.is_stopping()) else { return Ok(()) };
        let prompt = prompt_of(&*self.store, self.key.session, chat.number).await?;
        let (text, images) = (&prompt.text, &prompt.images);
        draft.sends.extend(draft.state.mind.write(&Say::Prompt { id, text, images }));
        Ok(())
    }

    async fn end_chat(&self, draft: &mut Draft) -> Result<(), StoreError> {
        draft.flush();
        let session = self.store.session(self.key.session).await?;
        let outside = self.changed_outside(&draft.known.config).await;
        let changes = self.ending_changes(&mut draft.state, &session, None, &outside)?;
        draft.changes.extend(changes);
        draft.outside = outside;
        draft.ended_chat = true;
        draft.commit_now = true;
        Ok(())
    }

    /// The one update of the session in this draft. Read anew: the operator may have set a mode
    /// since.
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

    /// A line could not be read, and a permission request may hide in it: one that names its id is
    /// denied, any other is found by asking what is open.
    fn unreadable(&self, draft: &mut Draft, why: &str, hides: Hidden) -> Result<(), StoreError> {
        if self.channel == Channel::Control {
            let asks = |after: &After| matches!(after, After::AskWhatIsOpen);
            match hides {
                Hidden::Question(id) => {
                    draft.deny(&id, "the request could not be read, so nobody was asked");
                    draft.note_refused(id);
                }
                // The answer to that very question may be what cannot be read: asking again would
                // go on for ever.
                Hidden::OwnAnswer => {}
                Hidden::Anything if draft.after.iter().any(asks) => {}
                Hidden::Anything => draft.after.push(After::AskWhatIsOpen),
            }
        }
        draft.event(&ChatEvent::Error {
            message: format!("a line of the agent could not be read: {why}"),
        })
    }
}
