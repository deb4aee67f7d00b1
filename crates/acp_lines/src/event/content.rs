//! Texts, images and links, in messages and in the results of tools.

use agent_lines::json::{RawJson, Text};
use agent_lines::json_object;

json_object! {
    /// One block of content, by its `type`: `text`, `image`, `audio`, `resource_link`, `resource`.
    pub struct Content {
        /// Its type.
        content_type: Text = "type",
        /// The text of a `text`.
        text: Option<Text> = "text",
        /// The target of a `resource_link`.
        uri: Option<Text> = "uri",
        /// The name of a `resource_link`.
        name: Option<Text> = "name",
        /// The MIME type of an `image` or `audio`.
        mime_type: Option<Text> = "mimeType",
        /// An `image` or `audio` in base64.
        data: Option<Text> = "data",
        /// The contents of a `resource`.
        resource: Option<RawJson> = "resource",
    }

    /// A part of a message.
    pub struct Chunk {
        /// The part.
        content: Content = "content",
        /// The message that it belongs to, if the agent names one.
        message_id: Option<Text> = "messageId",
    }
}
