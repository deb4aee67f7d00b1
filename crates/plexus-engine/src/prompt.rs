//! The prompt of a chat, read from its node, and its images.

use std::borrow::Cow;

use plexus_core::{Caller, SessionId};
use plexus_store::{NodeData, PromptImage, Store, StoreError};

/// What every prompt with images holds: the line that says that its first one is there.
const FIRST_IMAGE: &str = "\n[image 1: ";

/// What an agent is told.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Prompt {
    /// The text. It says which images there are.
    pub text: String,
    /// Its images.
    pub images: Vec<PromptImage>,
}

/// Returns what `by` tells an agent. Agents run a prompt that begins with a slash as a command of
/// theirs, and some commands go on by themselves. So what a session says is text: agents take a
/// command only at the very beginning, and there it has a space.
#[must_use]
pub fn told_by(by: Caller, text: &str) -> Cow<'_, str> {
    match by {
        Caller::Session(_) | Caller::Child(_) if text.starts_with('/') => {
            Cow::Owned(format!(" {text}"))
        }
        _ => Cow::Borrowed(text),
    }
}

/// Reads the prompt of a chat with its images.
///
/// # Errors
/// As [`prompt_text`].
pub async fn prompt_of(
    store: &dyn Store,
    session: SessionId,
    chat: u32,
) -> Result<Prompt, StoreError> {
    let text = prompt_text(store, session, chat).await?;
    // Most prompts have none, and need no second look.
    let images = match text.contains(FIRST_IMAGE) {
        true => store.chat_images(session, chat).await?,
        false => Vec::new(),
    };
    Ok(Prompt { text, images })
}

/// Reads the prompt of a chat.
///
/// # Errors
/// When it cannot be read, or its node holds no text.
pub async fn prompt_text(
    store: &dyn Store,
    session: SessionId,
    chat: u32,
) -> Result<String, StoreError> {
    let chat = store.chat(session, Some(chat)).await?;
    match store.node(chat.user_node).await?.data {
        NodeData::Text { content } => Ok(content),
        NodeData::Pruned {} | NodeData::External { .. } => {
            Err(StoreError::invalid("read a prompt: its node holds no text"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_of_a_session_begins_no_command() {
        let session = Caller::Session(SessionId::generate());
        for (by, text, told) in [
            (session, "/goal x", " /goal x"),
            (session, "see /goal", "see /goal"),
            (session, " /goal", " /goal"),
            (Caller::Operator, "/compact", "/compact"),
        ] {
            assert_eq!(told_by(by, text), told, "{by:?}");
        }
    }

    #[test]
    fn a_prompt_with_images_is_known_by_its_text() {
        let images = [PromptImage::new("image/png", "AAAA")];
        assert!(plexus_wire::prompt_with_images("see", &images).contains(FIRST_IMAGE));
    }
}
