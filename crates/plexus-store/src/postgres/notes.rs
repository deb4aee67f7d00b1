//! Notifications: one for each group, with its commits and the topics that they changed. The rows
//! are authoritative; a notification only says where to look.

use plexus_core::{ApprovalId, SessionId};
use uuid::Uuid;

use crate::contract::{Owner, Topic};

/// The longest list of topics: PostgreSQL's own limit is 8,000 bytes, and two numbers precede the
/// topics.
const MAX_BYTES: usize = 7_900;

/// Stands for all topics.
const EVERYTHING: &str = "*";

/// Writes topics as text; when they are too many, as [`EVERYTHING`].
pub(super) fn write<'t>(topics: impl Iterator<Item = &'t Topic>) -> String {
    let mut words = std::collections::BTreeSet::new();
    let mut bytes = 0;
    for topic in topics {
        let word = match topic {
            Topic::Session(id) => format!("s{}", id.as_uuid().simple()),
            Topic::Approval(id) => format!("a{}", id.as_uuid().simple()),
            Topic::PendingOf(Owner::Session(id)) => format!("o{}", id.as_uuid().simple()),
            Topic::PendingOf(Owner::Operator) => "o".to_owned(),
            Topic::PendingIn(id) => format!("i{}", id.as_uuid().simple()),
            Topic::Pending => "p".to_owned(),
            Topic::Parked => "k".to_owned(),
            Topic::Outbox => "x".to_owned(),
            // Every notification implies it.
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

/// The content of a notification.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Note {
    /// The commit before the first one it announces.
    pub(super) after: u64,
    /// The last commit it announces.
    pub(super) commit: u64,
    /// The topics that changed; `None` for all.
    pub(super) topics: Option<Vec<Topic>>,
}

/// Reads a notification; `None` when it cannot be read, and then it may concern every topic.
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
        ("i", text) => id(text).map(SessionId::from_uuid).map(Topic::PendingIn),
        ("p", "") => Some(Topic::Pending),
        ("k", "") => Some(Topic::Parked),
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
            Topic::PendingIn(session),
            Topic::Pending,
            Topic::Parked,
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
