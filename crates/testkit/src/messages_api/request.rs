//! The requests of the CLI, and the questions that tests ask about them.

use std::collections::BTreeMap;

use serde_json::Value;

use super::script::texts;

/// One request as it arrived.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The HTTP method.
    pub method: String,
    /// The path without the query.
    pub path: String,
    /// The headers by their lower-case names.
    pub headers: BTreeMap<String, String>,
    /// The body; `null` when there was none or it was not JSON.
    pub body: Value,
}

/// The result of a tool as the CLI sent it back to the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolResult {
    /// The tool use that it answers.
    pub tool_use_id: String,
    /// Its text; blocks are joined by line feeds.
    pub text: String,
    /// Whether it is marked as an error for the model.
    pub is_error: bool,
}

impl Recorded {
    /// Tells whether this is a turn of the conversation. Side requests, such as titles and
    /// summaries, offer no tools.
    #[must_use]
    pub fn is_main(&self) -> bool {
        self.path == "/v1/messages"
            && self.body["tools"].as_array().is_some_and(|tools| !tools.is_empty())
    }

    /// Returns the model that was requested.
    #[must_use]
    pub fn model(&self) -> &str {
        self.body["model"].as_str().unwrap_or_default()
    }

    /// Returns the messages of the conversation.
    #[must_use]
    pub fn messages(&self) -> &[Value] {
        self.body["messages"].as_array().map_or(&[], Vec::as_slice)
    }

    /// Returns the names of the tools that were offered to the model.
    #[must_use]
    pub fn tool_names(&self) -> Vec<&str> {
        self.body["tools"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|tool| tool["name"].as_str())
            .collect()
    }

    /// Returns the newest text of the user; empty when there is none.
    #[must_use]
    pub fn last_user_text(&self) -> &str {
        let users = self.messages().iter().rev().filter(|message| message["role"] == "user");
        users.flat_map(|message| texts(message).into_iter().rev()).next().unwrap_or_default()
    }

    /// Returns every text that the model received in this conversation, oldest first: from the
    /// user, and from the CLI, which passes on a message sent in the middle of a turn with the role
    /// `system`.
    #[must_use]
    pub fn texts_to_model(&self) -> Vec<&str> {
        self.messages()
            .iter()
            .filter(|message| message["role"] != "assistant")
            .flat_map(texts)
            .collect()
    }

    /// Returns every result of a tool in this conversation, oldest first.
    #[must_use]
    pub fn tool_results(&self) -> Vec<ToolResult> {
        let blocks =
            self.messages().iter().filter_map(|message| message["content"].as_array()).flatten();
        blocks
            .filter(|block| block["type"] == "tool_result")
            .map(|block| ToolResult {
                tool_use_id: block["tool_use_id"].as_str().unwrap_or_default().to_owned(),
                text: content_text(&block["content"]),
                is_error: block["is_error"].as_bool().unwrap_or(false),
            })
            .collect()
    }
}

fn content_text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            blocks.iter().filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}
