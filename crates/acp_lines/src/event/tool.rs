//! Calls of tools. Agents tell of one call in several lines, each with a part of it.

use agent_lines::json::{RawJson, Text};
use agent_lines::json_object;

use super::content::Content;
use crate::words::{ToolKind, ToolStatus};

json_object! {
    /// What one line tells of a call. What a line leaves out stays as it was.
    pub struct ToolCall {
        /// Names the call.
        tool_call_id: Text = "toolCallId",
        /// The tool; few agents say it here.
        name: Option<Text> = "name",
        /// What is shown to a person. It may be written by the model, and is no evidence.
        title: Option<Text> = "title",
        /// What kind of thing the tool does.
        kind: Option<ToolKind> = "kind",
        /// How far it has come.
        status: Option<ToolStatus> = "status",
        /// What it shows: text, changes of files.
        content: Option<Vec<ToolContent>> = "content",
        /// The files that it works on.
        locations: Option<Vec<Location>> = "locations",
        /// The arguments as the model wrote them; whole in some agents, empty in others.
        raw_input: Option<RawJson> = "rawInput",
        /// What the tool brought.
        raw_output: Option<RawJson> = "rawOutput",
        /// More about it.
        meta: ToolMeta = "_meta",
    }

    /// One part of what a call shows, by its `type`: `content`, `diff`, `terminal`.
    pub struct ToolContent {
        /// Its type.
        content_type: Text = "type",
        /// The block of a `content`.
        content: Option<Content> = "content",
        /// The file of a `diff`.
        path: Option<Text> = "path",
        /// What the file held, or the part of it; none for a new file.
        old_text: Option<Text> = "oldText",
        /// What the file is to hold, or the part of it.
        new_text: Option<Text> = "newText",
        /// The terminal of a `terminal`.
        terminal_id: Option<Text> = "terminalId",
    }

    /// A file, and a line of it.
    pub struct Location {
        /// The file.
        path: Text = "path",
        /// The line.
        line: Option<u64> = "line",
    }

    /// What agents add to a call.
    pub struct ToolMeta {
        /// What claude-agent-acp adds.
        claude_code: ClaudeMeta = "claudeCode",
        /// What Goose adds.
        goose: GooseMeta = "goose",
    }

    /// What claude-agent-acp adds.
    pub struct ClaudeMeta {
        /// The tool.
        tool_name: Option<Text> = "toolName",
    }

    /// What Goose adds.
    pub struct GooseMeta {
        /// The call.
        tool_call: GooseCall = "toolCall",
    }

    /// What Goose adds to a call.
    pub struct GooseCall {
        /// The tool.
        tool_name: Option<Text> = "toolName",
    }
}

impl ToolCall {
    /// Returns the name of the tool, where the agent says it in a field of its own. A title is no
    /// name: agents put commands and paths there.
    pub fn tool_name(&self) -> Option<&str> {
        let meta = &self.meta;
        let name = self.name.as_ref().or(meta.claude_code.tool_name.as_ref());
        name.or(meta.goose.tool_call.tool_name.as_ref()).map(|name| &**name)
    }

    /// Adds what a later line tells of the same call.
    pub fn merge(&mut self, later: &Self) {
        fn take<T: Clone>(field: &mut Option<T>, later: &Option<T>) {
            if later.is_some() {
                field.clone_from(later);
            }
        }
        take(&mut self.name, &later.name);
        take(&mut self.title, &later.title);
        take(&mut self.kind, &later.kind);
        take(&mut self.status, &later.status);
        take(&mut self.content, &later.content);
        take(&mut self.locations, &later.locations);
        take(&mut self.raw_input, &later.raw_input);
        take(&mut self.raw_output, &later.raw_output);
        take(&mut self.meta.claude_code.tool_name, &later.meta.claude_code.tool_name);
        take(&mut self.meta.goose.tool_call.tool_name, &later.meta.goose.tool_call.tool_name);
    }
}
