//! What we say to the app-server. A call only ever gets `accept` or `decline`: an answer that also
//! covers later calls cannot be built with [`codex_app`].

use codex_app::send::{
    ClientAnswer, ElicitationAnswer, Input, ThreadRef, TurnInterrupt, TurnStart, TurnSteer,
};
use codex_app::{ClientLine, ClientRequest, Decision, RequestId};
use plexus_engine::driver::{OutLine, Say};
use plexus_wire::{PermitAnswer, PromptImage};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::memory::{CodexMemory, Form, Question};

/// A request of ours, as its id names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Ours {
    /// `initialize`.
    Initialize,
    /// Who is logged in?
    Account,
    /// Opens the thread.
    Thread,
    /// A prompt.
    Prompt(Uuid),
    /// A message into the running turn.
    Steer(Uuid),
    /// The reason of a denial; the denial of this question follows.
    Reason(String),
    /// Stops the turn.
    Interrupt,
    /// Ends the commands that a turn left running.
    Clean,
}

impl Ours {
    /// Returns the id on the wire.
    pub(super) fn id(&self) -> RequestId {
        RequestId::Text(match self {
            Self::Initialize => "plexus-initialize".to_owned(),
            Self::Account => "plexus-account".to_owned(),
            Self::Thread => "plexus-thread".to_owned(),
            Self::Prompt(id) => format!("plexus-prompt-{id}"),
            Self::Steer(id) => format!("plexus-steer-{id}"),
            Self::Reason(question) => format!("plexus-reason-{question}"),
            Self::Interrupt => "plexus-interrupt".to_owned(),
            Self::Clean => "plexus-clean".to_owned(),
        })
    }

    /// The request that has this id.
    pub(super) fn of(id: &RequestId) -> Option<Self> {
        let RequestId::Text(id) = id else { return None };
        let name = id.strip_prefix("plexus-")?;
        let uuid = |text: &str| Uuid::try_parse(text).ok();
        Some(match name {
            "initialize" => Self::Initialize,
            "account" => Self::Account,
            "thread" => Self::Thread,
            "interrupt" => Self::Interrupt,
            "clean" => Self::Clean,
            _ => match name.split_once('-')? {
                ("prompt", id) => Self::Prompt(uuid(id)?),
                ("steer", id) => Self::Steer(uuid(id)?),
                ("reason", question) => Self::Reason(question.to_owned()),
                _ => return None,
            },
        })
    }

    /// The line that asks for it.
    pub(super) fn line(&self, request: ClientRequest) -> OutLine {
        out(&ClientLine::request(self.id(), request))
    }
}

/// Writes what we want to say.
pub(super) fn lines(memory: &CodexMemory, say: &Say<'_>) -> Vec<OutLine> {
    match say {
        Say::Prompt { id, text, images } => {
            turn_start(memory, Ours::Prompt(*id), *id, text, images)
        }
        // A running turn takes the message in; if it ends at this moment, another turn follows.
        Say::Steer { id, text } => turn_start(memory, Ours::Steer(*id), *id, text, &[]),
        Say::Answer { request_id, answer } => match memory.questions.get(*request_id) {
            Some(question) => answer_lines(request_id, question, answer),
            // The question's line could not be read. Whatever it was, an error is a denial.
            None => vec![out(&ClientLine::refuse(
                unread_id(request_id),
                "the question could not be read",
            ))],
        },
        Say::Interrupt => {
            let turn = memory.turn.as_ref().and_then(|turn| turn.id.clone());
            let (Some(thread_id), Some(turn_id)) = (memory.thread.clone(), turn) else {
                return Vec::new();
            };
            let stop = TurnInterrupt { thread_id, turn_id, ..TurnInterrupt::default() };
            vec![Ours::Interrupt.line(ClientRequest::TurnInterrupt(stop))]
        }
        // The journal has the answer: a question is open until the agent closes it.
        Say::WhatIsOpen => Vec::new(),
    }
}

/// Ends the commands that a turn left running.
pub(super) fn clean(thread: &str) -> OutLine {
    let thread = ThreadRef { thread_id: thread.to_owned(), ..ThreadRef::default() };
    Ours::Clean.line(ClientRequest::BackgroundTerminalsClean(thread))
}

/// Denies a question.
pub(super) fn denial(question: &Question) -> OutLine {
    let id = question.id.clone();
    out(&match question.form {
        Form::Decision => ClientLine::decide(id, Decision::Decline),
        Form::Permissions => ClientLine::answer(id, ClientAnswer::Permissions(Map::new())),
        Form::McpTool | Form::McpQuestion => {
            ClientLine::answer(id, ClientAnswer::Elicitation(ElicitationAnswer::Decline))
        }
        Form::UserInput => ClientLine::refuse(id, "nobody answered"),
    })
}

/// Turns a line of the protocol into one for the child's stdin.
pub(super) fn out(line: &ClientLine) -> OutLine {
    OutLine::new(line.to_json().to_string())
}

fn turn_start(
    memory: &CodexMemory,
    ours: Ours,
    id: Uuid,
    text: &str,
    images: &[PromptImage],
) -> Vec<OutLine> {
    let Some(thread_id) = memory.thread.clone() else { return Vec::new() };
    let image = |image: &PromptImage| {
        Input::image(format!("data:{};base64,{}", image.mime_type, image.data))
    };
    let turn = TurnStart {
        thread_id,
        input: std::iter::once(Input::text(text)).chain(images.iter().map(image)).collect(),
        client_user_message_id: Some(id.to_string()),
        ..TurnStart::default()
    };
    vec![ours.line(ClientRequest::TurnStart(turn))]
}

fn answer_lines(request_id: &str, question: &Question, answer: &PermitAnswer) -> Vec<OutLine> {
    match answer {
        PermitAnswer::Allow { updated_input } => {
            let input: Value = serde_json::from_str(updated_input.as_str()).unwrap_or_default();
            vec![allowance(question, &input)]
        }
        // No denial can carry a reason. Sent as a message before the denial, the reason reaches the
        // same call of the model; the denial follows when the agent has taken the message.
        PermitAnswer::Deny { message } => match &question.turn {
            Some(turn) => {
                let steer = TurnSteer {
                    thread_id: question.thread.clone(),
                    expected_turn_id: turn.clone(),
                    input: vec![Input::text(format!("denied by the supervisor: {message}"))],
                    ..TurnSteer::default()
                };
                let reason = Ours::Reason(request_id.to_owned());
                vec![reason.line(ClientRequest::TurnSteer(steer))]
            }
            None => vec![denial(question)],
        },
    }
}

/// Allows what was asked, with the input that was approved.
fn allowance(question: &Question, input: &Value) -> OutLine {
    let id = question.id.clone();
    let object = |name: &str| input[name].as_object().cloned();
    let line = match question.form {
        Form::Decision => ClientLine::decide(id, Decision::Accept),
        Form::McpTool => accept(id, json!({})),
        Form::McpQuestion => accept(id, object("content").map_or_else(|| json!({}), Value::Object)),
        Form::Permissions => match object("permissions") {
            Some(permissions) => ClientLine::answer(id, ClientAnswer::Permissions(permissions)),
            None => return denial(question),
        },
        Form::UserInput => match object("answers") {
            Some(answers) => {
                let answers = answers.into_iter().map(|(name, answer)| (name, chosen(answer)));
                ClientLine::answer(id, ClientAnswer::UserInput(answers.collect()))
            }
            None => return denial(question),
        },
    };
    out(&line)
}

fn accept(id: RequestId, content: Value) -> ClientLine {
    ClientLine::answer(id, ClientAnswer::Elicitation(ElicitationAnswer::Accept { content }))
}

/// Wraps one text or several in the form that the agent wants.
fn chosen(answer: Value) -> Value {
    match answer {
        Value::Array(answers) => json!({ "answers": answers }),
        Value::Object(already) if already.contains_key("answers") => Value::Object(already),
        one => json!({ "answers": [one] }),
    }
}

/// Rebuilds the id of a question from its text. The agent numbers its questions.
fn unread_id(text: &str) -> RequestId {
    text.parse().map_or_else(|_| RequestId::Text(text.to_owned()), RequestId::Number)
}
