//! The parameters of a client's requests. What a struct does not name, `_meta` for one, is kept in
//! `extra` and written again.

use agent_lines::rpc_params;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::PROTOCOL_VERSION;

rpc_params! {
    /// Begins the conversation.
    pub struct Initialize {
        [
            /// The newest version that the client speaks.
            protocol_version: u64,
        ]
        /// What the client can do for the agent.
        client_capabilities: Value,
        /// Who speaks.
        client_info: ClientInfo,
    }

    /// Who speaks.
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

    /// Logs in.
    pub struct Authenticate {
        [
            /// One of the ways that the agent offers.
            method_id: String,
        ]
    }

    /// Begins a session.
    pub struct SessionNew {
        [
            /// Where it works: an absolute path that exists.
            cwd: String,
            /// The MCP servers that it may use.
            mcp_servers: Vec<Value>,
        ]
        /// More directories that it may work in, for agents that take them.
        additional_directories: Vec<String>,
    }

    /// Goes on with a session, or with a copy of one.
    pub struct SessionReopen {
        [
            /// The session.
            session_id: String,
            /// Where it works: an absolute path that exists.
            cwd: String,
        ]
        /// The MCP servers that it may use. Agents want the list even when it is empty.
        mcp_servers: Vec<Value>,
        /// More directories that it may work in, for agents that take them.
        additional_directories: Vec<String>,
    }

    /// Lists the sessions that are kept.
    pub struct SessionList {
        /// Only those that work exactly here.
        cwd: String,
        /// Where the page begins.
        cursor: String,
    }

    /// Names a session.
    pub struct SessionRef {
        [
            /// The session.
            session_id: String,
        ]
    }

    /// Sends a prompt.
    pub struct Prompt {
        [
            /// The session.
            session_id: String,
            /// The prompt.
            prompt: Vec<Block>,
        ]
    }

    /// Changes the mode of a session.
    pub struct SetMode {
        [
            /// The session.
            session_id: String,
            /// The mode.
            mode_id: String,
        ]
    }

    /// Changes an option of a session.
    pub struct SetConfigOption {
        [
            /// The session.
            session_id: String,
            /// The option.
            config_id: String,
            /// Its new value.
            value: Value,
        ]
    }

    /// Changes the model of a session.
    pub struct SetModel {
        [
            /// The session.
            session_id: String,
            /// The model.
            model_id: String,
        ]
    }
}

/// One block of content, in a prompt or in what an agent says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Block(pub Value);

impl Block {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self(json!({ "type": "text", "text": text.into() }))
    }

    /// An image, its bytes as base64, for agents that take them.
    pub fn image(mime_type: &str, data: &str) -> Self {
        Self(json!({ "type": "image", "mimeType": mime_type, "data": data }))
    }
}

impl Initialize {
    /// Introduces a client that offers nothing: the agent then reads, writes and runs by itself,
    /// and asks where it must.
    pub fn new(name: &str, version: &str) -> Self {
        let fs = json!({ "readTextFile": false, "writeTextFile": false });
        Self {
            protocol_version: PROTOCOL_VERSION,
            client_capabilities: Some(json!({ "fs": fs, "terminal": false })),
            client_info: Some(ClientInfo {
                name: name.to_owned(),
                version: version.to_owned(),
                ..ClientInfo::default()
            }),
            extra: Map::new(),
        }
    }
}
