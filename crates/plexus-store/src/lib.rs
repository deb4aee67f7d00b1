//! Everything durable: Arbor trees, sessions, chats, events, approvals, cursors and rules.
//!
//! [`contract`] is the whole of what others need: the [`Store`] trait, whose documentation is the contract, and the plain data it takes and gives.
//! Each engine then keeps it.

pub mod contract;

pub use contract::*;
