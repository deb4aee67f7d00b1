//! The items of a turn: messages, commands, file changes, tool calls.

use agent_lines::json::{FromJson, RawJson, Text, Value};
use agent_lines::json_object;

/// One item of a turn. It is reported when it starts and again, complete, when it is completed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Item {
    /// The id of the item. For models with direct tools it is the model's own id of the call, and
    /// need not be unique.
    pub id: Text,
    /// The typed contents of the item.
    pub body: ItemBody,
    raw: RawJson,
}

/// The kinds of item, by their `type`.
#[derive(Debug, Clone, PartialEq)]
pub enum ItemBody {
    /// `userMessage`: a prompt, or the echo of one of ours.
    UserMessage(UserMessage),
    /// `agentMessage`: a message of the model.
    AgentMessage(AgentMessage),
    /// `reasoning`: the model thinks.
    Reasoning(RawJson),
    /// `plan`: a plan of the model.
    Plan(RawJson),
    /// `commandExecution`: a command.
    CommandExecution(Box<CommandExecution>),
    /// `fileChange`: a patch.
    FileChange(FileChange),
    /// `mcpToolCall`: a tool of an MCP server.
    McpToolCall(Box<McpToolCall>),
    /// `dynamicToolCall`: a tool of the client.
    DynamicToolCall(ToolCall),
    /// `collabAgentToolCall`: a tool that starts or steers subagents.
    CollabAgentToolCall(ToolCall),
    /// `webSearch`.
    WebSearch(RawJson),
    /// `imageView`: the model looks at an image file.
    ImageView(RawJson),
    /// `contextCompaction`: the conversation is summarised.
    ContextCompaction,
    /// `subAgentActivity`: the activity of a subagent.
    SubAgentActivity(RawJson),
    /// `sleep`, `enteredReviewMode`, `exitedReviewMode`: known types, whose fields are not typed.
    Untyped {
        /// Its `type`.
        item_type: Text,
    },
    /// Any other type.
    Unknown {
        /// Its `type`.
        item_type: Text,
    },
}

json_object! {
    /// A prompt.
    pub struct UserMessage {
        /// The `clientUserMessageId` that it was sent with.
        client_id: Option<Text> = "clientId",
        /// Its parts.
        content: Vec<RawJson> = "content",
    }

    /// A message of the model.
    pub struct AgentMessage {
        /// The text; empty when the item starts.
        text: Text = "text",
        /// `commentary` or `final_answer`, if the model sends it.
        phase: Option<Text> = "phase",
    }

    /// A command.
    pub struct CommandExecution {
        /// The command, in the shell's notation. Secrets in it are masked, unlike in the request.
        command: Text = "command",
        /// Its working directory.
        cwd: Option<Text> = "cwd",
        /// The status of the command.
        status: ToolStatus = "status",
        /// Set once the command runs; already set at its start only if it needed no approval.
        process_id: Option<Text> = "processId",
        /// `agent`, `unifiedExecStartup`, `userShell`, …
        source: Option<Text> = "source",
        /// Its output, cut in the middle to about 1 MiB.
        aggregated_output: Option<Text> = "aggregatedOutput",
        /// Its exit code; -1 if the shell could not start.
        exit_code: Option<i64> = "exitCode",
        /// How long it took.
        duration_ms: Option<u64> = "durationMs",
    }

    /// A patch.
    pub struct FileChange {
        /// The files, sorted by path.
        changes: Vec<Change> = "changes",
        /// The status of the patch.
        status: ToolStatus = "status",
    }

    /// The change of one file in a patch.
    pub struct Change {
        /// The file, by its absolute path.
        path: Text = "path",
        /// `add`, `delete` or `update`, as an object with a `type`.
        kind: ChangeKind = "kind",
        /// The whole content of an added or deleted file, or a unified diff of an updated one.
        diff: Text = "diff",
    }

    /// The kind of change.
    pub struct ChangeKind {
        /// `add`, `delete` or `update`.
        kind_type: Text = "type",
        /// The new path of an updated file that is moved.
        move_path: Option<Text> = "move_path",
    }

    /// A call of an MCP server's tool.
    pub struct McpToolCall {
        /// The server.
        server: Text = "server",
        /// The tool.
        tool: Text = "tool",
        /// The status of the call.
        status: ToolStatus = "status",
        /// Its arguments.
        arguments: Option<RawJson> = "arguments",
        /// The result.
        result: Option<RawJson> = "result",
        /// The error, if there is no result.
        error: Option<RawJson> = "error",
        /// Whether the MCP server declares it read-only.
        read_only_hint: Option<bool> = "readOnlyHint",
    }

    /// A call of another tool.
    pub struct ToolCall {
        /// The tool.
        tool: Text = "tool",
        /// The status of the call.
        status: ToolStatus = "status",
        /// Its arguments.
        arguments: Option<RawJson> = "arguments",
    }
}

/// The status of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolStatus {
    /// The call was announced, and runs or waits for approval.
    InProgress,
    /// The call ran, and reports success.
    Completed,
    /// The call ran and failed, or it did not run because the answer to its question was not valid.
    Failed,
    /// The call did not run because it was refused.
    Declined,
    /// Another status, or none.
    #[default]
    Unknown,
}

impl FromJson for ToolStatus {
    fn from_json(value: Value<'_>) -> Option<Self> {
        Some(match &*value.as_str()? {
            "inProgress" => Self::InProgress,
            "completed" => Self::Completed,
            "failed" => Self::Failed,
            "declined" => Self::Declined,
            _ => Self::Unknown,
        })
    }
}

impl Default for ItemBody {
    fn default() -> Self {
        Self::Unknown { item_type: Text::default() }
    }
}

impl Item {
    /// Returns the item's JSON as it was written.
    pub fn raw(&self) -> &RawJson {
        &self.raw
    }
}

impl FromJson for Item {
    fn from_json(value: Value<'_>) -> Option<Self> {
        fn typed<T: FromJson + Default>(value: Value<'_>) -> T {
            T::from_json(value).unwrap_or_default()
        }
        let id = value.get("id").and_then(Value::text)?;
        let item_type = value.get("type").and_then(Value::text)?;
        let body = match item_type.as_str() {
            "userMessage" => ItemBody::UserMessage(typed(value)),
            "agentMessage" => ItemBody::AgentMessage(typed(value)),
            "reasoning" => ItemBody::Reasoning(value.raw()),
            "plan" => ItemBody::Plan(value.raw()),
            "commandExecution" => ItemBody::CommandExecution(Box::new(typed(value))),
            "fileChange" => ItemBody::FileChange(typed(value)),
            "mcpToolCall" => ItemBody::McpToolCall(Box::new(typed(value))),
            "dynamicToolCall" => ItemBody::DynamicToolCall(typed(value)),
            "collabAgentToolCall" => ItemBody::CollabAgentToolCall(typed(value)),
            "webSearch" => ItemBody::WebSearch(value.raw()),
            "imageView" => ItemBody::ImageView(value.raw()),
            "contextCompaction" => ItemBody::ContextCompaction,
            "subAgentActivity" => ItemBody::SubAgentActivity(value.raw()),
            "sleep" | "enteredReviewMode" | "exitedReviewMode" => ItemBody::Untyped { item_type },
            _ => ItemBody::Unknown { item_type },
        };
        Some(Self { id, body, raw: value.raw() })
    }
}
