//! `respond` and `respond_many`: the answer of a parent, a device or the operator, and the rule
//! that may be remembered with it.

use plexus_core::{Call, CallError, Caller, FailureWatcher as _};
use plexus_engine::approvals::Answer;
use plexus_store::ApprovalRecord;
use plexus_wire::{RespondManyParams, RespondOutcome, RespondOutcomes, RespondParams, Responded};
use serde_json::Value;

use super::Loopback;
use super::rules::Remembered;

impl Loopback {
    pub(super) async fn respond(
        &self,
        call: Call,
        params: RespondParams,
    ) -> Result<Responded, CallError> {
        let answer = Answer {
            approve: params.approve,
            message: params.message,
            updated_input: params.updated_input.map(Value::Object),
            answers: params.answers,
            input_digest: params.input_digest,
        };
        if matches!(call.caller, Caller::Device(_)) && params.remember.is_some() {
            return Err(CallError::forbidden("remember a decision: a device makes no rules")
                .with_field("remember")
                .with_hint("decide without it, or remember it in the dashboard"));
        }
        // A rule that cannot be made is said before anything is decided.
        let remembered = match &params.remember {
            Some(remember) => {
                self.prepare_rule(&call.caller, params.approval_id, params.approve, remember)
                    .await?
            }
            None => Remembered::default(),
        };
        let (record, _) = self
            .approvals
            .respond(&call.caller, params.approval_id, answer, remembered.new)
            .await?;
        let released = match remembered.id {
            Some(rule) => self.release_by(&call.caller, rule).await?,
            None => Vec::new(),
        };
        Ok(Responded { approval_id: record.id, rule_id: remembered.id, released })
    }

    pub(super) async fn respond_many(
        &self,
        call: Call,
        params: RespondManyParams,
    ) -> Result<RespondOutcomes, CallError> {
        let mut outcomes = Vec::with_capacity(params.approval_ids.len());
        for approval_id in params.approval_ids {
            let answer = Answer {
                approve: params.approve,
                message: params.message.clone(),
                updated_input: None,
                answers: None,
                input_digest: None,
            };
            let responded = async {
                let record = self.approvals.reach(&call.caller, approval_id).await?;
                check_among_many(&record, params.approve)?;
                self.approvals.respond(&call.caller, approval_id, answer, None).await
            };
            let error = responded.await.err();
            if let Some(error) = &error {
                // The call as a whole succeeds, so this refusal is recorded here.
                self.refusals.failed(&call.caller, "loopback.respond_many", error).await;
            }
            outcomes.push(RespondOutcome { approval_id, ok: error.is_none(), error });
        }
        Ok(RespondOutcomes { outcomes })
    }
}

/// Checks that this approval may be decided together with others: one that is left to a person is
/// allowed by itself.
fn check_among_many(record: &ApprovalRecord, approve: bool) -> Result<(), CallError> {
    match record.person_only.as_ref().filter(|_| approve) {
        None => Ok(()),
        Some(reason) => Err(CallError::forbidden(format_args!(
            "allow {} together with others: {reason}",
            record.tool_name
        ))
        .with_hint("allow it by itself, with loopback.respond")),
    }
}
