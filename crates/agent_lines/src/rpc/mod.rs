//! What protocols of requests, notifications and answers have in common: the shape of JSON-RPC.
//!
//! - [`Shape`]: what kind of line one is, read with the scanner; [`Answer`] and [`Outcome`]: how a
//!   request went.
//! - [`Envelope`] and [`Parts`]: lines as trees, for what is written and read back.
//!   [`rpc_params!`](crate::rpc_params) and [`rpc_requests!`](crate::rpc_requests) declare what is
//!   in them.
//! - [`Connection`]: a live conversation with a child that speaks such a protocol.

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
