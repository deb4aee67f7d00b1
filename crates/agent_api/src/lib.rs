//! One run contract for any agent: bounded live events, and a completion that resolves last.
//!
//! A program that knows this crate alone can start an agent, show its progress while it works, cancel it, and know truthfully
//! how it ended, whichever agent it is.
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
