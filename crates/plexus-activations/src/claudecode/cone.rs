//! `cone`: conversations with a model itself, without tools. Each is a session whose agent is the
//! built-in one of that name, so it has what every session has: a tree, streams, a budget, a
//! parent. The methods here work on those sessions and on no others.

use std::path::PathBuf;

use plexus_core::{Call, CallError, Caller, OnGiven};
use plexus_engine::handles::CONE;
use plexus_engine::session::SessionConfig;
use plexus_store::SessionRecord;
use plexus_wire::{
    ChatParams, ChatStarted, ConeCreateParams, CreateParams, ListParams, PollParams, Polled,
    SessionCreated, SessionDeleted, SessionGot, SessionList, SessionRef,
};

use super::ClaudeCode;

impl ClaudeCode {
    pub(super) async fn cone_create(
        &self,
        call: Call,
        params: ConeCreateParams,
    ) -> Result<SessionCreated, CallError> {
        let params = CreateParams {
            agent: Some(CONE.to_owned()),
            model: params.model,
            system_prompt: params.system_prompt,
            parent: params.parent,
            budget: params.budget,
            metadata: params.metadata,
            ..CreateParams::new(params.name, self.cone_dir(&call.caller).await?)
        };
        self.create(call, params).await
    }

    /// A model works in no directory, but a process has one: that of the session which creates it,
    /// or the server's own.
    async fn cone_dir(&self, caller: &Caller) -> Result<PathBuf, CallError> {
        match caller.session() {
            Some(parent) => Ok(SessionConfig::of(&self.store.session(parent).await?)?.working_dir),
            None => Ok(self.settings.data_dir.clone()),
        }
    }

    pub(super) async fn cone_chat_async(
        &self,
        call: Call,
        params: ChatParams,
    ) -> Result<ChatStarted, CallError> {
        self.require_cone(&call.caller, params.session_id, params.name.as_deref()).await?;
        self.chat_async(call, params).await
    }

    pub(super) async fn cone_poll(
        &self,
        call: Call,
        params: PollParams,
    ) -> Result<(Polled, Option<OnGiven>), CallError> {
        self.require_cone(&call.caller, params.session_id, params.name.as_deref()).await?;
        self.poll(call, params).await
    }

    pub(super) async fn cone_get(
        &self,
        call: Call,
        params: SessionRef,
    ) -> Result<SessionGot, CallError> {
        self.require_cone(&call.caller, params.session_id, params.name.as_deref()).await?;
        self.get(call, params).await
    }

    /// A page of the caller's sessions, with only these shown.
    pub(super) async fn cone_list(
        &self,
        call: Call,
        params: ListParams,
    ) -> Result<SessionList, CallError> {
        let mut page = self.list(call, params).await?;
        page.sessions.retain(|session| session.agent == CONE);
        Ok(page)
    }

    pub(super) async fn cone_delete(
        &self,
        call: Call,
        params: SessionRef,
    ) -> Result<SessionDeleted, CallError> {
        self.require_cone(&call.caller, params.session_id, params.name.as_deref()).await?;
        self.delete(call, params).await
    }

    /// Finds a session that is a conversation with a model. Another one does not exist here.
    async fn require_cone(
        &self,
        caller: &Caller,
        id: Option<plexus_core::SessionId>,
        name: Option<&str>,
    ) -> Result<SessionRecord, CallError> {
        let session = self.find(caller, id, name).await?;
        if SessionConfig::of(&session)?.agent == CONE {
            return Ok(session);
        }
        Err(CallError::not_found(format_args!("find the conversation {}", session.id))
            .with_hint("cone.list shows yours; agents.get finds sessions of every agent"))
    }
}
