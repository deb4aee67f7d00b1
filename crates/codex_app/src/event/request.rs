//! What the server asks. It waits for the answer; [`crate::send`] builds it.

use agent_lines::json::{RawJson, Text, Value};
use agent_lines::json_object;
use agent_lines::rpc::{kept, lenient};

/// A question of the server, by its method.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerRequest {
    /// `item/commandExecution/requestApproval`: may this command run, may this be typed into it?
    CommandApproval(Box<CommandApproval>),
    /// `item/fileChange/requestApproval`: may this patch be applied?
    FileChangeApproval(FileChangeApproval),
    /// `item/permissions/requestApproval`: may commands of this turn do more?
    PermissionsApproval(PermissionsApproval),
    /// `mcpServer/elicitation/request`: may a tool of an MCP server run, or a question of its own.
    Elicitation(Box<Elicitation>),
    /// `item/tool/requestUserInput`: the model asks the user.
    UserInput(UserInput),
    /// `item/tool/call`: a tool of the client is to run.
    ToolCall(RawJson),
    /// Any other method. It must be answered, with an error if need be, or the server waits.
    Unknown {
        /// The method.
        method: Text,
        /// Its parameters.
        params: RawJson,
    },
}

json_object! {
    /// A question whether a command may run, or whether something may be typed into one that runs.
    pub struct CommandApproval {
        /// `command`, or `writeStdin` for something typed into a command that runs.
        kind: Option<Text> = "kind",
        /// The thread.
        thread_id: Text = "threadId",
        /// The turn.
        turn_id: Text = "turnId",
        /// The item, which was announced just before.
        item_id: Text = "itemId",
        /// Names a further question about the same item.
        approval_id: Option<Text> = "approvalId",
        /// The whole command, in the shell's spelling, with its secrets: what runs is bound to it.
        command: Option<Text> = "command",
        /// Where it runs.
        cwd: Option<Text> = "cwd",
        /// Why, in the model's words.
        reason: Option<Text> = "reason",
        /// What the server offers as answers; `decline` works though it is not in there.
        available_decisions: Option<RawJson> = "availableDecisions",
    }

    /// A question whether a patch may be applied. What it does is in the item of the same id.
    pub struct FileChangeApproval {
        /// The thread.
        thread_id: Text = "threadId",
        /// The turn.
        turn_id: Text = "turnId",
        /// The item, which was announced just before and holds the changes.
        item_id: Text = "itemId",
        /// Why, in the model's words.
        reason: Option<Text> = "reason",
        /// A directory that would be writable for the rest of the session.
        grant_root: Option<Text> = "grantRoot",
    }

    /// A question whether commands of this turn may do more than the sandbox lets them.
    pub struct PermissionsApproval {
        /// The thread.
        thread_id: Text = "threadId",
        /// The turn.
        turn_id: Text = "turnId",
        /// The item.
        item_id: Text = "itemId",
        /// Where.
        cwd: Option<Text> = "cwd",
        /// Why, in the model's words.
        reason: Option<Text> = "reason",
        /// What is wanted.
        permissions: RawJson = "permissions",
    }

    /// A question that goes through an MCP server: of Codex about its tool, or of the server's own.
    pub struct Elicitation {
        /// The thread.
        thread_id: Text = "threadId",
        /// The turn.
        turn_id: Option<Text> = "turnId",
        /// The server, in Codex's words.
        server_name: Text = "serverName",
        /// `form`, …
        mode: Option<Text> = "mode",
        /// What is asked.
        message: Text = "message",
        /// More about it. A server can forge its own.
        meta: ElicitationMeta = "_meta",
        /// What an accepted answer has to hold.
        requested_schema: Option<RawJson> = "requestedSchema",
    }

    /// What Codex says about a call that it asks for.
    pub struct ElicitationMeta {
        /// `mcp_tool_call` for a question of Codex.
        approval_kind: Option<Text> = "codex_approval_kind",
        /// The arguments of the call.
        tool_params: Option<RawJson> = "tool_params",
    }

    /// Questions of the model to the user.
    pub struct UserInput {
        /// The thread.
        thread_id: Text = "threadId",
        /// The turn.
        turn_id: Text = "turnId",
        /// The item.
        item_id: Text = "itemId",
        /// The questions.
        questions: Vec<Question> = "questions",
    }

    /// One question of the model.
    pub struct Question {
        /// Names it; the answer carries it.
        id: Text = "id",
        /// A word for it.
        header: Option<Text> = "header",
        /// The question.
        question: Text = "question",
        /// Whether something else than the options may be answered.
        is_other: bool = "isOther",
        /// Whether the answer is a secret.
        is_secret: bool = "isSecret",
        /// What may be answered.
        options: Vec<QuestionOption> = "options",
    }

    /// One possible answer.
    pub struct QuestionOption {
        /// The answer.
        label: Text = "label",
        /// What it means.
        description: Option<Text> = "description",
    }
}

impl ServerRequest {
    pub(super) fn read(method: Text, params: Option<Value<'_>>) -> Self {
        match method.as_str() {
            "item/commandExecution/requestApproval" => {
                Self::CommandApproval(Box::new(lenient(params)))
            }
            "item/fileChange/requestApproval" => Self::FileChangeApproval(lenient(params)),
            "item/permissions/requestApproval" => Self::PermissionsApproval(lenient(params)),
            "mcpServer/elicitation/request" => Self::Elicitation(Box::new(lenient(params))),
            "item/tool/requestUserInput" => Self::UserInput(lenient(params)),
            "item/tool/call" => Self::ToolCall(kept(params)),
            _ => Self::Unknown { method, params: kept(params) },
        }
    }
}
