//! Registers the method tables of an engine with a hub, one by one or all at once.

use plexus_core::{Hub, RegisterError};
use plexus_engine::Engine;

use crate::arbor::Arbor;
use crate::claudecode::{ClaudeCode, Namespace};
use crate::health::Health;
use crate::identity::Identities;
use crate::loopback::Loopback;

/// Registers sessions, as `agents` and as `claudecode`, and the other owners of their handles.
///
/// # Errors
/// As [`Hub::register`].
pub fn register_sessions(engine: &Engine, hub: &Hub) -> Result<(), RegisterError> {
    for namespace in Namespace::ALL {
        hub.register(ClaudeCode::new(engine, namespace))?;
    }
    Ok(())
}

/// Registers `loopback`.
///
/// # Errors
/// As [`Hub::register`].
pub fn register_loopback(engine: &Engine, hub: &Hub) -> Result<(), RegisterError> {
    hub.register(Loopback::new(engine))
}

/// Registers `arbor`.
///
/// # Errors
/// As [`Hub::register`].
pub fn register_arbor(engine: &Engine, hub: &Hub) -> Result<(), RegisterError> {
    hub.register(Arbor::new(engine))
}

/// Registers `health`.
///
/// # Errors
/// As [`Hub::register`].
pub fn register_health(engine: &Engine, hub: &Hub) -> Result<(), RegisterError> {
    hub.register(Health::new(engine))
}

/// Registers `identity`.
///
/// # Errors
/// As [`Hub::register`].
pub fn register_identity(engine: &Engine, hub: &Hub) -> Result<(), RegisterError> {
    hub.register(Identities::new(engine))
}

/// Registers everything.
///
/// # Errors
/// As [`Hub::register`].
pub fn register_all(engine: &Engine, hub: &Hub) -> Result<(), RegisterError> {
    register_sessions(engine, hub)?;
    register_loopback(engine, hub)?;
    register_arbor(engine, hub)?;
    register_health(engine, hub)?;
    register_identity(engine, hub)
}
