//! Lines of the control channel: questions of the CLI, echoes of our answers, and answers to
//! requests of our own.

use std::collections::BTreeMap;

use claude_code::RawJson;
use claude_code::control;
use claude_code::event::control::{
    CanUseTool, ControlOutcome, ControlRequestBody, ControlResponse, EchoedDecision,
};
use plexus_engine::driver::{Ask, OutLine, Step, TakenAnswer};
use uuid::Uuid;

use crate::claude::question;
use crate::claude::write::{OUR_REQUEST, out};

/// How many characters of the CLI's own reason are shown.
const MAX_REASON_CHARS: usize = 300;

/// Reads a question. One of a subagent says which it is, as far as its beginning was heard.
pub(super) fn as_ask(
    request_id: String,
    ask: &CanUseTool,
    subagents: &BTreeMap<String, String>,
) -> Ask {
    let said = ask.description.as_ref().map(|text| text.as_str().to_owned());
    let subagent = ask.agent_id.as_ref().map(|id| match subagents.get(id.as_str()) {
        Some(task) => format!("subagent {task}"),
        None => format!("subagent {}", id.as_str()),
    });
    Ask {
        request_id,
        tool_name: ask.tool_name.as_str().to_owned(),
        tool_use_id: ask.tool_use_id.as_ref().map_or_else(String::new, |id| id.as_str().to_owned()),
        input: ask.input.clone(),
        description: match (subagent, said) {
            (Some(subagent), Some(said)) => Some(format!("{subagent}: {said}")),
            (subagent, said) => subagent.or(said),
        },
        person_only: person_only(ask),
    }
}

/// The source of the ask rules that we start the CLI with.
const OUR_RULES: &str = "flagSettings";

/// Says why only a person may allow a call, in words; `None` for every other call.
///
/// A question of the agent carries such a mark too. It is no call to allow, so it stays with those
/// who may answer questions.
fn person_only(ask: &CanUseTool) -> Option<String> {
    let marked = |mark: Option<bool>, at: bool| mark == Some(at);
    if marked(ask.requires_user_interaction, true) {
        return (!is_question(ask)).then(|| "its tool demands a person".to_owned());
    }
    if marked(ask.classifier_approvable, false) {
        let why = ask.decision_reason.as_ref().map_or("", |reason| reason.as_str());
        return Some(format!("Claude Code's safety check leaves it to a person: {}", cut(why)));
    }
    if marked(ask.default_to_no, true) {
        return Some("Claude Code proposes to refuse it".to_owned());
    }
    match ask.decision_reason_type.as_deref() {
        Some("sandboxOverride") => return Some("it would leave Claude Code's sandbox".to_owned()),
        Some("classifier") => return Some("Claude Code's classifier asks for a person".to_owned()),
        Some("hook") => return Some("a hook of Claude Code asks for a person".to_owned()),
        _ => {}
    }
    let matched = ask.matched_ask_rule.as_ref().and_then(|rule| rule.source.as_ref());
    let sources = ask.decision_reason_rule_source.iter().chain(matched);
    let theirs = sources.map(|source| source.as_str()).find(|source| *source != OUR_RULES)?;
    Some(format!("an ask rule of Claude Code covers it ({})", cut(theirs)))
}

/// Whether a call is a question that somebody can read and answer.
fn is_question(ask: &CanUseTool) -> bool {
    let input = serde_json::from_str(ask.input.get());
    input.is_ok_and(|input| question::read(ask.tool_name.as_str(), &input).is_some())
}

/// The CLI's words, as far as they are shown in a reason.
fn cut(words: &str) -> String {
    words.chars().take(MAX_REASON_CHARS).collect()
}

/// Refuses a request that we do not serve.
pub(super) fn unserved(request_id: String, subtype: &str) -> Step {
    let words = format!("this supervisor does not serve {subtype}");
    let reply: OutLine = out(&control::answer_error(&request_id, &words));
    Step::Refused {
        request_id: Some(request_id),
        notice: format!("the agent asked for {subtype}, which is not served here"),
        reply,
    }
}

/// Refuses a request whose id is no string, because no record could carry it.
pub(super) fn unnamed(request_id: &RawJson) -> Step {
    Step::Refused {
        request_id: None,
        notice: "the agent asked without a request_id that is a string, and was refused".to_owned(),
        reply: out(&control::answer_unnamed(request_id, "request_id must be a string")),
    }
}

/// Reads a `control_response`: the echo of an answer of ours, or the answer to a request of ours.
pub(super) fn response(
    response: &ControlResponse,
    prompt: Option<Uuid>,
    subagents: &BTreeMap<String, String>,
) -> Vec<Step> {
    let request_id = response.request_id.as_str();
    if !request_id.starts_with(OUR_REQUEST) {
        let answer = match &response.outcome {
            ControlOutcome::Success(success) => {
                success.decision.as_ref().and_then(|decision| match decision {
                    EchoedDecision::Allow { updated_input } => {
                        Some(TakenAnswer::Allow { updated_input: updated_input.clone() })
                    }
                    EchoedDecision::Deny { .. } => Some(TakenAnswer::Deny),
                    // We never send such a decision.
                    _ => None,
                })
            }
            ControlOutcome::Error(_) | ControlOutcome::Other(_) => None,
        };
        return vec![Step::AnswerTaken { request_id: request_id.to_owned(), answer }];
    }
    let mut steps = Vec::new();
    match &response.outcome {
        ControlOutcome::Success(success) => {
            let prompt = prompt.map(|prompt| prompt.to_string());
            let queued = success.interrupt.still_queued.iter();
            if prompt.is_some_and(|prompt| queued.clone().any(|uuid| uuid.as_str() == prompt)) {
                steps.push(Step::InterruptedTooEarly);
            }
        }
        ControlOutcome::Error(error) => {
            steps.push(Step::OwnRequestFailed(error.as_str().to_owned()));
        }
        ControlOutcome::Other(_) => {}
    }
    if let Some(requests) = &response.pending_permission_requests {
        let asks = requests.iter().filter_map(|request| match &request.request {
            ControlRequestBody::CanUseTool(ask) => {
                Some(as_ask(request.request_id.as_str().to_owned(), ask, subagents))
            }
            _ => None,
        });
        steps.push(Step::StillOpen(asks.collect()));
    }
    steps
}
