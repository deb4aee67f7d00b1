//! Keys that combine two numbers: a place in a chain, and an event in a chat. Rows that are read
//! together then lie together.

use super::sql::{Bind, Column, Param, Row, bind, column};
use crate::contract::StoreError;

/// How many bits the lower number has.
const BITS: u32 = 32;
const LOW: i64 = (1 << BITS) - 1;

/// The row of a node: its chain and its position there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Place(pub(crate) i64);

impl Place {
    pub(crate) fn new(chain: i64, position: i64) -> Self {
        Self(chain << BITS | position)
    }

    pub(crate) fn chain(self) -> i64 {
        self.0 >> BITS
    }

    pub(crate) fn position(self) -> i64 {
        self.0 & LOW
    }
}

/// The row of an event: its chat (the row of chat_streams, whose number is never reused) and its
/// seq.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct EventKey(pub(crate) i64);

impl EventKey {
    pub(crate) fn new(chat: i64, seq: u32) -> Self {
        Self(chat << BITS | i64::from(seq))
    }

    /// Returns the row of its chat.
    pub(crate) fn chat(self) -> i64 {
        self.0 >> BITS
    }

    pub(crate) fn seq(self) -> u32 {
        u32::try_from(self.0 & LOW).unwrap_or(u32::MAX)
    }

    /// Returns the seq after this event's.
    pub(crate) fn next_seq(self) -> u32 {
        self.seq() + 1
    }

    /// Returns the first key after all events of `chat`.
    pub(crate) fn end(chat: i64) -> Self {
        Self::new(chat + 1, 0)
    }
}

bind! {
    Place => Int, |it| it.0;
    EventKey => Int, |it| it.0;
}

column! {
    Place => int, Place;
    EventKey => int, EventKey;
}
