//! How long permission requests waited, by who decided them: what the metrics page shows.
//!
//! Only requests that waited are counted. One that a rule or a mode answers in the transaction that
//! opens it did not wait, and one that its agent withdrew was decided by nobody.

use plexus_core::{Latency, LatencyReading};
use plexus_store::{ApprovalRecord, DecidedBy, Fresh};

/// The time from a question to its decision, since the server started.
#[derive(Debug, Default)]
pub(super) struct DecisionLatency {
    operator: Latency,
    session: Latency,
    rule: Latency,
    deadline: Latency,
    webhook: Latency,
    device: Latency,
}

impl DecisionLatency {
    /// Notes a decision, if it was made just now.
    pub(super) fn note(&self, record: &ApprovalRecord, fresh: Fresh) {
        let (Fresh::Made, Some(decision)) = (fresh, &record.decision) else { return };
        let latency = match decision.by {
            DecidedBy::Operator => &self.operator,
            DecidedBy::Session(_) => &self.session,
            DecidedBy::Rule(_) => &self.rule,
            DecidedBy::Deadline => &self.deadline,
            DecidedBy::Webhook => &self.webhook,
            DecidedBy::Device(_) => &self.device,
            DecidedBy::AgentEnded => return,
        };
        latency.note(decision.at.after(record.created_at));
    }

    pub(super) fn read(&self) -> Vec<(&'static str, LatencyReading)> {
        let all = [
            ("operator", &self.operator),
            ("session", &self.session),
            ("rule", &self.rule),
            ("deadline", &self.deadline),
            ("webhook", &self.webhook),
            ("device", &self.device),
        ];
        all.map(|(by, latency)| (by, latency.read())).into()
    }
}
