//! One run contract for any agent: bounded live events, and a completion that resolves last.
//!
//! A program that uses only this crate can start any agent, show its progress while it works,
//! cancel it, and learn how it really ended.
//!
//! Run an agent, print its text as it arrives, and cancel it on Ctrl-C (with the feature
//! `claude_code`):
//!
#![cfg_attr(feature = "claude_code", doc = "```no_run")]
#![cfg_attr(not(feature = "claude_code"), doc = "```ignore")]
//! use std::{io::Write, sync::Arc};
//!
//! use agent_api::{
//!     AgentWrapperEventKind, AgentWrapperGateway, AgentWrapperKind, AgentWrapperOutcome,
//!     AgentWrapperRunControl, AgentWrapperRunRequest,
//!     backends::claude_code::{AGENT_KIND, ClaudeCodeBackend, ClaudeCodeBackendConfig},
//! };
//! use futures::StreamExt;
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let mut gateway = AgentWrapperGateway::new();
//!     gateway.register(Arc::new(ClaudeCodeBackend::new(ClaudeCodeBackendConfig::default())))?;
//!
//!     let request = AgentWrapperRunRequest::new("What is this project about?");
//!     let kind = AgentWrapperKind::new(AGENT_KIND)?;
//!     let AgentWrapperRunControl { mut handle, cancel } =
//!         gateway.run_control(&kind, request).await?;
//!
//!     tokio::spawn(async move {
//!         if tokio::signal::ctrl_c().await.is_ok() {
//!             // From here on no event arrives; the agent and everything it started are ended.
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
//!     // The completion comes last: the process is gone, and all its events were read.
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
//! Callers and backends can write the types that they build (requests, events, handles,
//! completions, capabilities, configurations of backends) as struct literals, with
//! `..Default::default()` where there is one. Errors, and types that only this crate builds, are
//! `#[non_exhaustive]`. The kinds of event are closed: an event without a name is `Unknown`.
//!
//! In reading order:
//! - [`AgentWrapperGateway`]: the single entry point; finds the backend for a kind and starts the
//!   run.
//! - [`AgentWrapperRunRequest`], [`AgentWrapperEvent`], [`AgentWrapperRunHandle`],
//!   [`AgentWrapperCompletion`]: input and output of a run.
//! - [`AgentWrapperBackend`]: the trait that an agent implements, and [`capabilities`]: the ids of
//!   what it can do.
//! - [`backends`]: the agents that this crate can run.
//! - [`validate`] and [`extensions`]: the checks before anything is started.
//! - [`gate`]: lets the completion resolve only after the process and the stream have ended.
//!   [`bounds`]: the limits of an event.
//! - `conformance` (feature of that name): tests a backend, ours or yours, against the contract.

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
