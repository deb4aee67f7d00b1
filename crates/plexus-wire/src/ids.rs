//! Every identifier as its own type. All are UUIDs on the wire; version 7 where we make them, so
//! that they sort by time.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use uuid::Uuid;

/// A text that is not an id of ours.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("an id is a hyphenated UUID of 36 characters")]
pub struct InvalidId;

/// The fewest characters of an id that name something: fewer are a slip of the finger.
const FEWEST_OF_AN_ID: usize = 4;

/// Says whether a text may be the beginning of an id that we make. A command takes such a text for
/// an id, so no session may have it as its name.
///
/// An id is a UUID of version 7, which begins with the time in milliseconds: until the year 2527
/// its first digit is 0.
#[must_use]
pub fn may_begin_an_id(text: &str) -> bool {
    let fits = |(at, byte): (usize, u8)| match at {
        0 => byte == b'0',
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    (FEWEST_OF_AN_ID..=36).contains(&text.len()) && text.bytes().enumerate().all(fits)
}

/// Reads the hyphenated form only: one id has one spelling, so that lookups stay exact.
fn parse_hyphenated(text: &str) -> Result<Uuid, InvalidId> {
    if text.len() == 36 { Uuid::from_str(text).map_err(|_| InvalidId) } else { Err(InvalidId) }
}

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// Makes a new one (UUIDv7: later ones sort after earlier ones).
            #[must_use]
            pub fn generate() -> Self {
                Self(Uuid::now_v7())
            }

            /// Wraps an id that comes from the store or the wire.
            #[must_use]
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// Returns the bare UUID.
            #[must_use]
            pub const fn as_uuid(&self) -> &Uuid {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                parse_hyphenated(text).map(Self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

uuid_id! {
    /// One supervised conversation, the only identifier of a session on the wire. Its
    /// `claude_session_id` is the CLI's own.
    SessionId
}
uuid_id! {
    /// One Arbor tree. A forked session shares the tree of the session it was forked from.
    TreeId
}
uuid_id! {
    /// One node of an Arbor tree. An event has a node; a node need not be an event.
    NodeId
}
uuid_id! {
    /// One event of a chat. Readers count events by `seq`; this id is what its handle names.
    EventId
}
uuid_id! {
    /// One permission request of a child and its single decision.
    ApprovalId
}
uuid_id! {
    /// One standing rule that answers permission requests.
    RuleId
}
uuid_id! {
    /// One server of those that share a store: what operators call a node. It stays the same when
    /// that server starts again.
    ServerId
}
uuid_id! {
    /// One device that decides for the operator, such as a phone.
    DeviceId
}

/// Identifies an activation: a UUIDv5 of its path and major version, so that it is the same in
/// every process and no other activation of the server has it.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct PluginId(Uuid);

/// The UUIDv5 namespace of all plugin ids. It must never change: stored handles name plugins by it.
const PLUGIN_NAMESPACE: Uuid = Uuid::from_u128(0x6b1d_6c6e_7a0c_5e0d_9c59_70c6_8f2f_4b3a);

impl PluginId {
    /// Returns the id of the activation at `path` in major version `major`. The path is what its
    /// methods' names begin with: `claudecode`, or `team.notes` inside a hub `team`.
    #[must_use]
    pub fn of(path: &str, major: u64) -> Self {
        Self(Uuid::new_v5(&PLUGIN_NAMESPACE, format!("{path}@{major}").as_bytes()))
    }

    /// Wraps an id that comes from the wire.
    #[must_use]
    pub const fn from_uuid(uuid: Uuid) -> Self {
        Self(uuid)
    }
}

impl fmt::Display for PluginId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_beginnings_of_our_ids_look_like_ids() {
        let id = SessionId::generate().to_string();
        for end in FEWEST_OF_AN_ID..=id.len() {
            assert!(may_begin_an_id(&id[..end]), "{}", &id[..end]);
        }
        let others = ["", "01a", "docs", "01a1 ", "1234", "beef", "2026-11-19", "01a1-de6b"];
        for text in others.into_iter().chain([format!("{id}0").as_str()]) {
            assert!(!may_begin_an_id(text), "{text}");
        }
    }

    #[test]
    fn plugin_ids_are_the_same_in_every_process() {
        // A literal: stored handles name this value, so a change of the derivation must fail here.
        assert_eq!(PluginId::of("claudecode", 1), PluginId::of("claudecode", 1));
        assert_ne!(PluginId::of("claudecode", 1), PluginId::of("claudecode", 2));
        assert_ne!(PluginId::of("claudecode", 1), PluginId::of("loopback", 1));
        assert_eq!(
            PluginId::of("claudecode", 1).to_string(),
            "2521206c-8130-5001-93af-ced7d73e8917"
        );
    }

    #[test]
    fn an_id_has_one_spelling() {
        let id = SessionId::generate();
        assert_eq!(id.to_string().parse::<SessionId>().ok(), Some(id));
        for other in [
            format!("{{{id}}}"),
            format!("urn:uuid:{id}"),
            id.to_string().replace('-', ""),
            String::new(),
        ] {
            assert!(other.parse::<SessionId>().is_err(), "{other}");
        }
    }
}
