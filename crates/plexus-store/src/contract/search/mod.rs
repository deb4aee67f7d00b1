//! Full-text search over everything that was asked, said and done.

mod query;
pub(crate) mod words;

use plexus_core::{EventId, SessionId};
pub use plexus_wire::{SearchKind, SearchPiece};

pub(crate) use self::query::Term;
pub use self::query::{MAX_QUERY_BYTES, MAX_QUERY_WORDS, SearchQuery};
use super::page::PageToken;
use super::time::UnixMillis;

/// What is looked for. Every condition that is given must hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SearchFilter {
    /// The words.
    pub query: SearchQuery,
    /// In this session alone.
    pub session: Option<SessionId>,
    /// In strict descendants of this session alone.
    pub under: Option<SessionId>,
    /// Calls and results of this tool alone; its exact name.
    pub tool: Option<String>,
    /// This kind alone.
    pub kind: Option<SearchKind>,
    /// Nothing before this.
    pub since: Option<UnixMillis>,
    /// Nothing at or after this.
    pub until: Option<UnixMillis>,
}

/// One thing that was found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SearchHit {
    /// The session.
    pub session: SessionId,
    /// Its name.
    pub session_name: String,
    /// The chat.
    pub chat: u32,
    /// The event in the chat; 0 stands for the prompt.
    pub seq: u32,
    /// The event.
    pub event: EventId,
    /// When it happened.
    pub at: UnixMillis,
    /// What it is.
    pub kind: SearchKind,
    /// The tool of a call or a result, where it is known.
    pub tool: Option<String>,
    /// A part of the text, around the first place that was found.
    pub excerpt: Vec<SearchPiece>,
}

/// Some hits, newest first.
#[derive(Clone, PartialEq, Debug)]
pub struct SearchPage {
    /// The hits. A page may have fewer than asked for, or none, although there are more: one call
    /// looks at a bounded number of entries.
    pub hits: Vec<SearchHit>,
    /// Where the next page starts; `None` when this is the last.
    pub next: Option<PageToken>,
    /// How many commits are not indexed yet.
    pub behind: u64,
}

/// What one step of indexing did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Indexed {
    /// How many entries it added.
    pub entries: u64,
    /// How many commits are left to index.
    pub behind: u64,
}
