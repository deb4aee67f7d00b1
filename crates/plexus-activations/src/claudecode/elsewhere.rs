//! Prompts, messages and ends for children that another server has: they reach it, or the caller
//! learns where to ask.

use std::path::{Path, PathBuf};

use plexus_core::{CallError, Caller, EventId};
use plexus_engine::node::Elsewhere;
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
        let Some(missing) = missing_here(session)? else { return Ok(None) };
        match self.neighbours.last_elsewhere(session).await? {
            Some(there) if there.is_alive() => Ok(Some(there)),
            Some(_) | None => {
                let problem =
                    format_args!("start a chat: {} is not on this server", missing.display())
                        .to_string();
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

/// Returns what a session needs of this machine's files and does not find.
fn missing_here(session: &SessionRecord) -> Result<Option<PathBuf>, CallError> {
    let config = SessionConfig::of(session)?;
    let dirs = std::iter::once(&config.working_dir).chain(&config.add_dirs);
    if let Some(dir) = dirs.into_iter().find(|dir| !dir.is_dir()) {
        return Ok(Some(dir.clone()));
    }
    let Some(id) = &session.claude_session_id else { return Ok(None) };
    let own = |name: &str| {
        config
            .env
            .get(name)
            .map(PathBuf::from)
            .or_else(|| std::env::var_os(name).map(PathBuf::from))
    };
    let folder = own("CLAUDE_CONFIG_DIR").or_else(|| own("HOME").map(|home| home.join(".claude")));
    Ok(folder.and_then(|folder| {
        (!has_transcript(&folder, id)).then(|| folder.join(format!("…/{id}.jsonl")))
    }))
}

/// The CLI keeps a file for each conversation, in a folder for each directory.
fn has_transcript(folder: &Path, id: &str) -> bool {
    let name = format!("{id}.jsonl");
    let projects = std::fs::read_dir(folder.join("projects")).into_iter().flatten().flatten();
    projects.map(|entry| entry.path()).any(|dir| dir.join(&name).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transcript_is_found_by_its_id_in_any_project() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("projects/-srv-app");
        std::fs::create_dir_all(&project).unwrap();
        assert!(!has_transcript(folder.path(), "abc"));
        std::fs::write(project.join("abc.jsonl"), "").unwrap();
        assert!(has_transcript(folder.path(), "abc"));
        assert!(!has_transcript(folder.path(), "ab"));
    }
}
