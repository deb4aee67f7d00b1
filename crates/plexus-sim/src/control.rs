//! The control channel: prompts, answers and requests as JSON lines on stdin.

use serde_json::{Value, json};

use crate::answer::{self, Answer, Answerer};
use crate::result::Ending;
use crate::sim::{Prompt, Sim, model_name};
use crate::wire::{ControlResponse, Initialized, VERSION, control_error, control_success, now};

/// What the loop must do about a line of stdin.
#[derive(Debug)]
pub(crate) enum Order {
    /// Nothing: the line has been handled.
    Done,
    /// Ends the current turn, then answers the request.
    Interrupt { request_id: String },
    /// The line cannot be understood, and the CLI exits.
    Die { reason: String },
}

impl Sim {
    /// Handles one line of stdin.
    pub(crate) fn take_line(&self, line: &[u8]) -> Order {
        if line.trim_ascii().is_empty() {
            return Order::Done;
        }
        let message: Value = match serde_json::from_slice(line) {
            Ok(message @ Value::Object(_)) => message,
            Ok(_) => return Order::Die { reason: "not a JSON object".to_owned() },
            Err(error) => return Order::Die { reason: error.to_string() },
        };
        match message.get("type").and_then(Value::as_str) {
            Some("user") => self.take_prompt(&message),
            Some("control_response") => self.take_answer(&message, line),
            Some("control_request") => return self.take_request(&message),
            // `keep_alive`, and anything that a newer supervisor may send.
            _ => {}
        }
        Order::Done
    }

    fn take_prompt(&self, message: &Value) {
        let body = message.get("message").cloned().unwrap_or(Value::Null);
        let text = match body.get("content") {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(blocks)) => {
                let texts =
                    blocks.iter().filter_map(|block| block.get("text").and_then(Value::as_str));
                texts.collect::<Vec<_>>().join("\n")
            }
            _ => String::new(),
        };
        let uuid = message.get("uuid").and_then(Value::as_str).map(str::to_owned);
        let prompt = Prompt { text, message: body, uuid };
        if let Some(uuid) = &prompt.uuid
            && !self.known_prompts.borrow_mut().insert(uuid.clone())
        {
            // A repeated prompt is acknowledged, but does not run again.
            self.emit_replay(&prompt, None);
            return;
        }
        if let Some(uuid) = prompt.uuid.as_ref().filter(|uuid| self.earlier_prompts.contains(*uuid))
        {
            // An earlier process of this conversation has run it.
            self.emit_replay(&prompt, None);
            self.emit_lifecycle(uuid, "completed");
            if self.session_state.get() == "idle" {
                self.set_state("idle");
            }
            return;
        }
        if self.session_state.get() == "idle" {
            self.set_state("running");
        }
        if let Some(uuid) = &prompt.uuid {
            self.emit_lifecycle(uuid, "queued");
        }
        self.queue.borrow_mut().push_back(prompt);
    }

    /// Takes an answer to one of our questions. Any other is ignored, and not echoed.
    fn take_answer(&self, message: &Value, line: &[u8]) {
        let Some(response) = message.get("response") else { return };
        let id = response.get("request_id").unwrap_or(&Value::Null);
        let request = self.requests.borrow_mut().remove(&id.to_string());
        if let Some(request) = request {
            // A turn that was interrupted meanwhile no longer waits for the answer.
            let _ = request.send(response.clone());
            return;
        }
        let Some(id) = id.as_str() else { return };
        let question = {
            let mut questions = self.questions.borrow_mut();
            let Some(position) = questions.iter().position(|question| question.request_id == id)
            else {
                return;
            };
            questions.remove(position)
        };
        let is_error = response.get("subtype").and_then(Value::as_str) == Some("error");
        if self.options.replay_user_messages && !is_error {
            self.out.raw(line.trim_ascii().to_vec());
        }
        // The state follows the latest change, even if another question is still open.
        self.set_state("running");
        question.give(if is_error {
            let error = response.get("error").and_then(Value::as_str).unwrap_or("unknown error");
            Answer::Unusable { message: format!("Tool permission request failed: Error: {error}") }
        } else {
            answer::parse(
                response.get("response").unwrap_or(&Value::Null),
                Answerer::ControlChannel,
            )
        });
    }

    fn take_request(&self, message: &Value) -> Order {
        let text = |key: &str| {
            message.get("request").and_then(|request| request.get(key)).and_then(Value::as_str)
        };
        let request_id = message.get("request_id").and_then(Value::as_str).unwrap_or_default();
        let success = |response: Value| self.emit(&control_success(request_id, response));
        let error = |error: String| self.emit(&control_error(request_id, error, None));
        match text("subtype").unwrap_or_default() {
            "initialize" => {
                self.emit(&self.initialized(request_id));
                self.emit_tasks();
            }
            "interrupt" => return Order::Interrupt { request_id: request_id.to_owned() },
            "set_model" => {
                let model = model_name(text("model"));
                self.model.borrow_mut().clone_from(&model);
                let note =
                    format!("<local-command-stdout>Set model to `{model}`</local-command-stdout>");
                let message = json!({"role": "user", "content": note});
                self.emit_replay(&Prompt { text: note, message, uuid: None }, Some(now()));
                success(json!({"model": model}));
            }
            "set_permission_mode" => match text("mode") {
                Some(mode @ ("default" | "acceptEdits" | "plan" | "dontAsk" | "auto")) => {
                    self.rules.borrow_mut().set_mode(mode);
                    success(json!({"mode": mode}));
                    self.emit_system("status", json!({"status": null, "permissionMode": mode}));
                }
                mode => {
                    error(format!("Cannot set permission mode to {}", mode.unwrap_or("nothing")))
                }
            },
            "mcp_status" => {
                let servers: Vec<Value> = self
                    .servers
                    .status()
                    .iter()
                    .map(|server| json!({"name": server.name, "status": server.status}))
                    .collect();
                success(json!({"mcpServers": servers}));
            }
            "stop_task" => match self.stop_task(text("task_id").unwrap_or_default()) {
                Ok(()) => {
                    success(json!({}));
                    if self.session_state.get() == "idle" {
                        self.set_state("idle");
                    }
                }
                Err(reason) => error(reason),
            },
            "cancel_async_message" => {
                let uuid = text("message_uuid").or_else(|| text("uuid")).unwrap_or_default();
                success(json!({"cancelled": self.cancel_queued(uuid)}));
            }
            "set_max_thinking_tokens" | "apply_flag_settings" => success(json!({})),
            other => {
                let reason = format!("Unsupported control request subtype: {other}");
                self.emit(&control_error(request_id, reason, Some("unsupported_request")));
            }
        }
        Order::Done
    }

    fn cancel_queued(&self, uuid: &str) -> bool {
        let mut queue = self.queue.borrow_mut();
        let before = queue.len();
        queue.retain(|prompt| prompt.uuid.as_deref() != Some(uuid));
        let cancelled = queue.len() < before;
        drop(queue);
        if cancelled {
            self.emit_lifecycle(uuid, "cancelled");
        }
        cancelled
    }

    /// Ends the current turn, if there is one, and reports the queued prompts. Returns how the turn
    /// ended.
    pub(crate) fn interrupt(&self, request_id: &str, turn_runs: bool) -> Option<Ending> {
        self.cancel_questions();
        let queue = self.queue.borrow();
        let still_queued: Vec<&String> =
            queue.iter().filter_map(|prompt| prompt.uuid.as_ref()).collect();
        self.emit(&control_success(request_id, json!({"still_queued": still_queued})));
        turn_runs.then(|| self.abort_turn())
    }

    /// Writes the lines that the CLI writes about a turn stopped from outside.
    pub(crate) fn abort_turn(&self) -> Ending {
        self.emit_echo();
        let speech = self.turn.borrow_mut().speech.take();
        if self.turn.borrow().open_tools.is_empty() {
            if let Some(speech) = &speech {
                speech.abort(self);
            }
            self.emit_interrupted("[Request interrupted by user]");
            if let Some(speech) = speech {
                speech.close(self);
            }
            Ending::InterruptedSpeech
        } else {
            self.reject_open_tools();
            Ending::InterruptedTools
        }
    }

    /// Returns the answer to `initialize`: a description of this process, and its open questions.
    fn initialized<'a>(&self, request_id: &'a str) -> ControlResponse<Initialized<'a>> {
        let pending: Vec<Value> = self
            .questions
            .borrow()
            .iter()
            .map(|question| {
                json!({"type": "control_request", "request_id": question.request_id, "request": question.request})
            })
            .collect();
        let model = self.model.borrow();
        let response = json!({
            "commands": [{"name": "compact", "description": "Summarises the conversation", "argumentHint": "", "builtin": true}],
            "agents": [{"name": "general-purpose", "description": "Does anything"}],
            "output_style": "default",
            "available_output_styles": ["default"],
            "models": [{
                "value": "default", "resolvedModel": *model, "displayName": "Default (recommended)",
                "description": "The simulator has one model", "supportsEffort": false,
            }],
            "account": {"tokenSource": "none", "apiKeySource": "none", "apiProvider": "firstParty"},
            "pid": std::process::id(),
            "claude_code_version": VERSION,
            "current_permission_mode": self.rules.borrow().mode(),
            "analytics_disabled": true,
            "fast_mode_state": "off",
            "fast_mode_disabled_reason": "sdk_opt_in_required",
            "session_state": self.session_state.get(),
            "capabilities": ["interrupt_receipt_v1", "msg_lifecycle_v1"],
        });
        ControlResponse {
            r#type: "control_response",
            response: Initialized {
                subtype: "success",
                request_id,
                response,
                pending_permission_requests: pending,
                pending_user_dialog_requests: [],
            },
        }
    }
}
