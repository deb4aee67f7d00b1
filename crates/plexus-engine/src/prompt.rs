//! The prompt of a chat, read from its node.

use plexus_core::SessionId;
use plexus_store::{NodeData, Store, StoreError};

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
