//! The answer to a request of ours.

use agent_lines::json::{FromJson, RawJson, Text, Value};
use agent_lines::json_object;

use super::thread::Thread;
use crate::RequestId;

/// An answer; its id says to which request.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The request.
    pub id: RequestId,
    /// How it went.
    pub outcome: Outcome,
}

/// How a request went.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It was done. The `result` is whole; [`Outcome::read`] types it.
    Result(RawJson),
    /// It was refused.
    Error(RpcError),
}

json_object! {
    /// A refusal.
    pub struct RpcError {
        /// What kind: -32600 for a method that is not known, -32602 for wrong parameters.
        code: i64 = "code",
        /// The same in the server's words.
        message: Text = "message",
        /// More about it.
        data: Option<RawJson> = "data",
    }

    /// The answer to `initialize`.
    pub struct Initialized {
        /// The server's name for itself, which holds its version.
        user_agent: Text = "userAgent",
        /// Where it keeps its settings, login and transcripts.
        codex_home: Option<Text> = "codexHome",
    }

    /// The answer to `thread/start`, `thread/resume` and `thread/fork`.
    pub struct ThreadOpened {
        /// The thread.
        thread: Thread = "thread",
        /// The model that is used.
        model: Option<Text> = "model",
        /// Where it works.
        cwd: Option<Text> = "cwd",
        /// When it asks: `untrusted`, `on-request`, `never` or an object.
        approval_policy: Option<RawJson> = "approvalPolicy",
        /// Who answers: `user` is whoever speaks this protocol.
        approvals_reviewer: Option<Text> = "approvalsReviewer",
        /// What a command may do, as an object with a `type`.
        sandbox: Option<RawJson> = "sandbox",
        /// Instruction files that count.
        instruction_sources: Vec<RawJson> = "instructionSources",
    }

    /// The answer to `thread/list`.
    pub struct ThreadPage {
        /// The threads of this page.
        data: Vec<Thread> = "data",
        /// Where the next page begins.
        next_cursor: Option<Text> = "nextCursor",
    }

    /// The answer to `account/read`.
    pub struct AccountState {
        /// The login; none when nobody is logged in.
        account: Option<Account> = "account",
        /// Whether the model's provider wants that login.
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

impl Answer {
    pub(super) fn read(id: RequestId, line: Value<'_>) -> Result<Self, &'static str> {
        let outcome = match (line.get("error"), line.get("result")) {
            (Some(error), None) => {
                Outcome::Error(RpcError::from_json(error).ok_or("an `error` that is no object")?)
            }
            (None, Some(result)) => Outcome::Result(result.raw()),
            (Some(_), Some(_)) => return Err("both a `result` and an `error`"),
            (None, None) => return Err("an `id` with neither `method`, `result` nor `error`"),
        };
        Ok(Self { id, outcome })
    }
}

impl Outcome {
    /// Reads the result as `T`; none for a refusal or a result of another form.
    pub fn read<T: FromJson>(&self) -> Option<T> {
        match self {
            Self::Result(result) => agent_lines::json::LineReader::new()
                .read_str(result.get(), |value, _| T::from_json(value))
                .ok()
                .flatten()
                .flatten(),
            Self::Error(_) => None,
        }
    }
}
