//! `get`, `list`, `rename`, `delete`, `streams`, `get_tree`, and the named readers.

use plexus_core::{Call, CallError, Caller, SessionId};
use plexus_engine::handles;
use plexus_engine::reading::told::GET_ANSWER_BYTES;
use plexus_engine::session::{SessionConfig, SessionState};
use plexus_engine::wall::WallNeeds;
use plexus_store::{
    AuditLine, Change, Children, Cursor, DeleteSession, JsonText, Outcome, Priority, SessionFilter,
    SessionRecord, SetCursor, Spend, SubtreeSpend, UnixMillis, UpdateSession,
};
use plexus_wire::method::claudecode as wire;
use plexus_wire::{
    Consumer, ConsumerList, CursorDeleteParams, CursorSetParams, Done, ListParams, Refused,
    RenameParams, Reserved, SessionDeleted, SessionGot, SessionList, SessionRef, SessionRenamed,
    Spent, StreamList, StreamsParams, TreeOf,
};

use super::{ClaudeCode, page};
use crate::identity::is_identity;

impl ClaudeCode {
    pub(super) async fn get(
        &self,
        call: Call,
        params: SessionRef,
    ) -> Result<SessionGot, CallError> {
        let session = self.find(&call.caller, params.session_id, params.name.as_deref()).await?;
        let answer = self.news.last_answer(&session, GET_ANSWER_BYTES).await?;
        let view = self.view(&session).await?;
        let config = SessionConfig::of(&session)?;
        let confine = self.settings.wall.shown(&config, self.needs_of(&config).as_ref());
        Ok(SessionGot { session: plexus_wire::Session { answer, confine, ..view } })
    }

    /// What a wall must know of the session's agent; nothing of one that this server does not know.
    pub(super) fn needs_of(&self, config: &SessionConfig) -> Option<WallNeeds> {
        self.agents.get(&config.agent).ok()?.driver.wall()
    }

    pub(super) async fn list(
        &self,
        call: Call,
        params: ListParams,
    ) -> Result<SessionList, CallError> {
        if let Some(parent) = params.parent
            && call.caller != Caller::Session(parent)
        {
            self.authority.reach(&call.caller, parent).await?;
        }
        let filter = SessionFilter {
            parent: params.parent.map(Some),
            under: call.caller.session(),
            status: params.status,
            ..SessionFilter::default()
        };
        let found =
            self.store.sessions(filter, page(params.limit, params.cursor.as_deref())?).await?;
        // One read for all of them: a thousand sessions are not a thousand reads.
        let ids: Vec<SessionId> = found.items.iter().map(|session| session.id).collect();
        let spent = self.store.subtree_spend(&ids).await?;
        let chats: Vec<_> = found.items.iter().filter_map(newest_chat).collect();
        let refused = self.store.refused(&chats).await?;
        let sessions = found.items.iter().map(|session| {
            let spent = spent.get(&session.id).copied().unwrap_or_default();
            let refused = refused.get(&session.id).copied().unwrap_or_default();
            view(session, spent, refused)
        });
        let sessions = sessions.collect::<Result<_, _>>()?;
        Ok(SessionList { sessions, cursor: found.next.map(|next| next.to_string()) })
    }

    pub(super) async fn view(
        &self,
        session: &SessionRecord,
    ) -> Result<plexus_wire::Session, CallError> {
        let totals = self.store.spend(session.id).await?;
        let chats: Vec<_> = newest_chat(session).into_iter().collect();
        let refused = self.store.refused(&chats).await?;
        let refused = refused.get(&session.id).copied().unwrap_or_default();
        let spend = SubtreeSpend { spent: totals.subtree, reserved: totals.reserved };
        view(session, spend, refused)
    }

    /// Gives a session another name. Its id stays the same.
    pub(super) async fn rename(
        &self,
        call: Call,
        params: RenameParams,
    ) -> Result<SessionRenamed, CallError> {
        let session = self.find(&call.caller, params.session_id, params.name.as_deref()).await?;
        if is_identity(&session) {
            let error = CallError::invalid("rename it: a parent outside is known by this name");
            return Err(error.with_hint("identity.parent makes one of another name"));
        }
        let update =
            UpdateSession { name: Some(params.new_name.clone()), ..UpdateSession::of(session.id) };
        self.store.commit(vec![Change::UpdateSession(update)], Priority::Normal).await?;
        Ok(SessionRenamed { id: session.id, name: params.new_name })
    }

    /// Ends the runs of the session and everything below it, then removes their records and files.
    pub(super) async fn delete(
        &self,
        call: Call,
        params: SessionRef,
    ) -> Result<SessionDeleted, CallError> {
        let session = self.find(&call.caller, params.session_id, params.name.as_deref()).await?;
        // The server that has the child ends it and removes its files. Sessions below it may have
        // children on further servers, which end them when they next look at the store.
        let passed = SessionRef::id(session.id);
        if self.ask_elsewhere::<wire::Delete>(call.caller, &session, &passed).await?.is_some() {
            return Ok(SessionDeleted { id: session.id });
        }
        let mut doomed = self.store.descendants(session.id).await?;
        doomed.push(session.id);
        self.supervisor.end(&doomed, "the session is deleted").await?;
        let mut parked = Vec::new();
        for id in &doomed {
            parked.extend(self.approvals.parked_calls(*id).await?);
        }
        let delete = DeleteSession { id: session.id, children: Children::Delete };
        // The line is newer than every session that goes. If the server is killed before it has
        // removed their directories, the next start knows by it that the store lost nothing.
        let line = AuditLine {
            at: UnixMillis::now(),
            kind: "session.deleted".to_owned(),
            session: Some(session.id),
            body: JsonText::of(&serde_json::json!({"caller": call.caller}))?,
        };
        let changes = vec![Change::DeleteSession(delete), Change::AppendAudit(line)];
        let committed = self.store.commit(changes, Priority::Normal).await?;
        for outcome in &committed.outcomes {
            let Outcome::Deleted(sessions) = outcome else { continue };
            // A child that was started while we were at it must not outlive its records.
            self.supervisor.end(sessions, "the session is deleted").await?;
            for id in sessions {
                self.beginnings.forget(*id);
                let dir = self.settings.session_dir(*id);
                if let Err(error) = plexus_engine::files::remove_all(&dir)
                    && error.kind() != std::io::ErrorKind::NotFound
                {
                    tracing::warn!(session = %id, %error, "could not remove the files of a \
                        deleted session");
                }
            }
        }
        self.supervisor.drop_copies(&parked);
        self.approvals.rulebook.changed();
        Ok(SessionDeleted { id: session.id })
    }

    pub(super) async fn streams(
        &self,
        call: Call,
        params: StreamsParams,
    ) -> Result<StreamList, CallError> {
        let only = self
            .authority
            .find_any(&call.caller, params.session_id, params.name.as_deref())
            .await?;
        let found = self
            .store
            .chats(
                only.map(|session| session.id),
                call.caller.session(),
                page(params.limit, params.cursor.as_deref())?,
            )
            .await?;
        let mut streams = Vec::with_capacity(found.items.len());
        for chat in found.items {
            streams.push(self.shown(chat).await?);
        }
        Ok(StreamList { streams, cursor: found.next.map(|next| next.to_string()) })
    }

    pub(super) async fn get_tree(
        &self,
        call: Call,
        params: SessionRef,
    ) -> Result<TreeOf, CallError> {
        let session = self.find(&call.caller, params.session_id, params.name.as_deref()).await?;
        Ok(TreeOf { tree_id: session.tree, head: session.position() })
    }

    pub(super) async fn cursors(
        &self,
        call: Call,
        params: SessionRef,
    ) -> Result<ConsumerList, CallError> {
        let session = self.find(&call.caller, params.session_id, params.name.as_deref()).await?;
        let consumers = self.store.consumers(session.id).await?;
        let view = |consumer: plexus_store::Consumer| Consumer {
            chat: consumer.cursor.chat,
            seq: consumer.cursor.next,
            cursor: consumer.cursor.to_string(),
            updated_at: consumer.updated_at.into(),
            consumer: consumer.name,
        };
        Ok(ConsumerList { cursors: consumers.into_iter().map(view).collect() })
    }

    pub(super) async fn cursor_set(
        &self,
        call: Call,
        params: CursorSetParams,
    ) -> Result<Done, CallError> {
        let session = self.find(&call.caller, params.session_id, params.name.as_deref()).await?;
        let cursor: Cursor = self.resolve_cursor(session.id, &params.cursor).await?;
        let set = SetCursor { consumer: params.consumer, cursor };
        self.store.commit(vec![Change::SetCursor(set)], Priority::Normal).await?;
        Ok(Done {})
    }

    pub(super) async fn cursor_delete(
        &self,
        call: Call,
        params: CursorDeleteParams,
    ) -> Result<Done, CallError> {
        let session = self.find(&call.caller, params.session_id, params.name.as_deref()).await?;
        let delete = Change::DeleteCursor { session: session.id, consumer: params.consumer };
        self.store.commit(vec![delete], Priority::Normal).await?;
        Ok(Done {})
    }
}

/// Shows a session, with what it and everything below it has spent.
fn view(
    session: &SessionRecord,
    SubtreeSpend { spent, reserved }: SubtreeSpend,
    refused: Refused,
) -> Result<plexus_wire::Session, CallError> {
    let config = SessionConfig::of(session)?;
    let now = plexus_store::UnixMillis::now().into();
    let mode = SessionState::of(session)?.mode.filter(|mode| mode.until > now);
    let handle = handles::session(&config.agent, session.id);
    Ok(plexus_wire::Session {
        id: session.id,
        name: session.name.clone(),
        parent: session.parent,
        agent: config.agent,
        working_dir: config.working_dir,
        model: config.model,
        channel: config.channel.into(),
        loopback_enabled: config.loopback_enabled,
        can_spawn: config.can_spawn,
        mcp_servers: config.mcp_servers.into_keys().collect(),
        confine: plexus_wire::Wall::of(config.confine),
        status: session.status().into(),
        parked: session.parked,
        chat: session.newest_chat.map(|chat| chat.number),
        head: session.position(),
        claude_session_id: session.claude_session_id.clone(),
        budget: config.budget,
        spent: Spent {
            cost_usd: spent.cost_micros as f64 / 1e6,
            turns: spent.turns,
            input_tokens: spent.input_tokens,
            output_tokens: spent.output_tokens,
            wall_ms: spent.wall_ms,
        },
        reserved: (reserved != Spend::default()).then(|| Reserved {
            cost_usd: reserved.cost_micros as f64 / 1e6,
            turns: reserved.turns,
        }),
        metadata: session.metadata.clone().into(),
        created_at: session.created_at.into(),
        updated_at: session.updated_at.into(),
        mode: mode.map(Into::into),
        refused: (!refused.is_none()).then_some(refused),
        answer: None,
        handle: Some(handle),
    })
}

/// Returns the session's newest chat, in the form in which the store is asked how many of its calls
/// were refused.
fn newest_chat(session: &SessionRecord) -> Option<(SessionId, u32)> {
    session.newest_chat.map(|chat| (session.id, chat.number))
}
