//! The JSON layer under the parser: one scan of a line, typed parts that share the line's allocation.
//!
//! A general JSON library decodes every string and allocates every key. A log of an agent is mostly long strings that somebody
//! reads once or never, so here a line is validated and indexed in one pass ([`scan`]), its bytes are kept in one
//! allocation, and the typed events point into it ([`Text`], [`RawJson`]). Escapes are decoded when a text is first looked at.
//!
//! Nothing in here knows what the CLI writes; that is [`crate::event`].

mod block;
mod object;
mod raw;
mod scan;
mod text;
mod tree;
mod unescape;

pub use raw::RawJson;
pub use text::Text;

pub(crate) use object::{FromJson, json_object};
use scan::Kind;
pub(crate) use scan::{MAX_DEPTH, Node, Recorded, ScanError, Scanned, scan};
pub(crate) use tree::{Line, Value, each_outer_string};
pub(crate) use unescape::unescape;
