//! What others ask of a run, and what leaves for the child: prompts, messages, answers.
//!
//! Lines for the child go through the inbox in the order they were put. While the disk refuses them they wait here and are tried again; a server that
//! dies meanwhile finds in the store what has to be sent.

use std::time::Instant;

use claude_code::control;
use plexus_core::{ApprovalId, CallError, Caller, ErrorKind};
use plexus_store::{
    AppendEvents, ApprovalRecord, ApprovalStatus, AssignRun, Change, Patch, Priority, StoreError,
    UpdateRun,
};
use plexus_wire::{ChatEvent, PermitAnswer};
use uuid::Uuid;

use super::{Command, Keeping, Run, STORE_RETRY, Taken, deny};
use crate::claudecode::event::ToNewEvent;
use crate::claudecode::launch::Channel;
use crate::claudecode::translate::{Begun, OUR_REQUEST, OpenChat};
use crate::loopback::answer::answer_of;

impl Run {
    pub(super) async fn command(&mut self, command: Command) {
        match command {
            Command::Chat { chat, prompt_uuid, prompt, taken } => {
                let answer = self.take_chat(chat, prompt_uuid, &prompt).await;
                // A caller that has gone away loses nothing: the chat is stored, and its prompt sent.
                let _gone = taken.send(answer);
            }
            Command::Send { by, text, done } => {
                let _gone = done.send(self.send(by, text).await);
            }
            Command::Answer(id) => {
                self.awaited.remove(&id);
                self.answer(id).await;
            }
            Command::Cancel { reason, done } => {
                let _gone = done.send(self.cancel(reason).await);
            }
            Command::Close => self.close(),
            Command::Kill { reason } => self.kill(reason).await,
            Command::Stop { reason } => self.stop(reason).await,
        }
    }

    /// Ends the child because of what its chat has used up, once: a second wish finds it ending.
    async fn stop(&mut self, reason: String) {
        let mut translation = self.translation.clone();
        let Some(chat) = translation.chat.as_mut().filter(|chat| chat.breach.is_none()) else {
            return;
        };
        chat.breach = Some(reason);
        if let Err(error) = self.remember(translation, UpdateRun::of(self.key), Vec::new()).await {
            tracing::warn!(run = %self.key, %error, "could not note why a run is stopped; it is tried again");
            return;
        }
        self.end_now();
    }

    async fn take_chat(&mut self, chat: u32, prompt_uuid: Uuid, prompt: &str) -> Taken {
        if self.translation.chat.as_ref().is_some_and(|open| open.number == chat) {
            return Taken::Yes;
        }
        let serves_more = self.channel == Channel::Control && self.keeping == Keeping::Kept;
        if !serves_more
            || self.facts.is_closing()
            || self.translation.chat.is_some()
            || self.hold.is_gone()
        {
            return Taken::No;
        }
        // The shim must not end it as idle from here on.
        if let Err(error) = self.dir.clear_idle() {
            tracing::warn!(run = %self.key, %error, "could not wake an idle child");
            return Taken::No;
        }
        let mut translation = self.translation.clone();
        translation.chat = Some(OpenChat::new(chat, Some(prompt_uuid), Begun::OnWarm));
        let update = UpdateRun { idle_since: Patch::Clear, ..UpdateRun::of(self.key) };
        let assign =
            Change::AssignRun(AssignRun { session: self.key.session, chat, run: self.key.n });
        if let Err(error) = self.remember(translation, update, vec![assign]).await {
            tracing::warn!(run = %self.key, %error, "could not hand a chat to a warm child");
            return Taken::No;
        }
        plexus_fault::point!("warm.chat.committed");
        self.facts.set_idle(None);
        self.put(control::user_prompt(Some(&prompt_uuid.to_string()), prompt));
        Taken::Yes
    }

    /// Steers the running chat. Every reader of the chat sees the message, so it is stored first;
    /// the caller is told once it is where the child will find it, whatever becomes of us.
    async fn send(&mut self, by: Caller, text: String) -> Result<(), CallError> {
        if self.channel != Channel::Control {
            return Err(CallError::invalid("send into this chat: its channel takes no messages")
                .with_hint("wait for the chat to end, then start another"));
        }
        let mut translation = self.translation.clone();
        let Some(chat) = translation.chat.as_mut().filter(|_| !self.facts.is_closing()) else {
            return Err(CallError::conflict("send: no chat is running")
                .with_hint("claudecode.chat_async starts one"));
        };
        let uuid = Uuid::now_v7();
        chat.outstanding.insert(uuid);
        let number = chat.number;
        let message = control::user_prompt(Some(&uuid.to_string()), &text);
        self.tell(number, &ChatEvent::Steered { by, text }).await?;
        self.put(message);
        if !self.unsent.is_empty() {
            self.unsent.pop_back();
            let lost = ChatEvent::notice("the message could not be handed to the agent");
            if let Err(error) = self.tell(number, &lost).await {
                tracing::warn!(run = %self.key, %error, "could not say that a message was lost");
            }
            return Err(CallError::new(
                ErrorKind::Unavailable,
                "send: the message could not be written to disk",
            ));
        }
        // Sent first, noted second: a message that is noted and never sent would keep the chat open for ever.
        if let Err(error) = self.remember(translation, UpdateRun::of(self.key), Vec::new()).await {
            tracing::warn!(run = %self.key, %error, "could not note that a message was sent");
        }
        Ok(())
    }

    /// Appends an event of our own to the open chat.
    async fn tell(&mut self, chat: u32, event: &ChatEvent) -> Result<(), StoreError> {
        let events = vec![event.to_new_event()?];
        let append = AppendEvents { session: self.key.session, chat, events };
        let changes = vec![Change::AppendEvents(append)];
        self.core.store.commit(changes, Priority::Normal).await.map(|_| ())
    }

    /// Sends the answer of a decided approval. Only what the store says is sent, and only while it is neither delivered nor void.
    async fn answer(&mut self, id: ApprovalId) {
        match self.core.store.approval(id).await {
            Ok(record) => self.send_answer(&record),
            Err(error) => {
                tracing::error!(approval = %id, %error, "could not read a decision to send it; asking the agent what is open");
                self.ask_what_is_open();
            }
        }
    }

    pub(super) fn send_answer(&mut self, record: &ApprovalRecord) {
        let ours = record.session == self.key.session
            && record.run == Some(self.key.n)
            && record.channel == Channel::Control.name();
        let open = record.delivered_at.is_none()
            && record.void_at.is_none()
            && record.status != ApprovalStatus::Cancelled;
        if !ours || !open {
            return;
        }
        let Some(answer) = answer_of(record) else { return };
        let answer = match answer {
            PermitAnswer::Allow { updated_input } => {
                match claude_code::RawJson::from_text(updated_input.as_str().to_owned()) {
                    Ok(updated_input) => control::PermissionAnswer::allow(updated_input),
                    Err(_) => deny("the approved input could not be read"),
                }
            }
            PermitAnswer::Deny { message } => deny(&message),
        };
        plexus_fault::point!("answer.put.before");
        self.put(control::answer_permission(&record.request_id, &answer));
        plexus_fault::point!("answer.put.after");
    }

    /// Sends `initialize`, whose answer names the open permission requests.
    pub(super) fn ask_what_is_open(&mut self) {
        let id = self.request_id("init");
        self.put(control::initialize(&id));
    }

    /// Ids of our own requests are unique in time, so that a new server never repeats an old one's.
    pub(super) fn request_id(&mut self, what: &str) -> String {
        format!("{OUR_REQUEST}{what}-{}", Uuid::now_v7().simple())
    }

    /// Puts one line into the child's stdin, behind those that wait.
    pub(super) fn put(&mut self, line: control::ControlLine) {
        self.unsent.push_back(line);
        self.send_unsent();
    }

    /// Tries the lines that wait, in order. A file of the inbox appears whole or not at all.
    pub(super) fn send_unsent(&mut self) {
        self.send_again_at = None;
        while let Some(line) = self.unsent.front() {
            if let Err(error) = self.dir.put_inbox(self.inbox, line.as_str().as_bytes()) {
                tracing::error!(run = %self.key, %error, "could not write to a child; trying again");
                self.send_again_at = Some(Instant::now() + STORE_RETRY);
                return;
            }
            self.inbox = self.inbox.next();
            self.unsent.pop_front();
        }
    }
}
