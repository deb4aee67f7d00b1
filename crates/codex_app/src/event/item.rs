//! What happens in a turn: messages, commands, file changes, calls of tools.

use agent_lines::json::{FromJson, RawJson, Text, Value};
use agent_lines::json_object;

/// One thing that happens in a turn, told when it starts and again, whole, when it is completed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Item {
    /// Names it. For models with direct tools it is the model's own id of the call and need not be
    /// unique.
    pub id: Text,
    /// What it is.
    pub body: ItemBody,
    raw: RawJson,
}

/// The kinds of item, by their `type`.
#[derive(Debug, Clone, PartialEq)]
pub enum ItemBody {
    /// `userMessage`: a prompt; the echo of one of ours.
    UserMessage(UserMessage),
    /// `agentMessage`: a text of the model.
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
    /// `subAgentActivity`: what a subagent does.
    SubAgentActivity(RawJson),
    /// `sleep`, `enteredReviewMode`, `exitedReviewMode`: known, and nothing of them is typed.
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

    /// A text of the model.
    pub struct AgentMessage {
        /// The text; empty when the item starts.
        text: Text = "text",
        /// `commentary` or `final_answer`, where the model says it.
        phase: Option<Text> = "phase",
    }

    /// A command.
    pub struct CommandExecution {
        /// The command, in the shell's spelling; secrets in it are replaced, unlike in the request.
        command: Text = "command",
        /// Where it runs.
        cwd: Option<Text> = "cwd",
        /// How far it has come.
        status: ToolStatus = "status",
        /// Set once it runs; at the start only of one that nobody was asked about.
        process_id: Option<Text> = "processId",
        /// `agent`, `unifiedExecStartup`, `userShell`, …
        source: Option<Text> = "source",
        /// Its output, cut in the middle to about 1 MiB.
        aggregated_output: Option<Text> = "aggregatedOutput",
        /// How it exited; -1 for a shell that could not start.
        exit_code: Option<i64> = "exitCode",
        /// How long it took.
        duration_ms: Option<u64> = "durationMs",
    }

    /// A patch.
    pub struct FileChange {
        /// The files, sorted by path.
        changes: Vec<Change> = "changes",
        /// How far it has come.
        status: ToolStatus = "status",
    }

    /// What a patch does with one file.
    pub struct Change {
        /// The file, by its absolute path.
        path: Text = "path",
        /// `add`, `delete` or `update`, as an object with a `type`.
        kind: ChangeKind = "kind",
        /// The whole content of an added or deleted file, a unified diff of an updated one.
        diff: Text = "diff",
    }

    /// What is done with a file.
    pub struct ChangeKind {
        /// `add`, `delete` or `update`.
        kind_type: Text = "type",
        /// Where an updated file moves to.
        move_path: Option<Text> = "move_path",
    }

    /// A call of a tool of an MCP server.
    pub struct McpToolCall {
        /// The server.
        server: Text = "server",
        /// The tool.
        tool: Text = "tool",
        /// How far it has come.
        status: ToolStatus = "status",
        /// Its arguments.
        arguments: Option<RawJson> = "arguments",
        /// What came back.
        result: Option<RawJson> = "result",
        /// Why nothing came back.
        error: Option<RawJson> = "error",
        /// Whether the server calls it read-only.
        read_only_hint: Option<bool> = "readOnlyHint",
    }

    /// A call of another tool.
    pub struct ToolCall {
        /// The tool.
        tool: Text = "tool",
        /// How far it has come.
        status: ToolStatus = "status",
        /// Its arguments.
        arguments: Option<RawJson> = "arguments",
    }
}

/// How far a call has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolStatus {
    /// It was announced, and runs or waits for an answer.
    InProgress,
    /// It ran, and says that it worked.
    Completed,
    /// It ran and failed, or did not run because an answer was none.
    Failed,
    /// It did not run because it was refused.
    Declined,
    /// Something else, or nothing was said.
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
