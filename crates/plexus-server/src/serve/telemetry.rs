//! OpenTelemetry: traces and logs for a collector, when the operator names one. Off by default.
//!
//! Spans and log lines wait in bounded queues and are sent by threads of their own: a collector
//! that is slow, gone or faulty loses what was meant for it, and delays nothing else. They carry
//! names and ids (method names, session and run ids, kinds of errors) and never a parameter.

use std::time::Duration;

use anyhow::{Context as _, Result};
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_appender_tracing::layer::OpenTelemetryTracingBridge;
use opentelemetry_otlp::{LogExporter, Protocol, SpanExporter, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::logs::SdkLoggerProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::Metadata;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

use crate::config::Config;

/// The variables with which OpenTelemetry itself names a collector.
const ENDPOINT_VARIABLES: [&str; 3] = [
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT",
];

/// How long one sending may take before it is given up.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long the end of the server waits for what has not been sent yet.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// What speaks to the collector. Ask it to [`finish`](Telemetry::finish) at the end.
#[derive(Debug)]
pub struct Telemetry {
    traces: SdkTracerProvider,
    logs: SdkLoggerProvider,
}

impl Telemetry {
    /// Sets up what the configuration or the environment asks for; it sends nothing and opens no
    /// connection yet.
    ///
    /// # Errors
    /// When the address cannot be used.
    pub fn start(config: &Config) -> Result<Option<Self>> {
        let named = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let endpoint = config.otel.endpoint.trim_end_matches('/');
        if endpoint.is_empty() && !ENDPOINT_VARIABLES.iter().any(|name| named(name)) {
            return Ok(None);
        }
        let problem = || {
            format!(
                "could not send telemetry to {endpoint:?}; an address is like http://127.0.0.1:4318"
            )
        };
        // Without an address of ours the exporters read the variables by themselves.
        let (mut spans, mut lines) =
            (SpanExporter::builder().with_http(), LogExporter::builder().with_http());
        if !endpoint.is_empty() {
            spans = spans.with_endpoint(format!("{endpoint}/v1/traces"));
            lines = lines.with_endpoint(format!("{endpoint}/v1/logs"));
        }
        let spans = spans.with_protocol(Protocol::HttpBinary).with_timeout(EXPORT_TIMEOUT);
        let lines = lines.with_protocol(Protocol::HttpBinary).with_timeout(EXPORT_TIMEOUT);
        let mut resource = Resource::builder();
        if std::env::var_os("OTEL_SERVICE_NAME").is_none() {
            resource = resource.with_service_name("plexus");
        }
        let resource = resource.build();
        Ok(Some(Self {
            traces: SdkTracerProvider::builder()
                .with_resource(resource.clone())
                .with_batch_exporter(spans.build().with_context(problem)?)
                .build(),
            logs: SdkLoggerProvider::builder()
                .with_resource(resource)
                .with_batch_exporter(lines.build().with_context(problem)?)
                .build(),
        }))
    }

    /// Returns the layer that hands spans and log lines on.
    pub(super) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: tracing::Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
    {
        let traces = tracing_opentelemetry::layer()
            .with_tracer(self.traces.tracer("plexus"))
            .with_location(false)
            .with_threads(false);
        let logs = OpenTelemetryTracingBridge::new(&self.logs);
        traces.and_then(logs).with_filter(filter_fn(is_ours))
    }

    /// Sends what is left, for a short while. Blocks.
    pub fn finish(self) {
        for ended in [
            self.traces.shutdown_with_timeout(LAST_WORDS),
            self.logs.shutdown_with_timeout(LAST_WORDS),
        ] {
            if let Err(error) = ended {
                // The exporter of log lines may be shut down by now; stderr still shows this one.
                tracing::warn!(%error, "the collector did not take everything");
            }
        }
    }
}

/// Leaves out what the exporters' own libraries log: sending it would log more, without end.
fn is_ours(metadata: &Metadata<'_>) -> bool {
    metadata.target().starts_with("plexus")
}
