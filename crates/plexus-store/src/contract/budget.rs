//! Spending of sessions, and amounts that are reserved for running chats.

use std::ops::{AddAssign, SubAssign};
use std::time::Duration;

use plexus_core::SessionId;
use serde::{Deserialize, Serialize};

use super::error::StoreError;

/// An amount, in everything a budget can limit.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Spend {
    /// Millionths of a US dollar.
    pub cost_micros: u64,
    /// Turns of the model.
    pub turns: u64,
    /// Input tokens.
    pub input_tokens: u64,
    /// Output tokens.
    pub output_tokens: u64,
    /// Wall-clock time, in milliseconds.
    pub wall_ms: u64,
}

impl AddAssign for Spend {
    fn add_assign(&mut self, other: Self) {
        self.cost_micros = self.cost_micros.saturating_add(other.cost_micros);
        self.turns = self.turns.saturating_add(other.turns);
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.wall_ms = self.wall_ms.saturating_add(other.wall_ms);
    }
}

impl SubAssign for Spend {
    fn sub_assign(&mut self, other: Self) {
        self.cost_micros = self.cost_micros.saturating_sub(other.cost_micros);
        self.turns = self.turns.saturating_sub(other.turns);
        self.input_tokens = self.input_tokens.saturating_sub(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_sub(other.output_tokens);
        self.wall_ms = self.wall_ms.saturating_sub(other.wall_ms);
    }
}

/// What a session and all its descendants have spent, and what is reserved for their chats.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SubtreeSpend {
    /// Spent.
    pub spent: Spend,
    /// Reserved for running chats.
    pub reserved: Spend,
}

/// Adds to the spending of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddSpend {
    /// The session.
    pub session: SessionId,
    /// How much more.
    pub amount: Spend,
}

/// An amount that a chat reserves when it starts, so that two chats under one budget do not both
/// count on the same money. It ends with its chat.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reservation {
    /// How much.
    pub amount: Spend,
    /// Limits that must leave room for it. When one does not, the change is `Busy` and the chat
    /// does not start.
    pub within: Vec<SpendLimit>,
}

/// A limit over a session and all its descendants. It leaves room while their spending and
/// reservations together are below it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpendLimit {
    /// The session.
    pub holder: SessionId,
    /// The most it may cost, in millionths of a US dollar.
    pub cost_micros: Option<u64>,
    /// The most turns.
    pub turns: Option<u64>,
    /// The sessions above the one whose chat starts, up to the holder. Reservations of their own
    /// running chats do not count: those chats may be waiting for this one, and would wait for
    /// ever.
    pub above: Vec<SessionId>,
}

impl SpendLimit {
    /// Returns the part of the limit that has no room left when this much is spent or reserved.
    pub(crate) fn without_room(&self, taken: &Spend) -> Option<&'static str> {
        let full = |limit: Option<u64>, taken: u64| limit.is_some_and(|limit| taken >= limit);
        if full(self.cost_micros, taken.cost_micros) {
            return Some("cost");
        }
        full(self.turns, taken.turns).then_some("turns")
    }

    /// Refuses a chat that the limit has no room for.
    pub(crate) fn check(&self, totals: &SpendTotals) -> Result<(), StoreError> {
        let mut taken = totals.subtree;
        taken += totals.reserved;
        match self.without_room(&taken) {
            None => Ok(()),
            Some(what) => Err(StoreError::busy(
                format_args!(
                    "start the chat: the budget for {what} is spent, or set aside for chats that \
                     run"
                ),
                RETRY_RESERVED,
            )),
        }
    }
}

/// When to try again while others hold reservations: a chat takes seconds at least.
const RETRY_RESERVED: Duration = Duration::from_secs(5);

/// Spending of a session and all its descendants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct SpendTotals {
    /// By the session itself, and by its children that were deleted.
    pub own: Spend,
    /// By the session and all its descendants, also those that were deleted.
    pub subtree: Spend,
    /// Reserved for running chats of the subtree.
    pub reserved: Spend,
    /// Reserved for the running chat of the session itself.
    pub reserved_own: Spend,
    /// The most that was added at once anywhere in the subtree, in cost and in turns: an estimate
    /// for the next chat there. The other fields are zero.
    pub largest: Spend,
    /// How many descendants there are.
    pub descendants: u64,
}
