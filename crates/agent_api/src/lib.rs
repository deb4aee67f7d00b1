//! One run contract for any agent: bounded live events, and a completion that resolves last.
//!
//! A program that knows this crate alone can start an agent, show its progress while it works,
//! cancel it, and know truthfully how it ended, whichever agent it is.
//!
//! Run an agent, print its text as it comes, and cancel it on Ctrl-C (with the feature
//! `claude_code`):
//!
#![cfg_attr(feature = "claude_code", doc = "```no_run")]
#![cfg_attr(not(feature = "claude_code"), doc = "```ignore")]
//! use std::{io::Write, sync::Arc};
//!
//! use agent_api::{ AgentWrapperEventKind, AgentWrapperGateway, AgentWrapperKind,
//! AgentWrapperOutcome, AgentWrapperRunControl, AgentWrapperRunRequest,
//! backends::claude_code::{AGENT_KIND, ClaudeCodeBackend, ClaudeCodeBackendConfig}, }; use
//! futures::StreamExt;
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let mut gateway = AgentWrapperGateway::new();
//!     gateway.register(Arc::new(ClaudeCodeBackend::new(ClaudeCodeBackendConfig::default())))?;
//!
//!     let request = AgentWrapperRunRequest::new("What is this project about?"); let kind =
//!     AgentWrapperKind::new(AGENT_KIND)?; let AgentWrapperRunControl { mut handle, cancel } =
//!     gateway.run_control(&kind, request).await?;
//!
//!     tokio::spawn(async move {
//!         if tokio::signal::ctrl_c().await.is_ok() {
//!             // From here on no event comes; the agent and everything it started are ended.
//!             cancel.cancel();
//!         }
//!     });
//!
//!     while let Some(event) = handle.events.next().await {
//!         if event.kind == AgentWrapperEventKind::TextOutput {
//!             print!("{}", event.text.unwrap_or_default());
//!             std::io::stdout().flush()?;
//!         }
//!     }
//!     // The completion comes last: the process is gone, and everything it said was read.
//!     match handle.completion.await {
//!         Ok(completion) => match completion.outcome {
//!             AgentWrapperOutcome::Succeeded => println!(),
//!             AgentWrapperOutcome::Failed { reason } => eprintln!("the agent failed: {reason}"),
//!         },
//!         Err(error) => eprintln!("the run did not come to its end: {error}"),
//!     }
//!     Ok(())
//! }
//! ```
//!
//! What callers and backends build by the contract (requests, events, handles, completions,
//! capabilities) and the configurations of backends can be written as struct literals, with
//! `..Default::default()` where there is one. What only this crate builds, and what may fail, is
//! `#[non_exhaustive]`. The kinds of event are closed: what has no name is `Unknown`.
//!
//! In reading order:
//! - [`AgentWrapperGateway`]: the one door; finds the backend for a kind and starts the run.
//! - [`AgentWrapperRunRequest`], [`AgentWrapperEvent`], [`AgentWrapperRunHandle`], [`AgentWrapperCompletion`]: what goes in
//!   and what comes out.
//! - [`AgentWrapperBackend`]: what an agent must offer, and [`capabilities`]: the words in which it says what it can do.
//! - [`backends`]: the agents that this crate can run.
//! - [`validate`] and [`extensions`]: what is refused before anything is started.
//! - [`gate`]: keeps the completion behind the process and the stream. [`bounds`]: the limits of an event.
//! - `conformance` (feature of that name): holds a backend, ours or yours, to the contract.

pub mod backends;
pub mod bounds;
pub mod capabilities;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod extensions;
pub mod gate;
pub mod validate;

mod backend;
mod error;
mod event;
mod gateway;
mod kind;
mod request;
mod run;

pub use backend::AgentWrapperBackend;
pub use capabilities::AgentWrapperCapabilities;
pub use error::{AgentWrapperError, CANCELLED, NO_SESSION_FOUND, SESSION_NOT_FOUND, TIMED_OUT};
pub use event::{AgentWrapperEvent, AgentWrapperEventKind};
pub use gateway::AgentWrapperGateway;
pub use kind::AgentWrapperKind;
pub use request::AgentWrapperRunRequest;
pub use run::{
    AgentWrapperCancelHandle, AgentWrapperCompletion, AgentWrapperOutcome, AgentWrapperRunControl,
    AgentWrapperRunHandle, DynAgentWrapperCompletion, DynAgentWrapperEventStream,
};
