//! Everything durable: Arbor trees, sessions, chats, events, approvals, cursors and rules.
