//! What was said, in a file of JSON lines: the conversation's id first, then a prompt and its
//! answer in turns. A turn is one write, so that a file never holds a prompt without its answer.

use std::io::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// A conversation.
pub(super) struct Conversation {
    /// Its id.
    pub(super) id: String,
    /// What was said, oldest first.
    pub(super) messages: Vec<Message>,
}

/// One message.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Message {
    pub(super) role: Role,
    pub(super) content: String,
}

/// Who said it, as both APIs name them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Role {
    User,
    Assistant,
}

#[derive(Serialize, Deserialize)]
struct Head {
    id: String,
}

impl Conversation {
    /// Begins a conversation in `file`, in place of one that was there.
    pub(super) fn begin(file: &Path) -> Result<Self, String> {
        let id = Uuid::now_v7().to_string();
        let head = lines(&[Head { id: id.clone() }]);
        std::fs::write(file, head).map_err(|error| format!("it cannot be kept: {error}"))?;
        Ok(Self { id, messages: Vec::new() })
    }

    /// Reads the conversation `id` from `file`. Half a turn at its end, which a full disk or a kill
    /// left, does not count.
    pub(super) fn read(file: &Path, id: &str) -> Result<Self, String> {
        let text = std::fs::read_to_string(file)
            .map_err(|error| format!("the conversation cannot be read: {error}"))?;
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let mut lines = whole.lines();
        let head: Option<Head> = lines.next().and_then(|line| serde_json::from_str(line).ok());
        if head.is_none_or(|head| head.id != id) {
            return Err(format!("there is no conversation {id}"));
        }
        let mut messages = Vec::new();
        for line in lines {
            messages.push(
                serde_json::from_str(line)
                    .map_err(|error| format!("the conversation is damaged: {error}"))?,
            );
        }
        // A turn has two messages.
        messages.truncate(messages.len() / 2 * 2);
        Ok(Self { id: id.to_owned(), messages })
    }

    /// Keeps a turn.
    pub(super) fn add(&mut self, file: &Path, asked: String, said: String) -> Result<(), String> {
        let turn = [
            Message { role: Role::User, content: asked },
            Message { role: Role::Assistant, content: said },
        ];
        let written = std::fs::OpenOptions::new()
            .append(true)
            .open(file)
            .and_then(|mut file| file.write_all(lines(&turn).as_bytes()));
        self.messages.extend(turn);
        written.map_err(|error| format!("the conversation cannot be kept: {error}"))
    }
}

/// Plain data with string keys: writing it cannot fail.
fn lines(items: &[impl Serialize]) -> String {
    let line = |item| serde_json::to_string(item).unwrap_or_default() + "\n";
    items.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_read_as_it_was_kept_without_half_a_turn() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("c.jsonl");
        let mut kept = Conversation::begin(&file).unwrap();
        kept.add(&file, "a\nb".into(), "c".into()).unwrap();
        let read = |id: &str| Conversation::read(&file, id);
        assert_eq!(read(&kept.id).unwrap().messages, kept.messages);
        let whole = std::fs::read_to_string(&file).unwrap();
        for half in ["{\"role\":\"user\",\"content\":\"x\"}\n", "{\"role\":\"us"] {
            std::fs::write(&file, format!("{whole}{half}")).unwrap();
            assert_eq!(read(&kept.id).unwrap().messages, kept.messages);
        }
        assert!(read("another").err().unwrap().contains("another"));
        std::fs::write(&file, format!("{whole}nonsense\n")).unwrap();
        assert!(read(&kept.id).err().unwrap().contains("damaged"));
    }
}
