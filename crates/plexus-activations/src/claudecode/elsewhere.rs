//! Prompts, messages and ends for children that another server has: they reach it, or the caller
//! learns where to ask.

use plexus_core::{CallError, Caller, EventId};
use plexus_engine::node::Elsewhere;
use plexus_engine::parking::{ConversationFile, conversation_file};
use plexus_engine::session::SessionConfig;
use plexus_store::{Chat, Fresh, Position, SessionRecord, StartedChat};
use plexus_wire::method::claudecode as wire;
use plexus_wire::{ChatParams, Method, SessionRef};

use super::ClaudeCode;

impl ClaudeCode {
    /// Starts a chat on the server that has the session's warm child or, where this one lacks its
    /// directories, on the one that ran it last. `None` when this server is the place.
    pub(super) async fn start_chat_elsewhere(
        &self,
        caller: Caller,
        session: &SessionRecord,
        params: &ChatParams,
    ) -> Result<Option<StartedChat>, CallError> {
        // A running chat is answered as busy, here as there.
        if self.store.lease().is_none() || session.open_chat().is_some() {
            return Ok(None);
        }
        let Some(there) = self.place_for_a_chat(session).await? else { return Ok(None) };
        let passed = ChatParams {
            images: params.images.clone(),
            ephemeral: params.ephemeral,
            idempotency_key: params.idempotency_key.clone(),
            ..ChatParams::new(SessionRef::id(session.id), params.prompt.as_str())
        };
        let answer = self.neighbours.relay::<wire::ChatAsync>(&there, caller, &passed).await?;
        let chat = self.store.chat(session.id, Some(answer.chat)).await?;
        Ok(Some(started(&chat)))
    }

    async fn place_for_a_chat(
        &self,
        session: &SessionRecord,
    ) -> Result<Option<Elsewhere>, CallError> {
        if let Some(there) = self.neighbours.elsewhere(session).await? {
            return Ok(Some(there));
        }
        // The relay says so where that server is away.
        if let Some(there) = self.neighbours.with_conversation(session).await? {
            return Ok(Some(there));
        }
        let config = SessionConfig::of(session)?;
        let mut dirs = std::iter::once(&config.working_dir).chain(&config.add_dirs);
        let found = match dirs.find(|dir| !dir.is_dir()) {
            Some(dir) => ConversationFile::Missing(dir.clone()),
            None => {
                let driver = &self.agents.get(&config.agent)?.driver;
                conversation_file(&self.settings, session, &config, &**driver)
            }
        };
        let missing = match &found {
            ConversationFile::Here => return Ok(None),
            ConversationFile::Missing(path) => path.display().to_string(),
            ConversationFile::Untold => "its conversation".to_owned(),
        };
        match self.neighbours.last_elsewhere(session).await? {
            Some(there) if there.is_alive() => Ok(Some(there)),
            // It was run here last, so what it keeps is here.
            None if found == ConversationFile::Untold => Ok(None),
            Some(_) | None => {
                let problem = format!("start a chat: {missing} is not on this server");
                Err(CallError::conflict(problem).with_hint(
                    "start it on a server that has the working directory and, to go on \
                        with a conversation, its transcript; health.state lists the servers",
                ))
            }
        }
    }

    /// Passes a call on to the server that runs the session's chat. `None` when that is this one.
    pub(super) async fn ask_elsewhere<M: Method>(
        &self,
        caller: Caller,
        session: &SessionRecord,
        params: &M::Params,
    ) -> Result<Option<M::Result>, CallError> {
        match self.neighbours.elsewhere(session).await? {
            Some(there) => self.neighbours.relay::<M>(&there, caller, params).await.map(Some),
            None => Ok(None),
        }
    }
}

/// What a start of this chat would have said.
pub(super) fn started(chat: &Chat) -> StartedChat {
    StartedChat {
        chat: chat.number,
        fresh: Fresh::Found,
        user_position: Position { tree_id: chat.tree, node_id: chat.user_node },
        start_event: EventId::from_uuid(*chat.root_node.as_uuid()),
        prompt_uuid: chat.prompt_uuid,
    }
}
