//! In place of OpenTelemetry in a program that was built without it: asking for it is an error, so
//! that nobody waits for traces.

use anyhow::{Result, bail};
use tracing_subscriber::layer::Identity;

use crate::config::Config;

/// What would speak to a collector; there is none.
#[derive(Debug)]
pub enum Telemetry {}

impl Telemetry {
    /// Refuses what this program cannot do.
    ///
    /// # Errors
    /// When the configuration names a collector.
    pub fn start(config: &Config) -> Result<Option<Self>> {
        if config.otel.endpoint.is_empty() {
            return Ok(None);
        }
        bail!("could not send telemetry: this program was built without the feature `otel`");
    }

    pub(super) fn layer(&self) -> Identity {
        match *self {}
    }

    /// There is nothing left to send.
    pub fn finish(self) {
        match self {}
    }
}
