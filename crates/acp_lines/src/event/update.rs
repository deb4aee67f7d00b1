//! The events of a session.

use agent_lines::json::{RawJson, Text, Value};
use agent_lines::json_object;
use agent_lines::rpc::{kept, lenient};

use super::answer::ConfigOption;
use super::content::Chunk;
use super::tool::ToolCall;

/// An update, by its `sessionUpdate`.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionUpdate {
    /// `user_message_chunk`: a part of a prompt, usually of an earlier one while a session is
    /// loaded.
    UserMessageChunk(Chunk),
    /// `agent_message_chunk`: a part of the model's message.
    AgentMessageChunk(Chunk),
    /// `agent_thought_chunk`: a part of the model's thinking.
    AgentThoughtChunk(Chunk),
    /// `tool_call`: a tool call begins.
    ToolCall(Box<ToolCall>),
    /// `tool_call_update`: a tool call changes. Some agents send it as the first line about a call.
    ToolCallUpdate(Box<ToolCall>),
    /// `plan`: the agent's complete plan.
    Plan(Plan),
    /// `available_commands_update`: the commands that a prompt can begin with, after `/`.
    AvailableCommands(RawJson),
    /// `current_mode_update`: the session's mode has changed.
    CurrentMode(CurrentMode),
    /// `config_option_update`: the session's options have changed.
    ConfigOptions(ConfigOptions),
    /// `session_info_update`: the session's title.
    SessionInfo(SessionInfo),
    /// `usage_update`: how full the model's context is, and what the session cost.
    Usage(UsageUpdate),
    /// `notice`: something that a person should know.
    Notice(RawJson),
    /// `compaction_update`, `compaction_summary_chunk`: the conversation is summarised.
    Compaction(RawJson),
    /// Any other kind.
    Unknown {
        /// Its `sessionUpdate`.
        kind: Text,
        /// The whole update.
        update: RawJson,
    },
}

json_object! {
    /// The agent's plan.
    pub struct Plan {
        /// The steps.
        entries: Vec<PlanEntry> = "entries",
    }

    /// One step of a plan.
    pub struct PlanEntry {
        /// The task of the step.
        content: Text = "content",
        /// `high`, `medium`, `low`.
        priority: Option<Text> = "priority",
        /// `pending`, `in_progress`, `completed`.
        status: Option<Text> = "status",
    }

    /// The new mode of a session.
    pub struct CurrentMode {
        /// The mode.
        current_mode_id: Text = "currentModeId",
    }

    /// The new options of a session.
    pub struct ConfigOptions {
        /// All of them.
        config_options: Vec<ConfigOption> = "configOptions",
    }

    /// A description of a session.
    pub struct SessionInfo {
        /// Its title.
        title: Option<Text> = "title",
        /// When the session last changed, in the agent's notation.
        updated_at: Option<Text> = "updatedAt",
    }

    /// How full the model's context is.
    pub struct UsageUpdate {
        /// Tokens in the context.
        used: u64 = "used",
        /// The size of the context in tokens.
        size: u64 = "size",
        /// The cost of the session so far.
        cost: Option<Cost> = "cost",
    }

    /// An amount of money.
    pub struct Cost {
        /// The number.
        amount: f64 = "amount",
        /// The currency.
        currency: Text = "currency",
    }
}

impl SessionUpdate {
    pub(super) fn read(update: Option<Value<'_>>) -> Self {
        fn call(update: Option<Value<'_>>) -> Box<ToolCall> {
            Box::new(lenient(update))
        }
        let kind = update.and_then(|update| update.get("sessionUpdate")).and_then(Value::text);
        let kind = kind.unwrap_or_default();
        match kind.as_str() {
            "user_message_chunk" => Self::UserMessageChunk(lenient(update)),
            "agent_message_chunk" => Self::AgentMessageChunk(lenient(update)),
            "agent_thought_chunk" => Self::AgentThoughtChunk(lenient(update)),
            "tool_call" => Self::ToolCall(call(update)),
            "tool_call_update" => Self::ToolCallUpdate(call(update)),
            "plan" => Self::Plan(lenient(update)),
            "available_commands_update" => Self::AvailableCommands(kept(update)),
            "current_mode_update" => Self::CurrentMode(lenient(update)),
            "config_option_update" => Self::ConfigOptions(lenient(update)),
            "session_info_update" => Self::SessionInfo(lenient(update)),
            "usage_update" => Self::Usage(lenient(update)),
            "notice" => Self::Notice(kept(update)),
            "compaction_update" | "compaction_summary_chunk" => Self::Compaction(kept(update)),
            _ => Self::Unknown { kind, update: kept(update) },
        }
    }
}
