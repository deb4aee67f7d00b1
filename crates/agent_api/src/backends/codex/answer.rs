//! Answers the server's questions with no, because nobody is there to ask.

use codex_app::{
    ClientLine, Decision, RequestId, ServerRequest,
    send::{ClientAnswer, ElicitationAnswer},
};
use serde_json::Map;

/// Returns the refusal of a question, in the form that lets the turn continue.
pub(super) fn no(id: RequestId, request: &ServerRequest) -> ClientLine {
    match request {
        ServerRequest::CommandApproval(_) | ServerRequest::FileChangeApproval(_) => {
            ClientLine::decide(id, Decision::Decline)
        }
        ServerRequest::PermissionsApproval(_) => {
            ClientLine::answer(id, ClientAnswer::Permissions(Map::new()))
        }
        ServerRequest::Elicitation(_) => {
            ClientLine::answer(id, ClientAnswer::Elicitation(ElicitationAnswer::Decline))
        }
        ServerRequest::UserInput(_)
        | ServerRequest::ToolCall(_)
        | ServerRequest::Unknown { .. } => ClientLine::refuse(id, "nobody is there to answer"),
    }
}
