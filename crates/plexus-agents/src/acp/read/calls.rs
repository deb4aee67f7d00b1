//! Calls of tools: every line about a call is merged into what is known of it. A call that ran must
//! have been asked about.

use acp_lines::ToolStatus;
use acp_lines::event::tool::ToolCall;
use plexus_engine::driver::Step;
use plexus_store::JsonText;
use plexus_wire::{AsksFor, ChatEvent, Json};
use serde_json::{Value, json};

use super::{Reading, as_json};
use crate::acp::memory::Call;
use crate::acp::profile::NamePlace;

impl Reading<'_> {
    /// Notes that a call begins. It drops the state of an earlier call with the same id, unless a
    /// question about that one is still open.
    pub(super) fn call_begins(&mut self, told: &ToolCall) {
        let id = told.tool_call_id.as_str();
        let is_asked = self.memory.questions.values().any(|question| question.call == id);
        if !is_asked {
            self.memory.calls.remove(id);
        }
        self.call_goes_on(told);
    }

    /// Notes a report about a call. It may be the first line about a call that was asked about
    /// before.
    pub(super) fn call_goes_on(&mut self, told: &ToolCall) {
        let id = told.tool_call_id.as_str().to_owned();
        self.flush();
        self.note(&id, told);
        match told.status {
            Some(ToolStatus::InProgress) => {
                if let Some(call) = self.memory.calls.get_mut(&id) {
                    call.in_progress = true;
                }
                self.ask_about(&id);
            }
            Some(ToolStatus::Completed) => self.call_ended(&id, told, false),
            Some(ToolStatus::Failed) => self.call_ended(&id, told, true),
            Some(ToolStatus::Pending) | None => {}
        }
    }

    /// Notes that a call was asked about. An agent may ask about one call several times, each time
    /// with an input of the question's own: it is merged when the question is asked, and is no
    /// change of the call.
    pub(super) fn note_asked(&mut self, id: &str, told: &ToolCall, key: &str) {
        self.flush();
        self.describe(id, told).question = Some(key.to_owned());
        self.memory.forget_old_calls();
    }

    /// Notes what a line says of the call besides its input.
    fn describe(&mut self, id: &str, told: &ToolCall) -> &mut Call {
        let number = self.memory.next_number();
        let tool = self.told_name(told);
        let new = || Call { number, ..Call::default() };
        let call = self.memory.calls.entry(id.to_owned()).or_insert_with(new);
        call.tool = call.tool.take().or(tool);
        call.kind = told.kind.or(call.kind);
        call
    }

    fn note(&mut self, id: &str, told: &ToolCall) {
        let is_asked =
            self.memory.questions.values().any(|open| open.call == id && open.held.is_none());
        let call = self.describe(id, told);
        // Agents begin with an empty input.
        let input = told.raw_input.as_ref().filter(|raw| raw.is_object() && raw.get() != "{}");
        if let Some(input) = input.map(|raw| Json::from(as_json(raw))) {
            let moved =
                call.input.as_ref().is_some_and(|before| before.to_value() != input.to_value());
            call.input = Some(input);
            if is_asked && moved {
                let what =
                    format!("the agent changed the input of the call {id} after it had asked");
                self.steps.push(Step::Breach(what));
            }
        }
        self.memory.forget_old_calls();
    }

    fn told_name(&self, told: &ToolCall) -> Option<String> {
        let own = told.tool_name().map(str::to_owned);
        let title = told.title.as_ref().map(|title| title.as_str().to_owned());
        match self.profile.tool_name {
            NamePlace::Field => own,
            NamePlace::FirstTitle => title,
            NamePlace::Goose => own.or_else(|| title.filter(|title| !title.contains(' '))),
            NamePlace::IdPrefix => {
                told.tool_call_id.split_once("__").map(|(name, _)| name.to_owned())
            }
        }
    }

    /// Returns the name of a call's tool, or at least its kind.
    pub(super) fn name_of(&self, id: &str) -> String {
        let call = self.memory.calls.get(id);
        let kind = call.and_then(|call| call.kind).map(|kind| kind.as_str().to_owned());
        let tool = call.and_then(|call| call.tool.clone());
        tool.or(kind).unwrap_or_else(|| "tool".to_owned())
    }

    fn call_ended(&mut self, id: &str, told: &ToolCall, is_error: bool) {
        let Some(call) = self.memory.calls.get(id).cloned() else { return };
        let tool = self.name_of(id);
        let input = call.input.clone().unwrap_or_else(|| Json::from(json!({})));
        self.tell_use(id, &input);
        let output = output(told);
        let text = output.to_value();
        let did_not_run =
            |begin: &String| text.as_str().is_some_and(|text| text.starts_with(begin));
        let ran = !is_error && !self.profile.did_not_run.iter().any(did_not_run);
        let must_ask = self.profile.asks_for != AsksFor::Configured
            && !self.profile.never_asks.contains(&tool);
        if ran && must_ask {
            let what = format!("{tool}, call {id}");
            // A call that ran has its question settled.
            call.question.as_ref().map(|key| self.memory.questions.remove(key));
            self.steps.push(Step::Ran { request_id: call.question, what });
        }
        self.settle(id);
        self.memory.calls.remove(id);
        self.steps.push(Step::Event(ChatEvent::ToolResult {
            tool_use_id: id.to_owned(),
            output: output.into(),
            is_error,
        }));
        self.steps.push(Step::Finished { tool_use_id: id.to_owned() });
    }
}

/// Returns the output of a tool: its text, or else the raw output that the agent sent.
fn output(told: &ToolCall) -> JsonText {
    let raw = told.raw_output.as_ref().map(as_json);
    if let Some(raw) = &raw
        && raw.to_value().is_string()
    {
        return raw.clone();
    }
    let parts = told.content.iter().flatten().filter_map(|part| {
        let text = part.content.as_ref().and_then(|block| block.text.as_ref());
        let text = text.map(|text| text.as_str().to_owned());
        text.or_else(|| part.path.as_ref().map(|path| format!("changed {path}")))
    });
    let text = parts.collect::<Vec<_>>().join("\n");
    match raw {
        Some(raw) if text.is_empty() => raw,
        _ => JsonText::from(Value::from(text)),
    }
}
