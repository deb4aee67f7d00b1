//! A decision becomes a change: who may make it, whether it is about the input that was seen, and
//! which event and webhooks report it.

use plexus_core::digest::input_digest;
use plexus_core::{ApprovalId, CallError, Caller, DeviceId};
use plexus_rules as rules;
use plexus_store::{
    Again, ApprovalRecord, ApprovalStatus, AuditLine, Change, DecideApproval, DecidedBy, Decision,
    Fresh, JsonText, NewRule, Priority, StoreError, UnixMillis, Verdict,
};
use plexus_wire::{AnsweredOutside, ChatEvent};

use super::input::acceptable;
use super::questions::Reply;
use super::shown::as_decision;
use super::{Answer, Approvals};
use crate::authority::Deed;
use crate::event::ToNewEvent;
use crate::session::SessionConfig;

impl Approvals {
    /// Commits a decision of `caller`; the commit wakes the task that sends the answer. Repeating
    /// the same answer succeeds; a different one is a conflict that names the standing decision.
    ///
    /// A rule that remembers the decision is part of the same transaction.
    pub async fn respond(
        &self,
        caller: &Caller,
        id: ApprovalId,
        answer: Answer,
        remembered: Option<NewRule>,
    ) -> Result<(ApprovalRecord, Fresh), CallError> {
        let record = self.reach(caller, id).await?;
        let by = match caller {
            Caller::Operator => DecidedBy::Operator,
            Caller::Session(session) => DecidedBy::Session(*session),
            Caller::Device(device) => DecidedBy::Device(*device),
            Caller::Child(_) => return Err(CallError::forbidden("decide: a child may only ask")),
        };
        let approve = answer.approve;
        let verdict = self.verdict(caller, &record, &answer).await?;
        let decision = self.decision_on(
            &record,
            answer.input_digest,
            Reply { verdict, answers: answer.answers, receiver: None },
            by,
            answer.message,
            Again::Fine,
        )?;
        let mut changes = vec![decision];
        // The same answer again is fine, and tells nothing new.
        if let Caller::Device(device) = caller
            && record.status == ApprovalStatus::Pending
        {
            changes.push(self.answered_by_device(*device, &record, approve).await?);
        }
        changes.extend(remembered.map(Change::AddRule));
        let committed = match self.store.commit(changes, Priority::Urgent).await {
            Ok(committed) => committed,
            Err(StoreError::Conflict { message, .. }) => {
                let standing = as_decision(&self.store.approval(id).await?);
                return Err(CallError::conflict(message).with_standing(standing).with_hint(
                    "standing says what was decided, or asked; loopback.history has it too",
                ));
            }
            Err(error) => return Err(error.into()),
        };
        let (record, fresh) = committed
            .approval()
            .ok_or_else(|| CallError::internal("decide: the store returned no decision"))?;
        let record = record.clone();
        self.decided(&record, fresh);
        Ok((record, fresh))
    }

    /// Writes the audit line that names the device which decided.
    async fn answered_by_device(
        &self,
        device: DeviceId,
        record: &ApprovalRecord,
        approved: bool,
    ) -> Result<Change, CallError> {
        let line = AnsweredOutside {
            approval_id: record.id,
            via: "device".to_owned(),
            receiver: self.store.device(device).await?.name,
            approved,
            input_digest: record.input_digest.clone(),
        };
        Ok(Change::AppendAudit(AuditLine {
            at: UnixMillis::now(),
            kind: "approval.answered".into(),
            session: Some(record.session),
            body: JsonText::of(&line)?,
        }))
    }

    /// Turns the caller's answer into a verdict, if the caller has the authority for it. Anybody
    /// above the session may deny.
    async fn verdict(
        &self,
        caller: &Caller,
        record: &ApprovalRecord,
        answer: &Answer,
    ) -> Result<Verdict, CallError> {
        if !answer.approve {
            if answer.updated_input.is_some() {
                return Err(CallError::invalid(
                    "deny with updated_input: an edited input goes with an allow",
                )
                .with_field("updated_input"));
            }
            if answer.answers.is_some() {
                return Err(CallError::invalid("deny with answers: answers go with an allow")
                    .with_field("answers"));
            }
            return Ok(Verdict::Deny);
        }
        if matches!(caller, Caller::Device(_)) && answer.updated_input.is_some() {
            return Err(CallError::forbidden(
                "allow another input: a device decides about what was asked",
            )
            .with_field("updated_input")
            .with_hint("allow it as it was asked, deny it, or edit it in the dashboard"));
        }
        if answer.answers.is_some() && answer.updated_input.is_some() {
            return Err(CallError::invalid("answer with answers and updated_input: give one")
                .with_field("updated_input"));
        }
        let session = self.store.session(record.session).await?;
        let config = SessionConfig::of(&session)?;
        // A caller that edits the input writes the answers into it.
        let answered = match &answer.updated_input {
            Some(_) => None,
            None => self.answered(record, &config, answer.answers.as_ref())?,
        };
        // Repeating the same input is not an edit.
        let updated = answered
            .as_ref()
            .or(answer.updated_input.as_ref())
            .filter(|input| input_digest(input) != record.input_digest)
            .map(JsonText::of)
            .transpose()?;
        // Only an edit needs the agent: this server may not know the one of another server's
        // session.
        if updated.is_some()
            && !self.agents.get(&config.agent)?.driver.takes_edit(&record.tool_name)
        {
            return Err(CallError::invalid(format_args!(
                "allow another input: {} does not have the power edit_input: it runs what it asked \
                 about",
                config.agent
            ))
            .with_field("updated_input")
            .with_hint("allow it as it was asked, or deny it and say what to run instead"));
        }
        let effective = acceptable(updated.as_ref().unwrap_or(&record.input))?;
        let tool = self.views.tools.read(&config, &record.tool_name, &effective);
        let deed = Deed::of(record, &config, &tool);
        self.check_allow(caller, record, &deed).await?;
        if updated.is_some() {
            // An edited input is another call, so a deny rule applies to it too.
            let judgement = self.judge(&session, &deed).await?;
            if judgement.decision == rules::Decision::Deny {
                let why = match caller {
                    Caller::Operator | Caller::Device(_) => judgement.why,
                    Caller::Session(_) | Caller::Child(_) => self.told(&judgement, &deed).await?,
                };
                return Err(CallError::forbidden(format_args!("allow the edited input: {why}")));
            }
        }
        Ok(Verdict::Allow { updated_input: updated })
    }

    /// Checks that `caller`, who reaches this approval, has the authority to allow this call.
    ///
    /// # Errors
    /// `forbidden` when it does not.
    pub(crate) async fn check_allow(
        &self,
        caller: &Caller,
        record: &ApprovalRecord,
        deed: &Deed<'_>,
    ) -> Result<(), CallError> {
        let decider = match caller {
            Caller::Operator | Caller::Device(_) => return Ok(()),
            Caller::Session(decider) => *decider,
            Caller::Child(_) => return Err(CallError::forbidden("decide: a child may only ask")),
        };
        if let Some(reason) = deed.person_only {
            return Err(CallError::forbidden(format_args!(
                "allow {}: only the operator may: {reason}",
                record.tool_name
            ))
            .with_hint("deny it, or leave it: it waits for the operator"));
        }
        if !self.is_judged_here(record).await? {
            // What a session may allow depends on where paths lead, and this server cannot see the
            // files of that machine.
            return Err(CallError::forbidden(format_args!(
                "allow {}: its agent runs on another server",
                record.tool_name
            ))
            .with_hint(
                "answer through that server, or deny it, or leave it: it goes up to your \
                own parent",
            ));
        }
        if !self.authority.may_allow(decider, deed).await? {
            return Err(CallError::forbidden(format_args!(
                "allow {}: your creator did not list it for you",
                record.tool_name
            ))
            .with_hint("deny it, or leave it: it goes up to your own parent"));
        }
        Ok(())
    }

    /// Decides by deadline, or because the question went away. Losing to another decision is not an
    /// error.
    pub async fn settle_by_itself(
        &self,
        record: &ApprovalRecord,
        verdict: Verdict,
        by: DecidedBy,
        message: &str,
    ) -> Result<(), StoreError> {
        let change =
            self.decision_on(record, None, verdict, by, Some(message.to_owned()), Again::Fine)?;
        match self.store.commit(vec![change], Priority::Urgent).await {
            Ok(committed) => {
                if let Some((record, fresh @ Fresh::Made)) = committed.approval() {
                    self.waited.note(record, fresh);
                }
                Ok(())
            }
            // Decided by somebody else in this moment, or gone with its session.
            Err(StoreError::Conflict { .. } | StoreError::NotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Builds the change that decides a stored approval, with its event and its webhook messages.
    pub(crate) fn decision_on(
        &self,
        record: &ApprovalRecord,
        expects_digest: Option<String>,
        reply: impl Into<Reply>,
        by: DecidedBy,
        message: Option<String>,
        again: Again,
    ) -> Result<Change, StoreError> {
        let reply = reply.into();
        let receiver = reply.receiver.clone();
        let decide = decision(record.id, record.chat, reply, by, message)?;
        let decided = Decision {
            by,
            at: decide.at,
            message: decide.message.clone(),
            updated_input: decide.verdict.updated_input().cloned(),
        };
        let stands = ApprovalRecord {
            status: decide.verdict.status(),
            decision: Some(decided),
            ..record.clone()
        };
        let outbox = self.hooks.resolved(&stands, receiver)?;
        Ok(Change::DecideApproval(DecideApproval { expects_digest, again, outbox, ..decide }))
    }
}

/// The decision of an approval, with its event.
pub(super) fn decision(
    id: ApprovalId,
    chat: Option<u32>,
    reply: impl Into<Reply>,
    by: DecidedBy,
    message: Option<String>,
) -> Result<DecideApproval, StoreError> {
    let Reply { verdict, answers, receiver: _ } = reply.into();
    let event = ChatEvent::ApprovalResolved {
        approval_id: id,
        approved: matches!(verdict, Verdict::Allow { .. }),
        message: message.clone(),
        updated_input: verdict.updated_input().cloned().map(Into::into),
        answers,
        decided_by: by,
    };
    let event = chat.is_some().then(|| event.to_new_event()).transpose()?;
    let at = UnixMillis::now();
    let (again, outbox) = (Again::Fine, Vec::new());
    Ok(DecideApproval { id, expects_digest: None, verdict, by, message, at, event, again, outbox })
}
