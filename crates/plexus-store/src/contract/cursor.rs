//! A reader's position in the events of a session: an opaque text that survives restarts and
//! continues through all chats.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use plexus_core::{NodeId, SessionId};
use serde::Serialize;
use uuid::Uuid;

use super::error::{StoreError, Thing};
use super::time::UnixMillis;

/// A position in a session: everything before `next` of `chat` has been read.
///
/// At the end of an ended chat it stays there until a next chat exists, and reading then continues
/// with that one. It means the same before and after a restart, and is valid in no other session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Cursor {
    /// The session it belongs to.
    pub session: SessionId,
    /// The chat it is in.
    pub chat: u32,
    /// The seq of the next event to read in that chat.
    pub next: u32,
}

/// The first byte of an encoded cursor, which names its format.
const FORMAT: u8 = 1;
const ENCODED_BYTES: usize = 1 + 16 + 4 + 4;

impl Cursor {
    /// Returns the position before the first event.
    #[must_use]
    pub fn start(session: SessionId) -> Self {
        Self { session, chat: 0, next: 0 }
    }

    /// Refuses a cursor of another session.
    ///
    /// # Errors
    /// `Invalid`. The other session is not named: the caller may not know of it.
    pub fn check_session(self, session: SessionId) -> Result<Self, StoreError> {
        if self.session == session {
            return Ok(self);
        }
        Err(StoreError::invalid("use this cursor: it belongs to another session"))
    }

    /// Returns this cursor, which follows the event `node`, if that is an event of `session`.
    ///
    /// # Errors
    /// `NotFound`, as for a node that does not exist.
    pub(crate) fn after_event(self, node: NodeId, session: SessionId) -> Result<Self, StoreError> {
        if self.session == session {
            return Ok(self);
        }
        Err(StoreError::not_found(Thing::Event, node))
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = [FORMAT; ENCODED_BYTES];
        bytes[1..17].copy_from_slice(self.session.as_uuid().as_bytes());
        bytes[17..21].copy_from_slice(&self.chat.to_be_bytes());
        bytes[21..25].copy_from_slice(&self.next.to_be_bytes());
        f.write_str(&URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl FromStr for Cursor {
    type Err = StoreError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let malformed = || {
            StoreError::invalid(
                "read the cursor: hand back exactly the one you were given, or an event's node_id",
            )
        };
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| malformed())?;
        let bytes: [u8; ENCODED_BYTES] = bytes.try_into().map_err(|_| malformed())?;
        let [FORMAT, rest @ ..] = bytes else { return Err(malformed()) };
        let (session, rest) = rest.split_at(16);
        let (chat, next) = rest.split_at(4);
        let number = |bytes: &[u8]| bytes.iter().fold(0_u32, |n, byte| n << 8 | u32::from(*byte));
        let session = Uuid::from_slice(session).map_err(|_| malformed())?;
        Ok(Self { session: SessionId::from_uuid(session), chat: number(chat), next: number(next) })
    }
}

impl Serialize for Cursor {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A reader with a name and its own durable cursor. The cursor moves only when the reader
/// acknowledges.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Consumer {
    /// Its name, unique within the session.
    pub name: String,
    /// Its position.
    pub cursor: Cursor,
    /// When it last moved.
    pub updated_at: UnixMillis,
}

/// Moves a named consumer, or creates it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SetCursor {
    /// The consumer's name.
    pub consumer: String,
    /// The new position. A position after the last event of the session is refused.
    pub cursor: Cursor,
}

/// Moves the default read position of one chat forward; a `next` below the current one is ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SetReadPosition {
    /// The session.
    pub session: SessionId,
    /// The chat.
    pub chat: u32,
    /// The seq of the next unread event.
    pub next: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_round_trips_and_a_malformed_one_is_refused() {
        let cursor = Cursor { session: SessionId::generate(), chat: 7, next: u32::MAX };
        assert_eq!(cursor.to_string().parse::<Cursor>().ok(), Some(cursor));
        let text = cursor.to_string();
        for wrong in [
            "",
            "p1",
            "AA",
            &text[1..],
            &format!("{text}A"),
            &text.replacen("AQ", "Ag", 1),
            "\u{1F980}",
        ] {
            assert!(matches!(wrong.parse::<Cursor>(), Err(StoreError::Invalid { .. })), "{wrong}");
        }
        assert!(cursor.check_session(SessionId::generate()).is_err());
    }
}
