//! Tool calls. Agents report one call in several lines, each with a part of it.

use agent_lines::json::{RawJson, Text};
use agent_lines::json_object;

use super::content::Content;
use crate::words::{ToolKind, ToolStatus};

json_object! {
    /// The part of a call that one line reports. Fields that a line leaves out are unchanged.
    pub struct ToolCall {
        /// The id of the call.
        tool_call_id: Text = "toolCallId",
        /// The name of the tool; few agents send it here.
        name: Option<Text> = "name",
        /// The title that is shown to a person. The model may have written it, so it is no
        /// evidence.
        title: Option<Text> = "title",
        /// What kind of tool it is.
        kind: Option<ToolKind> = "kind",
        /// The status of the call.
        status: Option<ToolStatus> = "status",
        /// The visible output: text, changes of files.
        content: Option<Vec<ToolContent>> = "content",
        /// The files that it works on.
        locations: Option<Vec<Location>> = "locations",
        /// The arguments as the model wrote them; complete in some agents, empty in others.
        raw_input: Option<RawJson> = "rawInput",
        /// The result of the tool.
        raw_output: Option<RawJson> = "rawOutput",
        /// Extensions of particular agents.
        meta: ToolMeta = "_meta",
    }

    /// One part of a call's visible output, by its `type`: `content`, `diff`, `terminal`.
    pub struct ToolContent {
        /// Its type.
        content_type: Text = "type",
        /// The block of a `content`.
        content: Option<Content> = "content",
        /// The file of a `diff`.
        path: Option<Text> = "path",
        /// The old text of the file, or of a part of it; `None` for a new file.
        old_text: Option<Text> = "oldText",
        /// The new text of the file, or of a part of it.
        new_text: Option<Text> = "newText",
        /// The terminal of a `terminal`.
        terminal_id: Option<Text> = "terminalId",
    }

    /// A file, and a line in it.
    pub struct Location {
        /// The file.
        path: Text = "path",
        /// The line.
        line: Option<u64> = "line",
    }

    /// Fields that particular agents add to a call.
    pub struct ToolMeta {
        /// The fields of claude-agent-acp.
        claude_code: ClaudeMeta = "claudeCode",
        /// The fields of Goose.
        goose: GooseMeta = "goose",
    }

    /// The fields that claude-agent-acp adds.
    pub struct ClaudeMeta {
        /// The tool.
        tool_name: Option<Text> = "toolName",
    }

    /// The fields that Goose adds.
    pub struct GooseMeta {
        /// The call.
        tool_call: GooseCall = "toolCall",
    }

    /// The fields that Goose adds to a call.
    pub struct GooseCall {
        /// The tool.
        tool_name: Option<Text> = "toolName",
    }
}

impl ToolCall {
    /// Returns the name of the tool, if the agent sends it in a field of its own. A title is not a
    /// name: agents put commands and paths there.
    pub fn tool_name(&self) -> Option<&str> {
        let meta = &self.meta;
        let name = self.name.as_ref().or(meta.claude_code.tool_name.as_ref());
        name.or(meta.goose.tool_call.tool_name.as_ref()).map(|name| &**name)
    }

    /// Adds the fields of a later line about the same call.
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
