//! A question becomes an approval: its row, its owner, its deadline and its events, and the
//! decision of a rule or a mode that answers it at once.

use std::time::Duration;

use plexus_core::ApprovalId;
use plexus_core::digest::input_digest;
use plexus_store::{
    ApprovalRecord, Change, JsonText, OpenApproval, Priority, SessionRecord, StoreError, UnixMillis,
};
use plexus_wire::ChatEvent;
use serde_json::Value;

use super::deciding::decision;
use super::input::acceptable;
use super::{Approvals, Question, REMIND_EVERY};
use crate::authority::Deed;
use crate::event::ToNewEvent;
use crate::replan::Replans;
use crate::session::SessionConfig;

impl Approvals {
    /// Builds the changes that open an approval and, when a rule or a mode answers at once, decide
    /// it too.
    ///
    /// A request that is already stored is only joined: it was judged when it came.
    pub(crate) async fn plan(&self, question: &Question<'_>) -> Result<Vec<Change>, StoreError> {
        let config = SessionConfig::of(question.session)?;
        let input = acceptable(&question.input)?;
        // The time is taken before the rules are read: a rule added later may have been missed, and
        // then the request is judged again.
        let now = UnixMillis::now();
        let standing = self
            .store
            .approval_by_request(question.session.id, question.run, question.request_id)
            .await?;
        let tool = self.views.tools.read(&config, question.tool_name, &input);
        let deed = Deed {
            asker: question.session.id,
            asker_config: &config,
            tool: &tool,
            person_only: question.person_only.as_deref(),
        };
        let mut open = self.opening(question, &deed, &input, now).await?;
        let mut decided = Vec::new();
        if standing.is_none() {
            let judgement = self.judge(question.session, &deed).await?;
            if let Some((verdict, by)) = judgement.at_once() {
                decided.extend(self.uses(&judgement, now));
                let why = self.told(&judgement, &deed).await?;
                let decision = decision(open.id, question.chat, verdict, by, Some(why))?;
                decided.push(Change::DecideApproval(decision));
            } else {
                // Webhooks hear only of requests that somebody has to decide.
                open.outbox = self.hooks.requested(&open, question.session)?;
            }
        }
        Ok(std::iter::once(Change::OpenApproval(open)).chain(decided).collect())
    }

    async fn opening(
        &self,
        question: &Question<'_>,
        deed: &Deed<'_>,
        input: &Value,
        now: UnixMillis,
    ) -> Result<OpenApproval, StoreError> {
        let id = ApprovalId::generate();
        let config = deed.asker_config;
        let timeout = config.approval_timeout();
        let asked = self.views.tools.question(config, question.tool_name, input).map(Box::new);
        let event = ChatEvent::AwaitingApproval {
            approval_id: id,
            tool_name: question.tool_name.to_owned(),
            tool_use_id: question.tool_use_id.to_owned(),
            input: question.input.clone().into(),
            question: asked.clone(),
            person_only: question.person_only.clone(),
        };
        let parent_event = ChatEvent::ToolRequest {
            approval_id: id,
            session_id: question.session.id,
            session_name: question.session.name.clone(),
            tool_name: question.tool_name.to_owned(),
            tool_use_id: question.tool_use_id.to_owned(),
            input: question.input.clone().into(),
            question: asked,
            person_only: question.person_only.clone(),
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
            person_only: question.person_only.clone(),
            suggestions: self.suggestions(question.session, deed)?,
            owner: self.authority.owner_of(deed).await?,
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

    /// Proposes rules that would answer the call; none where no rule may.
    fn suggestions(
        &self,
        session: &SessionRecord,
        deed: &Deed<'_>,
    ) -> Result<JsonText, StoreError> {
        match deed.person_only {
            Some(_) => JsonText::of(&[(); 0]),
            None => self.rulebook.suggestions(session, deed.asker_config, deed.tool),
        }
    }

    /// Opens an approval that has no journal line (the MCP channel). Asked again, it joins the
    /// stored one.
    ///
    /// The same request may come twice at once, and the rule that answered may be gone between the
    /// read and the commit; then the change is planned again.
    pub async fn open(&self, question: &Question<'_>) -> Result<ApprovalRecord, StoreError> {
        let mut replans = Replans::default();
        loop {
            let changes = self.plan(question).await?;
            match self.store.commit(changes, Priority::Urgent).await {
                Ok(committed) => {
                    let record = committed.approval().map(|(record, _)| record.id);
                    let id = record.ok_or_else(|| {
                        StoreError::invalid("open an approval: the store returned no approval")
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
}

/// Returns when a question is passed on: as the session asked, else at half of its timeout, else
/// after [`REMIND_EVERY`]. This is always before it expires.
fn escalate_after(config: &SessionConfig, timeout: Option<Duration>) -> Duration {
    let asked = config.escalate_after_secs.map(Duration::from_secs);
    match (asked, timeout) {
        (Some(asked), Some(timeout)) if asked < timeout => asked,
        (_, Some(timeout)) => timeout / 2,
        (Some(asked), None) => asked,
        (None, None) => REMIND_EVERY,
    }
}
