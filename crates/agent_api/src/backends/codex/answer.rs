//! Answers to the server's questions: nobody is there to ask, so the answer is no.

use codex_app::{
    ClientLine, Decision, RequestId, ServerRequest,
    send::{ClientAnswer, ElicitationAnswer},
};
use serde_json::Map;

/// The refusal of a question, in the form that lets the turn go on.
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
