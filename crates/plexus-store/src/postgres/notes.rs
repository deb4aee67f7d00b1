//! Notifications: one for each group, with the commits it made and whom they concern. The rows are
//! the truth; a note only says where to look.

use plexus_core::{ApprovalId, SessionId};
use uuid::Uuid;

use crate::contract::{Owner, Topic};

/// What fits: PostgreSQL's own bound is 8,000 bytes, and two numbers stand before the topics.
const MAX_BYTES: usize = 7_900;

/// Says "look everywhere".
const EVERYTHING: &str = "*";

/// Writes topics down; too many of them become "look everywhere".
pub(super) fn write<'t>(topics: impl Iterator<Item = &'t Topic>) -> String {
    let mut words = std::collections::BTreeSet::new();
    let mut bytes = 0;
    for topic in topics {
        let word = match topic {
            Topic::Session(id) => format!("s{}", id.as_uuid().simple()),
            Topic::Approval(id) => format!("a{}", id.as_uuid().simple()),
            Topic::PendingOf(Owner::Session(id)) => format!("o{}", id.as_uuid().simple()),
            Topic::PendingOf(Owner::Operator) => "o".to_owned(),
            Topic::Pending => "p".to_owned(),
            Topic::Outbox => "x".to_owned(),
            // Every note says it.
            Topic::Commits => continue,
        };
        let length = word.len() + 1;
        if words.insert(word) {
            bytes += length;
        }
        if bytes > MAX_BYTES {
            return EVERYTHING.to_owned();
        }
    }
    words.into_iter().collect::<Vec<_>>().join(" ")
}

/// What a note says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Note {
    /// The commit before the first one it tells of.
    pub(super) after: u64,
    /// The last one it tells of.
    pub(super) commit: u64,
    /// Whom it concerns; `None` for everybody.
    pub(super) topics: Option<Vec<Topic>>,
}

/// Reads a note. One that cannot be read concerns everybody.
pub(super) fn read(text: &str) -> Option<Note> {
    let mut words = text.split(' ').filter(|word| !word.is_empty());
    let (after, commit) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let topics = words.map(topic).collect();
    Some(Note { after, commit, topics })
}

fn topic(word: &str) -> Option<Topic> {
    let id = |text: &str| Uuid::try_parse(text).ok();
    match (word.get(..1)?, word.get(1..)?) {
        ("s", text) => id(text).map(SessionId::from_uuid).map(Topic::Session),
        ("a", text) => id(text).map(ApprovalId::from_uuid).map(Topic::Approval),
        ("o", "") => Some(Topic::PendingOf(Owner::Operator)),
        ("o", text) => {
            id(text).map(SessionId::from_uuid).map(|id| Topic::PendingOf(Owner::Session(id)))
        }
        ("p", "") => Some(Topic::Pending),
        ("x", "") => Some(Topic::Outbox),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_says_what_was_written_or_everything() {
        let (session, approval) = (SessionId::generate(), ApprovalId::generate());
        let topics = vec![
            Topic::Approval(approval),
            Topic::PendingOf(Owner::Operator),
            Topic::PendingOf(Owner::Session(session)),
            Topic::Pending,
            Topic::Session(session),
            Topic::Outbox,
        ];
        let text = write(topics.iter().chain(&topics).chain([&Topic::Commits]));
        let note = read(&format!("7 9 {text}")).unwrap();
        assert_eq!((note.after, note.commit), (7, 9));
        let mut heard = note.topics.unwrap();
        heard.sort_by_key(|topic| topics.iter().position(|it| it == topic));
        assert_eq!(heard, topics);
        assert_eq!(read("7 9 ").unwrap().topics, Some(Vec::new()));
        let many: Vec<_> = (0..1_000).map(|_| Topic::Session(SessionId::generate())).collect();
        let text = write(many.iter());
        assert!(
            text.len() <= MAX_BYTES && read(&format!("7 9 {text}")).unwrap().topics.is_none(),
            "{text}"
        );
        assert_eq!(read("7 9 zebra").unwrap().topics, None);
        assert_eq!(read("no numbers"), None);
    }
}
