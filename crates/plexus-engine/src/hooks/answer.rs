//! An answer that comes back from outside, with the one-time token of a webhook. It can allow or
//! deny exactly the request of the message, or answer its question, once.

use std::sync::Arc;

use async_trait::async_trait;
use plexus_core::{Answers, CallError, ErrorKind, SecretToken};
use plexus_store::{
    Again, ApprovalRecord, ApprovalStatus, AuditLine, Change, DecidedBy, JsonText, Priority,
    StoreError, UnixMillis, Verdict,
};
use plexus_wire::{
    AnsweredOutside, Answers as WireAnswers, HookAnswer, HookAnswered, HookStanding, RefusedAttempt,
};
use serde_json::Value;

use super::token;
use crate::approvals::Approvals;
use crate::approvals::questions::Reply;
use crate::audit::Refusals;
use crate::session::SessionConfig;

/// Takes answers of webhooks, for the door at `/hooks/respond`.
pub struct HookAnswers {
    approvals: Arc<Approvals>,
    refusals: Arc<Refusals>,
}

impl HookAnswers {
    pub(crate) fn new(approvals: Arc<Approvals>, refusals: Arc<Refusals>) -> Self {
        Self { approvals, refusals }
    }

    /// Returns the one-time token of a short form that a receiver sent back. The short form is for
    /// services whose buttons carry few bytes.
    ///
    /// # Errors
    /// `unauthorized` when we did not write it for this receiver, which the audit notes.
    pub async fn whole_token(&self, receiver: &str, short: &str) -> Result<SecretToken, CallError> {
        let (store, hooks) = (&self.approvals.store, &self.approvals.hooks);
        let found = match token::read_short(short) {
            None => None,
            Some(claim) => match store.approval(claim.approval).await {
                Ok(record) => hooks.key.lengthen(&claim, receiver, &record.input_digest),
                Err(StoreError::NotFound { .. }) => None,
                Err(error) => return Err(error.into()),
            },
        };
        match found {
            Some(token) => Ok(token),
            None => {
                let error = CallError::unauthorized(
                    "accept this button: this server did not make it, or its approval is gone",
                );
                self.refused(receiver, &error).await;
                Err(error)
            }
        }
    }

    /// Notes in the audit that somebody tried to decide through a receiver and may not.
    pub async fn refused(&self, receiver: &str, error: &CallError) {
        let refused = RefusedAttempt {
            door: Some(format!("receiver {receiver}")),
            ..RefusedAttempt::new(error.kind(), error.message.as_str())
        };
        self.refusals.note(None, refused).await;
    }

    async fn decide(&self, answer: HookAnswer) -> Result<HookAnswered, CallError> {
        let unknown = || {
            CallError::unauthorized(
                "accept this token: this server did not make it, or its approval is gone",
            )
            .with_hint("send the token unchanged, as it is in the body of the webhook")
        };
        let (store, hooks) = (&self.approvals.store, &self.approvals.hooks);
        let claim = token::read(&SecretToken::new(answer.token)).ok_or_else(unknown)?;
        let record = match store.approval(claim.approval).await {
            Ok(record) => record,
            Err(StoreError::NotFound { .. }) => return Err(unknown()),
            Err(error) => return Err(error.into()),
        };
        // A receiver that was taken out of the configuration answers nothing any more.
        let via = hooks.answers_via(&claim.receiver).ok_or_else(unknown)?;
        if !hooks.key.proves(&claim, &record.input_digest) {
            return Err(unknown());
        }
        if claim.expires_at <= UnixMillis::now() {
            return Err(CallError::new(ErrorKind::Expired, "use this token: its time has passed")
                .with_hint("the request was denied, or answer it in the dashboard"));
        }
        let used = |record| {
            CallError::conflict("use this token: it was used, or somebody else has decided")
                .with_standing(standing(record))
                .with_hint("standing says what was decided")
        };
        if record.status != ApprovalStatus::Pending {
            return Err(used(&record));
        }
        let reply = Reply {
            receiver: Some(claim.receiver.clone()),
            ..self.reply(&record, answer.approve, answer.answers).await?
        };
        let decision = self.approvals.decision_on(
            &record,
            Some(answer.input_digest.unwrap_or_else(|| record.input_digest.clone())),
            reply,
            DecidedBy::Webhook,
            answer.message,
            Again::Refused,
        )?;
        let line = AuditLine {
            at: UnixMillis::now(),
            kind: "approval.answered".into(),
            session: Some(record.session),
            body: JsonText::of(&AnsweredOutside {
                approval_id: record.id,
                via: via.to_owned(),
                receiver: claim.receiver,
                approved: answer.approve,
                input_digest: record.input_digest.clone(),
            })?,
        };
        match store.commit(vec![decision, Change::AppendAudit(line)], Priority::Urgent).await {
            Ok(committed) => {
                plexus_fault::point!("hook.answer.committed");
                let (record, fresh) = committed
                    .approval()
                    .ok_or_else(|| CallError::internal("decide: the store returned no decision"))?;
                self.approvals.decided(record, fresh);
                Ok(HookAnswered { approval_id: record.id, status: record.status })
            }
            Err(StoreError::Conflict { message, .. }) => {
                let record = store.approval(record.id).await?;
                match record.status {
                    // It is still undecided, so the input is another one: its digest differs.
                    ApprovalStatus::Pending => {
                        Err(CallError::conflict(message).with_standing(standing(&record)))
                    }
                    _ => Err(used(&record)),
                }
            }
            Err(error) => Err(error.into()),
        }
    }

    /// What the answer says to exactly what was asked.
    async fn reply(
        &self,
        record: &ApprovalRecord,
        approve: bool,
        answers: Option<WireAnswers>,
    ) -> Result<Reply, CallError> {
        if !approve {
            return match answers {
                None => Ok(Verdict::Deny.into()),
                Some(_) => Err(CallError::invalid("deny with answers: answers go with an allow")
                    .with_field("answers")),
            };
        }
        let session = self.approvals.store.session(record.session).await?;
        let config = SessionConfig::of(&session)?;
        let answered = self.approvals.answered(record, &config, answers.as_ref())?;
        let updated_input = answered.as_ref().map(JsonText::of).transpose()?;
        Ok(Reply { answers, ..Verdict::Allow { updated_input }.into() })
    }
}

/// What stands, without the input, its digest and the words of the decision: they may hold more
/// than the receiver's `detail` lets out, and who carries the token could fetch them with it.
fn standing(record: &ApprovalRecord) -> HookStanding {
    let decision = record.decision.as_ref();
    HookStanding {
        approval_id: record.id,
        status: record.status.into(),
        decided_by: decision.map(|decision| decision.by.into()),
        decided_at: decision.map(|decision| decision.at.into()),
    }
}

#[async_trait]
impl Answers for HookAnswers {
    async fn answer(&self, body: &[u8]) -> Result<Value, CallError> {
        if !self.approvals.hooks.somebody_may_answer() {
            return Err(CallError::not_found(
                "take an answer: no receiver of this server may decide",
            ));
        }
        // What serde says may quote the body, and the body holds a token.
        let read = || {
            plexus_core::private_keys::refuse_private_keys(body)?;
            serde_json::from_slice(body)
        };
        let answer = read().map_err(|error| {
            CallError::invalid(format_args!("read the answer: line {}, column \
                {}", error.line(), error.column()))
                .with_hint("send {\"token\": \"…\", \"approve\": true or false, \"message\"?: \"…\", \"answers\"?: {…}, \"input_digest\"?: \"…\"}")
        })?;
        plexus_fault::point!("hook.answer.received");
        let decided = self.decide(answer).await;
        if let Err(error) = &decided
            && error.kind == ErrorKind::Unauthorized
        {
            let refused = RefusedAttempt {
                door: Some("/hooks/respond".to_owned()),
                ..RefusedAttempt::new(error.kind(), error.message.as_str())
            };
            self.refusals.note(None, refused).await;
        }
        serde_json::to_value(decided?).map_err(|_| CallError::internal("write the answer"))
    }
}
