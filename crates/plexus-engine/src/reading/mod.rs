//! How callers read: events serialised once for all their readers, and waits that share one look.
//!
//! - [`feed`]: pages and streams of events.
//! - [`news`], [`told`]: which sessions changed, and what is told of one without its transcript.
//! - [`scopes`]: what changed for one caller, looked up once for all its waits.
//! - [`long_poll`]: subscribe, read, wait: one order for every method that waits.
//! - [`turns`]: how many waiting calls of one caller read at a time.

pub mod feed;
pub mod long_poll;
pub mod news;
pub mod scopes;
pub mod told;
pub mod turns;
