//! Requests for permission. A request is asked once the input of its call is complete, and is
//! closed when the call or the turn is over.

use acp_lines::event::request::PermissionRequest;
use acp_lines::event::tool::ToolCall;
use acp_lines::{OptionKind, RequestId};
use agent_lines::json::RawJson;
use plexus_engine::driver::{Ask, Step};
use plexus_wire::{ChatEvent, Json};
use serde_json::{Map, Value, json};

use super::{FORM, Reading, as_json};
use crate::acp::memory::{Handshake, HeldBack, Question};
use crate::acp::profile::InputPlace;
use crate::acp::write;
use crate::forms;

/// How many questions may be open. Agents ask one at a time, or one for each call of a message.
const MAX_OPEN: usize = 64;

/// The description of a question when the agent sends no arguments of the call.
const ONLY_SHOWN: &str = "the agent sends no arguments: what it shows of the call is all there is";

impl Reading<'_> {
    pub(super) fn asked(&mut self, id: &RequestId, asked: &PermissionRequest) {
        let option = |kind| asked.option(kind).map(|option| option.option_id.as_str().to_owned());
        let is_live = self.memory.handshake == Handshake::Done && self.memory.turn.is_some();
        let twin = self.memory.questions.iter().find(|(_, open)| open.id == *id);
        let (allow, why) = match (option(OptionKind::AllowOnce), twin) {
            _ if !is_live => (None, "a permission outside of a turn"),
            // Answers to the two could not be told apart, so both are denied.
            (_, Some(_)) => (None, "two permissions under one id"),
            _ if self.memory.questions.len() >= MAX_OPEN => (None, "too many permissions at once"),
            (None, None) => (None, "a permission that cannot be given for once"),
            (allow, None) => (allow, ""),
        };
        let Some(allow) = allow else {
            let twin = twin.map(|(key, _)| key.clone());
            self.refuse(id, why);
            return self.drop_question(twin);
        };
        let key = format!("{}-{id}", self.memory.next_number());
        let call_id = asked.tool_call.tool_call_id.as_str().to_owned();
        self.note_asked(&call_id, &asked.tool_call, &key);
        let raw = asked.tool_call.raw_input.as_ref().map(|raw| Json::from(as_json(raw)));
        let title = asked.tool_call.title.as_ref().map(|title| title.as_str().to_owned());
        let (reject, id) = (option(OptionKind::RejectOnce), id.clone());
        let held = Some(HeldBack { input: raw, title });
        let call = call_id.clone();
        let question = Question { id, call, allow, reject, is_form: false, held };
        self.memory.questions.insert(key, question);
        match self.profile.input {
            InputPlace::Request | InputPlace::Update => self.ask_about(&call_id),
            InputPlace::Shown => self.ask_shown(&call_id, &asked.tool_call),
        }
    }

    /// Asks the user to fill in a form of the agent.
    pub(super) fn form(&mut self, id: &RequestId, params: &RawJson) {
        let params = params.to_value().unwrap_or_default();
        let is_live = self.memory.handshake == Handshake::Done && self.memory.turn.is_some();
        let is_twin = self.memory.questions.values().any(|open| open.id == *id);
        let has_room = self.memory.questions.len() < MAX_OPEN && !is_twin;
        let form = json!({"message": params["message"],
            "requested_schema": params["requestedSchema"]});
        let can_be_asked = params["mode"] == "form" && forms::read(&form).is_some();
        let input = (can_be_asked && is_live && has_room).then(|| form.to_string());
        let input = input.and_then(|input| RawJson::from_text(input).ok());
        let Some(input) = input else {
            return self.refuse(id, "an answer of the user that cannot be asked for here");
        };
        self.flush();
        let key = format!("{}-{id}", self.memory.next_number());
        let call = params["toolCallId"].as_str().unwrap_or(&key).to_owned();
        let question = Question {
            id: id.clone(),
            call: call.clone(),
            allow: String::new(),
            reject: None,
            is_form: true,
            held: None,
        };
        self.memory.questions.insert(key.clone(), question);
        self.steps.push(Step::Asked(Box::new(Ask {
            request_id: key,
            tool_name: FORM.to_owned(),
            tool_use_id: call,
            input,
            description: params["message"].as_str().map(str::to_owned),
            person_only: None,
        })));
    }

    /// Asks the questions held back about a call, if its input is complete now.
    pub(super) fn ask_about(&mut self, call_id: &str) {
        let Some(call) = self.memory.calls.get(call_id) else { return };
        if self.profile.input == InputPlace::Update && !call.in_progress {
            return;
        }
        let (told, tool_name) = (call.input.clone(), self.name_of(call_id));
        let about = self.memory.questions.iter_mut().filter(|(_, asked)| asked.call == call_id);
        let held: Vec<_> =
            about.filter_map(|(key, asked)| Some((key.clone(), asked.held.take()?))).collect();
        for (key, HeldBack { input, title }) in held {
            let mut input = merged(told.as_ref(), input.as_ref());
            let mut title = title;
            if self.profile.input == InputPlace::Request && input.as_str() == "{}" {
                input = Json::from(json!({ "title": title }));
                title = Some(format!("{} ({ONLY_SHOWN})", title.unwrap_or_default()));
            }
            self.ask(key, call_id, &tool_name, &input, title);
        }
    }

    /// Asks with what the agent shows, because it sends no arguments.
    fn ask_shown(&mut self, call_id: &str, shown: &ToolCall) {
        let tool_name = self.name_of(call_id);
        let Some(call) = self.memory.calls.get(call_id) else { return };
        let Some(key) = call.question.clone() else { return };
        if let Some(question) = self.memory.questions.get_mut(&key) {
            question.held = None;
        }
        let input = shown_input(shown);
        let title = shown.title.as_ref().map(|title| format!("{title} ({ONLY_SHOWN})"));
        self.ask(key, call_id, &tool_name, &input, title.or_else(|| Some(ONLY_SHOWN.to_owned())));
    }

    fn ask(&mut self, key: String, call_id: &str, tool: &str, input: &Json, title: Option<String>) {
        self.tell_use(call_id, input);
        let Ok(input) = RawJson::from_text(input.as_str().to_owned()) else { return };
        self.steps.push(Step::Asked(Box::new(Ask {
            request_id: key,
            tool_name: tool.to_owned(),
            tool_use_id: call_id.to_owned(),
            input,
            description: title,
            person_only: None,
        })));
    }

    /// Writes the event of a call, once.
    pub(super) fn tell_use(&mut self, call_id: &str, input: &Json) {
        self.flush();
        let tool_name = self.name_of(call_id);
        let Some(call) = self.memory.calls.get_mut(call_id) else { return };
        if std::mem::replace(&mut call.is_told, true) {
            return;
        }
        self.steps.push(Step::Event(ChatEvent::ToolUse {
            tool_name,
            tool_use_id: call_id.to_owned(),
            input: input.clone(),
        }));
    }

    /// Closes a question that the agent has withdrawn.
    pub(super) fn withdrawn(&mut self, id: &RequestId) {
        let found = self.memory.questions.iter().find(|(_, open)| open.id == *id);
        let key = found.map(|(key, _)| key.clone());
        self.drop_question(key);
    }

    fn drop_question(&mut self, key: Option<String>) {
        let Some(key) = key else { return };
        self.flush();
        self.memory.questions.remove(&key);
        self.steps.push(Step::Withdrawn { request_id: key });
    }

    /// Settles the questions about a call that is over.
    pub(super) fn settle(&mut self, call_id: &str) {
        let about = self.memory.questions.extract_if(.., |_, asked| asked.call == call_id);
        let settled: Vec<_> = about.map(|(request_id, _)| Step::Settled { request_id }).collect();
        self.steps.extend(settled);
    }

    /// Closes all questions because the turn is over. An allow that comes now must not reach the
    /// agent.
    pub(super) fn close_questions(&mut self, is_cancelled: bool) {
        for (request_id, question) in std::mem::take(&mut self.memory.questions) {
            if question.held.is_some() {
                // This question was held back, so no approval exists; the agent may still wait for
                // an answer.
                self.steps.push(Step::Send(vec![write::cancelled(&question)]));
            } else if is_cancelled {
                self.steps.push(Step::Withdrawn { request_id });
            } else {
                self.steps.push(Step::Settled { request_id });
            }
        }
    }
}

/// Merges the input reported for the call with that of the request. Where they differ, the
/// request's value is added under `of_the_request`.
fn merged(told: Option<&Json>, asked: Option<&Json>) -> Json {
    let (told, asked) = match (told, asked) {
        (Some(told), Some(asked)) => (told, asked),
        (told, asked) => {
            return told.or(asked).cloned().unwrap_or_else(|| Json::from(json!({})));
        }
    };
    let (mut input, asked) = match (told.to_value(), asked.to_value()) {
        (Value::Object(told), Value::Object(asked)) => (told, asked),
        // An input that is not an object is refused when it is asked.
        (Value::Object(_), _) => return asked.clone(),
        _ => return told.clone(),
    };
    let mut differs = Map::new();
    for (name, value) in asked {
        match input.get(&name) {
            None => drop(input.insert(name, value)),
            Some(same) if *same == value => {}
            Some(_) => drop(differs.insert(name, value)),
        }
    }
    if !differs.is_empty() {
        input.insert("of_the_request".to_owned(), Value::Object(differs));
    }
    Json::from(input)
}

/// Collects what the agent shows of a call whose arguments it does not send.
fn shown_input(shown: &ToolCall) -> Json {
    let mut input = Map::new();
    if let Some(title) = &shown.title {
        input.insert("title".to_owned(), Value::from(title.as_str()));
    }
    if let Some(kind) = shown.kind {
        input.insert("kind".to_owned(), Value::from(kind.as_str()));
    }
    let content = shown.content.iter().flatten().map(|part| match part.content_type.as_str() {
        "diff" => json!({
            "type": "diff",
            "path": part.path.as_ref().map(|path| path.as_str()),
            "oldText": part.old_text.as_ref().map(|text| text.as_str()),
            "newText": part.new_text.as_ref().map(|text| text.as_str()),
        }),
        other => json!({
            "type": other,
            "text": part.content.as_ref().and_then(|block| block.text.as_ref()).map(|t| t.as_str()),
        }),
    });
    input.insert("content".to_owned(), content.collect());
    let paths = shown.locations.iter().flatten().map(|place| Value::from(place.path.as_str()));
    input.insert("locations".to_owned(), paths.collect());
    Json::from(input)
}
