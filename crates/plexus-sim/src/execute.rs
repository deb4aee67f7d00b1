//! Runs the tool calls of one message: they are judged by the rules, asked about where needed, then
//! really run.

use std::time::Duration;

use futures::future::join_all;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::ask::ToolCall;
use crate::diary;
use crate::last::Last;
use crate::mcp::CallError;
use crate::result::Ending;
use crate::rules::Ruling;
use crate::script::Manners;
use crate::sim::{OpenTool, Sim, ToolStage};
use crate::tools::{self, ToolOutput};
use crate::turn::{TurnEnd, result_block};
use crate::wire::{PermissionDecision, ToolResultMeta, line_id};

/// The text for the model about a call that was stopped before it ran.
const REJECTED: &str = "The user doesn't want to proceed with this tool use. The tool use was \
    rejected (eg. if it was a \
                        file edit, the new_string was NOT written to the file). STOP what you are \
                        doing and wait for \
                        the user to tell you how to proceed.";

/// The text for the model when nobody can be asked.
const NO_APPROVAL_SURFACE: &str = "Permission for this tool use was denied. It requires approval, \
    and this session has no \
                                   approval surface — nobody can answer a permission prompt here \
                                   — so it was denied \
                                   automatically. The action was NOT performed; do not claim that \
                                   it was.";

const BY_AN_ANSWER: PermissionDecision =
    PermissionDecision { decision: "accept", source: "user_temporary", reason_type: None };
const BY_A_HOOK: PermissionDecision =
    PermissionDecision { decision: "accept", source: "hook", reason_type: Some("hook") };
const REJECTED_BY_AN_ANSWER: PermissionDecision =
    PermissionDecision { decision: "reject", source: "user_reject", reason_type: None };
const REJECTED_UNASKED: PermissionDecision =
    PermissionDecision { decision: "reject", source: "config", reason_type: Some("asyncAgent") };
const REJECTED_FOR_WANT_OF_AN_ANSWER: PermissionDecision =
    PermissionDecision { decision: "reject", source: "config", reason_type: Some("other") };

/// How long a command runs before the CLI announces it as a task.
const ANNOUNCED_AFTER: Duration = Duration::from_secs(3);

/// How one call ended.
struct Executed {
    ran: bool,
    text: String,
    /// Set when the call ends the turn.
    end: Option<TurnEnd>,
}

impl Sim {
    /// Records a call of the message that is being written. The first call, and directly
    /// consecutive Reads, are asked about at once: the CLI does not wait for the end of the
    /// message.
    pub(crate) fn open_tool(&self, call: &mut ToolCall) {
        let mut turn = self.turn.borrow_mut();
        let at_once = turn.open_tools.iter().all(|open| open.name == "Read" && call.name == "Read");
        turn.open_tools.push(OpenTool {
            id: call.id.clone(),
            name: call.name.clone(),
            input: call.input.clone(),
            stage: ToolStage::Waiting,
            announced: None,
            accepted: None,
        });
        let ruling = self.rules.borrow().judge(&call.name, &call.input);
        if let Ruling::Asks(because) = ruling
            && at_once
            && call.manners != Manners::Lies
            && self.asks_on_stdio()
        {
            turn.set_stage(&call.id, ToolStage::Asking);
            drop(turn);
            call.early_answer = Some(self.open_question(call, because));
        }
    }

    /// Runs the calls of one message and writes their results: Reads in parallel, everything else
    /// one by one.
    pub(crate) async fn run_tools(&self, mut calls: Vec<ToolCall>) -> Result<Last, TurnEnd> {
        let mut last = Last::default();
        for group in calls.chunk_by_mut(|one, next| one.name == "Read" && next.name == "Read") {
            for executed in join_all(group.iter_mut().map(|call| self.run_tool(call))).await {
                if let Some(end) = executed.end {
                    return Err(end);
                }
                last = Last::of_text(&executed.text, last.all_ran && executed.ran);
            }
        }
        Ok(last)
    }

    async fn run_tool(&self, call: &mut ToolCall) -> Executed {
        match call.manners {
            Manners::Good => {}
            Manners::Overrules => {
                self.cancel_question(&call.id);
                return self.really_run(call, &call.input, BY_A_HOOK).await;
            }
            Manners::Lies => return self.really_run(call, &call.input, BY_AN_ANSWER).await,
        }
        let ruling = self.rules.borrow().judge(&call.name, &call.input);
        match ruling {
            Ruling::Runs(decision) => self.really_run(call, &call.input, decision).await,
            Ruling::NoSuchTool => {
                let name = &call.name;
                let error = format!(
                    "Error: No such tool available: {name}. {name} is disabled for this session, \
                     in subagents as well \
                     as here."
                );
                self.conclude(call, ToolOutput::use_error(&error), None, None)
            }
            Ruling::Refused { message, decision } => {
                self.note_denial(&call.name, &call.id, &call.input);
                self.conclude(
                    call,
                    ToolOutput::error(&message),
                    Some("permission-rule"),
                    Some(decision),
                )
            }
            Ruling::Asks(because) => {
                self.turn.borrow_mut().set_stage(&call.id, ToolStage::Asking);
                let answer = self.ask(call, because).await;
                self.obey(call, answer).await
            }
        }
    }

    async fn obey(&self, call: &ToolCall, answer: Option<Answer>) -> Executed {
        let Some(answer) = answer else { return self.refuse_unasked(call) };
        match answer {
            Answer::Allow { input, updates } => {
                self.rules.borrow_mut().update(&updates);
                self.really_run(call, input.as_ref().unwrap_or(&call.input), BY_AN_ANSWER).await
            }
            Answer::Deny { message } => {
                self.note_denial(&call.name, &call.id, &call.input);
                let decision = Some(REJECTED_BY_AN_ANSWER);
                self.conclude(call, ToolOutput::error(&message), Some("permission-rule"), decision)
            }
            Answer::Unusable { message } => {
                self.note_denial(&call.name, &call.id, &call.input);
                let decision = Some(REJECTED_FOR_WANT_OF_AN_ANSWER);
                self.conclude(call, ToolOutput::error(&message), Some("permission-rule"), decision)
            }
            Answer::Failed { error } => {
                let error = format!("Error calling tool ({}): {error}", call.name);
                self.conclude(call, ToolOutput::use_error(&error), None, None)
            }
            Answer::DenyAndInterrupt => {
                self.reject_open_tools();
                Executed {
                    ran: false,
                    text: String::new(),
                    end: Some(TurnEnd::Ended(Ending::InterruptedTools)),
                }
            }
            Answer::NobodyToAsk { error } => {
                let error = format!("Error calling tool ({}): {error}", call.name);
                let executed = self.conclude(call, ToolOutput::use_error(&error), None, None);
                Executed { end: Some(TurnEnd::Exit(1)), ..executed }
            }
        }
    }

    fn refuse_unasked(&self, call: &ToolCall) -> Executed {
        self.emit_system(
            "permission_denied",
            json!({
                "tool_name": call.name, "tool_use_id": call.id, "decision_reason_type": "asyncAgent",
                "decision_reason": "no approval surface in this session; permission request \
                    denied automatically",
                "message": NO_APPROVAL_SURFACE,
            }),
        );
        self.note_denial(&call.name, &call.id, &call.input);
        let output = ToolOutput::error(NO_APPROVAL_SURFACE);
        self.conclude(call, output, Some("permission-rule"), Some(REJECTED_UNASKED))
    }

    async fn really_run(
        &self,
        call: &ToolCall,
        input: &Value,
        decision: PermissionDecision,
    ) -> Executed {
        plexus_fault::point!("sim.tool.before");
        self.turn.borrow_mut().begin_tool(&call.id, decision);
        diary::note(&call.id, &call.name, input, decision.source);
        let output = match call.name.as_str() {
            "Bash" if input.get("run_in_background") == Some(&Value::Bool(true)) => {
                self.start_task(&call.id, input)
            }
            "Bash" => self.run_bash(&call.id, input).await,
            "Read" | "Write" | "Edit" => tools::file(&call.name, input, &self.cwd),
            name if name.starts_with("mcp__") => {
                let arguments = input.as_object().cloned().unwrap_or_default();
                match self.servers.call(name, arguments, &call.id).await {
                    Ok(result) => tools::mcp_output(&result),
                    Err(CallError::Failed(error)) => ToolOutput::error(&error),
                    Err(CallError::NoSuchTool { .. }) => {
                        ToolOutput::use_error(&format!("Error: No such tool available: {name}"))
                    }
                }
            }
            name => ToolOutput::use_error(&format!(
                "Error: the simulator does not play the tool {name}"
            )),
        };
        plexus_fault::point!("sim.tool.after");
        let ran = output.is_error != Some(true);
        Executed { ran, ..self.conclude(call, output, None, Some(decision)) }
    }

    /// Runs a command, and announces it as a task when it takes long.
    async fn run_bash(&self, id: &str, input: &Value) -> ToolOutput {
        let mut command = std::pin::pin!(tools::bash(input, &self.cwd));
        if let Ok(output) = tokio::time::timeout(ANNOUNCED_AFTER, &mut command).await {
            return output;
        }
        let task = json!({
            "task_id": format!("b{}", &line_id().simple().to_string()[..8]),
            "run_id": line_id().simple().to_string()[..18],
            "tool_use_id": id,
            "description": input.get("description").or_else(|| input.get("command")),
        });
        let mut started = task.clone();
        started["is_backgrounded"] = json!(false);
        started["task_type"] = json!("local_bash");
        self.emit_system("task_started", started);
        if let Some(tool) = self.turn.borrow_mut().open_tools.iter_mut().find(|tool| tool.id == id)
        {
            tool.announced = Some(task.clone());
        }
        let output = command.await;
        self.emit_announced_end(task, "completed");
        output
    }

    /// Reports that a command announced as a task has ended.
    pub(crate) fn emit_announced_end(&self, mut task: Value, status: &str) {
        let summary = task["description"].take();
        if let Some(fields) = task.as_object_mut() {
            fields.remove("description");
        }
        task["status"] = json!(status);
        task["output_file"] = json!("");
        task["summary"] = summary;
        self.emit_system("task_notification", task);
    }

    /// Writes a call's result.
    fn conclude(
        &self,
        call: &ToolCall,
        output: ToolOutput,
        non_execution_kind: Option<&'static str>,
        permission_decision: Option<PermissionDecision>,
    ) -> Executed {
        self.turn.borrow_mut().open_tools.retain(|tool| tool.id != call.id);
        let text = output.text();
        // A call without a decision has no metadata about one.
        let meta = permission_decision.map(|decision| ToolResultMeta {
            id: call.id.clone(),
            non_execution_kind,
            permission_decision: Some(decision),
        });
        self.emit_user(
            result_block(&call.id, output.content, output.is_error),
            Some(output.detail),
            meta,
        );
        Executed { ran: false, text, end: None }
    }

    /// Writes the results of calls that an interrupt stopped, and a note about the interrupt.
    pub(crate) fn reject_open_tools(&self) {
        let open = std::mem::take(&mut self.turn.borrow_mut().open_tools);
        for tool in open {
            if let Some(task) = tool.announced {
                self.emit_announced_end(task, "stopped");
            }
            // A running tool was allowed; only an unanswered question counts as a denial.
            if tool.stage == ToolStage::Asking {
                self.note_denial(&tool.name, &tool.id, &tool.input);
            }
            let meta = ToolResultMeta {
                id: tool.id.clone(),
                non_execution_kind: Some("user-rejected"),
                permission_decision: None,
            };
            let block = result_block(&tool.id, json!(REJECTED), Some(true));
            self.emit_user(block, Some(json!("User rejected tool use")), Some(meta));
        }
        self.emit_interrupted("[Request interrupted by user for tool use]");
    }

    /// Writes the note that the turn was interrupted.
    pub(crate) fn emit_interrupted(&self, note: &str) {
        self.emit_user(json!([{"type": "text", "text": note}]), None, None);
    }
}
