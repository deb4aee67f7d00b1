//! What the tools of an agent recorded of its edits, where no repository tells what changed.

use std::collections::{BTreeMap, BTreeSet};

use plexus_core::SessionId;
use plexus_store::{Cursor, ReadLimit, Store, StoreError};
use plexus_wire::{ChatEvent, FileChange, FileEdit, PathChange, PreviewedChange, ToolTarget};
use serde_json::Value;

use super::diff::{MAX_DIFF, alone};
use super::{Changed, MAX_FILES, bound};
use crate::session::SessionConfig;
use crate::tools::ToolReader;

/// How many pages of events are read. The edits of a longer history are told in part.
const MAX_PAGES: usize = 50;

/// A call that writes files, as the agent made it.
struct Made {
    call: String,
    tool_name: String,
    input: Value,
}

/// Collects the edits of a session that its agent was told had worked.
///
/// # Errors
/// When the store cannot be read.
pub async fn of_session(
    store: &dyn Store,
    tools: &ToolReader,
    session: SessionId,
    config: &SessionConfig,
) -> Result<Changed, StoreError> {
    let (mut made, mut done) = (Vec::new(), BTreeSet::new());
    // Of questions, and the inputs with which they were allowed instead.
    let (mut calls, mut edited) = (BTreeMap::new(), BTreeMap::new());
    let mut at = Cursor { session, chat: 0, next: 0 };
    let mut cut = true;
    for _ in 0..MAX_PAGES {
        let page = store.read_from(at, ReadLimit::events(1_000)).await?;
        for event in page.events {
            match serde_json::from_str(event.body.as_str()) {
                Ok(ChatEvent::ToolUse { tool_name, tool_use_id, input }) => {
                    let input = input.to_value();
                    if writes(tools, config, &tool_name, &input).is_some() {
                        made.push(Made { call: tool_use_id, tool_name, input });
                    }
                }
                Ok(ChatEvent::AwaitingApproval { approval_id, tool_use_id, .. }) => {
                    calls.insert(approval_id, tool_use_id);
                }
                Ok(ChatEvent::ApprovalResolved {
                    approval_id,
                    approved: true,
                    updated_input,
                    ..
                }) => {
                    let Some(call) = calls.get(&approval_id) else { continue };
                    // A call may be asked about again, and the last decision counts.
                    match updated_input {
                        Some(input) => edited.insert(call.clone(), input.to_value()),
                        None => edited.remove(call),
                    };
                }
                Ok(ChatEvent::ToolResult { tool_use_id, is_error: false, .. }) => {
                    done.insert(tool_use_id);
                }
                _ => {}
            }
        }
        at = page.next;
        if !page.has_more {
            cut = false;
            break;
        }
    }
    let mut files: BTreeMap<String, Option<String>> = BTreeMap::new();
    for made in made.iter().filter(|made| done.contains(&made.call)) {
        // What ran is what was allowed.
        let input = edited.get(&made.call).unwrap_or(&made.input);
        let changes = writes(tools, config, &made.tool_name, input).unwrap_or_default();
        for change in &changes {
            let path = change.path.strip_prefix(&*config.working_dir.to_string_lossy());
            let path = path.map_or(change.path.as_str(), |path| path.trim_start_matches('/'));
            let so_far = files.entry(path.to_owned()).or_insert_with(|| Some(String::new()));
            match (so_far.as_mut(), told(change, input)) {
                (Some(so_far), Some(more)) => so_far.push_str(&more),
                _ => *so_far = None,
            }
        }
    }
    let cut = cut || files.len() > MAX_FILES;
    let shown = |(path, diff): (String, Option<String>)| {
        let diff = diff.filter(|diff| diff.len() <= MAX_DIFF);
        let why = diff.is_none().then(|| "its edits do not tell all of it".to_owned());
        PreviewedChange { path, change: PathChange::Modified.into(), diff, why }
    };
    let mut changes: Vec<_> = files.into_iter().take(MAX_FILES).map(shown).collect();
    bound(&mut changes);
    Ok(Changed { changes, cut })
}

/// The files that a call writes; `None` when it writes none.
fn writes(
    tools: &ToolReader,
    config: &SessionConfig,
    tool_name: &str,
    input: &Value,
) -> Option<Vec<FileChange>> {
    match tools.read(config, tool_name, input).target {
        ToolTarget::Write { changes } => Some(changes),
        _ => None,
    }
}

/// Writes one edit as a difference, as far as its input tells.
fn told(change: &FileChange, input: &Value) -> Option<String> {
    let text = |pointer: &str| input.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    match &change.edit {
        FileEdit::Whole { after } | FileEdit::Part { after, .. } => Some(alone("", &text(after)?)),
        FileEdit::Replace { before, after, .. } => Some(alone(&text(before)?, &text(after)?)),
        FileEdit::Diff { diff } => text(diff),
        FileEdit::Delete {} | FileEdit::Unknown {} => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use plexus_core::ApprovalId;
    use plexus_store::{
        AppendEvents, Change, CreateSession, JsonText, MemoryStore, Priority, StartChat,
    };
    use plexus_wire::{DecidedBy, Json};
    use serde_json::json;

    use super::*;
    use crate::agents::{Agents, Drivers};
    use crate::driver::testing::Echo;
    use crate::event::ToNewEvent;
    use crate::settings::{ProgramLine, Settings};

    const CALL: &str = "toolu_1";

    /// The events of a call that was asked about once for each decision, and ran.
    fn asked_about(content: &str, decisions: &[Option<&str>]) -> Vec<ChatEvent> {
        let input = |content: &str| Json::from(json!({"file_path": "/w/a", "content": content}));
        let (tool_name, tool_use_id) = ("Write".to_owned(), CALL.to_owned());
        let used = ChatEvent::ToolUse { tool_name, tool_use_id, input: input(content) };
        let mut events = vec![used];
        for decision in decisions {
            let approval_id = ApprovalId::generate();
            events.push(ChatEvent::AwaitingApproval {
                approval_id,
                tool_name: "Write".to_owned(),
                tool_use_id: CALL.to_owned(),
                input: input(content),
                question: None,
                person_only: None,
            });
            events.push(ChatEvent::ApprovalResolved {
                approval_id,
                approved: true,
                message: None,
                updated_input: decision.map(input),
                answers: None,
                decided_by: DecidedBy::Operator,
            });
        }
        let (tool_use_id, output) = (CALL.to_owned(), Json::from(json!("written")));
        events.push(ChatEvent::ToolResult { tool_use_id, output, is_error: false });
        events
    }

    async fn told_of(events: &[ChatEvent]) -> String {
        let store = MemoryStore::new();
        let create = CreateSession::new("writes", None);
        let session = create.id;
        let events = events.iter().map(|event| event.to_new_event().unwrap()).collect();
        let changes = vec![
            Change::CreateSession(create),
            Change::StartChat(StartChat::new(session, "write")),
            Change::AppendEvents(AppendEvents { session, chat: 0, events }),
        ];
        store.commit(changes, Priority::Normal).await.unwrap();
        let shim = ProgramLine { program: "/no/shim".into(), leading: Vec::new() };
        let drivers = Drivers::default().with("echo", Arc::new(Echo));
        let tools = ToolReader::new(Agents::new(&drivers, &Settings::new("/no/data", shim)));
        let config = json!({
            "agent": "echo", "working_dir": "/w", "model": null, "system_prompt": null,
            "loopback_enabled": true, "loopback_timeout_secs": 0, "escalate_after_secs": null,
            "supervise": "all", "can_spawn": false, "may_decide": [],
            "project_settings": "ignore", "channel": "auto", "allowed_tools": [],
            "disallowed_tools": [], "add_dirs": [], "env": {}, "budget": null,
        });
        let config: SessionConfig = JsonText::from(config).read().unwrap();
        let mut found = of_session(&store, &tools, session, &config).await.unwrap();
        found.changes.remove(0).diff.unwrap()
    }

    #[tokio::test]
    async fn the_last_decision_about_a_call_says_what_it_wrote() {
        for (decisions, written) in [
            (&[None][..], "own"),
            (&[Some("edited")], "edited"),
            (&[Some("edited"), Some("again")], "again"),
            (&[Some("edited"), None], "own"),
        ] {
            let diff = told_of(&asked_about("own", decisions)).await;
            assert!(diff.contains(&format!("+{written}")), "{decisions:?}: {diff}");
        }
    }
}
