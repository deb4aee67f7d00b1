//! The notifications of the server.

use agent_lines::json::{RawJson, Text, Value};
use agent_lines::json_object;
use agent_lines::rpc::{kept, lenient};

use super::item::{Item, ItemBody};
use super::thread::{Thread, ThreadSettings, ThreadStatus, TokenUsage, Turn, TurnError};
use crate::RequestId;

/// A notification, by its method. The thread and the turn that it is about are beside it, in
/// [`ServerLine`](super::ServerLine).
#[derive(Debug, Clone, PartialEq)]
pub enum Notification {
    /// `thread/started`.
    ThreadStarted(ThreadNote),
    /// `thread/status/changed`.
    ThreadStatusChanged(StatusNote),
    /// `thread/settings/updated`: the settings have changed.
    ThreadSettingsUpdated(SettingsNote),
    /// `thread/tokenUsage/updated`.
    TokenUsageUpdated(UsageNote),
    /// `turn/started`.
    TurnStarted(TurnNote),
    /// `turn/completed`: the turn is over, however it ended.
    TurnCompleted(TurnNote),
    /// `item/started`.
    ItemStarted(ItemNote),
    /// `item/completed`.
    ItemCompleted(ItemNote),
    /// `item/agentMessage/delta`: a part of a message while it is written.
    AgentMessageDelta(Delta),
    /// `item/reasoning/summaryTextDelta`, `item/reasoning/textDelta`: a part of the reasoning.
    ReasoningDelta(Delta),
    /// `item/plan/delta`: a part of a plan.
    PlanDelta(Delta),
    /// `item/commandExecution/outputDelta`, `item/fileChange/outputDelta`: a part of an output.
    OutputDelta(Delta),
    /// `item/commandExecution/terminalInteraction`: something was typed into a running command.
    TerminalInteraction(Interaction),
    /// `serverRequest/resolved`: a question no longer needs an answer, whether or not it got one.
    RequestResolved(Resolved),
    /// `error`: the model's service failed. The server retries, or the turn fails.
    Error(ErrorNote),
    /// `warning`, `configWarning`, `guardianWarning`, `deprecationNotice`.
    Notice(Notice),
    /// `mcpServer/startupStatus/updated`.
    McpServerStatus(McpServerStatus),
    /// `hook/started`, `hook/completed`.
    Hook {
        /// The method.
        method: Text,
        /// The hook.
        run: HookRun,
    },
    /// `item/autoApprovalReview/started` and `/completed`: somebody other than us answers a
    /// question.
    ApprovalReview {
        /// The method.
        method: Text,
        /// Its parameters.
        params: RawJson,
    },
    /// A known method whose parameters are not typed.
    Untyped {
        /// The method.
        method: Text,
        /// Its parameters.
        params: RawJson,
    },
    /// Any other method.
    Unknown {
        /// The method.
        method: Text,
        /// Its parameters.
        params: RawJson,
    },
}

/// Methods of the tested version that a supervisor does not need.
const UNTYPED: [&str; 36] = [
    "account/rateLimits/updated",
    "account/updated",
    "app/list/updated",
    "autoApprovalReview/strictReviewRequired",
    "fs/changed",
    "fuzzyFileSearch/sessionCompleted",
    "fuzzyFileSearch/sessionUpdated",
    "item/fileChange/patchUpdated",
    "item/mcpToolCall/progress",
    "item/reasoning/summaryPartAdded",
    "mcpServer/oauthLogin/completed",
    "model/rerouted",
    "model/safetyBuffering/updated",
    "model/verification",
    "modelProvider/authRecoveryCompleted",
    "modelProvider/authRecoveryStarted",
    "rawResponse/completed",
    "rawResponseItem/completed",
    "remoteControl/status/changed",
    "skills/changed",
    "thread/archived",
    "thread/closed",
    "thread/compacted",
    "thread/deleted",
    "thread/environment/connected",
    "thread/environment/disconnected",
    "thread/goal/cleared",
    "thread/goal/updated",
    "thread/name/updated",
    "thread/readState/changed",
    "thread/reverted",
    "thread/section/changed",
    "thread/unarchived",
    "turn/diff/updated",
    "turn/moderationMetadata",
    "turn/plan/updated",
];

json_object! {
    /// A thread was started, resumed or forked.
    pub struct ThreadNote {
        /// The thread.
        thread: Thread = "thread",
    }

    /// A thread's status has changed.
    pub struct StatusNote {
        /// The new status.
        status: ThreadStatus = "status",
    }

    /// A thread's settings have changed.
    pub struct SettingsNote {
        /// All of them.
        settings: ThreadSettings = "threadSettings",
    }

    /// The token usage of a thread.
    pub struct UsageNote {
        /// The numbers.
        token_usage: TokenUsage = "tokenUsage",
    }

    /// A turn begins or has ended.
    pub struct TurnNote {
        /// The turn.
        turn: Turn = "turn",
    }

    /// An item begins or is complete.
    pub struct ItemNote {
        /// The item.
        item: Item = "item",
    }

    /// A part of a text; the item repeats the whole text when it is completed.
    pub struct Delta {
        /// The item.
        item_id: Text = "itemId",
        /// The part.
        delta: Text = "delta",
    }

    /// Something was typed into a running command.
    pub struct Interaction {
        /// The command.
        item_id: Text = "itemId",
        /// Its process.
        process_id: Option<Text> = "processId",
        /// The text that was typed.
        stdin: Text = "stdin",
    }

    /// A question no longer needs an answer.
    pub struct Resolved {
        /// The question.
        request_id: Option<RequestId> = "requestId",
    }

    /// The model's service failed.
    pub struct ErrorNote {
        /// The error.
        error: TurnError = "error",
        /// Whether the server retries; otherwise the turn fails.
        will_retry: bool = "willRetry",
    }

    /// Something that a person should know.
    pub struct Notice {
        /// The text of a warning.
        message: Option<Text> = "message",
        /// The text of a notice about settings or deprecation.
        summary: Option<Text> = "summary",
        /// Further details.
        details: Option<Text> = "details",
    }

    /// The startup status of an MCP server.
    pub struct McpServerStatus {
        /// The server.
        name: Text = "name",
        /// `starting`, `ready`, `failed`, …
        status: Text = "status",
        /// Why it failed.
        error: Option<Text> = "error",
    }

    /// A hook that runs or ran.
    pub struct HookRun {
        /// The hook.
        run: HookSummary = "run",
    }

    /// The event of a hook and its status.
    pub struct HookSummary {
        /// `permissionRequest`, `preToolUse`, …
        event_name: Option<Text> = "eventName",
        /// Its status.
        status: Option<Text> = "status",
    }
}

impl Notification {
    pub(super) fn read(method: Text, params: Option<Value<'_>>) -> Self {
        fn delta(params: Option<Value<'_>>) -> Delta {
            lenient(params)
        }
        match method.as_str() {
            "thread/started" => Self::ThreadStarted(lenient(params)),
            "thread/status/changed" => Self::ThreadStatusChanged(lenient(params)),
            "thread/settings/updated" => Self::ThreadSettingsUpdated(lenient(params)),
            "thread/tokenUsage/updated" => Self::TokenUsageUpdated(lenient(params)),
            "turn/started" => Self::TurnStarted(lenient(params)),
            "turn/completed" => Self::TurnCompleted(lenient(params)),
            "item/started" => Self::ItemStarted(lenient(params)),
            "item/completed" => Self::ItemCompleted(lenient(params)),
            "item/agentMessage/delta" => Self::AgentMessageDelta(delta(params)),
            "item/reasoning/summaryTextDelta" | "item/reasoning/textDelta" => {
                Self::ReasoningDelta(delta(params))
            }
            "item/plan/delta" => Self::PlanDelta(delta(params)),
            "item/commandExecution/outputDelta" | "item/fileChange/outputDelta" => {
                Self::OutputDelta(delta(params))
            }
            "item/commandExecution/terminalInteraction" => {
                Self::TerminalInteraction(lenient(params))
            }
            "serverRequest/resolved" => Self::RequestResolved(lenient(params)),
            "error" => Self::Error(lenient(params)),
            "warning" | "configWarning" | "guardianWarning" | "deprecationNotice" => {
                Self::Notice(lenient(params))
            }
            "mcpServer/startupStatus/updated" => Self::McpServerStatus(lenient(params)),
            "hook/started" | "hook/completed" => Self::Hook { method, run: lenient(params) },
            "item/autoApprovalReview/started" | "item/autoApprovalReview/completed" => {
                Self::ApprovalReview { method, params: kept(params) }
            }
            known if UNTYPED.contains(&known) => Self::Untyped { method, params: kept(params) },
            _ => Self::Unknown { method, params: kept(params) },
        }
    }

    /// Returns whether this crate does not know the method, or the type of the item.
    pub(super) fn is_unknown(&self) -> bool {
        match self {
            Self::Unknown { .. } => true,
            Self::ItemStarted(note) | Self::ItemCompleted(note) => {
                matches!(note.item.body, ItemBody::Unknown { .. })
            }
            _ => false,
        }
    }
}
