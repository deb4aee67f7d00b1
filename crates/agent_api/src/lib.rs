//! One run contract for any agent: bounded live events, and a completion that resolves last.
