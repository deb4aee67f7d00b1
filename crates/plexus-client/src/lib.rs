//! Typed client of a Plexus server: calls, and streams that reconnect by themselves without losing or repeating an event.
//!
//! ```no_run
//! use plexus_client::{Client, CreateSession, Event, Followed};
//!
//! # async fn example() -> Result<(), plexus_client::ClientError> {
//! let client = Client::from_data_dir("/home/me/.local/state/plexus");
//! let session = client.create(&CreateSession::new("review", "/home/me/project")).await?;
//! client.chat_async(session, "Review the last commit").await?;
//! let mut events = client.follow(Some(session), None);
//! while let Some(item) = events.next().await {
//!     match item? {
//!         Followed::Event(event) => match event.event {
//!             Event::Content { text } => println!("{text}"),
//!             Event::AwaitingApproval { approval_id, .. } => client.deny(approval_id, "only read, please").await?,
//!             Event::Complete { .. } | Event::Error { .. } => break,
//!             _ => {}
//!         },
//!         Followed::Delta { .. } | Followed::DeltaStart | Followed::Lost | Followed::Back => {}
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! In reading order:
//! - [`client`]: the connection and [`Client::call`], which reaches every method there is.
//! - [`methods`]: the usual methods with types; [`types`], [`event`]: what they take and give.
//! - [`follow`]: events as they happen, across reconnects; [`socket`]: one connection of it.
//! - [`endpoint`]: where the server is; [`error`]: what can go wrong.

mod client;
mod endpoint;
mod error;
mod event;
mod follow;
mod methods;
mod socket;
mod types;

pub use client::Client;
pub use endpoint::{Announcement, read_announcement};
pub use error::ClientError;
pub use event::{Event, SessionEvent, Usage};
pub use follow::{Follow, FollowOptions, Followed};
pub use types::{
    Approval, ChangedSession, CreateSession, Polled, Remember, Respond, Rule, RuleScope, Session,
    Spent, Status, SuggestedRule,
};
