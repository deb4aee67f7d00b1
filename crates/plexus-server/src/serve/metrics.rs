//! `/metrics`: what there is and what happens, in Prometheus' text form.

use std::fmt::Write as _;
use std::time::Duration;

use plexus_core::LatencyReading;
use plexus_store::{
    ApprovalFilter, PageRequest, Server, ServerState, Stage, StoreError, UnixMillis, limits,
};

use super::pages::Pages;

/// Writes all metrics.
pub(super) async fn render(pages: &Pages) -> Result<String, StoreError> {
    let counts = pages.store.counts().await?;
    let doors = pages.doors.stats();
    let mut text = Text::default();
    text.gauge("plexus_sessions", "Sessions in the store.", counts.sessions);
    text.gauge("plexus_children", "Children that live.", pages.engine.children() as u64);
    text.family(
        "plexus_chats",
        "gauge",
        "Chats by status.",
        &[
            ("status=\"running\"", counts.chats_running),
            ("status=\"complete\"", counts.chats_complete),
            ("status=\"failed\"", counts.chats_failed),
            ("status=\"cancelled\"", counts.chats_cancelled),
        ],
    );
    text.counter("plexus_events_total", "Events ever stored.", counts.events);
    text.family(
        "plexus_approvals",
        "gauge",
        "Approvals by state.",
        &[
            ("state=\"pending\"", counts.approvals_pending),
            ("state=\"allowed\"", counts.approvals_allowed),
            ("state=\"denied\"", counts.approvals_denied),
            ("state=\"expired\"", counts.approvals_expired),
            ("state=\"cancelled\"", counts.approvals_cancelled),
        ],
    );
    let waiting = Waiting::look(pages).await?;
    text.gauge(
        "plexus_approval_oldest_seconds",
        "Age of the oldest pending approval.",
        waiting.oldest_secs,
    );
    let older = waiting.older_than.map(|(secs, count)| (format!("age_seconds=\"{secs}\""), count));
    text.family(
        "plexus_approvals_pending_older",
        "gauge",
        "Pending approvals that are older than this, counted up to a page of 1,000.",
        &older.each_ref().map(|(labels, count)| (labels.as_str(), *count)),
    );
    text.histograms(
        "plexus_decision_seconds",
        "From a permission request to its decision, by who decided; what a rule answers at once \
         never waited.",
        &pages
            .engine
            .decision_latency()
            .into_iter()
            .map(|(by, read)| (format!("by=\"{by}\""), read))
            .collect::<Vec<_>>(),
    );
    let judged = pages.engine.parkable().into_iter();
    let judged: Vec<(String, u64)> =
        judged.map(|(label, count)| (format!("verdict=\"{label}\""), count)).collect();
    text.family(
        "plexus_parkable_total",
        "counter",
        "Permission requests that waited for a second, by whether their agent could be parked \
         then, or why not.",
        &judged.iter().map(|(labels, count)| (labels.as_str(), *count)).collect::<Vec<_>>(),
    );
    text.gauge("plexus_runs_open", "Runs that have not ended.", counts.runs_open);
    text.counter("plexus_store_commits_total", "Commits of the store.", counts.commits);
    text.histograms(
        "plexus_store_commit_seconds",
        "From handing in changes to their commit.",
        &[(String::new(), pages.store.commit_latency())],
    );
    text.gauge("plexus_store_queue", "Changes that wait for the writer.", counts.queue_entries);
    nodes(pages, &mut text).await?;
    text.gauge("plexus_store_bytes", "Size of the store on disk.", counts.bytes_on_disk);
    text.gauge("plexus_connections", "Open connections.", doors.open_connections as u64);
    text.gauge("plexus_streams", "Open long polls and streams.", doors.open_streams as u64);
    text.gauge(
        "plexus_held_bytes",
        "Bytes of requests, answers and stream items in memory.",
        doors.held_bytes as u64,
    );
    text.gauge("plexus_mcp_sessions", "MCP sessions kept.", doors.mcp_sessions as u64);
    text.counter("plexus_calls_total", "Calls over all doors.", doors.calls_total);
    text.counter("plexus_call_errors_total", "Calls that failed.", doors.errors_total);
    text.counter(
        "plexus_method_panics_total",
        "Methods that panicked: a defect, whose place is in the log.",
        doors.panics_total,
    );
    webhooks(pages, &mut text).await?;
    Ok(text.0)
}

/// The servers that share the store, and how far this one is from it. Nothing where the store is
/// this server's alone.
async fn nodes(pages: &Pages, text: &mut Text) -> Result<(), StoreError> {
    let (Some(round_trip), Some(ours)) = (pages.engine.store_round_trip(), pages.store.lease())
    else {
        return Ok(());
    };
    let servers = pages.store.servers().await?;
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let labelled = |value: fn(&Server) -> u64| -> Vec<(String, u64)> {
        let known = servers
            .iter()
            .filter(|it| matches!(it.state, ServerState::Alive | ServerState::Expired));
        known
            .map(|it| {
                (format!("node=\"{}\",id=\"{}\"", escaped(&it.name), it.lease.server), value(it))
            })
            .collect()
    };
    let mut family = |name: &str, help: &str, samples: Vec<(String, u64)>| {
        let samples: Vec<(&str, u64)> =
            samples.iter().map(|(labels, value)| (labels.as_str(), *value)).collect();
        text.family(name, "gauge", help, &samples);
    };
    family(
        "plexus_node_alive",
        "Whether the lease of a node stands.",
        labelled(|it| u64::from(it.state == ServerState::Alive)),
    );
    family(
        "plexus_node_lease_left_ms",
        "What is left of the lease of a node.",
        labelled(|it| it.lease_left.as_millis() as u64),
    );
    family(
        "plexus_node_heartbeat_age_ms",
        "How long ago a node was heard of.",
        labelled(|it| it.heartbeat_age.as_millis() as u64),
    );
    family(
        "plexus_node_runs_open",
        "Runs of a node that have not ended.",
        labelled(|it| it.open_runs),
    );
    text.gauge("plexus_node_epoch", "How often this node has registered.", ours.epoch);
    text.gauge(
        "plexus_store_round_trip_ms",
        "How long the last renewal of the lease took.",
        millis(round_trip),
    );
    Ok(())
}

/// A label's value: a backslash, a quote or a line's end would end it early.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// What waits, by age.
struct Waiting {
    oldest_secs: u64,
    older_than: [(u64, u64); AGES_SECS.len()],
}

/// The ages that are counted, in seconds: requests that a person who watches would have answered,
/// that were reminded of, whose person is away, and that nobody seems to see.
const AGES_SECS: [u64; 4] = [10, 60, 300, 3_600];

impl Waiting {
    async fn look(pages: &Pages) -> Result<Self, StoreError> {
        let filter = ApprovalFilter { stage: Stage::Pending, ..ApprovalFilter::default() };
        // Oldest first: whatever else there is, the oldest are on this page.
        let oldest =
            pages.store.approvals(filter, PageRequest::first(limits::MAX_PAGE_ITEMS)).await?;
        let now = UnixMillis::now();
        let ages: Vec<u64> =
            oldest.items.iter().map(|approval| now.after(approval.created_at).as_secs()).collect();
        Ok(Self {
            oldest_secs: ages.first().copied().unwrap_or(0),
            older_than: AGES_SECS
                .map(|secs| (secs, ages.iter().filter(|age| **age > secs).count() as u64)),
        })
    }
}

/// What was sent to each receiver since the server started, and what waits for it.
async fn webhooks(pages: &Pages, text: &mut Text) -> Result<(), StoreError> {
    let counted = pages.hooks.read();
    if counted.is_empty() {
        return Ok(());
    }
    let waiting = pages.store.outbox_waiting().await?;
    let now = UnixMillis::now();
    let of = |name: &str| waiting.iter().find(|waiting| waiting.target == name);
    let mut family = |name: &str, kind: &str, help: &str, value: &dyn Fn(&str) -> u64| {
        let labels: Vec<String> =
            counted.keys().map(|name| format!("receiver=\"{name}\"")).collect();
        let samples: Vec<(&str, u64)> =
            labels.iter().map(String::as_str).zip(counted.keys().map(|name| value(name))).collect();
        text.family(name, kind, help, &samples);
    };
    let count = |name: &str| counted.get(name).cloned().unwrap_or_default();
    family("plexus_webhook_delivered_total", "counter", "Messages that arrived.", &|name| {
        count(name).delivered
    });
    family("plexus_webhook_failed_total", "counter", "Attempts that failed.", &|name| {
        count(name).failed
    });
    family("plexus_webhook_given_up_total", "counter", "Messages given up.", &|name| {
        count(name).given_up
    });
    family("plexus_webhook_pending", "gauge", "Messages that wait.", &|name| {
        of(name).map_or(0, |it| it.entries)
    });
    family(
        "plexus_webhook_oldest_seconds",
        "gauge",
        "Age of the oldest message that waits.",
        &|name| of(name).map_or(0, |it| now.after(it.oldest).as_secs()),
    );
    Ok(())
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "gauge", help, &[("", value)]);
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "counter", help, &[("", value)]);
    }

    /// Writes a histogram with one series for each reading; its labels may be empty.
    fn histograms(&mut self, name: &str, help: &str, series: &[(String, LatencyReading)]) {
        // Writing to a string cannot fail, here and below.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} histogram");
        for (labels, read) in series {
            let comma = if labels.is_empty() { "" } else { "," };
            for (bound, count) in &read.up_to {
                let _ = writeln!(
                    self.0,
                    "{name}_bucket{{{labels}{comma}le=\"{}\"}} {count}",
                    bound.as_secs_f64()
                );
            }
            let _ = writeln!(self.0, "{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {}", read.count);
            let braced = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
            let _ = writeln!(self.0, "{name}_sum{braced} {}", read.sum.as_secs_f64());
            let _ = writeln!(self.0, "{name}_count{braced} {}", read.count);
        }
    }

    fn family(&mut self, name: &str, kind: &str, help: &str, samples: &[(&str, u64)]) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in samples {
            let _ = match *labels {
                "" => writeln!(self.0, "{name} {value}"),
                labels => writeln!(self.0, "{name}{{{labels}}} {value}"),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_its_help_its_type_and_its_samples() {
        let mut text = Text::default();
        text.family("a_total", "counter", "Help.", &[("x=\"1\"", 2), ("", 3)]);
        assert_eq!(
            text.0,
            "# HELP a_total Help.\n# TYPE a_total counter\na_total{x=\"1\"} 2\na_total 3\n"
        );
    }

    #[test]
    fn a_histogram_has_its_buckets_its_sum_and_its_count() {
        let read = LatencyReading {
            up_to: vec![(Duration::from_millis(5), 1)],
            count: 2,
            sum: Duration::from_millis(2_500),
        };
        for (labels, expected) in [
            ("", "a_bucket{le=\"0.005\"} 1\na_bucket{le=\"+Inf\"} 2\na_sum 2.5\na_count 2\n"),
            (
                "x=\"1\"",
                "a_bucket{x=\"1\",le=\"0.005\"} 1\na_bucket{x=\"1\",le=\"+Inf\"} 2\na_sum{x=\"1\"} 2.5\na_count{x=\"1\"} 2\n",
            ),
        ] {
            let mut text = Text::default();
            text.histograms("a", "Help.", &[(labels.to_owned(), read.clone())]);
            assert_eq!(text.0, format!("# HELP a Help.\n# TYPE a histogram\n{expected}"));
        }
    }
}
