//! The bounds that every engine checks in the same words, before a change list goes anywhere.

use super::approval::ParkStep;
use super::arbor::NodeData;
use super::audit::OutboxEntry;
use super::change::Change;
use super::error::StoreError;
use super::event::NewEvent;
use super::json::JsonText;
use super::limits::{
    MAX_BATCH_EVENTS, MAX_CHANGES, MAX_EVENT_BYTES, MAX_FIELD_BYTES, MAX_NAME_BYTES,
    MAX_PROMPT_BYTES, MAX_TRANSCRIPT_BYTES,
};

/// What a change list costs besides its texts: rows, indexes, the answer. Keeps a list of many
/// small changes from counting as nothing.
const CHANGE_OVERHEAD_BYTES: usize = 256;

/// Checks a whole list and returns how many bytes it brings.
pub(crate) fn change_list(changes: &[Change]) -> Result<usize, StoreError> {
    if changes.is_empty() {
        return Err(StoreError::invalid("commit an empty list of changes"));
    }
    if changes.len() > MAX_CHANGES {
        return Err(StoreError::invalid(format_args!(
            "commit {} changes at once: at most {MAX_CHANGES}",
            changes.len()
        )));
    }
    let mut bytes = 0;
    for change in changes {
        bytes += CHANGE_OVERHEAD_BYTES + check(change)?;
    }
    Ok(bytes)
}

fn check(change: &Change) -> Result<usize, StoreError> {
    match change {
        Change::CreateSession(new) => {
            let id = new
                .claude_session_id
                .as_deref()
                .map_or(Ok(0), |id| name("claude_session_id", id))?;
            Ok(name("name", &new.name)?
                + object("config", &new.config)?
                + object("metadata", &new.metadata)?
                + id)
        }
        Change::UpdateSession(update) => {
            let mut bytes = update.name.as_deref().map_or(Ok(0), |new| name("name", new))?;
            for (what, json) in [
                ("config", &update.config),
                ("state", &update.state),
                ("metadata", &update.metadata),
            ] {
                bytes += json.as_ref().map_or(Ok(0), |json| object(what, json))?;
            }
            Ok(bytes)
        }
        Change::StartChat(start) => {
            let key = start
                .idempotency_key
                .as_deref()
                .map_or(Ok(0), |key| name("idempotency_key", key))?;
            let images: usize = start.images.iter().map(|image| image.data.len()).sum();
            Ok(key + bounded("prompt", start.prompt.len() + images, MAX_PROMPT_BYTES)?)
        }
        Change::EndChat(end) => Ok(event(&end.event)?
            + end.usage.as_ref().map_or(Ok(0), |usage| object("usage", usage))?),
        Change::AppendEvents(append) => {
            if append.events.is_empty() || append.events.len() > MAX_BATCH_EVENTS {
                let count = append.events.len();
                return Err(StoreError::invalid(format_args!(
                    "append {count} events: one to {MAX_BATCH_EVENTS} at once"
                )));
            }
            append.events.iter().map(event).sum()
        }
        Change::CreateRun(run) => {
            Ok(name("channel", &run.channel)? + object("launch", &run.launch)?)
        }
        Change::UpdateRun(_)
        | Change::SetJournalPosition(_)
        | Change::AssignRun(_)
        | Change::DeleteSession(_) => Ok(0),
        Change::EndRun(end) => object("exit", &end.exit),
        Change::OpenApproval(open) => {
            name("request_id", &open.request_id)?;
            name("tool_name", &open.tool_name)?;
            let input = bounded("input", open.input.len(), MAX_EVENT_BYTES)?;
            let events =
                open.event.iter().chain(&open.parent_event).map(event).sum::<Result<usize, _>>()?;
            let suggestions = bounded("suggestions", open.suggestions.len(), MAX_FIELD_BYTES)?;
            let person_only = text("person_only", open.person_only.as_deref())?;
            Ok(input + events + suggestions + person_only + outbox(&open.outbox)?)
        }
        Change::DecideApproval(decide) => {
            let message = text("message", decide.message.as_deref())?;
            let edit = decide.verdict.updated_input().map_or(0, JsonText::len);
            Ok(message
                + bounded("updated_input", edit, MAX_EVENT_BYTES)?
                + decide.event.as_ref().map_or(Ok(0), event)?
                + outbox(&decide.outbox)?)
        }
        Change::EscalateApproval(escalate) => escalate.event.as_ref().map_or(Ok(0), event),
        Change::ParkApproval(park) => match &park.step {
            // It holds the input of the call.
            ParkStep::Done(facts) | ParkStep::Adopt(facts) | ParkStep::Again(facts) => {
                bounded("parked", facts.len(), 2 * MAX_EVENT_BYTES)
            }
            ParkStep::Asked { request_id, .. } => name("request_id", request_id),
            ParkStep::Begin | ParkStep::Stay | ParkStep::Wake | ParkStep::GiveUp => Ok(0),
        },
        Change::KeepTranscript(keep) => {
            bounded("transcript", keep.data.len(), MAX_TRANSCRIPT_BYTES)
        }
        Change::SettleApproval(_) | Change::RetireApproval(_) => Ok(0),
        Change::MarkBreach { what, .. } => text("breach", Some(what)),
        Change::SetCursor(set) => name("consumer", &set.consumer),
        Change::DeleteCursor { .. }
        | Change::SetReadPosition(_)
        | Change::RemoveRules(_)
        | Change::UseRule(_) => Ok(0),
        Change::AddRule(rule) => {
            let examples: usize =
                rule.matches.iter().chain(&rule.does_not_match).map(String::len).sum();
            bounded("examples", examples, MAX_FIELD_BYTES)?;
            Ok(examples
                + text("pattern", Some(&rule.pattern))?
                + text("reason", rule.reason.as_deref())?)
        }
        Change::AddToken(_) | Change::RevokeTokens(_) | Change::RevokeDevice(_) => Ok(0),
        Change::AddDevice(device) => name("name", &device.name),
        Change::AppendAudit(line) => Ok(name("kind", &line.kind)? + object("body", &line.body)?),
        Change::Enqueue(entry) => outbox(std::slice::from_ref(entry)),
        Change::MarkOutbox(_) | Change::AddSpend(_) => Ok(0),
        Change::CreateTree(tree) => object("metadata", &tree.metadata),
        Change::AppendNode(node) => {
            let data = match &node.data {
                NodeData::Text { content } => bounded("content", content.len(), MAX_PROMPT_BYTES)?,
                NodeData::External { handle } => {
                    bounded("handle", handle.to_string().len(), MAX_FIELD_BYTES)?
                }
                NodeData::Pruned {} => {
                    return Err(StoreError::invalid("append a node whose text was pruned"));
                }
            };
            Ok(data + object("metadata", &node.metadata)?)
        }
        Change::RegisterServer(new) => Ok(name("name", &new.name)? + text("url", Some(&new.url))?),
        Change::RenewLease(_) | Change::RetireServer(_) => Ok(0),
        Change::TakeOver(over) => text("reason", Some(&over.reason)),
    }
}

fn outbox(entries: &[OutboxEntry]) -> Result<usize, StoreError> {
    let mut bytes = 0;
    for entry in entries {
        bytes += CHANGE_OVERHEAD_BYTES;
        bytes += name("kind", &entry.kind)?
            + name("target", &entry.target)?
            + object("body", &entry.body)?;
    }
    Ok(bytes)
}

fn event(event: &NewEvent) -> Result<usize, StoreError> {
    name("event_type", &event.event_type)?;
    if !event.body.is_object() {
        return Err(StoreError::invalid("append the event: its body is not a JSON object"));
    }
    bounded("event", event.body.len(), MAX_EVENT_BYTES)
}

fn name(what: &str, name: &str) -> Result<usize, StoreError> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
        return Err(StoreError::invalid(format_args!(
            "use this {what}: one to {MAX_NAME_BYTES} bytes, no control characters"
        )));
    }
    Ok(name.len())
}

fn object(what: &str, json: &JsonText) -> Result<usize, StoreError> {
    if !json.is_object() {
        return Err(StoreError::invalid(format_args!("use this {what}: it is not a JSON object")));
    }
    bounded(what, json.len(), MAX_FIELD_BYTES)
}

fn text(what: &str, text: Option<&str>) -> Result<usize, StoreError> {
    bounded(what, text.map_or(0, str::len), MAX_FIELD_BYTES)
}

fn bounded(what: &str, bytes: usize, limit: usize) -> Result<usize, StoreError> {
    if bytes > limit {
        return Err(StoreError::invalid(format_args!(
            "store a {what} of {bytes} bytes: at most {limit}"
        )));
    }
    Ok(bytes)
}
