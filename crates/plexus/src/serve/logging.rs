//! The log: lines on stderr through `tracing`, with a level that can change while the server runs, and the same for a collector when there is
//! one. Tokens have no `Display`, so none gets here.

use std::io::IsTerminal;

use anyhow::{Context as _, Result};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Registry, fmt, reload};

use super::telemetry::Telemetry;
use crate::config::{Config, LogFormat};

/// Changes what is logged.
#[derive(Clone, Debug)]
pub struct LogLevel(reload::Handle<EnvFilter, Registry>);

impl LogLevel {
    /// Logs what `filter` says from now on.
    ///
    /// # Errors
    /// When it is not a filter; the old one stays.
    pub fn set(&self, filter: &str) -> Result<()> {
        self.0.reload(parse(filter)?).context("could not change the log level")
    }
}

/// Starts the log, and hands it to `telemetry` too.
///
/// # Errors
/// When the filter cannot be read, or there is a log already.
pub fn start(config: &Config, telemetry: Option<&Telemetry>) -> Result<LogLevel> {
    let (filter, handle) = reload::Layer::new(parse(&config.log)?);
    let registry =
        tracing_subscriber::registry().with(filter).with(telemetry.map(Telemetry::layer));
    let started = match config.log_format {
        LogFormat::Text => {
            let colours = std::io::stderr().is_terminal()
                && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
            registry.with(fmt::layer().with_writer(std::io::stderr).with_ansi(colours)).try_init()
        }
        LogFormat::Json => registry
            .with(fmt::layer().json().flatten_event(true).with_writer(std::io::stderr))
            .try_init(),
    };
    started.context("could not start the log")?;
    Ok(LogLevel(handle))
}

/// What stands before every filter, so that a filter that says otherwise wins: the MCP library tells of each stateless call in three
/// lines, and the database client of every statement with its values.
const QUIETER: &str = "rmcp=warn,tokio_postgres=info";

fn parse(filter: &str) -> Result<EnvFilter> {
    EnvFilter::try_new(format!("{QUIETER},{filter}")).with_context(|| {
        format!("could not read the log filter {filter:?}; `info` or `plexus_activations=debug` are filters")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_talks_much_is_quieter_unless_somebody_asks() {
        let plain = parse("debug").unwrap().to_string();
        assert!(plain.contains("rmcp=warn") && plain.contains("tokio_postgres=info"), "{plain}");
        // The later of two words about the same thing counts.
        let asked = parse("info,rmcp=debug").unwrap().to_string();
        assert!(asked.contains("rmcp=debug") && !asked.contains("rmcp=warn"), "{asked}");
        assert!(parse("info,=").is_err());
    }
}
