//! The state of one simulated process, shared by the loop that listens and the turn that plays.
//!
//! Everything runs on one thread, so cells are enough; no borrow is held across an `.await`.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::time::Instant;

use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::ask::Question;
use crate::background::Tasks;
use crate::cli::{Options, OutputFormat};
use crate::mcp::Servers;
use crate::message::Speech;
use crate::out::Out;
use crate::result::{Bill, Denial};
use crate::rules::Rules;
use crate::tools::BUILT_IN;
use crate::transcript::Transcript;
use crate::wire::{
    CommandLifecycle, DEFAULT_MODEL, Init, PermissionDecision, Replay, System, ToolResultMeta,
    User, UserMessage, VERSION, line_id, now,
};

/// One simulated CLI process.
pub(crate) struct Sim {
    pub(crate) options: Options,
    pub(crate) out: Out,
    pub(crate) cwd: PathBuf,
    pub(crate) session_id: String,
    pub(crate) transcript: RefCell<Transcript>,
    pub(crate) servers: Servers,
    pub(crate) rules: RefCell<Rules>,
    pub(crate) model: RefCell<String>,
    /// Prompts that wait for their turn.
    pub(crate) queue: RefCell<VecDeque<Prompt>>,
    /// Prompts that were taken, so that the same one again is not run again.
    pub(crate) known_prompts: RefCell<HashSet<String>>,
    /// Prompts that an earlier process of this conversation has run.
    pub(crate) earlier_prompts: HashSet<String>,
    /// Permission questions on the control channel that wait for an answer.
    pub(crate) questions: RefCell<Vec<Question>>,
    /// Other requests on the control channel that wait for an answer, by their id as JSON.
    pub(crate) requests: RefCell<HashMap<String, oneshot::Sender<Value>>>,
    pub(crate) tasks: Tasks,
    pub(crate) turn: RefCell<TurnState>,
    /// What this conversation has cost so far.
    pub(crate) bill: RefCell<Bill>,
    pub(crate) results: Cell<u64>,
    pub(crate) session_state: Cell<&'static str>,
    /// Nothing more comes on stdin.
    pub(crate) input_closed: Cell<bool>,
}

/// One prompt from the command line or from stdin.
#[derive(Debug, Clone)]
pub(crate) struct Prompt {
    pub(crate) text: String,
    /// The message as it came, for its echo.
    pub(crate) message: Value,
    /// The sender's id for it.
    pub(crate) uuid: Option<String>,
}

/// What is known of the turn that is being played; an interrupted turn is reported from here.
#[derive(Debug)]
pub(crate) struct TurnState {
    pub(crate) prompts: Vec<String>,
    /// The prompt that is still to be written back.
    pub(crate) unechoed: Option<Prompt>,
    /// Set until the first `assistant` line, which alone names its prompts.
    pub(crate) unnamed: bool,
    pub(crate) started: Instant,
    /// What this turn has cost so far.
    pub(crate) bill: Bill,
    pub(crate) user_lines: u64,
    pub(crate) denials: Vec<Denial>,
    /// What is being said word by word.
    pub(crate) speech: Option<Speech>,
    pub(crate) open_tools: Vec<OpenTool>,
    pub(crate) origin: Option<Value>,
    /// The id of the last `assistant` line.
    pub(crate) last_message: Option<String>,
    /// The id of a turn that began without a prompt, because a call is asked about again. Such a turn
    /// is reported like any other.
    pub(crate) woken: Option<String>,
}

/// A tool call without a result yet.
#[derive(Debug, Clone)]
pub(crate) struct OpenTool {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) input: Value,
    pub(crate) stage: ToolStage,
    /// Set once a command has run so long that the CLI has announced it.
    pub(crate) announced: Option<Value>,
    /// Who let it run, once it runs.
    pub(crate) accepted: Option<PermissionDecision>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ToolStage {
    Waiting,
    Asking,
    Running,
}

impl TurnState {
    pub(crate) fn new(prompts: Vec<String>, origin: Option<Value>) -> Self {
        Self {
            prompts,
            unechoed: None,
            unnamed: true,
            started: Instant::now(),
            bill: Bill::default(),
            user_lines: 0,
            denials: Vec::new(),
            speech: None,
            open_tools: Vec::new(),
            origin,
            last_message: None,
            woken: None,
        }
    }

    /// A call runs from now on, and who let it is known.
    pub(crate) fn begin_tool(&mut self, id: &str, accepted: PermissionDecision) {
        if let Some(tool) = self.open_tools.iter_mut().find(|tool| tool.id == id) {
            tool.stage = ToolStage::Running;
            tool.accepted = Some(accepted);
        }
    }

    pub(crate) fn set_stage(&mut self, id: &str, stage: ToolStage) {
        if let Some(tool) = self.open_tools.iter_mut().find(|tool| tool.id == id) {
            tool.stage = stage;
        }
    }
}

impl Sim {
    /// Writes a line of stream-json; the other output formats have none but the result.
    pub(crate) fn emit(&self, line: &impl Serialize) {
        if self.options.output == OutputFormat::StreamJson {
            self.out.line(line);
        }
    }

    pub(crate) fn emit_system(&self, subtype: &'static str, fields: impl Serialize) {
        self.emit(&System {
            r#type: "system",
            subtype,
            fields,
            uuid: line_id(),
            session_id: &self.session_id,
        });
    }

    pub(crate) fn emit_lifecycle(&self, command_uuid: &str, state: &'static str) {
        let session_id = &self.session_id;
        self.emit(&CommandLifecycle {
            r#type: "command_lifecycle",
            command_uuid,
            state,
            uuid: line_id(),
            session_id,
        });
    }

    /// Notes a change of state, and tells it where the environment asks for that. Saying `idle`
    /// again is told again.
    pub(crate) fn set_state(&self, state: &'static str) {
        self.session_state.set(state);
        if std::env::var("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS").is_ok_and(|value| value == "1") {
            self.emit_system("session_state_changed", json!({"state": state}));
        }
    }

    /// Opens a turn.
    pub(crate) async fn emit_init(&self, prompts: &[String]) {
        let permit_tool = self.options.permission_prompt_tool.as_deref();
        let mut tools: Vec<String> = BUILT_IN.iter().map(|tool| (*tool).to_owned()).collect();
        tools.extend(self.servers.tools().await);
        let rules = self.rules.borrow();
        // The permit tool is hidden from the model.
        tools.retain(|tool| Some(tool.as_str()) != permit_tool && rules.offers(tool));
        let cwd = self.cwd.to_string_lossy();
        self.emit(&Init {
            r#type: "system",
            subtype: "init",
            cwd: &cwd,
            session_id: &self.session_id,
            tools,
            mcp_servers: self.servers.status(),
            model: &self.model.borrow(),
            permission_mode: rules.mode(),
            slash_commands: ["clear", "compact", "context"],
            terminal_slash_commands: ["doctor"],
            api_key_source: if std::env::var_os("ANTHROPIC_API_KEY").is_some() {
                "ANTHROPIC_API_KEY"
            } else {
                "none"
            },
            claude_code_version: VERSION,
            output_style: "default",
            agents: ["general-purpose"],
            skills: [],
            plugins: [],
            capabilities: ["interrupt_receipt_v1", "msg_lifecycle_v1"],
            analytics_disabled: true,
            product_feedback_disabled: true,
            uuid: line_id(),
            memory_paths: json!({}),
            original_cwd: &cwd,
            additional_directories: &self.options.add_dirs,
            fast_mode_state: "off",
            fast_mode_disabled_reason: "sdk_opt_in_required",
            per_turn_effort_active: true,
            ultrathink_available: false,
            ultrathink_typed_raises: false,
            view_mode: "default",
            user_message_uuids: (!prompts.is_empty()).then(|| prompts.to_vec()),
        });
    }

    /// Writes the turn's prompt back, if that has not been done yet. The CLI does it when the model
    /// begins to answer.
    pub(crate) fn emit_echo(&self) {
        let prompt = self.turn.borrow_mut().unechoed.take();
        if let Some(prompt) = prompt {
            self.emit_replay(&prompt, Some(now()));
        }
    }

    /// Echoes a prompt, if the options ask for that. A prompt that was known and is not run again has
    /// no timestamp.
    pub(crate) fn emit_replay(&self, prompt: &Prompt, timestamp: Option<String>) {
        if self.options.replay_user_messages {
            let made_up = line_id().to_string();
            self.emit(&Replay {
                r#type: "user",
                message: &prompt.message,
                session_id: &self.session_id,
                parent_tool_use_id: None,
                uuid: prompt.uuid.as_deref().unwrap_or(&made_up),
                timestamp,
                is_replay: true,
            });
        }
    }

    /// Writes a `user` line of the current turn.
    pub(crate) fn emit_user(
        &self,
        content: Value,
        detail: Option<Value>,
        meta: Option<ToolResultMeta>,
    ) {
        self.turn.borrow_mut().user_lines += 1;
        self.note_result(&content);
        self.emit(&User {
            r#type: "user",
            message: UserMessage { role: "user", content },
            parent_tool_use_id: None,
            session_id: &self.session_id,
            uuid: line_id(),
            timestamp: now(),
            tool_use_result: detail,
            tool_result_meta: meta.map(|meta| [meta]),
        });
    }

    /// Lists a refused call in the turn's result.
    pub(crate) fn note_denial(&self, tool_name: &str, tool_use_id: &str, tool_input: &Value) {
        self.turn.borrow_mut().denials.push(Denial {
            tool_name: tool_name.to_owned(),
            tool_use_id: tool_use_id.to_owned(),
            tool_input: tool_input.clone(),
        });
    }
}

/// The model's name as it is shown: a short name stands for the default model.
pub(crate) fn model_name(asked: Option<&str>) -> String {
    match asked {
        None | Some("default" | "opus" | "sonnet" | "haiku") => DEFAULT_MODEL.to_owned(),
        Some(model) => model.to_owned(),
    }
}
