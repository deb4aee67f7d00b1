//! The common base for protocols of requests, notifications and answers in the form of JSON-RPC.
//!
//! - [`Shape`]: the kind of a line, read with the scanner; [`Answer`] and [`Outcome`]: the result
//!   of a request.
//! - [`Envelope`] and [`Parts`]: lines as trees, for lines that are written and read back.
//!   [`rpc_params!`](crate::rpc_params) and [`rpc_requests!`](crate::rpc_requests) declare their
//!   contents.
//! - [`Connection`]: a live connection to a child that speaks such a protocol.

mod answer;
mod connection;
mod id;
mod params;
mod shape;
mod written;

pub use answer::{Answer, Outcome, RpcError};
pub use connection::{
    CALL_TIMEOUT, CallError, Connection, LineInput, MAX_HELD_LINES, RpcLine, SendError,
};
pub use id::RequestId;
pub use shape::{Shape, kept, lenient};
pub use written::{Envelope, METHOD_NOT_FOUND, Parts};
