//! Approvals, from the question to the answer: the one place where a permission request becomes a row, and a decision becomes an answer.
//!
//! Both channels open approvals here. A question and its `awaiting_approval` event are one transaction; a decision and its
//! `approval_resolved` event are another; an answer leaves only after its decision is committed. Any error on the way is a denial with a reason.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use plexus_core::digest::input_digest;
use plexus_core::{ApprovalId, CallError, Caller};
use plexus_store::{
    ApprovalRecord, Change, DecideApproval, DecidedBy, Fresh, JsonText, OpenApproval, Owner, Priority, Session, Store,
    StoreError, UnixMillis, UseRule, Verdict,
};
use serde_json::{Value, json};

use super::answer::decided_by;
use super::rulebook::Rulebook;
use crate::authority::Authority;
use crate::claudecode::config::{Mode, SessionConfig, SessionState};
use crate::claudecode::event::ChatEvent;
use crate::rules::Decision;

/// When a session that asked for no deadline is reminded of, and how often.
pub(crate) const REMIND_EVERY: Duration = Duration::from_secs(300);

/// A permission request, from whichever channel.
pub(crate) struct Question<'a> {
    pub(crate) session: &'a Session,
    pub(crate) chat: Option<u32>,
    pub(crate) run: Option<u32>,
    pub(crate) channel: &'static str,
    pub(crate) request_id: &'a str,
    pub(crate) tool_name: &'a str,
    pub(crate) tool_use_id: &'a str,
    /// Byte for byte as it was asked.
    pub(crate) input: JsonText,
    pub(crate) description: Option<String>,
}

/// Carries a decision to a child that waits on the control channel.
pub(crate) trait Courier: Send + Sync {
    /// Sends the answer, if the approval's run is on the control channel and lives here.
    fn deliver(&self, record: &ApprovalRecord);
}

/// Opens and decides approvals. One for a server.
pub(crate) struct Approvals {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) rulebook: Arc<Rulebook>,
    pub(crate) authority: Authority,
    courier: OnceLock<std::sync::Weak<dyn Courier>>,
}

/// A decision as a caller gives it.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) approve: bool,
    pub(crate) message: Option<String>,
    pub(crate) updated_input: Option<Value>,
    pub(crate) input_digest: Option<String>,
}

impl Approvals {
    pub(crate) fn new(store: Arc<dyn Store>, rulebook: Arc<Rulebook>) -> Self {
        Self { authority: Authority::new(Arc::clone(&store)), store, rulebook, courier: OnceLock::new() }
    }

    /// Tells where answers on the control channel go. Once, by the wiring.
    pub(crate) fn set_courier(&self, courier: std::sync::Weak<dyn Courier>) {
        let again = self.courier.set(courier);
        debug_assert!(again.is_ok(), "there is one courier");
    }

    /// Builds the changes that open an approval and, when a rule or a mode answers at once, decide it too.
    pub(crate) async fn plan(&self, question: &Question<'_>) -> Result<Vec<Change>, StoreError> {
        let config = SessionConfig::of(question.session)?;
        let input: Value = question.input.read()?;
        let now = UnixMillis::now();
        let id = ApprovalId::generate();
        let timeout = config.approval_timeout();
        let owner = self.authority.owner_of(question.session, &config, question.tool_name, &input).await?;
        let suggestions = self.rulebook.suggestions(question.session, &config, question.tool_name, &input);
        let event = ChatEvent::AwaitingApproval {
            approval_id: id,
            tool_name: question.tool_name.to_owned(),
            tool_use_id: question.tool_use_id.to_owned(),
            input: question.input.clone(),
        };
        let parent_event = ChatEvent::ToolRequest {
            approval_id: id,
            session_id: question.session.id,
            session_name: question.session.name.clone(),
            tool_name: question.tool_name.to_owned(),
            tool_use_id: question.tool_use_id.to_owned(),
            input: question.input.clone(),
        };
        let mut changes = vec![Change::OpenApproval(OpenApproval {
            id,
            session: question.session.id,
            chat: question.chat,
            run: question.run,
            channel: question.channel.to_owned(),
            request_id: question.request_id.to_owned(),
            tool_name: question.tool_name.to_owned(),
            tool_use_id: question.tool_use_id.to_owned(),
            input: question.input.clone(),
            input_digest: input_digest(&input),
            description: question.description.clone(),
            suggestions,
            owner,
            at: now,
            deadline: timeout.map(|timeout| now.plus(timeout)),
            escalate_at: Some(now.plus(escalate_after(&config, timeout))),
            event: question.chat.is_some().then(|| event.to_new_event()).transpose()?,
            parent_event: question.session.parent.is_some().then(|| parent_event.to_new_event()).transpose()?,
        })];
        if let Some((verdict, by, message, used)) = self.answer_at_once(question, &config, &input).await? {
            changes.extend(used.into_iter().map(|id| Change::UseRule(UseRule { id, now })));
            changes.push(self.decision(id, question.chat, None, verdict, by, Some(message))?);
        }
        Ok(changes)
    }

    /// What a rule, or a mode that the operator set for a while, says before anybody is asked. A rule that denies or asks beats a mode.
    async fn answer_at_once(
        &self,
        question: &Question<'_>,
        config: &SessionConfig,
        input: &Value,
    ) -> Result<Option<(Verdict, DecidedBy, String, Vec<plexus_core::RuleId>)>, StoreError> {
        let ruling = self.rulebook.decide(question.session, config, question.tool_name, input).await?;
        match (ruling.decision, ruling.rule) {
            (Decision::Allow, Some(rule)) => {
                return Ok(Some((
                    Verdict::Allow { updated_input: None },
                    DecidedBy::Rule(rule),
                    ruling.why,
                    ruling.used,
                )));
            }
            (Decision::Deny, Some(rule)) => {
                return Ok(Some((Verdict::Deny, DecidedBy::Rule(rule), ruling.why, ruling.used)));
            }
            (Decision::Ask, Some(_)) => return Ok(None),
            (Decision::Allow | Decision::Deny | Decision::Ask, None) => {}
        }
        let mode = SessionState::of(question.session)?.mode.filter(|mode| mode.until > UnixMillis::now().as_secs());
        let Some(mode) = mode else { return Ok(None) };
        let covered = match mode.mode {
            Mode::Ask => false,
            Mode::AllowAll => true,
            Mode::AcceptEdits => self.rulebook.is_edit_inside(question.session, config, question.tool_name, input),
        };
        let message = format!("the operator's mode allows this until {}", mode.until);
        Ok(covered.then(|| (Verdict::Allow { updated_input: None }, DecidedBy::Operator, message, Vec::new())))
    }

    /// Builds the change that decides an approval, with its event.
    pub(crate) fn decision(
        &self,
        id: ApprovalId,
        chat: Option<u32>,
        expects_digest: Option<String>,
        verdict: Verdict,
        by: DecidedBy,
        message: Option<String>,
    ) -> Result<Change, StoreError> {
        let approved = matches!(verdict, Verdict::Allow { .. });
        let event = ChatEvent::ApprovalResolved {
            approval_id: id,
            approved,
            message: message.clone(),
            updated_input: verdict.updated_input().cloned(),
            decided_by: decided_by(&by),
        };
        let event = chat.is_some().then(|| event.to_new_event()).transpose()?;
        Ok(Change::DecideApproval(DecideApproval {
            id,
            expects_digest,
            verdict,
            by,
            message,
            at: UnixMillis::now(),
            event,
        }))
    }

    /// Opens an approval that no journal line stands for (the MCP channel). Asked again, it joins what stands.
    ///
    /// The rule that answered may be used up between the look and the commit; then the question is planned again.
    pub(crate) async fn open(&self, question: &Question<'_>) -> Result<ApprovalRecord, StoreError> {
        const TRIES: usize = 3;
        for attempt in 1..=TRIES {
            let changes = self.plan(question).await?;
            match self.store.commit(changes, Priority::Urgent).await {
                Ok(committed) => {
                    let record = committed.approval().map(|(record, _)| record.id);
                    let id =
                        record.ok_or_else(|| StoreError::invalid("open an approval: the store did not say which"))?;
                    return self.store.approval(id).await;
                }
                Err(StoreError::Conflict { .. }) if attempt < TRIES => {
                    // Perhaps the question stands already, decided: then that decision is the answer.
                    let standing =
                        self.store.approval_by_request(question.session.id, question.run, question.request_id).await?;
                    let digest = input_digest(&question.input.read()?);
                    if let Some(record) = standing.filter(|record| record.input_digest == digest) {
                        return Ok(record);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Err(StoreError::invalid("open an approval: what stands keeps changing"))
    }

    /// Decides an approval for `caller`, then sends the answer. The same answer again is fine; another one names what stands.
    pub(crate) async fn respond(
        &self,
        caller: &Caller,
        id: ApprovalId,
        answer: Answer,
    ) -> Result<(ApprovalRecord, Fresh), CallError> {
        let record = self.reach(caller, id).await?;
        let by = match caller {
            Caller::Operator => DecidedBy::Operator,
            Caller::Session(session) => DecidedBy::Session(*session),
            Caller::Child(_) => return Err(CallError::forbidden("decide: a child may only ask")),
        };
        let verdict = self.verdict(caller, &record, &answer).await?;
        let change = self.decision(id, record.chat, answer.input_digest, verdict, by, answer.message)?;
        let committed = self.store.commit(vec![change], Priority::Urgent).await?;
        let (record, fresh) =
            committed.approval().ok_or_else(|| CallError::internal("decide: the store did not say what stands"))?;
        let record = record.clone();
        self.deliver(&record);
        Ok((record, fresh))
    }

    /// Turns the caller's answer into a verdict, if the caller has the authority for it. Anybody above may say no.
    async fn verdict(&self, caller: &Caller, record: &ApprovalRecord, answer: &Answer) -> Result<Verdict, CallError> {
        if !answer.approve {
            if answer.updated_input.is_some() {
                return Err(CallError::invalid("deny with updated_input: an edited input goes with an allow"));
            }
            return Ok(Verdict::Deny);
        }
        let updated = match &answer.updated_input {
            Some(input) if !input.is_object() => {
                return Err(CallError::invalid("allow with this updated_input: it is not an object"));
            }
            // The same input said again is no edit.
            Some(input) if input_digest(input) == record.input_digest => None,
            other => other.as_ref(),
        };
        let session = self.store.session(record.session).await?;
        let config = SessionConfig::of(&session)?;
        let effective = match updated {
            Some(input) => input.clone(),
            None => record.input.read()?,
        };
        if let Caller::Session(decider) = caller
            && !self.authority.may_allow(*decider, record.session, &config, &record.tool_name, &effective).await?
        {
            return Err(CallError::forbidden(format_args!(
                "allow {}: your creator did not list it for you",
                record.tool_name
            ))
            .with_hint("deny it, or leave it: it goes up to your own parent"));
        }
        if updated.is_some() {
            // What was edited is another call: a rule that forbids it forbids it here too.
            let ruling = self.rulebook.decide(&session, &config, &record.tool_name, &effective).await?;
            if ruling.decision == Decision::Deny {
                return Err(CallError::forbidden(format_args!("allow the edited input: {}", ruling.why)));
            }
        }
        Ok(Verdict::Allow { updated_input: updated.map(|input| JsonText::from(input.clone())) })
    }

    /// Returns the approval if `caller` may know of it.
    pub(crate) async fn reach(&self, caller: &Caller, id: ApprovalId) -> Result<ApprovalRecord, CallError> {
        let hidden = || {
            CallError::not_found(format_args!("find the approval {id}"))
                .with_hint("loopback.pending lists those that wait for you")
        };
        let record = match self.store.approval(id).await {
            Ok(record) => record,
            Err(StoreError::NotFound { .. }) => return Err(hidden()),
            Err(error) => return Err(error.into()),
        };
        match self.authority.reach(caller, record.session).await {
            Ok(_) => Ok(record),
            Err(error) if error.kind == plexus_core::ErrorKind::NotFound => Err(hidden()),
            Err(error) => Err(error),
        }
    }

    /// Decides by deadline, because the agent ended, or by a rule that was just added. Somebody else being first is fine.
    pub(crate) async fn settle_by_itself(
        &self,
        record: &ApprovalRecord,
        verdict: Verdict,
        by: DecidedBy,
        message: &str,
    ) -> Result<(), StoreError> {
        let change = self.decision(record.id, record.chat, None, verdict, by, Some(message.to_owned()))?;
        match self.store.commit(vec![change], Priority::Urgent).await {
            Ok(committed) => {
                if let Some((record, Fresh::Made)) = committed.approval() {
                    self.deliver(record);
                }
                Ok(())
            }
            Err(StoreError::Conflict { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Decides a pending request by a rule that was just added, counting the rule's use. Says whether this was what decided it.
    pub(crate) async fn decide_by_rule(
        &self,
        record: &ApprovalRecord,
        verdict: Verdict,
        by: DecidedBy,
        ruling: &crate::rules::Verdict,
    ) -> Result<bool, StoreError> {
        let now = UnixMillis::now();
        let mut changes: Vec<Change> = ruling.used.iter().map(|id| Change::UseRule(UseRule { id: *id, now })).collect();
        changes.push(self.decision(record.id, record.chat, None, verdict, by, Some(ruling.why.clone()))?);
        match self.store.commit(changes, Priority::Urgent).await {
            Ok(committed) => {
                let Some((record, fresh)) = committed.approval() else { return Ok(false) };
                self.deliver(record);
                Ok(fresh == Fresh::Made)
            }
            // Somebody else was first, or the rule is used up.
            Err(StoreError::Conflict { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Hands a decided approval to whoever carries answers.
    pub(crate) fn deliver(&self, record: &ApprovalRecord) {
        if let Some(courier) = self.courier.get().and_then(std::sync::Weak::upgrade) {
            courier.deliver(record);
        }
    }
}

/// When a question is passed on: as the session asked, else at half of its time, else after [`REMIND_EVERY`].
fn escalate_after(config: &SessionConfig, timeout: Option<Duration>) -> Duration {
    let asked = config.escalate_after_secs.map(Duration::from_secs);
    asked.unwrap_or_else(|| timeout.map_or(REMIND_EVERY, |timeout| timeout / 2))
}

/// An approval as `pending` and `poll` show it. Times of approvals are in seconds.
pub(crate) fn as_pending(record: &ApprovalRecord, session_name: &str) -> Value {
    let mut shown = json!({
        "id": record.id,
        "session_id": record.session,
        "session_name": session_name,
        "tool_name": record.tool_name,
        "tool_use_id": record.tool_use_id,
        "input": record.input.to_value(),
        "input_digest": record.input_digest,
        "suggested_rules": record.suggestions.to_value(),
        "status": record.status,
        "created_at": record.created_at.as_secs(),
    });
    if let Some(description) = &record.description {
        shown["description"] = json!(description);
    }
    if let Some(deadline) = record.deadline {
        shown["expires_at"] = json!(deadline.as_secs());
    }
    if record.escalations > 0 {
        shown["escalated_to"] = match record.owner {
            Owner::Operator => json!("operator"),
            Owner::Session(id) => json!({ "session": id }),
        };
    }
    shown
}
