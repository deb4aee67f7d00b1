//! Handles of permission requests, rules and audit lines: which kinds there are, and what each
//! stands for.

use plexus_core::{CallError, Caller, Handle, HandleKind};
use plexus_engine::approvals::shown::as_decision;
use plexus_engine::handles;
use plexus_store::{NumberedLine, PageRequest};
use plexus_wire::{AuditLine, DecidedApproval, KnownThing};
use serde_json::Value;

use super::Loopback;
use crate::claudecode::as_value;

/// The kinds of handles that this activation owns.
pub(super) const KINDS: &[HandleKind] = &[
    HandleKind {
        method: "approval",
        meta: &["approval_id"],
        description: "A permission request and its decision.",
    },
    HandleKind { method: "rule", meta: &["rule_id"], description: "A standing rule." },
    HandleKind { method: "audit_line", meta: &["number"], description: "A line of the audit." },
];

/// A line of the audit as the wire shows it.
pub(super) fn shown_line(NumberedLine { number, line }: NumberedLine) -> AuditLine {
    AuditLine {
        at: line.at.into(),
        kind: line.kind,
        session_id: line.session,
        body: line.body.into(),
        handle: Some(handles::audit_line(number)),
    }
}

impl Loopback {
    async fn thing(&self, caller: &Caller, handle: &Handle) -> Result<KnownThing, CallError> {
        Ok(match handle.method.as_str() {
            "approval" => {
                let id = handle.part(0, "approval_id")?;
                KnownThing::Approval(as_decision(&self.approvals.reach(caller, id).await?))
            }
            "rule" => KnownThing::Rule(self.rule_for(caller, handle.part(0, "rule_id")?).await?),
            _ => KnownThing::AuditLine(self.line_for(caller, handle.part(0, "number")?).await?),
        })
    }

    /// Says what a handle of one of [`KINDS`] stands for.
    pub(super) async fn resolved(
        &self,
        caller: &Caller,
        handle: &Handle,
    ) -> Result<Value, CallError> {
        as_value(&self.thing(caller, handle).await?)
    }

    /// Writes the same in a few words.
    pub(super) async fn summarized(
        &self,
        caller: &Caller,
        handle: &Handle,
    ) -> Result<Option<String>, CallError> {
        Ok(match self.thing(caller, handle).await? {
            KnownThing::Approval(DecidedApproval { tool_name, status, .. }) => {
                Some(format!("approval of {tool_name}: {status}"))
            }
            KnownThing::Rule(rule) => Some(format!("rule {} {}", rule.decision, rule.pattern)),
            KnownThing::AuditLine(line) => Some(format!("audit {}", line.kind)),
            _ => None,
        })
    }

    /// Returns a line of the audit, which is the operator's.
    async fn line_for(&self, caller: &Caller, number: u64) -> Result<AuditLine, CallError> {
        let hidden = || CallError::not_found(format_args!("find the audit line {number}"));
        if *caller != Caller::Operator {
            return Err(hidden());
        }
        let page = self.store.audit(None, PageRequest::newest_from(number)).await?;
        let line = page.items.into_iter().find(|line| line.number == number);
        line.map(shown_line).ok_or_else(hidden)
    }
}
