//! Typed client of a Plexus server: every method as one function, and streams that reconnect by
//! themselves without losing or repeating an event.
//!
//! ```no_run
//! use futures::StreamExt as _;
//! use plexus_client::wire::{
//!     ChatEvent, ChatParams, CreateParams, FollowParams, PollParams, RespondParams, SessionRef,
//! };
//! use plexus_client::{Client, ClientError, FollowItem};
//!
//! # async fn example() -> Result<(), ClientError> {
//! let client = Client::from_data_dir("/home/me/.local/state/plexus");
//! let session = CreateParams::new("review", "/home/me/project");
//! let id = client.agents().create(&session).await?.id;
//! let chat = ChatParams::new(SessionRef::id(id), "Review the last commit");
//! client.agents().chat_async(&chat).await?;
//! let mut events = client.follow(FollowParams::of(id));
//! while let Some(item) = events.next().await {
//!     let FollowItem::Event(event) = item? else { continue };
//!     match event.event {
//!         ChatEvent::Content { text } => println!("{text}"),
//!         ChatEvent::AwaitingApproval { approval_id, .. } => {
//!             let no = RespondParams::deny(approval_id, "only read, please");
//!             client.loopback().respond(&no).await?;
//!         }
//!         ChatEvent::Complete { .. } => break,
//!         // An agent goes on after a line that could not be read: an error ends the chat only
//!         // when it is the chat's last event.
//!         ChatEvent::Error { .. } => {
//!             let mut rest = PollParams::new(id);
//!             rest.chat = Some(event.at.chat);
//!             rest.from_seq = Some(event.at.event.seq);
//!             let rest = client.agents().poll(&rest).await?;
//!             let is_over = rest.status.is_and(|status| !status.is_busy());
//!             if is_over && rest.events.len() == 1 {
//!                 break;
//!             }
//!         }
//!         _ => {}
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! In reading order:
//! - [`client`]: the connection, [`Client::call`] for a method with a marker, and
//!   [`Client::call_by_name`] for methods of activations that others wrote.
//! - [`methods`]: each method as one function, by namespace; [`wire`]: their parameters and
//!   results.
//! - [`pages`]: lists that are read to their end.
//! - [`follow`]: events as they happen, across reconnects; [`socket`]: one connection of it.
//! - [`endpoint`]: where the server is; [`error`]: what can go wrong.
//! - [`paths`]: where a server of this machine keeps its data; [`working_dir`]: where a new session
//!   may work.

mod client;
mod endpoint;
mod error;
mod follow;
mod methods;
mod pages;
pub mod paths;
mod socket;
pub mod working_dir;

pub use client::Client;
pub use endpoint::{
    Announcement, LOCK_FILE, PORT_TAKEN, TOKEN_FILE, read_announcement, read_operator_token,
};
pub use error::ClientError;
pub use follow::{Event, Follow, FollowItem};
pub use methods::{Arbor, ClaudeCode, Health, Identity, Loopback, Plexus, Server};
pub use plexus_wire as wire;
