//! Approvals as the wire shows them: those that wait, and those that are decided.

use std::path::PathBuf;

use plexus_core::Reader;
use plexus_rules as rules;
use plexus_store::{ApprovalRecord, JsonText, Parking, SessionRecord, StoreError};
use plexus_wire::{Approval, Confine, DecidedApproval, Question, Risk, Said, ToolTarget};
use serde_json::Value;

use crate::agents::Agents;
use crate::handles;
use crate::session::SessionConfig;
use crate::tools::ToolReader;

/// Converts approvals to their wire form.
#[derive(Clone)]
pub struct ApprovalViews {
    /// What the calls would act on.
    pub tools: ToolReader,
}

/// What a call would act on, how much harm it could do, and what it asks. All are unknown when the
/// session's configuration cannot be read.
#[derive(Default)]
pub(crate) struct Effect {
    pub(crate) target: Option<Said<ToolTarget>>,
    pub(crate) risk: Option<Said<Risk>>,
    pub(crate) question: Option<Said<Question>>,
    /// Whether it can be tried on a copy of the files.
    pub(crate) preview: bool,
}

impl ApprovalViews {
    pub(crate) fn new(agents: Agents) -> Self {
        Self { tools: ToolReader::new(agents) }
    }

    /// Returns an approval of a session as `pending` and `poll` show it.
    ///
    /// # Errors
    /// When what was stored with it cannot be read.
    pub fn pending(
        &self,
        record: &ApprovalRecord,
        session: &SessionRecord,
    ) -> Result<Approval, StoreError> {
        let Effect { target, risk, question, preview } =
            self.effect(session, &record.tool_name, &record.input)?;
        Ok(Approval {
            id: record.id,
            session_id: record.session,
            session_name: session.name.clone(),
            tool_name: record.tool_name.clone(),
            tool_use_id: record.tool_use_id.clone(),
            input: record.input.clone().into(),
            input_digest: record.input_digest.clone(),
            description: record.description.clone(),
            person_only: record.person_only.clone(),
            working_dir: working_dir(session),
            target,
            risk,
            question,
            preview,
            suggested_rules: record.suggestions.read()?,
            status: record.status.into(),
            created_at: record.created_at.into(),
            expires_at: record.deadline.map(Into::into),
            escalated_to: (record.escalations > 0).then(|| record.owner.into()),
            parked: record.parking == Some(Parking::Parked),
            handle: Some(handles::approval(record.id)),
        })
    }

    /// Reads what a call would act on, and how much harm it could do.
    pub(crate) fn effect(
        &self,
        session: &SessionRecord,
        tool_name: &str,
        input: &JsonText,
    ) -> Result<Effect, StoreError> {
        let Ok(config) = SessionConfig::of(session) else { return Ok(Effect::default()) };
        let input: Value = input.read()?;
        let call = self.tools.read(&config, tool_name, &input);
        let risk = rules::assess(&call, &input, Some(&config.working_dir));
        let question = self.tools.question(&config, tool_name, &input).map(Into::into);
        let preview =
            config.confine != Confine::None && matches!(call.target, ToolTarget::Shell { .. });
        Ok(Effect { target: Some(call.target.into()), risk: Some(risk.into()), question, preview })
    }

    /// Returns an approval of a session as `history` shows it: with the question and its answers,
    /// and with its target, which repeats the input and is for programs alone.
    ///
    /// # Errors
    /// When what was stored with it cannot be read.
    pub fn decision(
        &self,
        record: &ApprovalRecord,
        session: &SessionRecord,
        reader: Reader,
    ) -> Result<DecidedApproval, StoreError> {
        let shown = as_decision(record);
        let Ok(config) = SessionConfig::of(session) else { return Ok(shown) };
        let input: Value = record.input.read()?;
        let target = match reader {
            Reader::Program => self.tools.target(&config, &record.tool_name, &input),
            Reader::Model => None,
        };
        let question = self.tools.question(&config, &record.tool_name, &input);
        let updated = record.decision.as_ref().and_then(|decision| decision.updated_input.as_ref());
        let answers = match (&question, updated) {
            (Some(_), Some(updated)) => {
                self.tools.answers(&config, &record.tool_name, &updated.read()?)
            }
            (None, _) | (_, None) => None,
        };
        let (target, question) = (target.map(Into::into), question.map(Into::into));
        Ok(DecidedApproval { target, question, answers, ..shown })
    }
}

/// Returns the directory in which a session's commands and relative paths start. A session whose
/// configuration cannot be read has none; no new question can come from it either.
pub(crate) fn working_dir(session: &SessionRecord) -> Option<PathBuf> {
    SessionConfig::of(session).ok().map(|config| config.working_dir)
}

/// Returns the standing decision as a conflict shows it, without the parts that only the agent's
/// driver can read.
pub fn as_decision(record: &ApprovalRecord) -> DecidedApproval {
    let decision = record.decision.as_ref();
    DecidedApproval {
        approval_id: record.id,
        session_id: record.session,
        tool_name: record.tool_name.clone(),
        tool_use_id: record.tool_use_id.clone(),
        input: record.input.clone().into(),
        input_digest: record.input_digest.clone(),
        target: None,
        status: record.status.into(),
        created_at: record.created_at.into(),
        decided_by: decision.map(|decision| decision.by.into()),
        device: None,
        decided_at: decision.map(|decision| decision.at.into()),
        message: decision.and_then(|decision| decision.message.clone()),
        updated_input: decision
            .and_then(|decision| decision.updated_input.as_ref())
            .cloned()
            .map(Into::into),
        question: None,
        answers: None,
        delivered_at: record.delivered_at.map(Into::into),
        breach: record.breach.clone(),
        handle: Some(handles::approval(record.id)),
    }
}
