//! What we say to the CLI, as lines of its control channel.

use claude_code::RawJson;
use claude_code::control::{self, ControlLine, PermissionAnswer};
use plexus_engine::driver::{OutLine, Say};
use plexus_wire::{PermitAnswer, PromptImage};
use serde_json::{Value, json};
use uuid::Uuid;

/// Requests of our own have ids with this prefix; every other id belongs to the CLI.
pub(super) const OUR_REQUEST: &str = "plexus-";

/// Writes what we want to say.
pub(super) fn lines(say: &Say<'_>) -> Vec<OutLine> {
    let line = match say {
        Say::Prompt { id, text, images } if !images.is_empty() => {
            let text = json!({"type": "text", "text": text});
            let blocks = std::iter::once(text).chain(images.iter().map(image)).collect();
            control::user_prompt_blocks(Some(&id.to_string()), blocks)
        }
        Say::Prompt { id, text, .. } | Say::Steer { id, text } => {
            control::user_prompt(Some(&id.to_string()), text)
        }
        Say::Answer { request_id, answer } => {
            control::answer_permission(request_id, &as_answer(answer))
        }
        Say::Interrupt => control::interrupt(&own_id("interrupt")),
        // The answer to `initialize` names the open permission requests.
        Say::WhatIsOpen => control::initialize(&own_id("init")),
    };
    vec![out(&line)]
}

/// An image as the model's API takes it.
fn image(image: &PromptImage) -> Value {
    let source = json!({"type": "base64", "media_type": image.mime_type, "data": image.data});
    json!({"type": "image", "source": source})
}

/// Turns a line of the control channel into one for the child's stdin.
pub(super) fn out(line: &ControlLine) -> OutLine {
    OutLine::new(line.as_str().to_owned())
}

/// Makes an id of our own request. Ids never repeat, not even after a restart of the server.
fn own_id(what: &str) -> String {
    format!("{OUR_REQUEST}{what}-{}", Uuid::now_v7().simple())
}

fn as_answer(answer: &PermitAnswer) -> PermissionAnswer {
    match answer {
        PermitAnswer::Allow { updated_input } => {
            match RawJson::from_text(updated_input.as_str().to_owned()) {
                Ok(updated_input) => PermissionAnswer::allow(updated_input),
                Err(_) => PermissionAnswer::deny("the approved input could not be read"),
            }
        }
        PermitAnswer::Deny { message } => PermissionAnswer::deny(message),
    }
}
