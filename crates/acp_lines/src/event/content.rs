//! Texts, pictures and links, in messages and in what tools bring.

use agent_lines::json::{RawJson, Text};
use agent_lines::json_object;

json_object! {
    /// One block of content, by its `type`: `text`, `image`, `audio`, `resource_link`, `resource`.
    pub struct Content {
        /// Its type.
        content_type: Text = "type",
        /// The text of a `text`.
        text: Option<Text> = "text",
        /// Where a `resource_link` leads.
        uri: Option<Text> = "uri",
        /// The name of a `resource_link`.
        name: Option<Text> = "name",
        /// What an `image` or `audio` is.
        mime_type: Option<Text> = "mimeType",
        /// An `image` or `audio` in base64.
        data: Option<Text> = "data",
        /// What a `resource` holds.
        resource: Option<RawJson> = "resource",
    }

    /// A part of a message.
    pub struct Chunk {
        /// The part.
        content: Content = "content",
        /// The message that it belongs to, where the agent says it.
        message_id: Option<Text> = "messageId",
    }
}
