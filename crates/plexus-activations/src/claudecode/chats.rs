//! `chat_async`, `send` and `cancel`: what a parent says to a child. None of them waits for the
//! child.

use plexus_core::{Call, CallError, Caller, ErrorKind};
use plexus_engine::event::ToNewEvent;
use plexus_engine::handles;
use plexus_engine::prompt::told_by;
use plexus_engine::session::SessionConfig;
use plexus_store::{
    Change, EndChat, Ending, Fresh, Priority, SessionRecord, StartChat, StartedChat, StoreError,
    Trace,
};
use plexus_wire::method::claudecode as wire;
use plexus_wire::text::MAX_PROMPT_BYTES;
use plexus_wire::{
    CancelParams, ChatCancelled, ChatEvent, ChatParams, ChatStarted, MessageSent, PromptImage,
    SendParams, SessionRef, prompt_with_images,
};

use super::{ClaudeCode, elsewhere};

/// When to ask again while a chat runs or every place is taken.
const BUSY_RETRY_MS: u64 = 1_000;

impl ClaudeCode {
    pub(super) async fn chat_async(
        &self,
        call: Call,
        params: ChatParams,
    ) -> Result<ChatStarted, CallError> {
        if params.wait_ms.is_some() {
            return Err(CallError::invalid("take wait_ms: chat_async returns at once")
                .with_field("wait_ms")
                .with_hint("agents.chat waits, agents.poll reads"));
        }
        let session = self.find(&call.caller, params.session_id, params.name.as_deref()).await?;
        let started = self.start_chat(call.caller, &session, &params).await?;
        let chat = self.store.chat(session.id, Some(started.chat)).await?;
        let status = Some(self.status_of(&chat).await?.into());
        Ok(ChatStarted { session_id: session.id, chat: started.chat, status })
    }

    /// Stores the chat, then has it served. The caller is told of nothing that is not in the store.
    pub(super) async fn start_chat(
        &self,
        caller: Caller,
        session: &SessionRecord,
        params: &ChatParams,
    ) -> Result<StartedChat, CallError> {
        if crate::identity::is_identity(session) {
            return Err(CallError::invalid(format_args!(
                "start a chat in {}: it stands for a parent outside and has no agent",
                session.name
            ))
            .with_field("session_id")
            .with_hint("create a session below it, and start the chat there"));
        }
        if let Some(key) = &params.idempotency_key
            && let Some(chat) = self.store.chat_by_key(session.id, key).await?
        {
            return Ok(elsewhere::started(&chat));
        }
        if let Some(started) = self.start_chat_elsewhere(caller, session, params).await? {
            return Ok(started);
        }
        if !self.supervisor.has_room_for(session.id).await {
            return Err(CallError::busy(
                "start another child: the limit of running children is reached",
                BUSY_RETRY_MS,
            )
            .with_hint("wait for one to end, or raise limits.running_children in plexus.toml"));
        }
        let agent = SessionConfig::of(session)?.agent;
        let images = params.images.clone().unwrap_or_default();
        let prompt = prompt_with_images(&told_by(caller, &params.prompt), &images);
        self.check_images(&agent, &prompt, &images)?;
        let start = StartChat {
            owner: handles::owner(&agent),
            images,
            reserve: plexus_engine::budget::prepare(&*self.store, &self.agents, session).await?,
            idempotency_key: params.idempotency_key.clone(),
            trace: if params.ephemeral.unwrap_or(false) { Trace::Ephemeral } else { Trace::Kept },
            ..StartChat::new(session.id, prompt)
        };
        let start = vec![Change::StartChat(start)];
        let committed = match self.store.commit(start, Priority::Normal).await {
            Ok(committed) => committed,
            Err(StoreError::Conflict { .. }) => return Err(self.one_is_running(session).await?),
            Err(error) => return Err(error.into()),
        };
        let started = committed
            .chat()
            .ok_or_else(|| CallError::internal("start a chat: the store returned no chat"))?;
        plexus_fault::point!("chat.committed");
        if started.fresh == Fresh::Made {
            self.supervisor.serve(session.id, started.chat);
        }
        Ok(started)
    }

    /// Refuses images that the agent does not take, and those that are too long together.
    fn check_images(
        &self,
        agent: &str,
        prompt: &str,
        images: &[PromptImage],
    ) -> Result<(), CallError> {
        if images.is_empty() {
            return Ok(());
        }
        if !self.agents.get(agent)?.driver.powers().images {
            let why = format_args!("send images to {agent}: it does not have the power images");
            return Err(CallError::invalid(why).with_field("images").with_hint(
                "put them into files that it can read, or choose an agent that agents.kinds says \
                 takes them",
            ));
        }
        let bytes = prompt.len() + images.iter().map(|image| image.data.len()).sum::<usize>();
        if bytes > MAX_PROMPT_BYTES {
            let why = format_args!(
                "send a prompt of {bytes} bytes with its images as base64: at most \
                 {MAX_PROMPT_BYTES}"
            );
            return Err(CallError::invalid(why).with_field("images"));
        }
        Ok(())
    }

    /// Returns the refusal of a chat while another chat of the session runs. The refusal shows the
    /// running chat as `streams` does, unless it has ended in the meantime.
    async fn one_is_running(&self, session: &SessionRecord) -> Result<CallError, CallError> {
        let busy = CallError::busy("start a chat: one is running in this session", BUSY_RETRY_MS)
            .with_hint("agents.send steers the running one, agents.cancel ends it");
        let Some(open) = self.store.session(session.id).await?.open_chat() else {
            return Ok(busy);
        };
        let chat = self.store.chat(session.id, Some(open)).await?;
        Ok(busy.with_standing(self.shown(chat).await?))
    }

    pub(super) async fn send(
        &self,
        call: Call,
        params: SendParams,
    ) -> Result<MessageSent, CallError> {
        let session = self.find(&call.caller, params.session_id, params.name.as_deref()).await?;
        let idle = || {
            CallError::conflict("send: no chat is running in this session")
                .with_hint("agents.chat_async starts one")
        };
        if session.open_chat().is_none() {
            return Err(idle());
        }
        let passed = SendParams::new(SessionRef::id(session.id), params.text.as_str());
        if self.ask_elsewhere::<wire::Send>(call.caller, &session, &passed).await?.is_some() {
            return Ok(MessageSent {});
        }
        if self.supervisor.handle(session.id).is_none()
            && self.approvals.is_parked(session.id).await?
        {
            return Err(CallError::conflict(
                "send: the agent is parked until its question is decided",
            )
            .with_hint("loopback.respond decides it, agents.cancel ends the chat"));
        }
        let handle = self
            .supervisor
            .handle(session.id)
            .ok_or_else(|| CallError::busy("send: the child is still starting", BUSY_RETRY_MS))?;
        handle.send(call.caller, told_by(call.caller, &params.text).into_owned()).await?;
        Ok(MessageSent {})
    }

    pub(super) async fn cancel(
        &self,
        call: Call,
        params: CancelParams,
    ) -> Result<ChatCancelled, CallError> {
        let session = self.find(&call.caller, params.session_id, params.name.as_deref()).await?;
        let reason = params.reason.unwrap_or_else(|| "somebody asked for it".to_owned());
        let Some(chat) = session.open_chat() else {
            return Err(CallError::conflict("cancel: no chat is running in this session"));
        };
        let passed = CancelParams {
            reason: Some(reason.clone()),
            ..CancelParams::new(SessionRef::id(session.id))
        };
        if self.ask_elsewhere::<wire::Cancel>(call.caller, &session, &passed).await?.is_some() {
            return Ok(ChatCancelled {});
        }
        match self.supervisor.handle(session.id) {
            Some(handle) => match handle.cancel(reason.clone()).await {
                // The process may have ended, or not have taken the chat yet, in this very moment.
                Err(error) if error.kind == ErrorKind::Conflict => {
                    self.cancel_unserved(&session, chat, reason).await?
                }
                other => other?,
            },
            None => self.cancel_unserved(&session, chat, reason).await?,
        }
        Ok(ChatCancelled {})
    }

    /// Ends a chat whose child is not there yet: the start finds it ended and does nothing.
    async fn cancel_unserved(
        &self,
        session: &SessionRecord,
        chat: u32,
        reason: String,
    ) -> Result<(), CallError> {
        let event = ChatEvent::Error { message: format!("cancelled: {reason}") }.to_new_event()?;
        let ending = Ending::Cancelled(reason.clone());
        let parked = self.approvals.parked_calls(session.id).await?;
        let mut changes = self.approvals.close_parked(session.id, &reason).await?;
        changes.extend(self.approvals.hooks.chat_ended(session, chat, &ending, None)?);
        changes.push(Change::EndChat(EndChat {
            session: session.id,
            chat,
            ending,
            usage: None,
            event,
        }));
        match self.store.commit(changes, Priority::Urgent).await {
            Ok(_) => {
                // A child that was started meanwhile would work for nobody.
                self.supervisor.end(&[session.id], &reason).await?;
                self.supervisor.drop_copies(&parked);
                Ok(())
            }
            // It ended by itself first.
            Err(StoreError::Conflict { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
