//! The requests of the server. It waits for the answer, which [`crate::send`] builds.

use agent_lines::json::{RawJson, Text, Value};
use agent_lines::json_object;
use agent_lines::rpc::{kept, lenient};

/// A request of the server, by its method.
#[derive(Debug, Clone, PartialEq)]
pub enum ServerRequest {
    /// `item/commandExecution/requestApproval`: asks whether a command may run, or an input may be
    /// typed into it.
    CommandApproval(Box<CommandApproval>),
    /// `item/fileChange/requestApproval`: asks whether a patch may be applied.
    FileChangeApproval(FileChangeApproval),
    /// `item/permissions/requestApproval`: asks whether commands of this turn may do more.
    PermissionsApproval(PermissionsApproval),
    /// `mcpServer/elicitation/request`: asks whether a tool of an MCP server may run, or passes on
    /// a question of that server.
    Elicitation(Box<Elicitation>),
    /// `item/tool/requestUserInput`: the model asks the user.
    UserInput(UserInput),
    /// `item/tool/call`: asks the client to run one of its tools.
    ToolCall(RawJson),
    /// Any other method. The client must answer it, if only with an error, or the server waits.
    Unknown {
        /// The method.
        method: Text,
        /// Its parameters.
        params: RawJson,
    },
}

json_object! {
    /// The question whether a command may run, or whether an input may be typed into a running one.
    pub struct CommandApproval {
        /// `command`, `writeStdin` for an input to a running command, or `humanCommand` for a
        /// command that a person must look at. Later versions may have more, in any form.
        kind: Option<RawJson> = "kind",
        /// The thread.
        thread_id: Text = "threadId",
        /// The turn.
        turn_id: Text = "turnId",
        /// The item. It was announced just before, except for a `humanCommand`.
        item_id: Text = "itemId",
        /// The id of a further question about the same item.
        approval_id: Option<Text> = "approvalId",
        /// The whole command, in the shell's notation, including secrets. Exactly this command
        /// runs.
        command: Option<Text> = "command",
        /// Its working directory.
        cwd: Option<Text> = "cwd",
        /// The machine that it runs on; `local` is this one.
        environment_id: Option<RawJson> = "environmentId",
        /// What it may do beyond the sandbox.
        additional_permissions: Option<RawJson> = "additionalPermissions",
        /// The host that it would reach.
        network: Option<RawJson> = "networkApprovalContext",
        /// The reason, in the model's words; of a managed rule for a `humanCommand`.
        reason: Option<Text> = "reason",
        /// The answers that the server offers; `decline` works although it is not among them.
        available_decisions: Option<RawJson> = "availableDecisions",
    }

    /// The question whether a patch may be applied. The item of the same id holds its changes.
    pub struct FileChangeApproval {
        /// The thread.
        thread_id: Text = "threadId",
        /// The turn.
        turn_id: Text = "turnId",
        /// The item, which was announced just before and holds the changes.
        item_id: Text = "itemId",
        /// The reason, in the model's words.
        reason: Option<Text> = "reason",
        /// A directory that would become writable for the rest of the session.
        grant_root: Option<Text> = "grantRoot",
    }

    /// The question whether commands of this turn may do more than the sandbox permits.
    pub struct PermissionsApproval {
        /// The thread.
        thread_id: Text = "threadId",
        /// The turn.
        turn_id: Text = "turnId",
        /// The item.
        item_id: Text = "itemId",
        /// The working directory.
        cwd: Option<Text> = "cwd",
        /// The machine that the commands run on; `local` is this one.
        environment_id: Option<RawJson> = "environmentId",
        /// The reason, in the model's words.
        reason: Option<Text> = "reason",
        /// The permissions that are requested.
        permissions: RawJson = "permissions",
    }

    /// A question that concerns an MCP server: from Codex about one of its tools, or from the
    /// server itself.
    pub struct Elicitation {
        /// The thread.
        thread_id: Text = "threadId",
        /// The turn.
        turn_id: Option<Text> = "turnId",
        /// The name of the MCP server, as Codex knows it.
        server_name: Text = "serverName",
        /// `form`; the other modes ask for what text cannot answer (`url`, `openai/form`, …).
        mode: Option<Text> = "mode",
        /// The question.
        message: Text = "message",
        /// Further data. An MCP server can forge it in its own questions.
        meta: ElicitationMeta = "_meta",
        /// The schema of an accepted answer.
        requested_schema: Option<RawJson> = "requestedSchema",
    }

    /// What Codex says about the call that it asks about.
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
        /// The id of the question; the answer carries it.
        id: Text = "id",
        /// A short title.
        header: Option<Text> = "header",
        /// The question.
        question: Text = "question",
        /// Whether an answer outside the options is possible.
        is_other: bool = "isOther",
        /// Whether the answer is a secret.
        is_secret: bool = "isSecret",
        /// The possible answers.
        options: Vec<QuestionOption> = "options",
    }

    /// One possible answer.
    pub struct QuestionOption {
        /// The answer.
        label: Text = "label",
        /// Its meaning.
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
