//! Scans a line once, and yields typed parts that share the line's allocation.
//!
//! A general JSON library decodes every string and allocates every key. A log of an agent is mostly
//! long strings that are read once or never. So here a line is validated and indexed in one pass
//! ([`LineReader`]), its bytes are kept in one allocation, and the typed lines point into it
//! ([`Text`], [`RawJson`]). Escapes are decoded when a text is first read.
//!
//! [`FromJson`] reads a typed value out of a [`Value`], and [`json_object!`](crate::json_object)
//! declares structs that implement it.

mod block;
mod object;
mod raw;
mod reader;
mod scan;
mod text;
mod tree;
mod unescape;
mod value;

pub use object::FromJson;
pub use raw::RawJson;
pub use reader::{LineReader, NotAnObject, Repairs};
pub use scan::{MAX_DEPTH, ScanError};
pub use text::Text;
pub use tree::Value;

use scan::{Kind, Node, Recorded, scan};
use tree::Line;
use unescape::unescape;
