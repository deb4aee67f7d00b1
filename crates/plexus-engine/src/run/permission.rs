//! Permission requests in the journal: what a question, an answer's echo, a withdrawal and a tool's
//! result change, and what is a breach.
//!
//! The agent runs a tool only when an allow of ours has reached it or its own configuration says
//! so. Whatever else shows here as accepted was not approved by anybody: the run is stopped and the
//! audit says why.

use agent_lines::json::RawJson;
use plexus_core::CallError;
use plexus_core::digest::input_digest;
use plexus_store::{
    Again, ApprovalRecord, ApprovalStatus, AuditLine, Change, DecidedBy, Fate, JsonText, Priority,
    Stage, StoreError, UnixMillis, Verdict, limits,
};
use plexus_wire::{Breach, BreachKind, ChatEvent, ProjectSettings};

use super::Run;
use super::draft::{After, Draft};
use super::state::{Stop, StopReason};
use crate::approvals::Question;
use crate::approvals::input::acceptable;
use crate::driver::{AcceptedBy, Ask, Channel, TakenAnswer};

impl Run {
    pub(super) async fn open(&self, draft: &mut Draft, ask: &Ask) -> Result<(), StoreError> {
        draft.flush();
        draft.priority = Priority::Urgent;
        draft.commit_now = true;
        if draft.state.is_stopping() {
            return self.refuse(draft, ask, "ask: the chat is being stopped");
        }
        if draft.state.prestarted.is_some() {
            return self.refuse(draft, ask, "ask: no chat has begun, so nobody can be asked");
        }
        if Self::is_asked_again(draft, ask) {
            return self.asked_again(draft, ask).await;
        }
        // Read anew: a mode or a rule may have been set since the session was read last.
        let session = self.store.session(self.key.session).await?;
        let input = match JsonText::parse(ask.input.get())
            .and_then(|input| acceptable(&input).map(|_| input))
        {
            Ok(input) => input,
            Err(error) => return self.refuse(draft, ask, &CallError::from(error).message),
        };
        let opened = |change: &&Change| matches!(change, Change::OpenApproval(_));
        let waiting =
            session.pending_approvals as usize + draft.changes.iter().filter(opened).count();
        let full = waiting >= limits::MAX_PENDING_PER_SESSION;
        if full && self.by_request(&ask.request_id).await?.is_none() {
            let why = format!(
                "ask another question: {} of this session wait for an answer, the most it may have",
                limits::MAX_PENDING_PER_SESSION
            );
            return self.refuse(draft, ask, &why);
        }
        let question = Question {
            session: &session,
            chat: draft.state.chat.as_ref().map(|chat| chat.number),
            run: Some(self.key.n),
            channel: Channel::Control.name(),
            request_id: &ask.request_id,
            tool_name: &ask.tool_name,
            tool_use_id: &ask.tool_use_id,
            input,
            description: ask.description.clone(),
            person_only: ask.person_only.clone(),
        };
        draft.changes.extend(self.approvals.plan(&question).await?);
        Ok(())
    }

    /// Denies a request that nobody is asked about, and remembers it so that its echo is no
    /// surprise.
    pub(super) fn refuse(&self, draft: &mut Draft, ask: &Ask, why: &str) -> Result<(), StoreError> {
        let words = format!("denied: could not {why}");
        draft.event(&ChatEvent::notice(format!("{} was {words}", ask.tool_name)))?;
        draft.deny(&ask.request_id, &words);
        draft.note_refused(ask.request_id.clone());
        Ok(())
    }

    pub(super) async fn withdraw(
        &self,
        draft: &mut Draft,
        request_id: &str,
        why: &str,
    ) -> Result<(), StoreError> {
        let Some(record) = self.by_request(request_id).await? else { return Ok(()) };
        draft.flush();
        draft.commit_now = true;
        if record.status == ApprovalStatus::Pending {
            let change = self.approvals.decision_on(
                &record,
                None,
                Verdict::Cancel,
                DecidedBy::AgentEnded,
                Some(why.to_owned()),
                Again::Fine,
            )?;
            draft.changes.push(change);
        } else if record.delivered_at.is_none() && record.void_at.is_none() {
            draft.settle(&record, Fate::Void);
        }
        Ok(())
    }

    async fn by_request(&self, request_id: &str) -> Result<Option<ApprovalRecord>, StoreError> {
        self.store.approval_by_request(self.key.session, Some(self.key.n), request_id).await
    }

    /// The agent has taken an answer. It must be one that we sent: code of the same user can write
    /// into the inbox, and that is how it shows.
    pub(super) async fn answer_taken(
        &self,
        draft: &mut Draft,
        request_id: &str,
        answer: Option<TakenAnswer>,
    ) -> Result<(), StoreError> {
        if draft.state.refused.contains(request_id) {
            return match answer {
                Some(TakenAnswer::Allow { .. }) => self.breach(
                    draft,
                    None,
                    format!(
                        "an allow reached the agent for a request that was refused ({request_id})"
                    ),
                ),
                Some(TakenAnswer::Deny) | None => Ok(()),
            };
        }
        let Some(record) = self.by_request(request_id).await? else {
            return self.breach(
                draft,
                None,
                format!(
                    "an answer reached the agent for a request that was never asked ({request_id})"
                ),
            );
        };
        let as_decided = match (record.status, &answer) {
            (ApprovalStatus::Allowed, Some(TakenAnswer::Allow { updated_input })) => {
                same_input(&record, updated_input.as_ref())?
            }
            (ApprovalStatus::Denied | ApprovalStatus::Expired, Some(TakenAnswer::Deny)) => true,
            _ => false,
        };
        if !as_decided {
            return self.breach(
                draft,
                Some(&record),
                "an answer reached the agent that is not the one that was decided".to_owned(),
            );
        }
        if record.status == ApprovalStatus::Allowed {
            draft.state.allowed.insert(record.tool_use_id.clone());
        }
        plexus_fault::point!("echo.seen");
        if record.delivered_at.is_none() && record.void_at.is_none() {
            draft.settle(&record, Fate::Delivered);
        }
        Ok(())
    }

    /// A tool that the agent says it let run must be one that its own configuration allows, or one
    /// that we allowed and it echoed.
    pub(super) async fn check_accepted(
        &self,
        draft: &mut Draft,
        tool_use_id: &str,
        by: &AcceptedBy,
    ) -> Result<(), StoreError> {
        let trusted = match by {
            AcceptedBy::Configuration => true,
            AcceptedBy::Hook => draft.known.config.project_settings == ProjectSettings::Trust,
            AcceptedBy::Other(_) => false,
        };
        if trusted || draft.state.allowed.contains(tool_use_id) {
            return Ok(());
        }
        let asked = self.newest_for_call(tool_use_id).await?;
        let allowed = asked.as_ref().is_some_and(|record| record.status == ApprovalStatus::Allowed);
        if self.channel == Channel::Mcp && allowed {
            return Ok(());
        }
        self.breach(
            draft,
            asked.as_ref(),
            format!(
                "the agent ran a tool that nobody here allowed (call {tool_use_id}, accepted by \
                 {})",
                by.words()
            ),
        )
    }

    /// The agent does not wait for an answer any more, and does not say which one it took.
    pub(super) async fn settled(
        &self,
        draft: &mut Draft,
        request_id: &str,
    ) -> Result<(), StoreError> {
        let Some(record) = self.by_request(request_id).await? else { return Ok(()) };
        if record.status == ApprovalStatus::Pending {
            return self.withdraw(draft, request_id, "the agent no longer waits for it").await;
        }
        if record.delivered_at.is_none() && record.void_at.is_none() {
            // While a chat is being stopped no allow is sent.
            let is_allowed = record.status == ApprovalStatus::Allowed;
            let is_void = is_allowed && draft.state.is_stopping();
            draft.settle(&record, if is_void { Fate::Void } else { Fate::Delivered });
        }
        Ok(())
    }

    /// Every tool that ran must have been allowed here.
    pub(super) async fn check_ran(
        &self,
        draft: &mut Draft,
        request_id: Option<&str>,
        what: &str,
    ) -> Result<(), StoreError> {
        let asked = match request_id {
            Some(id) => self.by_request(id).await?,
            None => None,
        };
        match asked {
            Some(record) if record.status == ApprovalStatus::Allowed => {
                if record.delivered_at.is_none() && record.void_at.is_none() {
                    draft.settle(&record, Fate::Delivered);
                }
                Ok(())
            }
            asked => self.breach(
                draft,
                asked.as_ref(),
                format!("the agent ran what nobody here allowed ({what})"),
            ),
        }
    }

    /// The newest question of this run about a call, whatever became of it. On the control channel
    /// it has an id of its own.
    async fn newest_for_call(
        &self,
        tool_use_id: &str,
    ) -> Result<Option<ApprovalRecord>, StoreError> {
        if self.channel == Channel::Mcp {
            return self.by_request(tool_use_id).await;
        }
        let mut asked = self.approvals(Stage::Pending).await?;
        asked.extend(self.approvals(Stage::Decided).await?);
        Ok(asked.into_iter().find(|record| record.tool_use_id == tool_use_id))
    }

    pub(super) fn breach(
        &self,
        draft: &mut Draft,
        record: Option<&ApprovalRecord>,
        what: String,
    ) -> Result<(), StoreError> {
        self.breach_of(BreachKind::Unallowed, draft, record, what)
    }

    /// Ends the run, because it did what nobody here allowed or began.
    pub(super) fn breach_of(
        &self,
        kind: BreachKind,
        draft: &mut Draft,
        record: Option<&ApprovalRecord>,
        what: String,
    ) -> Result<(), StoreError> {
        draft.flush();
        draft.commit_now = true;
        if let Some(record) = record {
            draft.changes.push(Change::MarkBreach { id: record.id, what: what.clone() });
        }
        let body = JsonText::of(&Breach {
            run: self.key.n,
            kind: kind.into(),
            what: what.clone(),
            approval_id: record.map(|record| record.id),
        })?;
        draft.changes.push(Change::AppendAudit(AuditLine {
            at: UnixMillis::now(),
            kind: "breach".into(),
            session: Some(self.key.session),
            body,
        }));
        draft.changes.extend(self.approvals.hooks.breach(self.key.session, &what)?);
        let stopping = draft.state.stop.is_some();
        // Kept with the run, also with no chat open: a server that dies before the child does must
        // still end it.
        let stop = || Stop { reason: StopReason::Breach, words: what.clone() };
        draft.state.stop.get_or_insert_with(stop);
        let noted = match &mut draft.state.chat {
            Some(chat) => chat.stop(StopReason::Breach, what.clone()),
            None => true,
        };
        if stopping || !noted {
            // It is being stopped; the audit keeps what else it does meanwhile.
            return Ok(());
        }
        // The chat's last event says it again, as its error, once the child is gone.
        draft.event(&ChatEvent::notice(format!("the run is being stopped: {what}")))?;
        tracing::error!(run = %self.key, what, "breach: the run is stopped");
        draft.after.push(After::Stop(what));
        Ok(())
    }

    pub(super) async fn tool_finished(
        &self,
        draft: &mut Draft,
        tool_use_id: &str,
    ) -> Result<(), StoreError> {
        draft.state.allowed.remove(tool_use_id);
        if let Some(woken) = &mut draft.state.woken {
            woken.finished |= woken.tool_use_id == tool_use_id;
        }
        if self.channel == Channel::Mcp
            && let Some(record) = self.by_request(tool_use_id).await?
        {
            // The call went on without our answer (its connection was lost for too long): nobody
            // needs to answer it now.
            if record.status == ApprovalStatus::Pending {
                self.withdraw(draft, tool_use_id, "the agent went on without an answer").await?;
            }
            draft.flush();
            draft.commit_now = true;
            draft.changes.push(Change::RetireApproval(record.id));
        }
        Ok(())
    }

    /// Compares the requests that the agent says are open with ours: new ones become approvals,
    /// decided ones are answered again, others are void.
    pub(super) async fn reconcile(
        &self,
        draft: &mut Draft,
        open: Vec<Ask>,
    ) -> Result<(), StoreError> {
        let mut resend = Vec::new();
        for ask in &open {
            match self.by_request(&ask.request_id).await? {
                Some(record) if record.status != ApprovalStatus::Pending => resend.push(record),
                Some(_) => {}
                // Refused without an approval, and the refusal has not arrived: it is said again.
                None if draft.state.refused.contains(&ask.request_id) => {
                    let again = "the request could not be taken, so nobody was asked";
                    draft.deny(&ask.request_id, again);
                }
                None => self.open(draft, ask).await?,
            }
        }
        let stands =
            |record: &ApprovalRecord| open.iter().any(|ask| ask.request_id == record.request_id);
        let mut held = self.approvals(Stage::Pending).await?;
        held.extend(self.approvals(Stage::Undelivered).await?);
        // What the network asks is not the agent's question: the egress process waits for it.
        let is_ours = |record: &&ApprovalRecord| record.channel == Channel::Control.name();
        for record in held.iter().filter(is_ours).filter(|record| !stands(record)) {
            self.withdraw(draft, &record.request_id, "the agent no longer waits for it").await?;
        }
        draft.after.push(After::Resend(resend));
        Ok(())
    }
}

/// An allow must carry the input that was approved: as edited, or as asked.
fn same_input(record: &ApprovalRecord, echoed: Option<&RawJson>) -> Result<bool, StoreError> {
    let edited = record.decision.as_ref().and_then(|decision| decision.updated_input.as_ref());
    let approved: serde_json::Value = edited.unwrap_or(&record.input).read()?;
    // An input that cannot be read counts as one that was not approved.
    let echoed = echoed.and_then(|raw| JsonText::parse(raw.get()).ok()?.read().ok());
    Ok(echoed.is_some_and(|echoed| input_digest(&echoed) == input_digest(&approved)))
}
