//! Questions of the agent, each bound to the call that it is about.
//!
//! A question shows its own input, or the input announced for the call just before where the
//! question does not repeat it. A question that cannot be bound to a call is refused.

use agent_lines::json::RawJson;
use codex_app::event::request::{
    CommandApproval, Elicitation, FileChangeApproval, PermissionsApproval, UserInput,
};
use codex_app::{ClientLine, RequestId, ServerRequest};
use plexus_engine::driver::{Ask, Step};
use serde_json::{Map, Value, json};

use super::super::command::script_of;
use super::super::memory::{Call, Called, CodexMemory, Form, Question};
use super::super::question as questions;
use super::super::write::{denial, out};
use super::super::{ASK_USER, EXEC, MCP_ASK, PATCH, PERMISSIONS, TYPE};
use super::items::MAX_CALLS;

/// Why both of two questions are refused.
const TWO_CALLS: &str =
    "two open calls have the same id, so that an answer to one could run the other";

/// Why a question is refused after another one about the same id was decided.
const SECOND_CALL: &str = "another call of the turn has the same id";

/// The machine that commands run on unless the question names another one.
const LOCAL: &str = "local";

/// A question before it is asked.
struct Draft {
    question: Question,
    tool: String,
    /// The call as the agent names it.
    call: String,
    input: Value,
    description: Option<String>,
    /// Why only a person may allow it; `None` for every other call.
    person_only: Option<String>,
}

impl CodexMemory {
    pub(super) fn question(&mut self, id: &RequestId, request: &ServerRequest) -> Vec<Step> {
        let drafted = match request {
            ServerRequest::CommandApproval(ask) => Ok(self.command(id, ask)),
            ServerRequest::FileChangeApproval(ask) => self.patch(id, ask),
            ServerRequest::PermissionsApproval(ask) => self.permissions(id, ask),
            ServerRequest::Elicitation(ask) => self.elicitation(id, ask),
            ServerRequest::UserInput(ask) => Ok(self.user_input(id, ask)),
            ServerRequest::ToolCall(_) => return vec![unserved(id, "a tool of the client")],
            ServerRequest::Unknown { method, .. } => return vec![unserved(id, method)],
        };
        match drafted {
            Ok(draft) => self.ask(draft),
            Err((question, why)) => vec![refused(&question, why)],
        }
    }

    /// Settles a question for which the agent no longer waits.
    pub(super) fn resolved(&mut self, request_id: &str) -> Vec<Step> {
        match self.questions.remove(request_id) {
            Some(_) => vec![Step::Settled { request_id: request_id.to_owned() }],
            None => Vec::new(),
        }
    }

    /// Forgets the questions of a turn that is over, and the calls that waited for them.
    pub(super) fn withdraw_questions(&mut self, turn: &str) -> Vec<Step> {
        let is_open = |question: &Question| question.turn.as_deref() == Some(turn);
        let open = self.questions.iter().filter(|(_, question)| is_open(question));
        let open: Vec<(String, Option<String>)> =
            open.map(|(id, question)| (id.clone(), question.call.clone())).collect();
        let mut steps = Vec::new();
        for (request_id, call) in open {
            self.questions.remove(&request_id);
            if let Some(call) = call {
                self.calls.remove(&call);
            }
            steps.push(Step::Withdrawn { request_id });
        }
        steps
    }

    fn ask(&mut self, draft: Draft) -> Vec<Step> {
        let Draft { question, tool, call, input, description, person_only } = draft;
        let request_id = question.id.to_string();
        if let Some(twin) = self.twin(&question) {
            return self.refuse_both(&question, &twin);
        }
        let Ok(input) = RawJson::from_text(input.to_string()) else {
            return vec![unserved(&question.id, "a question that cannot be written down")];
        };
        if let Some(call) = question.call.as_ref().and_then(|key| self.calls.get_mut(key)) {
            match (tool.as_str(), &call.question, &question.approval) {
                (TYPE, ..) => call.typing = Some(request_id.clone()),
                (_, None, _) => call.question = Some(request_id.clone()),
                // A further question about a call that was announced carries an approval id.
                (_, Some(_), Some(_)) if call.what != Called::Unannounced => {}
                (_, Some(_), _) => return vec![refused(&question, SECOND_CALL)],
            }
        } else if let (EXEC, Some(key)) = (tool.as_str(), &question.call)
            && self.calls.len() < MAX_CALLS
        {
            let call = Call {
                turn: question.turn.clone(),
                what: Called::Unannounced,
                question: Some(request_id.clone()),
                typing: None,
                ambiguous: false,
            };
            self.calls.insert(key.clone(), call);
        }
        self.questions.insert(request_id.clone(), question);
        vec![Step::Asked(Box::new(Ask {
            request_id,
            tool_name: tool,
            tool_use_id: call,
            input,
            description,
            person_only,
        }))]
    }

    /// Returns an open question about a call of the same id: an answer to one of the two may run
    /// the other, or their items cannot be told apart.
    fn twin(&self, question: &Question) -> Option<String> {
        let call = self.calls.get(question.call.as_ref()?);
        let is_unannounced = call.is_some_and(|call| call.what == Called::Unannounced);
        let same = |other: &Question| {
            (&other.thread, &other.turn, &other.call)
                == (&question.thread, &question.turn, &question.call)
                && (is_unannounced || other.approval == question.approval)
        };
        self.questions.iter().find(|(_, other)| same(other)).map(|(id, _)| id.clone())
    }

    fn refuse_both(&mut self, question: &Question, twin: &str) -> Vec<Step> {
        if let Some(call) = question.call.as_ref().and_then(|key| self.calls.get_mut(key)) {
            call.ambiguous = true;
        }
        let mut steps = vec![refused(question, TWO_CALLS)];
        if let Some(other) = self.questions.remove(twin) {
            steps.push(Step::Withdrawn { request_id: twin.to_owned() });
            steps.push(Step::Send(vec![denial(&other)]));
        }
        steps
    }

    fn command(&self, id: &RequestId, ask: &CommandApproval) -> Draft {
        let line = ask.command.as_ref().map_or("", |command| command.as_str());
        let kind = told(ask.kind.as_ref()).unwrap_or_else(|| "command".into());
        let (tool, mut input) = match kind.as_str() {
            Some("writeStdin") => (TYPE, Map::from_iter([("text".to_owned(), line.into())])),
            _ => (EXEC, command_input(line, ask.cwd.as_deref())),
        };
        let mut person_only = match kind.as_str() {
            Some("command" | "writeStdin") => None,
            Some("humanCommand") => Some("a managed rule of Codex asks a person".to_owned()),
            _ => Some(format!("a question of Codex of an unknown kind: {kind}")),
        };
        if person_only.is_some() {
            input.insert("kind".to_owned(), kind);
        }
        let more = [
            ("environment", told(ask.environment_id.as_ref()).filter(|id| *id != LOCAL)),
            ("additional_permissions", told(ask.additional_permissions.as_ref())),
            ("network", told(ask.network.as_ref())),
        ];
        for (name, value) in more {
            let Some(value) = value else { continue };
            input.insert(name.to_owned(), value);
            person_only.get_or_insert_with(|| format!("it asks for more than a command: {name}"));
        }
        let mut question = Question {
            turn: Some(ask.turn_id.as_str().to_owned()),
            call: Some(self.key(Some(&ask.thread_id), &ask.item_id)),
            ..question(id, Form::Decision, &ask.thread_id)
        };
        if let Some(approval) = &ask.approval_id {
            // It identifies this question among those about the call, and is approved with the
            // rest.
            input.insert("approval_id".to_owned(), approval.as_str().into());
            question.approval = Some(approval.as_str().to_owned());
        }
        Draft {
            question,
            tool: tool.to_owned(),
            call: ask.item_id.as_str().to_owned(),
            input: Value::Object(input),
            description: ask.reason.as_ref().map(|reason| reason.as_str().to_owned()),
            person_only,
        }
    }

    /// Drafts the question about a patch. The question does not repeat the changes: they were
    /// announced just before.
    fn patch(
        &mut self,
        id: &RequestId,
        ask: &FileChangeApproval,
    ) -> Result<Draft, (Question, &'static str)> {
        let key = self.key(Some(&ask.thread_id), &ask.item_id);
        let question = Question {
            turn: Some(ask.turn_id.as_str().to_owned()),
            call: Some(key.clone()),
            ..question(id, Form::Decision, &ask.thread_id)
        };
        let mut announced = self.calls.get_mut(&key);
        let changes = match &mut announced {
            Some(Call { what: Called::Patch(changes), .. }) => changes.take(),
            Some(_) | None => None,
        };
        let changes = changes.and_then(|text| serde_json::from_str::<Value>(&text).ok());
        let Some(changes) = changes else {
            // A second open call of the same id: its changes were not kept, and it is refused.
            if announced.is_some_and(|call| call.question.is_some()) {
                let call = ask.item_id.as_str().to_owned();
                let (tool, input) = (PATCH.to_owned(), Value::Null);
                let (description, person_only) = (None, None);
                return Ok(Draft { question, tool, call, input, description, person_only });
            }
            return Err((question, "it asks about a patch whose changes nobody has seen"));
        };
        let mut input = Map::from_iter([("changes".to_owned(), changes)]);
        if let Some(root) = &ask.grant_root {
            input.insert("grant_root".to_owned(), root.as_str().into());
        }
        Ok(Draft {
            question,
            tool: PATCH.to_owned(),
            call: ask.item_id.as_str().to_owned(),
            input: Value::Object(input),
            description: ask.reason.as_ref().map(|reason| reason.as_str().to_owned()),
            person_only: None,
        })
    }

    fn permissions(
        &self,
        id: &RequestId,
        ask: &PermissionsApproval,
    ) -> Result<Draft, (Question, &'static str)> {
        let question = Question {
            turn: Some(ask.turn_id.as_str().to_owned()),
            call: Some(self.key(Some(&ask.thread_id), &ask.item_id)),
            ..question(id, Form::Permissions, &ask.thread_id)
        };
        let Ok(permissions) = serde_json::from_str::<Value>(ask.permissions.get()) else {
            return Err((question, "it asks for permissions that cannot be read"));
        };
        let mut input = json!({ "permissions": permissions, "cwd": ask.cwd.as_deref() });
        if let Some(other) = told(ask.environment_id.as_ref()).filter(|id| *id != LOCAL) {
            input["environment"] = other;
        }
        Ok(Draft {
            question,
            tool: PERMISSIONS.to_owned(),
            call: ask.item_id.as_str().to_owned(),
            input,
            description: ask.reason.as_ref().map(|reason| reason.as_str().to_owned()),
            person_only: None,
        })
    }

    /// Drafts the question whether a tool of an MCP server may run, or a question of the server
    /// itself. A server can forge what the agent says, but not a call that the agent has announced.
    fn elicitation(
        &self,
        id: &RequestId,
        ask: &Elicitation,
    ) -> Result<Draft, (Question, &'static str)> {
        let turn = ask.turn_id.as_ref().map(|turn| turn.as_str().to_owned());
        let server = ask.server_name.as_str();
        if ask.mode.as_deref().is_some_and(|mode| mode != "form") {
            let question = Question { turn, ..question(id, Form::McpQuestion, &ask.thread_id) };
            return Err((question, "an MCP server asks in a way that cannot be shown here"));
        }
        let Some(kind) = ask.meta.approval_kind.as_deref() else {
            let schema = ask.requested_schema.as_ref();
            let schema: Value =
                schema.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
            let input = json!({
                "server": server,
                "message": ask.message.as_str(),
                "requested_schema": schema,
            });
            let question = Question { turn, ..question(id, Form::McpQuestion, &ask.thread_id) };
            let (tool, call) = (MCP_ASK.to_owned(), String::new());
            // A form with fields takes answers; without, only its yes counts.
            let person_only = questions::read(MCP_ASK, &input)
                .is_none()
                .then(|| "an MCP server asks its user to agree".to_owned());
            let description = None;
            return Ok(Draft { question, tool, call, input, description, person_only });
        };
        let params = ask.meta.tool_params.as_ref().map_or("{}", |params| params.get());
        let asked: Option<Value> = serde_json::from_str(params).ok();
        let is_it = |call: &Call| match &call.what {
            Called::Mcp { server: of, arguments, .. } => {
                of == server
                    && call.question.is_none()
                    && call.turn == turn
                    && asked.is_some()
                    && serde_json::from_str::<Value>(arguments).ok() == asked
            }
            Called::Command | Called::Unannounced | Called::Patch(_) => false,
        };
        let mut question =
            Question { turn: turn.clone(), ..question(id, Form::McpTool, &ask.thread_id) };
        let found = self.calls.iter().find(|(_, call)| is_it(call));
        let Some((key, Call { what: Called::Mcp { tool, arguments, .. }, .. })) = found else {
            return Err((question, "it is about no call of an MCP tool that was announced"));
        };
        question.call = Some(key.clone());
        Ok(Draft {
            question,
            tool: format!("mcp__{server}__{tool}"),
            call: key.rsplit('/').next().unwrap_or_default().to_owned(),
            input: serde_json::from_str(arguments).unwrap_or_default(),
            description: Some(ask.message.as_str().to_owned()),
            person_only: (kind != "mcp_tool_call")
                .then(|| format!("a question of Codex of an unknown kind: {kind}")),
        })
    }

    fn user_input(&self, id: &RequestId, ask: &UserInput) -> Draft {
        let questions = ask.questions.iter().map(|one| {
            let options = one.options.iter().map(|option| {
                json!({ "label": option.label.as_str(), "description": option.description.as_deref() })
            });
            json!({
                "id": one.id.as_str(),
                "header": one.header.as_deref(),
                "question": one.question.as_str(),
                "options": options.collect::<Vec<_>>(),
                "is_other": one.is_other,
                "is_secret": one.is_secret,
            })
        });
        Draft {
            input: json!({ "questions": questions.collect::<Vec<_>>() }),
            question: Question {
                turn: Some(ask.turn_id.as_str().to_owned()),
                call: Some(self.key(Some(&ask.thread_id), &ask.item_id)),
                ..question(id, Form::UserInput, &ask.thread_id)
            },
            tool: ASK_USER.to_owned(),
            call: ask.item_id.as_str().to_owned(),
            description: None,
            person_only: None,
        }
    }
}

/// Returns a part of a question, unless it is null.
fn told(part: Option<&RawJson>) -> Option<Value> {
    // A part that is no JSON is kept as text, so that it counts.
    let value = |raw: &RawJson| serde_json::from_str(raw.get()).unwrap_or(Value::from(raw.get()));
    part.map(value).filter(|value| !value.is_null())
}

/// Returns a command as people and rules read it: the script, with its shell apart.
pub(super) fn command_input(line: &str, cwd: Option<&str>) -> Map<String, Value> {
    let mut input = Map::new();
    match script_of(line) {
        Some(script) => {
            let shell = line.split(' ').take(2).collect::<Vec<_>>().join(" ");
            input.insert("command".to_owned(), script.into());
            input.insert("shell".to_owned(), shell.into());
        }
        None => {
            input.insert("command".to_owned(), line.into());
        }
    }
    if let Some(cwd) = cwd {
        input.insert("cwd".to_owned(), cwd.into());
    }
    input
}

fn question(id: &RequestId, form: Form, thread: &str) -> Question {
    Question {
        id: id.clone(),
        form,
        thread: thread.to_owned(),
        turn: None,
        call: None,
        approval: None,
    }
}

/// Refuses a question without asking anybody.
fn refused(question: &Question, why: &str) -> Step {
    Step::Refused {
        request_id: Some(question.id.to_string()),
        notice: format!("a question of the agent was refused: {why}"),
        reply: denial(question),
    }
}

/// Refuses a request that we do not serve. Without an answer the agent would wait.
fn unserved(id: &RequestId, what: &str) -> Step {
    Step::Refused {
        request_id: Some(id.to_string()),
        notice: format!("the agent asked for {what}, which is not served here"),
        reply: out(&ClientLine::refuse(id.clone(), "this supervisor does not serve it")),
    }
}
