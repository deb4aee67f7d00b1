//! The log: lines on stderr through `tracing`, with a level that can change while the server runs,
//! and the same for a collector when there is one. Tokens have no `Display`, so none gets here;
//! what libraries would quote is held back ([`discreet`]).

use std::io::IsTerminal;

use anyhow::{Context as _, Result};
use tracing_subscriber::filter::{LevelFilter, Targets};
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
    let registry = tracing_subscriber::registry()
        .with(filter)
        .with(discreet())
        .with(telemetry.map(Telemetry::layer));
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

/// What the targets of our own crates begin with.
const OURS: [&str; 5] = ["plexus", "agent_api", "agent_lines", "claude_code", "codex_app"];

/// Lets libraries say nothing below a warning, whatever the filter asks for.
///
/// Their spans and lines quote what they work on: the shell parser each command, the MCP library
/// each message, the database client each value. A log must hold no input, prompt or token at any
/// level, and we can promise that only for our own lines.
fn discreet() -> Targets {
    let ours = OURS.map(|target| (target, LevelFilter::TRACE));
    Targets::new().with_default(LevelFilter::WARN).with_targets(ours)
}

fn parse(filter: &str) -> Result<EnvFilter> {
    EnvFilter::try_new(filter).with_context(|| {
        format!(
            "could not read the log filter {filter:?}; `info` or `plexus_activations=debug` \
            are filters"
        )
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn libraries_say_nothing_below_a_warning_whatever_is_asked() {
        let paper = Paper::default();
        let writer = paper.clone();
        let subscriber = tracing_subscriber::registry()
            .with(parse("trace,brush_parser=trace,rmcp=trace").unwrap())
            .with(discreet())
            .with(fmt::layer().with_writer(move || writer.clone()).with_ansi(false));
        tracing::subscriber::with_default(subscriber, || {
            let _span = tracing::error_span!(target: "plexus_activations::x", "ours").entered();
            let _theirs =
                tracing::debug_span!(target: "brush_parser", "parse", input = "secret").entered();
            for ours in [true, false] {
                match ours {
                    true => tracing::trace!(target: "plexus_store::sqlite", "spoken"),
                    false => tracing::info!(target: "rmcp::service", "secret"),
                }
            }
            tracing::warn!(target: "rmcp::service", "warned");
        });
        let written = String::from_utf8(paper.0.lock().unwrap().clone()).unwrap();
        assert!(written.contains("spoken") && written.contains("warned"), "{written}");
        assert!(!written.contains("secret"), "{written}");
    }

    #[test]
    fn a_filter_that_cannot_be_read_is_refused() {
        assert!(parse("info,=").is_err());
    }
}
