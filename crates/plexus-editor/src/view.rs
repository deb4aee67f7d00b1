//! The events of a session as updates of the protocol. Pure, but for looking at the files that a
//! call is about to change.

use std::collections::BTreeMap;
use std::path::PathBuf;

use acp_lines::ToolStatus;
use acp_lines::send::Block;
use acp_lines::serve::{Called, Said, Steps, Update};
use plexus_client::wire::{
    Approval, ApprovalId, ChatEvent, DecidedBy, Delta, Json, RiskLevel, ToolTarget,
};
use serde_json::{Map, Value, json};

use crate::blocks;
use crate::call::{self, Described, Files};
use plexus_render::live::{Live, Whole};

/// Whether an event happens now, or is told again while a session is loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum When {
    Now,
    Earlier,
}

/// What an editor has been shown of a session.
#[derive(Debug)]
pub(crate) struct View {
    dir: PathBuf,
    live: Live,
    /// A text block has ended: the next one begins a paragraph.
    paragraph: bool,
    /// Calls that have not ended, and whether their content is a diff.
    open: BTreeMap<String, bool>,
    /// The calls of questions that wait.
    asked: BTreeMap<ApprovalId, String>,
}

impl View {
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            live: Live::default(),
            paragraph: false,
            open: BTreeMap::new(),
            asked: BTreeMap::new(),
        }
    }

    /// Shows a prompt that the editor did not send in this connection.
    pub(crate) fn prompt(&mut self, text: &str) -> Update {
        self.paragraph = false;
        Update::UserMessageChunk(said(text))
    }

    /// Shows a live piece of text.
    pub(crate) fn piece(&mut self, piece: &Delta) -> Option<Update> {
        match piece {
            Delta::Delta { text } => {
                let new = self.live.piece(text)?;
                Some(self.words(&new))
            }
            Delta::DeltaStart => {
                self.paragraph |= self.live.message_starts();
                None
            }
        }
    }

    /// Shows an event. `target` is what its call acts on, where the server says so.
    pub(crate) fn event(
        &mut self,
        event: &ChatEvent,
        target: Option<&ToolTarget>,
        when: When,
    ) -> Vec<Update> {
        match event {
            ChatEvent::Start { .. } => self.close(),
            ChatEvent::Content { text } => self.content(text, when).into_iter().collect(),
            ChatEvent::Thinking { thinking } => {
                self.paragraph = false;
                vec![Update::AgentThoughtChunk(said(thinking))]
            }
            ChatEvent::ToolUse { tool_name, tool_use_id, input } => {
                self.live.tool_started(tool_use_id);
                let call = Described { id: tool_use_id, tool: tool_name, input, target };
                let mut updates = self.call(call, when);
                updates.extend(plan(target, input));
                updates
            }
            ChatEvent::AwaitingApproval { approval_id, tool_name, tool_use_id, input, .. } => {
                self.asked.insert(*approval_id, tool_use_id.clone());
                let call = Described { id: tool_use_id, tool: tool_name, input, target };
                self.call(call, when)
            }
            ChatEvent::ApprovalResolved {
                approval_id,
                approved,
                message,
                updated_input,
                decided_by,
                ..
            } => {
                let Some(call) = self.asked.remove(approval_id) else { return Vec::new() };
                let decided = Decided { approved: *approved, message, updated_input };
                vec![self.decided(call, &decided, *decided_by)]
            }
            ChatEvent::ToolResult { tool_use_id, output, is_error } => {
                self.result(tool_use_id, output, *is_error)
            }
            // The dialog about it shows it.
            ChatEvent::ToolRequest { .. } => Vec::new(),
            ChatEvent::Steered { text, .. } => vec![self.prompt(text)],
            ChatEvent::Notice { message } | ChatEvent::Error { message } => {
                vec![self.note(message)]
            }
            ChatEvent::Pruned { was } => vec![self.note(&format!("(removed: {was})"))],
            ChatEvent::Passthrough { .. } | ChatEvent::Complete { .. } | ChatEvent::Other(_) => {
                Vec::new()
            }
        }
    }

    /// Something that the editor should know and that the agent did not say.
    pub(crate) fn note(&mut self, words: &str) -> Update {
        self.paragraph = false;
        // What an agent writes to its stderr is meant for a terminal.
        let words = plexus_render::sanitize::text(words);
        Update::AgentThoughtChunk(said(&format!("{words}\n\n")))
    }

    /// Describes the call of a question, and shows the call if the editor does not know it: an
    /// update of an unknown call would be drawn as a failure.
    pub(crate) fn question(&mut self, approval: &Approval) -> (Vec<Update>, Called) {
        let Approval { id, tool_name, tool_use_id, input, target, .. } = approval;
        self.asked.insert(*id, tool_use_id.clone());
        let target = target.as_ref().and_then(|target| target.known());
        let described = Described { id: tool_use_id, tool: tool_name, input, target };
        let updates = self.call(described, When::Now);
        let mut call = call::describe(described, &self.dir, Files::BeforeTheCall);
        // The update that ends the call must know whether this one shows a diff.
        self.open.insert(tool_use_id.clone(), call::shows_diff(&call));
        explain(&mut call, approval);
        (updates, call)
    }

    /// Describes the question of a session that the agent started, as a call of its own: one of
    /// that session's calls may have the id of one of ours.
    pub(crate) fn question_below(&mut self, approval: &Approval) -> (Vec<Update>, Called) {
        self.paragraph = false;
        let Approval { tool_name, input, target, working_dir, session_name, .. } = approval;
        let id = call_below(approval);
        let target = target.as_ref().and_then(|target| target.known());
        let described = Described { id: &id, tool: tool_name, input, target };
        let dir = working_dir.as_deref().unwrap_or(&self.dir);
        let mut call = call::describe(described, dir, Files::BeforeTheCall);
        let name = plexus_render::sanitize::one_line(session_name).into_owned();
        call.title = call.title.map(|title| format!("{name}: {title}"));
        let updates = vec![Update::ToolCall(Box::new(call.clone()))];
        explain(&mut call, approval);
        (updates, call)
    }

    /// Ends what [`View::question_below`] shows: the question has been answered.
    pub(crate) fn decided_below(&self, approval: &Approval) -> Update {
        let call = changed(call_below(approval), ToolStatus::Completed);
        Update::ToolCallUpdate(Box::new(call))
    }

    /// Ends every call that has not ended: the chat is over.
    pub(crate) fn close(&mut self) -> Vec<Update> {
        self.asked.clear();
        self.paragraph = false;
        let open = std::mem::take(&mut self.open);
        let ended = open.into_keys().map(|id| {
            self.live.tool_ended(&id);
            changed(id, ToolStatus::Failed)
        });
        ended.map(|call| Update::ToolCallUpdate(Box::new(call))).collect()
    }

    fn words(&mut self, text: &str) -> Update {
        let starts = std::mem::take(&mut self.paragraph);
        let text = if starts { format!("\n\n{text}") } else { text.to_owned() };
        Update::AgentMessageChunk(said(&text))
    }

    fn content(&mut self, text: &str, when: When) -> Option<Update> {
        let new = match when {
            When::Earlier => text.to_owned(),
            When::Now => match self.live.whole(text) {
                Whole::Rest(rest) => rest,
                Whole::Anew(text) => {
                    self.paragraph = true;
                    text
                }
            },
        };
        let update = (!new.is_empty()).then(|| self.words(&new));
        self.paragraph = true;
        update
    }

    /// Shows a call, once.
    fn call(&mut self, call: Described<'_>, when: When) -> Vec<Update> {
        self.paragraph = false;
        let id = call.id;
        if self.open.contains_key(id) {
            return Vec::new();
        }
        let files = match when {
            When::Now => Files::BeforeTheCall,
            When::Earlier => Files::Unknown,
        };
        let call = call::describe(call, &self.dir, files);
        self.open.insert(id.to_owned(), call::shows_diff(&call));
        vec![Update::ToolCall(Box::new(call))]
    }

    fn decided(&mut self, id: String, decided: &Decided<'_>, by: DecidedBy) -> Update {
        let status = match decided.approved {
            true => ToolStatus::InProgress,
            false => ToolStatus::Failed,
        };
        let mut call = changed(id, status);
        call.extra = meta(json!({"decidedBy": by}));
        if let Some(input) = decided.updated_input {
            // What runs is not what was asked for: the words say so, and the input is the new one.
            let words = format!(
                "Edited by whoever decided:\n{}",
                blocks::fenced("json", &format!("{:#}", input.to_value()))
            );
            call.content = Some(vec![blocks::text_content(&words)]);
            call.raw_input = Some(input.to_value());
            self.open.insert(call.tool_call_id.clone(), true);
        } else if let (false, Some(message)) = (decided.approved, decided.message) {
            let words = format!("Denied: {message}");
            call.content = Some(vec![blocks::text_content(&words)]);
        }
        Update::ToolCallUpdate(Box::new(call))
    }

    fn result(&mut self, id: &str, output: &Json, is_error: bool) -> Vec<Update> {
        self.paragraph = false;
        let held = self.live.tool_ended(id);
        let Some(keeps_content) = self.open.remove(id) else { return Vec::new() };
        let status = if is_error { ToolStatus::Failed } else { ToolStatus::Completed };
        let mut call = changed(id.to_owned(), status);
        if is_error || !keeps_content {
            let content = blocks::result(&output.to_value());
            call.content = (!content.is_empty()).then_some(content);
        }
        let mut updates = vec![Update::ToolCallUpdate(Box::new(call))];
        updates.extend(held.map(|text| self.words(&text)));
        updates
    }
}

/// How a question was decided.
struct Decided<'a> {
    approved: bool,
    message: &'a Option<String>,
    updated_input: &'a Option<Json>,
}

fn said(text: &str) -> Said {
    Said { content: Block::text(text), ..Said::default() }
}

fn changed(id: String, status: ToolStatus) -> Called {
    Called { tool_call_id: id, status: Some(status), ..Called::default() }
}

/// The id of the call that shows a question of another session.
fn call_below(approval: &Approval) -> String {
    format!("{}/{}", approval.session_id, approval.id)
}

/// Adds to a call what the person who decides about it should know.
fn explain(call: &mut Called, approval: &Approval) {
    if let Some(words) = risk_of(approval) {
        call.content.get_or_insert_default().push(blocks::text_content(&words));
    }
    if let Some(description) = approval.description.as_deref().filter(|text| !text.is_empty()) {
        let words = plexus_render::sanitize::text(description);
        call.content.get_or_insert_default().push(blocks::text_content(&words));
    }
    if let Some(question) = approval.question.as_ref().and_then(|said| said.known()) {
        let words = format!(
            "{}\n(more than one choice, and own words, are answered with `plexus approve {}` or in \
             the dashboard)",
            question.summary(),
            approval.id
        );
        let words = plexus_render::sanitize::text(&words);
        call.content.get_or_insert_default().push(blocks::text_content(&words));
    }
    call.extra = meta(json!({"approvalId": approval.id, "inputDigest": approval.input_digest}));
}

/// Why a call deserves a second look.
fn risk_of(approval: &Approval) -> Option<String> {
    let risk = approval.risk.as_ref()?.known()?;
    match risk.level {
        RiskLevel::Critical | RiskLevel::High => {
            let words = format!("Risk: {}", risk.reasons.join("; "));
            Some(plexus_render::sanitize::one_line(&words).into_owned())
        }
        RiskLevel::Medium | RiskLevel::Low => None,
    }
}

/// Puts fields of our own where editors ignore them.
fn meta(ours: Value) -> Map<String, Value> {
    Map::from_iter([("_meta".to_owned(), json!({"plexus": ours}))])
}

/// The list of things to do that an agent keeps, as a plan.
fn plan(target: Option<&ToolTarget>, input: &Json) -> Option<Update> {
    let Some(ToolTarget::Think {}) = target else { return None };
    let input = input.to_value();
    let entries = input["todos"].as_array()?.iter().filter_map(|todo| {
        let status = match todo["status"].as_str()? {
            status @ ("pending" | "in_progress" | "completed") => status,
            _ => "pending",
        };
        Some(json!({"content": todo["content"].as_str()?, "priority": "medium", "status": status}))
    });
    Some(Update::Plan(Steps { entries: entries.collect(), ..Steps::default() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays events as the wire writes them, and returns the updates as the protocol does.
    fn played(when: When, events: Value) -> Vec<Value> {
        let mut view = View::new("/work".into());
        let events: Vec<Value> = serde_json::from_value(events).unwrap();
        let read = |event: Value| {
            let target = event.get("target").map(|it| serde_json::from_value(it.clone()).unwrap());
            (serde_json::from_value(event).unwrap(), target)
        };
        events
            .into_iter()
            .map(read)
            .flat_map(|(event, target): (ChatEvent, Option<ToolTarget>)| {
                view.event(&event, target.as_ref(), when)
            })
            .map(|update| serde_json::to_value(update).unwrap())
            .collect()
    }

    fn kinds(updates: &[Value]) -> Vec<&str> {
        updates.iter().map(|update| update["sessionUpdate"].as_str().unwrap()).collect()
    }

    #[test]
    fn a_call_is_told_from_its_beginning_to_its_end() {
        let id = ApprovalId::generate();
        let call = json!({"tool_use_id": "t", "tool_name": "Bash", "input": {"command": "ls"}});
        let with = |kind: &str, more: Value| {
            let mut event = call.as_object().unwrap().clone();
            event.insert("type".into(), json!(kind));
            event.extend(more.as_object().unwrap().clone());
            Value::Object(event)
        };
        let updates = played(
            When::Now,
            json!([
                with("tool_use", json!({})),
                with("awaiting_approval", json!({"approval_id": id})),
                {"type": "approval_resolved", "approval_id": id, "approved": true,
                 "decided_by": "operator"},
                {"type": "tool_result", "tool_use_id": "t", "output": "a.txt", "is_error": false},
            ]),
        );
        assert_eq!(kinds(&updates), ["tool_call", "tool_call_update", "tool_call_update"]);
        let statuses: Vec<&Value> = updates.iter().map(|update| &update["status"]).collect();
        assert_eq!(statuses, ["pending", "in_progress", "completed"]);
        assert_eq!(updates[1]["_meta"]["plexus"]["decidedBy"], "operator");
        assert_eq!(updates[2]["content"][0]["content"]["text"], "```\na.txt\n```");
    }

    #[test]
    fn a_question_without_its_call_shows_the_call_first() {
        let id = ApprovalId::generate();
        let updates = played(
            When::Now,
            json!([{"type": "awaiting_approval", "approval_id": id, "tool_use_id": "t",
                    "tool_name": "Bash", "input": {"command": "ls"}}]),
        );
        assert_eq!(kinds(&updates), ["tool_call"]);
    }

    #[test]
    fn a_diff_stays_when_its_call_has_worked_and_not_when_it_failed() {
        for (is_error, content) in [(false, json!(null)), (true, json!("```\nno\n```"))] {
            let updates = played(
                When::Earlier,
                json!([
                    {"type": "tool_use", "tool_use_id": "t", "tool_name": "Write",
                     "input": {"file_path": "f", "content": "x"},
                     "target": {"kind": "write", "changes": [
                        {"path": "f", "edit": "whole", "after": "/content"}]}},
                    {"type": "tool_result", "tool_use_id": "t", "output": "no",
                     "is_error": is_error},
                ]),
            );
            assert_eq!(updates[0]["content"][0]["type"], "diff");
            assert_eq!(updates[1]["content"][0]["content"]["text"], content);
        }
    }

    #[test]
    fn texts_are_paragraphs_and_todos_are_a_plan() {
        let todos =
            json!([{"content": "a", "status": "completed"}, {"content": "b", "status": "?"}]);
        let updates = played(
            When::Earlier,
            json!([
                {"type": "content", "text": "one"}, {"type": "content", "text": "two"},
                {"type": "tool_use", "tool_use_id": "t", "tool_name": "TodoWrite",
                 "input": {"todos": todos}, "target": {"kind": "think"}},
                {"type": "content", "text": "three"},
            ]),
        );
        let texts: Vec<&Value> = updates
            .iter()
            .filter(|update| update["sessionUpdate"] == "agent_message_chunk")
            .map(|update| &update["content"]["text"])
            .collect();
        assert_eq!(texts, ["one", "\n\ntwo", "three"]);
        let plan = updates.iter().find(|update| update["sessionUpdate"] == "plan").unwrap();
        let statuses: Vec<&Value> =
            plan["entries"].as_array().unwrap().iter().map(|entry| &entry["status"]).collect();
        assert_eq!(statuses, ["completed", "pending"]);
    }

    #[test]
    fn a_chat_that_is_over_leaves_no_call_open() {
        let updates = played(
            When::Now,
            json!([
                {"type": "tool_use", "tool_use_id": "t", "tool_name": "Bash",
                 "input": {"command": "sleep 9"}},
                {"type": "start", "id": ApprovalId::generate(), "user_position":
                    {"tree_id": ApprovalId::generate(), "node_id": ApprovalId::generate()}},
            ]),
        );
        assert_eq!(updates[1]["status"], "failed", "{updates:?}");
    }
}
