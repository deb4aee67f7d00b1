//! What sessions have spent, and what is set aside for chats that run.

use std::ops::AddAssign;

use plexus_core::SessionId;
use serde::{Deserialize, Serialize};

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
    /// Time on the wall, in milliseconds.
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

/// Adds what a session itself has spent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AddSpend {
    /// The session.
    pub session: SessionId,
    /// How much more.
    pub amount: Spend,
}

/// Sets an amount aside for a chat, so that two chats below one budget do not both count on the same money. One for each chat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReserveSpend {
    /// The session.
    pub session: SessionId,
    /// The chat.
    pub chat: u32,
    /// How much.
    pub amount: Spend,
}

/// Ends a reservation and adds what was really spent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SettleSpend {
    /// The session.
    pub session: SessionId,
    /// The chat; it must have a reservation.
    pub chat: u32,
    /// What was spent and not yet added.
    pub amount: Spend,
}

/// What a session and everything below it have spent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct SpendTotals {
    /// By the session itself.
    pub own: Spend,
    /// By the session and all its descendants that exist.
    pub subtree: Spend,
    /// Set aside for running chats of the subtree.
    pub reserved: Spend,
    /// How many descendants there are.
    pub descendants: u64,
}
