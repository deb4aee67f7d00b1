//! What others ask of a run, and what leaves for the child: prompts, messages, answers.
//!
//! Lines for the child go through the inbox in the order they were put. While the disk refuses them
//! they wait here and are tried again; a server that dies meanwhile finds in the store what has to
//! be sent.

use std::time::Instant;

use plexus_core::{CallError, Caller, ErrorKind};
use plexus_store::{
    AppendEvents, ApprovalRecord, ApprovalStatus, AssignRun, Change, Patch, Priority, StoreError,
    UpdateRun,
};
use plexus_wire::{ChatEvent, PermitAnswer};
use uuid::Uuid;

use super::state::{Begun, OpenChat, StopReason};
use super::{Command, Keeping, Run, Taken};
use crate::approvals::answer::answer_of;
use crate::driver::{Channel, OutLine, Say};
use crate::event::ToNewEvent;
use crate::prompt::Prompt;
use crate::wait::{Heard, STORE_RETRY};

/// When a message may be sent again that came before the agent was ready: its handshake takes about
/// this long.
const READY_RETRY_MS: u64 = 500;

impl Run {
    pub(super) async fn command(&mut self, command: Command) {
        match command {
            Command::Chat { chat, prompt_uuid, prompt, start, taken } => {
                let answer = self.take_chat(chat, prompt_uuid, &prompt, start.as_deref()).await;
                // A caller that has gone away loses nothing: the chat is stored, and its prompt
                // sent.
                let _gone = taken.send(answer);
            }
            Command::Send { by, text, done } => {
                let _gone = done.send(self.send(by, text).await);
            }
            Command::Cancel { reason, done } => {
                let _gone = done.send(self.cancel(reason).await);
            }
            Command::Park { done } => {
                let _gone = done.send(self.park_now().await);
            }
            Command::Close => self.close(),
            Command::Kill { reason } => self.kill(StopReason::Cancelled, reason).await,
            Command::Stop { reason, words } => self.stop(reason, words).await,
        }
    }

    /// Ends the child because its chat may not go on, once: a second wish finds it ending.
    pub(super) async fn stop(&mut self, reason: StopReason, words: String) {
        let mut state = self.state.clone();
        let Some(chat) = &mut state.chat else { return };
        if chat.has_failed() || !chat.stop(reason, words) {
            return;
        }
        if let Err(error) = self.remember(state, UpdateRun::of(self.key), Vec::new()).await {
            tracing::warn!(run = %self.key, %error, "could not note why a run is stopped; it is \
                tried again");
            return;
        }
        self.end_now();
    }

    async fn take_chat(
        &mut self,
        chat: u32,
        prompt_uuid: Uuid,
        prompt: &Prompt,
        start: Option<&str>,
    ) -> Taken {
        if self.state.chat.as_ref().is_some_and(|open| open.number == chat) {
            return Taken::Yes;
        }
        let serves_more = self.channel == Channel::Control && self.keeping == Keeping::Kept;
        if !serves_more
            || self.facts.is_closing()
            || self.state.chat.is_some()
            || self.hold.is_gone()
        {
            return Taken::No;
        }
        if self.meets_what_it_would_run().await {
            return Taken::No;
        }
        let prestarted = self.state.prestarted.as_ref();
        if prestarted.is_some_and(|it| start != Some(it.start.as_str())) {
            tracing::info!(run = %self.key, "an agent that was started before its first chat would \
                be started otherwise now; it is ended");
            return Taken::No;
        }
        // The shim must not end it as idle from here on.
        if let Err(error) = self.dir.clear_idle() {
            tracing::warn!(run = %self.key, %error, "could not wake an idle child");
            return Taken::No;
        }
        let mut state = self.state.clone();
        let told = state.prestarted.take().map(|it| it.told).unwrap_or_default();
        state.open(OpenChat::new(chat, Some(prompt_uuid), Begun::OnWarm));
        // One that was started before its first chat may still be in its handshake; the prompt
        // follows once it is ready.
        if !state.mind.report().is_beginning {
            let (text, images) = (&prompt.text, &prompt.images);
            let lines = state.mind.write(&Say::Prompt { id: prompt_uuid, text, images });
            state.owe(self.next_line(), lines);
        }
        let update = UpdateRun { idle_since: Patch::Clear, ..UpdateRun::of(self.key) };
        let session = self.key.session;
        let mut changes = vec![Change::AssignRun(AssignRun { session, chat, run: self.key.n })];
        match told.iter().map(ToNewEvent::to_new_event).collect::<Result<Vec<_>, _>>() {
            Ok(events) if events.is_empty() => {}
            Ok(events) => {
                changes.push(Change::AppendEvents(AppendEvents { session, chat, events }));
            }
            Err(error) => {
                tracing::warn!(run = %self.key, %error, "could not tell how a child was started");
                return Taken::No;
            }
        }
        if let Err(error) = self.remember(state, update, changes).await {
            tracing::warn!(run = %self.key, %error, "could not hand a chat to a warm child");
            return Taken::No;
        }
        plexus_fault::point!("warm.chat.committed");
        self.facts.set_prestarted(false);
        self.facts.set_idle(None);
        self.pay_what_is_owed();
        Taken::Yes
    }

    /// Whether something came into the working directory since the start that the agent would run
    /// without a question. Another start then finds and refuses it.
    async fn meets_what_it_would_run(&mut self) -> bool {
        let unwanted = self.state.mind.must_be_absent();
        if unwanted.is_empty() {
            return false;
        }
        match self.known().await {
            Ok(Some(known)) => {
                crate::home::find_unwanted(&known.config.working_dir, &unwanted).is_some()
            }
            Ok(None) | Err(_) => true,
        }
    }

    /// Steers the running chat. Every reader of the chat sees the message, so it is stored first;
    /// the caller gets its answer once the message is where the child will find it, even if this
    /// server dies.
    async fn send(&mut self, by: Caller, text: String) -> Result<(), CallError> {
        if self.channel != Channel::Control {
            return Err(CallError::invalid("send into this chat: its channel takes no messages")
                .with_hint("wait for the chat to end, then start another"));
        }
        let mut state = self.state.clone();
        if state.chat.is_none() || self.facts.is_closing() {
            return Err(CallError::conflict("send: no chat is running")
                .with_hint("agents.chat_async starts one"));
        }
        if !state.mind.powers().steer {
            return Err(CallError::invalid(
                "send into this chat: its agent does not have the power steer",
            )
            .with_hint("wait for the chat to end, then start another"));
        }
        let number = state.chat.as_ref().map_or(0, |chat| chat.number);
        let id = Uuid::now_v7();
        state.mind.steered(id);
        let lines = state.mind.write(&Say::Steer { id, text: &text });
        if lines.is_empty() {
            return Err(CallError::busy(
                "send: the agent is still getting ready, and takes no message yet",
                READY_RETRY_MS,
            ));
        }
        self.tell(number, &ChatEvent::Steered { by, text }).await?;
        let count = lines.len();
        self.put(lines);
        if !self.unsent.is_empty() {
            // The newest lines are ours; those before them may be answers.
            self.unsent.truncate(self.unsent.len().saturating_sub(count));
            let lost = ChatEvent::notice("the message could not be handed to the agent");
            if let Err(error) = self.tell(number, &lost).await {
                tracing::warn!(run = %self.key, %error, "could not say that a message was lost");
            }
            return Err(CallError::new(
                ErrorKind::Unavailable,
                "send: the message could not be written to disk",
            ));
        }
        // Sent first, noted second: a message that is noted and never sent would keep the chat open
        // for ever.
        if let Err(error) = self.remember(state, UpdateRun::of(self.key), Vec::new()).await {
            tracing::warn!(run = %self.key, %error, "could not note that a message was sent");
        }
        Ok(())
    }

    /// Appends an event of our own to the open chat.
    async fn tell(&mut self, chat: u32, event: &ChatEvent) -> Result<(), StoreError> {
        let events = vec![event.to_new_event()?];
        let append = AppendEvents { session: self.key.session, chat, events };
        let changes = vec![Change::AppendEvents(append)];
        self.store.commit(changes, Priority::Normal).await.map(|_| ())
    }

    /// Sends the answer of an approval that was waited for.
    pub(super) fn decided(&mut self, (_, heard): Heard) {
        plexus_fault::point!("decision.heard");
        // One that is gone was deleted with its session, whose child is being ended.
        if let Some(record) = heard {
            self.send_answer(&record);
        }
    }

    /// Sends the answer of a decided approval. Only what the store says is sent, and only while it
    /// is neither delivered nor void.
    pub(super) fn send_answer(&mut self, record: &ApprovalRecord) {
        let ours = record.session == self.key.session
            && record.run == Some(self.key.n)
            && record.channel == Channel::Control.name();
        let open = record.delivered_at.is_none()
            && record.void_at.is_none()
            && record.status != ApprovalStatus::Cancelled;
        if !ours || !open || self.state.parking.is_some() {
            return;
        }
        let Some(answer) = answer_of(record) else { return };
        let ends = self.state.is_stopping() || self.is_leaving();
        if ends && matches!(answer, PermitAnswer::Allow { .. }) {
            return;
        }
        plexus_fault::point!("answer.put.before");
        self.say(&Say::Answer { request_id: &record.request_id, answer: &answer });
        plexus_fault::point!("answer.put.after");
    }

    /// Asks the agent which of its questions are open. Says whether this agent can be asked.
    pub(super) fn ask_what_is_open(&mut self) -> bool {
        let lines = self.state.mind.write(&Say::WhatIsOpen);
        let can = !lines.is_empty();
        self.put(lines);
        can
    }

    /// The number in the inbox under which the next line is put.
    pub(super) fn next_line(&self) -> u64 {
        self.inbox.0.saturating_add(self.unsent.len() as u64)
    }

    /// Puts what the stored state owes the agent and an earlier server may not have put. Nothing
    /// else is put before it: its numbers in the inbox say how much of it was.
    pub(super) fn pay_what_is_owed(&mut self) {
        let Some(owed) = &self.state.owed else { return };
        let paid = usize::try_from(self.next_line().saturating_sub(owed.at)).unwrap_or(usize::MAX);
        let left: Vec<_> = owed.lines.iter().skip(paid).cloned().map(OutLine::new).collect();
        self.put(left);
    }

    /// Says something to the child, after what it was told before.
    pub(super) fn say(&mut self, say: &Say<'_>) {
        let lines = self.state.mind.write(say);
        self.put(lines);
    }

    /// Puts lines into the child's stdin, after those that wait.
    pub(super) fn put(&mut self, lines: impl IntoIterator<Item = OutLine>) {
        self.unsent.extend(lines);
        self.send_unsent();
    }

    /// Tries the lines that wait, in order. A file of the inbox appears whole or not at all.
    pub(super) fn send_unsent(&mut self) {
        self.send_again_at = None;
        while let Some(line) = self.unsent.front() {
            if let Err(error) = self.dir.put_inbox(self.inbox, line.as_bytes()) {
                tracing::error!(run = %self.key, %error, "could not write to a child; trying \
                    again");
                self.send_again_at = Some(Instant::now() + STORE_RETRY);
                return;
            }
            self.inbox = self.inbox.next();
            self.unsent.pop_front();
        }
    }
}
