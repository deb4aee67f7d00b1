//! What we say to an agent, as lines of the protocol.

use acp_lines::send::{Block, ClientAnswer, PermissionAnswer, Prompt, SetConfigOption};
use acp_lines::{ClientLine, ClientRequest, RequestId};
use plexus_engine::driver::{OutLine, Say};
use plexus_wire::{PermitAnswer, PromptImage};
use serde_json::{Value, json};

use super::memory::{AcpMemory, Question};
use super::profile::{DenyWay, Profile};

/// The ids of our own requests. A prompt has the id of its chat's prompt.
pub(super) const HELLO: &str = "plexus-hello";
pub(super) const OPEN: &str = "plexus-open";
pub(super) const MODEL: &str = "plexus-model";
pub(super) const REPLAYED: &str = "plexus-replayed";

/// The code of an error that denies a call, from the range that JSON-RPC leaves to implementations.
const DENIED: i64 = -32000;

/// Writes what we want to say. An answer to a closed question produces no line: after its turn, an
/// allow would run a call that nobody waits for.
pub(super) fn lines(profile: &Profile, memory: &AcpMemory, say: &Say<'_>) -> Vec<OutLine> {
    match say {
        Say::Prompt { id, text, images } => {
            let session = memory.session.iter();
            session.map(|session| prompt(session, &id.to_string(), text, images)).collect()
        }
        Say::Answer { request_id, answer } => {
            let question = memory.questions.get(*request_id).into_iter();
            question.map(|question| self::answer(profile, question, answer)).collect()
        }
        Say::Interrupt => {
            let cancel = memory.session.iter().map(|session| out(&ClientLine::cancel(session)));
            let open = memory.questions.values().map(cancelled);
            cancel.chain(open).collect()
        }
        // A prompt that comes while another runs aborts it in one agent and runs beside it in
        // another, and no agent can be asked what is open.
        Say::Steer { .. } | Say::WhatIsOpen => Vec::new(),
    }
}

/// Returns the answer that every agent takes for the end of a cancelled question.
pub(super) fn cancelled(question: &Question) -> OutLine {
    let answer = match question.is_form {
        true => ClientAnswer::Other(json!({"action": "cancel"})),
        false => ClientAnswer::Permission(PermissionAnswer::Cancelled),
    };
    out(&ClientLine::answer(question.id.clone(), answer))
}

/// Refuses a request, so that the agent does not wait. To a question, this is a denial.
pub(super) fn refusal(id: &RequestId, why: &str) -> OutLine {
    out(&ClientLine::refuse(id.clone(), why))
}

/// Sets the option of a session that names its model.
pub(super) fn set_model(session: &str, option: &str, model: &str) -> OutLine {
    let request = ClientRequest::SetConfigOption(SetConfigOption {
        session_id: session.to_owned(),
        config_id: option.to_owned(),
        value: Value::from(model),
        ..SetConfigOption::default()
    });
    out(&ClientLine::request(MODEL, request))
}

/// Sends a request of no effect. Every agent answers it with an error, after the history that it
/// replays.
pub(super) fn barrier() -> OutLine {
    let request =
        ClientRequest::Other { method: "_plexus/replayed".to_owned(), params: Some(json!({})) };
    out(&ClientLine::request(REPLAYED, request))
}

pub(super) fn out(line: &ClientLine) -> OutLine {
    OutLine::new(line.to_json().to_string())
}

fn prompt(session: &str, id: &str, text: &str, images: &[PromptImage]) -> OutLine {
    // A prompt that begins with a slash may run a command of the agent, without the model and
    // without a question.
    let text = match text.trim_start().starts_with('/') {
        true => format!("Prompt: {text}"),
        false => text.to_owned(),
    };
    let images = images.iter().map(|image| Block::image(&image.mime_type, &image.data));
    let request = ClientRequest::Prompt(Prompt {
        session_id: session.to_owned(),
        prompt: std::iter::once(Block::text(text)).chain(images).collect(),
        ..Prompt::default()
    });
    out(&ClientLine::request(id, request))
}

/// Answers a question. The option is chosen by its kind: one that also allows later calls is never
/// chosen.
fn answer(profile: &Profile, question: &Question, answer: &PermitAnswer) -> OutLine {
    let selected = |option: &str| {
        ClientAnswer::Permission(PermissionAnswer::Selected { option_id: option.to_owned() })
    };
    let answer = match (answer, &question.reject, profile.deny) {
        (PermitAnswer::Allow { updated_input }, _, _) if question.is_form => {
            let input: Value = serde_json::from_str(updated_input.as_str()).unwrap_or_default();
            let content = input["content"].as_object().cloned().unwrap_or_default();
            ClientAnswer::Other(json!({"action": "accept", "content": content}))
        }
        (PermitAnswer::Deny { .. }, _, _) if question.is_form => {
            ClientAnswer::Other(json!({"action": "decline"}))
        }
        (PermitAnswer::Allow { .. }, _, _) => selected(&question.allow),
        (PermitAnswer::Deny { .. }, Some(reject), DenyWay::Option) => selected(reject),
        (PermitAnswer::Deny { message }, _, _) => {
            ClientAnswer::Error(json!({ "code": DENIED, "message": message }))
        }
    };
    out(&ClientLine::answer(question.id.clone(), answer))
}
