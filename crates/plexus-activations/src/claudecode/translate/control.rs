//! Lines of the control channel: questions of the CLI, echoes of our answers, and answers to requests of our own.

use claude_code::event::control::{
    CanUseTool, ControlOutcome, ControlRequestBody, ControlResponse, EchoedDecision,
};

use super::{Answered, Ask, Echo, OUR_REQUEST, Step};

pub(super) fn as_ask(request_id: String, ask: &CanUseTool) -> Ask {
    Ask {
        request_id,
        tool_name: ask.tool_name.as_str().to_owned(),
        tool_use_id: ask.tool_use_id.as_ref().map_or_else(String::new, |id| id.as_str().to_owned()),
        input: ask.input.clone(),
        description: ask.description.as_ref().map(|text| text.as_str().to_owned()),
    }
}

pub(super) fn control_response(response: &ControlResponse) -> Step {
    let request_id = response.request_id.as_str().to_owned();
    if !request_id.starts_with(OUR_REQUEST) {
        let decision = match &response.outcome {
            ControlOutcome::Success(success) => {
                success.decision.as_ref().and_then(|decision| match decision {
                    EchoedDecision::Allow { updated_input } => {
                        Some(Echo::Allow { updated_input: updated_input.clone() })
                    }
                    EchoedDecision::Deny { .. } => Some(Echo::Deny),
                    // No decision of ours reads so.
                    _ => None,
                })
            }
            ControlOutcome::Error(_) | ControlOutcome::Other(_) => None,
        };
        return Step::Echoed { request_id, decision };
    }
    let open_requests = response.pending_permission_requests.as_ref().map(|requests| {
        let asks = requests.iter().filter_map(|request| match &request.request {
            ControlRequestBody::CanUseTool(ask) => {
                Some(as_ask(request.request_id.as_str().to_owned(), ask))
            }
            _ => None,
        });
        asks.collect()
    });
    let mut answered = Answered { open_requests, ..Answered::default() };
    match &response.outcome {
        ControlOutcome::Success(success) => {
            answered.still_queued = success
                .interrupt
                .still_queued
                .iter()
                .map(|uuid| uuid.as_str().to_owned())
                .collect();
        }
        ControlOutcome::Error(error) => answered.error = Some(error.as_str().to_owned()),
        ControlOutcome::Other(_) => {}
    }
    Step::Answered { request_id, outcome: Box::new(answered) }
}
