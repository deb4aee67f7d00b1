//! The answers to our requests.

use agent_lines::json::{RawJson, Text};
use agent_lines::json_object;
pub use agent_lines::rpc::{Answer, Outcome, RpcError};

use super::thread::Thread;

json_object! {
    /// The answer to `initialize`.
    pub struct Initialized {
        /// The server's name for itself, which contains its version.
        user_agent: Text = "userAgent",
        /// The directory of its settings, login and transcripts.
        codex_home: Option<Text> = "codexHome",
    }

    /// The answer to `thread/start`, `thread/resume` and `thread/fork`.
    pub struct ThreadOpened {
        /// The thread.
        thread: Thread = "thread",
        /// The model that is used.
        model: Option<Text> = "model",
        /// The working directory.
        cwd: Option<Text> = "cwd",
        /// When the server asks for approval: `untrusted`, `on-request`, `never` or an object.
        approval_policy: Option<RawJson> = "approvalPolicy",
        /// Who answers the approvals: `user` is the client of this protocol.
        approvals_reviewer: Option<Text> = "approvalsReviewer",
        /// What a command may do, as an object with a `type`.
        sandbox: Option<RawJson> = "sandbox",
        /// The instruction files that apply.
        instruction_sources: Vec<RawJson> = "instructionSources",
    }

    /// The answer to `thread/list`.
    pub struct ThreadPage {
        /// The threads of this page.
        data: Vec<Thread> = "data",
        /// The cursor of the next page.
        next_cursor: Option<Text> = "nextCursor",
    }

    /// The answer to `account/read`.
    pub struct AccountState {
        /// The login; `None` when nobody is logged in.
        account: Option<Account> = "account",
        /// Whether the model's provider requires that login.
        requires_openai_auth: bool = "requiresOpenaiAuth",
    }

    /// A login.
    pub struct Account {
        /// `apiKey`, `chatgpt`, …
        account_type: Text = "type",
    }

    /// The answer to `turn/start` and `turn/steer`.
    pub struct TurnTaken {
        /// The turn of `turn/steer`.
        turn_id: Option<Text> = "turnId",
        /// The turn of `turn/start`.
        turn: Option<super::thread::Turn> = "turn",
    }
}
