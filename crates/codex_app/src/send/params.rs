//! The parameters of our requests. What a struct does not name is kept in `extra` and written
//! again.

use agent_lines::rpc_params;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

rpc_params! {
    /// Begins the conversation with the server.
    pub struct Initialize {
        [
            /// Who speaks.
            client_info: ClientInfo,
        ]
        /// What the client wants and can do.
        capabilities: Value,
    }

    /// Who speaks; the server repeats it to the model's service.
    pub struct ClientInfo {
        [
            /// A name without spaces.
            name: String,
            /// A version.
            version: String,
        ]
        /// A name for people.
        title: String,
    }

    /// Begins a thread.
    pub struct ThreadStart {
        ..options: ThreadOptions = "What the thread may do, and with which model."
    }

    /// Goes on with a thread. Its options are kept with it, and are sent again all the same.
    pub struct ThreadResume {
        [
            /// The thread.
            thread_id: String,
        ]
        /// Whether the answer is to leave out the turns so far, which may be many.
        exclude_turns: bool,
        ..options: ThreadOptions = "What the thread may do, and with which model."
    }

    /// Copies a thread.
    pub struct ThreadFork {
        [
            /// The thread.
            thread_id: String,
        ]
        /// The last turn that the copy has; it must be over.
        last_turn_id: String,
        /// As in [`ThreadResume`].
        exclude_turns: bool,
        ..options: ThreadOptions = "What the thread may do, and with which model."
    }

    /// Lists the threads that are kept, the newest first.
    pub struct ThreadList {
        /// Only those that work exactly here.
        cwd: String,
        /// How many.
        limit: u32,
        /// Where the page begins.
        cursor: String,
        /// By which time: `created_at`, `updated_at`, …
        sort_key: String,
        /// Only those that were begun by these programs; all when empty.
        source_kinds: Vec<String>,
        /// Only those with these providers; all when empty.
        model_providers: Vec<String>,
    }

    /// Names a thread.
    pub struct ThreadRef {
        [
            /// The thread.
            thread_id: String,
        ]
    }

    /// Sends a prompt.
    pub struct TurnStart {
        [
            /// The thread.
            thread_id: String,
            /// The prompt.
            input: Vec<Input>,
        ]
        /// Comes back as `clientId` of the prompt's item.
        client_user_message_id: String,
    }

    /// Sends a prompt into a running turn.
    pub struct TurnSteer {
        [
            /// The thread.
            thread_id: String,
            /// The turn; another one is an error.
            expected_turn_id: String,
            /// The prompt.
            input: Vec<Input>,
        ]
        /// Comes back as `clientId` of the prompt's item.
        client_user_message_id: String,
    }

    /// Ends a turn.
    pub struct TurnInterrupt {
        [
            /// The thread.
            thread_id: String,
            /// The turn.
            turn_id: String,
        ]
    }

    /// Tells who is logged in.
    pub struct AccountRead {
        /// Whether the login is to be refreshed first.
        refresh_token: bool,
    }
}

/// What a thread may do, and with which model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadOptions {
    /// Where it works; an absolute path. With a writable sandbox the server trusts what lies
    /// there unless the command line says otherwise: see [`Launch`](crate::Launch).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// When it asks: `untrusted`, `on-request` or `never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_policy: Option<Value>,
    /// `read-only`, `workspace-write` or `danger-full-access`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// Who answers; `user` is whoever speaks this protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approvals_reviewer: Option<String>,
    /// Instructions of the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub developer_instructions: Option<String>,
    /// Settings that count for this thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<Map<String, Value>>,
}

/// One part of a prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Input(pub Value);

impl Input {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self(json!({ "type": "text", "text": text.into() }))
    }

    /// An image, as a `data:` URL.
    pub fn image(url: impl Into<String>) -> Self {
        Self(json!({ "type": "image", "url": url.into() }))
    }
}

impl Initialize {
    /// Introduces a client that takes the experimental parts of the protocol, which a supervisor
    /// needs: the list of commands that run on is one.
    pub fn new(name: &str, version: &str) -> Self {
        Self {
            client_info: ClientInfo {
                name: name.to_owned(),
                version: version.to_owned(),
                ..ClientInfo::default()
            },
            capabilities: Some(json!({ "experimentalApi": true })),
            extra: Map::new(),
        }
    }
}
