//! Approvals, from the question to the answer: the one place where a permission request becomes a row, and a decision becomes an answer.
//!
//! Both channels open approvals here. A question and its `awaiting_approval` event are one transaction; a decision and its
//! `approval_resolved` event are another; an answer leaves only after its decision is committed. Any error on the way is a denial with a reason.

pub mod answer;
pub mod deadlines;
pub mod input;
pub mod judge;
mod rejudge;
pub mod shown;
mod waited;

use std::sync::Arc;
use std::time::Duration;

use plexus_core::digest::input_digest;
use plexus_core::{ApprovalId, CallError, Caller, LatencyReading, SessionId};
use plexus_rules as rules;
use plexus_store::{
    Again, ApprovalFilter, ApprovalRecord, ApprovalStatus, Change, DecideApproval, DecidedBy,
    Decision, Fresh, JsonText, NewRule, OpenApproval, PageRequest, Priority, SessionRecord, Stage,
    Store, StoreError, UnixMillis, UseRule, Verdict, limits,
};
use plexus_wire::{ChatEvent, ToolCall};
use serde_json::Value;

use self::input::acceptable;
use self::judge::Judgement;
use self::shown::{ApprovalViews, as_decision};
use self::waited::DecisionLatency;
use crate::agents::Agents;
use crate::authority::{Authority, Deed};
use crate::event::ToNewEvent;
use crate::hooks::Hooks;
use crate::replan::Replans;
use crate::rulebook::Rulebook;
use crate::session::SessionConfig;

/// When a session that asked for no deadline is reminded of, and how often.
pub(crate) const REMIND_EVERY: Duration = Duration::from_secs(300);

/// A permission request, from whichever channel.
pub struct Question<'a> {
    /// Who asks.
    pub session: &'a SessionRecord,
    /// The chat in which it asks, if one is open.
    pub chat: Option<u32>,
    /// The run that asks, when the child is one of ours.
    pub run: Option<u32>,
    /// How it asks, by the name of the channel.
    pub channel: &'static str,
    /// The agent's id of the question.
    pub request_id: &'a str,
    /// The tool.
    pub tool_name: &'a str,
    /// The call.
    pub tool_use_id: &'a str,
    /// Byte for byte as it was asked.
    pub input: JsonText,
    /// What the agent says of it.
    pub description: Option<String>,
}

/// Opens and decides approvals. One for a server.
pub struct Approvals {
    pub(crate) store: Arc<dyn Store>,
    /// The standing rules in force.
    pub rulebook: Arc<Rulebook>,
    /// Who may decide what.
    pub authority: Authority,
    /// How requests are shown.
    pub views: ApprovalViews,
    /// Who is told outside.
    pub hooks: Hooks,
    /// What the agents that ask can do.
    pub agents: Agents,
    waited: DecisionLatency,
}

/// A decision as a caller gives it.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Whether it is an allow.
    pub approve: bool,
    /// What the agent is told with it.
    pub message: Option<String>,
    /// The input to run instead of the one that was asked about.
    pub updated_input: Option<Value>,
    /// The digest of the input that the caller saw.
    pub input_digest: Option<String>,
}

impl Approvals {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        rulebook: Arc<Rulebook>,
        hooks: Hooks,
        agents: Agents,
    ) -> Self {
        Self {
            authority: Authority::new(Arc::clone(&store)),
            views: hooks.views.clone(),
            store,
            rulebook,
            hooks,
            agents,
            waited: DecisionLatency::default(),
        }
    }

    /// Builds the changes that open an approval and, when a rule or a mode answers at once, decide it too.
    ///
    /// A request that stands already is only joined: it is decided, or was judged when it came.
    pub(crate) async fn plan(&self, question: &Question<'_>) -> Result<Vec<Change>, StoreError> {
        let config = SessionConfig::of(question.session)?;
        let input = acceptable(&question.input)?;
        // Taken before the rules are looked at: a rule that is added later than this may have been missed, and then the request is judged again.
        let now = UnixMillis::now();
        let standing = self
            .store
            .approval_by_request(question.session.id, question.run, question.request_id)
            .await?;
        let tool = self.views.tools.read(&config, question.tool_name, &input);
        let mut open = self.opening(question, &config, &input, &tool, now).await?;
        let mut decided = Vec::new();
        if standing.is_none() {
            let judgement = self.judge(question.session, &config, &tool).await?;
            if let Some((verdict, by)) = judgement.at_once() {
                decided.extend(self.uses(&judgement, now));
                let why = self.told(&judgement).await?;
                let decision = decision(open.id, question.chat, verdict, by, Some(why))?;
                decided.push(Change::DecideApproval(decision));
            } else {
                // Only what somebody has to decide is told outside.
                open.outbox = self.hooks.requested(&open, question.session)?;
            }
        }
        Ok(std::iter::once(Change::OpenApproval(open)).chain(decided).collect())
    }

    async fn opening(
        &self,
        question: &Question<'_>,
        config: &SessionConfig,
        input: &Value,
        tool: &ToolCall,
        now: UnixMillis,
    ) -> Result<OpenApproval, StoreError> {
        let id = ApprovalId::generate();
        let timeout = config.approval_timeout();
        let deed = Deed { asker: question.session.id, asker_config: config, tool };
        let event = ChatEvent::AwaitingApproval {
            approval_id: id,
            tool_name: question.tool_name.to_owned(),
            tool_use_id: question.tool_use_id.to_owned(),
            input: question.input.clone().into(),
        };
        let parent_event = ChatEvent::ToolRequest {
            approval_id: id,
            session_id: question.session.id,
            session_name: question.session.name.clone(),
            tool_name: question.tool_name.to_owned(),
            tool_use_id: question.tool_use_id.to_owned(),
            input: question.input.clone().into(),
        };
        Ok(OpenApproval {
            id,
            session: question.session.id,
            chat: question.chat,
            run: question.run,
            channel: question.channel.to_owned(),
            request_id: question.request_id.to_owned(),
            tool_name: question.tool_name.to_owned(),
            tool_use_id: question.tool_use_id.to_owned(),
            input: question.input.clone(),
            input_digest: input_digest(input),
            description: question.description.clone(),
            suggestions: self.rulebook.suggestions(question.session, config, tool)?,
            owner: self.authority.owner_of(&deed).await?,
            at: now,
            deadline: timeout.map(|timeout| now.plus(timeout)),
            escalate_at: Some(now.plus(escalate_after(config, timeout))),
            event: question.chat.is_some().then(|| event.to_new_event()).transpose()?,
            parent_event: question
                .session
                .parent
                .is_some()
                .then(|| parent_event.to_new_event())
                .transpose()?,
            outbox: Vec::new(),
        })
    }

    /// The changes that count a judgement's rules as used. Those of a file have no row, and are counted here and now.
    fn uses(&self, judgement: &Judgement, now: UnixMillis) -> Vec<Change> {
        let mut changes = Vec::new();
        for id in judgement.used.iter().copied() {
            if self.rulebook.is_from_file(id) {
                self.rulebook.use_file_rule(id);
            } else {
                changes.push(Change::UseRule(UseRule { id, now }));
            }
        }
        changes
    }

    /// Builds the change that decides an approval that was asked about, with its event and what is told outside.
    pub(crate) fn decision_on(
        &self,
        record: &ApprovalRecord,
        expects_digest: Option<String>,
        verdict: Verdict,
        by: DecidedBy,
        message: Option<String>,
        again: Again,
    ) -> Result<Change, StoreError> {
        let decide = decision(record.id, record.chat, verdict, by, message)?;
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
        let outbox = self.hooks.resolved(&stands)?;
        Ok(Change::DecideApproval(DecideApproval { expects_digest, again, outbox, ..decide }))
    }

    /// Opens an approval that no journal line stands for (the MCP channel). Asked again, it joins what stands.
    ///
    /// The same request may come twice at once, and the rule that answered may be gone between the look and the commit; then it is planned again.
    pub async fn open(&self, question: &Question<'_>) -> Result<ApprovalRecord, StoreError> {
        let mut replans = Replans::default();
        loop {
            let changes = self.plan(question).await?;
            match self.store.commit(changes, Priority::Urgent).await {
                Ok(committed) => {
                    let record = committed.approval().map(|(record, _)| record.id);
                    let id = record.ok_or_else(|| {
                        StoreError::invalid("open an approval: the store did not say which")
                    })?;
                    return self.store.approval(id).await;
                }
                Err(error @ (StoreError::Conflict { .. } | StoreError::NotFound { .. })) => {
                    let standing = self
                        .store
                        .approval_by_request(question.session.id, question.run, question.request_id)
                        .await?;
                    let digest = input_digest(&question.input.read()?);
                    match standing {
                        Some(record) if record.input_digest == digest => return Ok(record),
                        Some(_) => return Err(error),
                        None if replans.once_more() => {}
                        None => return Err(error),
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Decides an approval for `caller`, then sends the answer. The same answer again is fine; another one names what stands.
    ///
    /// A rule that the decision is remembered as is part of the same transaction.
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
            Caller::Child(_) => return Err(CallError::forbidden("decide: a child may only ask")),
        };
        let verdict = self.verdict(caller, &record, &answer).await?;
        let decision = self.decision_on(
            &record,
            answer.input_digest,
            verdict,
            by,
            answer.message,
            Again::Fine,
        )?;
        let mut changes = vec![decision];
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
            .ok_or_else(|| CallError::internal("decide: the store did not say what stands"))?;
        let record = record.clone();
        self.decided(&record, fresh);
        Ok((record, fresh))
    }

    /// Turns the caller's answer into a verdict, if the caller has the authority for it. Anybody above may say no.
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
            return Ok(Verdict::Deny);
        }
        // The same input said again is no edit.
        let updated = answer
            .updated_input
            .as_ref()
            .filter(|input| input_digest(input) != record.input_digest)
            .map(JsonText::of)
            .transpose()?;
        let session = self.store.session(record.session).await?;
        let config = SessionConfig::of(&session)?;
        let driver = &self.agents.get(&config.agent)?.driver;
        if updated.is_some() && !driver.takes_edit(&record.tool_name) {
            return Err(CallError::invalid(format_args!(
                "allow another input: {} has not the power edit_input, it runs what it asked about",
                config.agent
            ))
            .with_field("updated_input")
            .with_hint("allow it as it was asked, or deny it and say what to run instead"));
        }
        let effective = acceptable(updated.as_ref().unwrap_or(&record.input))?;
        let tool = self.views.tools.read(&config, &record.tool_name, &effective);
        let deed = Deed { asker: record.session, asker_config: &config, tool: &tool };
        if matches!(caller, Caller::Session(_)) && !self.is_judged_here(record).await? {
            // Where a path leads decides what a session may allow, and this server cannot see the files of that machine.
            return Err(CallError::forbidden(format_args!(
                "allow {}: its agent runs on another server",
                record.tool_name
            ))
            .with_hint("answer through that server, or deny it, or leave it: it goes up to your own parent"));
        }
        if let Caller::Session(decider) = caller
            && !self.authority.may_allow(*decider, &deed).await?
        {
            return Err(CallError::forbidden(format_args!(
                "allow {}: your creator did not list it for you",
                record.tool_name
            ))
            .with_hint("deny it, or leave it: it goes up to your own parent"));
        }
        if updated.is_some() {
            // What was edited is another call: a rule that forbids it forbids it here too.
            let judgement = self.judge(&session, &config, &tool).await?;
            if judgement.decision == rules::Decision::Deny {
                let why = match caller {
                    Caller::Operator => judgement.why,
                    Caller::Session(_) | Caller::Child(_) => self.told(&judgement).await?,
                };
                return Err(CallError::forbidden(format_args!("allow the edited input: {why}")));
            }
        }
        Ok(Verdict::Allow { updated_input: updated })
    }

    /// Returns the approval if `caller` may know of it.
    pub async fn reach(
        &self,
        caller: &Caller,
        id: ApprovalId,
    ) -> Result<ApprovalRecord, CallError> {
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

    /// Decides by deadline, or because the question went away. Somebody else being first is fine.
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

    /// Answers every pending request, below `under` and asked until `asked_until` if those are set, that rules or modes decide by now; each on its own
    /// record. Returns which.
    pub async fn release(
        &self,
        under: Option<SessionId>,
        asked_until: Option<UnixMillis>,
        mut wanted: impl FnMut(&ApprovalRecord) -> bool + Send,
    ) -> Result<Vec<ApprovalId>, StoreError> {
        let filter = ApprovalFilter {
            stage: Stage::Pending,
            under,
            asked_until,
            ..ApprovalFilter::default()
        };
        let mut released = Vec::new();
        let mut next = Some(PageRequest::first(limits::MAX_PAGE_ITEMS));
        while let Some(page) = next {
            let found = self.store.approvals(filter, page).await?;
            for record in &found.items {
                if wanted(record) && self.release_one(record).await? {
                    released.push(record.id);
                }
            }
            next = page.then(found.next);
        }
        Ok(released)
    }

    /// Lists what waits, everywhere or below a session.
    pub async fn waiting(&self, under: Option<SessionId>) -> Result<Vec<ApprovalId>, StoreError> {
        let filter = ApprovalFilter { stage: Stage::Pending, under, ..ApprovalFilter::default() };
        let mut waiting = Vec::new();
        let mut next = Some(PageRequest::first(limits::MAX_PAGE_ITEMS));
        while let Some(page) = next {
            let found = self.store.approvals(filter, page).await?;
            waiting.extend(found.items.iter().map(|record| record.id));
            next = page.then(found.next);
        }
        Ok(waiting)
    }

    /// Decides one pending request by what stands now. Says whether this was what decided it.
    pub(super) async fn release_one(&self, record: &ApprovalRecord) -> Result<bool, StoreError> {
        if !self.is_judged_here(record).await? {
            return Ok(false);
        }
        let mut replans = Replans::default();
        while replans.once_more() {
            let session = match self.store.session(record.session).await {
                Ok(session) => session,
                Err(StoreError::NotFound { .. }) => return Ok(false),
                Err(error) => return Err(error),
            };
            let config = SessionConfig::of(&session)?;
            let input: Value = record.input.read()?;
            let tool = self.views.tools.read(&config, &record.tool_name, &input);
            let judgement = self.judge(&session, &config, &tool).await?;
            let Some((verdict, by)) = judgement.at_once() else { return Ok(false) };
            let why = self.told(&judgement).await?;
            let mut changes = self.uses(&judgement, UnixMillis::now());
            changes.push(self.decision_on(record, None, verdict, by, Some(why), Again::Fine)?);
            match self.store.commit(changes, Priority::Urgent).await {
                Ok(committed) => {
                    let Some((record, fresh)) = committed.approval() else { return Ok(false) };
                    self.waited.note(record, fresh);
                    return Ok(fresh == Fresh::Made);
                }
                // Somebody else was first; or the rule is gone, and what is left of them is asked again.
                Err(StoreError::Conflict { .. } | StoreError::NotFound { .. }) => {
                    match self.store.approval(record.id).await {
                        Ok(record) if record.status == ApprovalStatus::Pending => {}
                        Ok(_) | Err(StoreError::NotFound { .. }) => return Ok(false),
                        Err(error) => return Err(error),
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Says how long questions waited for their decisions.
    pub(crate) fn waited(&self) -> Vec<(&'static str, LatencyReading)> {
        self.waited.read()
    }

    /// Counts how long a question waited for its decision. The commit has woken whoever waits for the
    /// answer: the run that asked, or the call that did.
    pub(crate) fn decided(&self, record: &ApprovalRecord, fresh: Fresh) {
        self.waited.note(record, fresh);
        plexus_fault::point!("decision.committed");
    }
}

/// The decision of an approval, with its event.
fn decision(
    id: ApprovalId,
    chat: Option<u32>,
    verdict: Verdict,
    by: DecidedBy,
    message: Option<String>,
) -> Result<DecideApproval, StoreError> {
    let event = ChatEvent::ApprovalResolved {
        approval_id: id,
        approved: matches!(verdict, Verdict::Allow { .. }),
        message: message.clone(),
        updated_input: verdict.updated_input().cloned().map(Into::into),
        decided_by: by,
    };
    let event = chat.is_some().then(|| event.to_new_event()).transpose()?;
    let at = UnixMillis::now();
    let (again, outbox) = (Again::Fine, Vec::new());
    Ok(DecideApproval { id, expects_digest: None, verdict, by, message, at, event, again, outbox })
}

/// When a question is passed on: as the session asked, else at half of its time, else after [`REMIND_EVERY`]. Always before it expires.
fn escalate_after(config: &SessionConfig, timeout: Option<Duration>) -> Duration {
    let asked = config.escalate_after_secs.map(Duration::from_secs);
    match (asked, timeout) {
        (Some(asked), Some(timeout)) if asked < timeout => asked,
        (_, Some(timeout)) => timeout / 2,
        (Some(asked), None) => asked,
        (None, None) => REMIND_EVERY,
    }
}
