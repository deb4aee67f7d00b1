//! Every shape that crosses a door of Plexus, written once: serde and schemars, no I/O, and nothing
//! of our other crates.
//!
//! The method tables of the server, `schemas/`, the Rust client, the command line and the
//! dashboard's TypeScript all take their shapes from here. A field that is renamed here fails the
//! build of each until its use is changed.
//!
//! Shapes grow with the protocol, so they are `#[non_exhaustive]`: make parameters with their
//! constructors and then set what is optional. The feature `server` takes that away for the crates
//! that make results and must not forget a field.
//!
//! In reading order:
//! - [`ids`], [`handle`]: every identifier as its own type, and the name by which the hub finds
//!   anything.
//! - [`time`], [`bounds`], [`text`], [`json`]: moments that say their unit, numbers and texts that
//!   know their range, JSON that is not ours.
//! - [`said`]: values that a later server may say in words that this version does not know.
//! - [`caller`], [`token`], [`error`]: who calls, what says so, and the one error that every door
//!   shows.
//! - [`session`], [`create`], [`mcp_servers`], [`wall`], [`chat`], [`images`], [`budget`],
//!   [`cursor`]: what `claudecode` takes and gives.
//! - [`event`], [`reading`], [`conversation`], [`search`]: what happens in a chat, and the ways to
//!   read it and to find it again.
//! - [`approval`], [`decision`], [`rule`], [`proposal`], [`audit`]: what `loopback` takes and
//!   gives.
//! - [`question`]: questions of an agent to its user.
//! - [`tool`], [`files`], [`preview`], [`changes`]: a tool call in one form for every agent, its
//!   risk, the files that it would change, what a dry run of its command changes, and what changed
//!   since a session began.
//! - [`arbor`], [`identity`], [`device`], [`health`], [`hub`], [`server`]: the other namespaces.
//! - [`hook`], [`notify`]: what is told to somebody outside, the answer that may come back, and the
//!   receivers themselves.
//! - [`method`]: every method with its parameters and its result.
//! - [`params`], [`private_keys`]: reading parameters, the one place that refuses them.
//! - [`schema`], [`document`]: JSON Schemas of one shape, and of all of them in one document.

pub mod agent;
pub mod approval;
pub mod arbor;
pub mod audit;
pub mod bounds;
pub mod budget;
pub mod caller;
pub mod changes;
pub mod chat;
pub mod cone;
pub mod conversation;
pub mod create;
pub mod cursor;
pub mod decision;
pub mod device;
pub mod document;
pub mod error;
pub mod event;
pub mod files;
pub mod handle;
pub mod health;
pub mod hook;
pub mod hub;
pub mod identity;
pub mod ids;
pub mod images;
pub mod json;
pub mod mcp_servers;
pub mod method;
pub mod notify;
pub mod params;
pub mod preview;
pub mod private_keys;
pub mod proposal;
pub mod question;
pub mod reading;
pub mod rule;
pub mod said;
pub mod schema;
pub mod search;
pub mod server;
pub mod session;
pub mod text;
pub mod time;
pub mod token;
pub mod tool;
pub mod wall;

pub use agent::*;
pub use approval::*;
pub use arbor::*;
pub use audit::*;
pub use bounds::{LastDecisions, ModeSecs, PageLimit, RuleSecs, SearchLimit, Uses, WaitMs};
pub use budget::*;
pub use caller::Caller;
pub use changes::*;
pub use chat::*;
pub use cone::*;
pub use conversation::*;
pub use create::*;
pub use cursor::*;
pub use decision::*;
pub use device::*;
pub use error::{CallError, ErrorKind};
pub use event::{ChatEvent, Usage};
pub use files::*;
pub use handle::{Handle, HandleParseError, Origin};
pub use health::*;
pub use hook::*;
pub use hub::*;
pub use identity::*;
pub use ids::{
    ApprovalId, DeviceId, EventId, NodeId, PluginId, RuleId, ServerId, SessionId, TreeId,
    may_begin_an_id,
};
pub use images::{IMAGE_TYPES, MAX_IMAGE_BYTES, MAX_IMAGES, PromptImage, prompt_with_images};
pub use json::{Json, Object};
pub use mcp_servers::{AgentMcpServer, MAX_MCP_NAME_BYTES, MAX_MCP_SERVERS, check_mcp_name};
pub use method::Method;
pub use notify::*;
pub use preview::*;
pub use proposal::*;
pub use question::*;
pub use reading::*;
pub use rule::*;
pub use said::Said;
pub use search::*;
pub use server::*;
pub use session::*;
pub use time::{Millis, Seconds};
pub use token::SecretToken;
pub use tool::*;
pub use wall::*;
