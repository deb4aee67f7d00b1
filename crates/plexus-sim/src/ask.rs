//! Asking for permission, on whichever channel the command line names.

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use crate::answer::{self, Answer};
use crate::mcp::CallError;
use crate::question;
use crate::rules::AskedBecause;
use crate::script::{Manners, RequestId};
use crate::sim::Sim;
use crate::wire::{CanUseTool, ControlCancelRequest, ControlRequest, line_id};

/// `--permission-prompt-tool stdio` means the control channel.
const CONTROL_CHANNEL: &str = "stdio";

/// A permission question that waits for its answer on the control channel.
pub(crate) struct Question {
    pub(crate) request_id: String,
    pub(crate) request: CanUseTool,
    answer: oneshot::Sender<Answer>,
}

impl Question {
    pub(crate) fn give(self, answer: Answer) {
        // A turn that was interrupted meanwhile no longer waits for the answer.
        let _ = self.answer.send(answer);
    }
}

/// A tool call with everything that a question needs.
#[derive(Debug)]
pub(crate) struct ToolCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) raw_input: Box<RawValue>,
    pub(crate) input: Value,
    pub(crate) manners: Manners,
    /// The pending answer, for a call that was asked about while its message was still being
    /// written.
    pub(crate) early_answer: Option<oneshot::Receiver<Answer>>,
}

impl Sim {
    /// Tells whether questions go to stdout and answers come on stdin.
    pub(crate) fn asks_on_stdio(&self) -> bool {
        self.options.stream_input
            && self.options.permission_prompt_tool.as_deref() == Some(CONTROL_CHANNEL)
    }

    /// Waits for an answer; `None` when nobody could be asked at all.
    pub(crate) async fn ask(&self, call: &mut ToolCall, because: AskedBecause) -> Option<Answer> {
        let tool = self.options.permission_prompt_tool.as_deref()?;
        if tool != CONTROL_CHANNEL {
            return Some(self.ask_permit_tool(tool, call).await);
        }
        if !self.asks_on_stdio() {
            return Some(stream_closed());
        }
        let answer = match call.early_answer.take() {
            Some(answer) => answer,
            None => self.open_question(call, because),
        };
        // The question is dropped when nobody can answer any more.
        Some(answer.await.unwrap_or_else(|_| stream_closed()))
    }

    async fn ask_permit_tool(&self, tool: &str, call: &ToolCall) -> Answer {
        let mut arguments = Map::new();
        arguments.insert("tool_name".to_owned(), json!(call.name));
        arguments.insert(
            "input".to_owned(),
            question::completed_input(call, &self.cwd).unwrap_or(call.input.clone()),
        );
        arguments.insert("tool_use_id".to_owned(), json!(call.id));
        match self.servers.call(tool, arguments, &call.id).await {
            Ok(result) => answer::parse_tool_result(&result),
            Err(CallError::NoSuchTool { available }) => Answer::NobodyToAsk {
                error: format!(
                    "Error: MCP tool {tool} (passed via --permission-prompt-tool) not found. \
                     Available MCP tools: {}",
                    if available.is_empty() { "none" } else { &available }
                ),
            },
            Err(CallError::Failed(error)) => Answer::Failed { error },
        }
    }

    /// Writes a question; its answer arrives through the receiver.
    pub(crate) fn open_question(
        &self,
        call: &ToolCall,
        because: AskedBecause,
    ) -> oneshot::Receiver<Answer> {
        let (answer, wait) = oneshot::channel();
        if self.input_closed.get() {
            // Dropping the sender tells the receiver that there is no answer.
            return wait;
        }
        let request_id = line_id().to_string();
        let request = question::can_use_tool(call, because, &self.cwd);
        self.set_state("requires_action");
        self.emit(&ControlRequest {
            r#type: "control_request",
            request_id: &request_id,
            request: &request,
        });
        self.questions.borrow_mut().push(Question { request_id, request, answer });
        wait
    }

    /// Sends another kind of request, and returns the raw answer. `None` when nobody can answer.
    pub(crate) async fn request(&self, subtype: &str, id: RequestId) -> Option<Value> {
        if self.input_closed.get() || !self.options.stream_input {
            return None;
        }
        let (answer, wait) = oneshot::channel();
        let id = match id {
            RequestId::Proper => Some(Value::from(line_id().to_string())),
            RequestId::As(id) => Some(id),
            RequestId::Missing => None,
        };
        let mut line = json!({"type": "control_request", "request": {"subtype": subtype}});
        if let (Some(id), Some(line)) = (&id, line.as_object_mut()) {
            line.insert("request_id".to_owned(), id.clone());
        }
        self.emit(&line);
        self.requests.borrow_mut().insert(id.unwrap_or_default().to_string(), answer);
        wait.await.ok()
    }

    /// Withdraws the question about one call.
    pub(crate) fn cancel_question(&self, tool_use_id: &str) {
        let mut questions = self.questions.borrow_mut();
        if let Some(position) =
            questions.iter().position(|question| question.request.tool_use_id == tool_use_id)
        {
            let request_id = questions.remove(position).request_id;
            drop(questions);
            self.emit(&ControlCancelRequest {
                r#type: "control_cancel_request",
                request_id: &request_id,
            });
            self.set_state("running");
        }
    }

    /// Withdraws every open question.
    pub(crate) fn cancel_questions(&self) {
        self.requests.take();
        for question in self.questions.take() {
            self.emit(&ControlCancelRequest {
                r#type: "control_cancel_request",
                request_id: &question.request_id,
            });
        }
    }

    /// Denies every open question because nobody can answer any more.
    pub(crate) fn close_questions(&self) {
        for question in self.questions.take() {
            self.set_state("running");
            question.give(stream_closed());
        }
        // Dropping the senders tells the receivers that there is no answer.
        self.requests.take();
    }
}

fn stream_closed() -> Answer {
    let message =
        "Tool permission request failed: AbortError: Tool permission stream closed before \
         response received"
            .to_owned();
    Answer::Unusable { message }
}
