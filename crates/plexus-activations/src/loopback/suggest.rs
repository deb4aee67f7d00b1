//! `rule_suggest`: which rules the caller's own decisions speak for. Nothing is decided, recorded
//! or accepted.

use std::collections::HashSet;
use std::path::PathBuf;

use plexus_core::{ApprovalId, Call, CallError, Caller, SessionId};
use plexus_engine::rulebook::call as rule_call;
use plexus_engine::session::SessionConfig;
use plexus_rules::{Decided, Decision, Proposal, RuleSet, propose};
use plexus_store::{
    ApprovalFilter, ApprovalRecord, ApprovalStatus, DecidedBy, PageRequest, SessionRecord, Stage,
    StoreError, limits,
};
use plexus_wire::{ProposedRule, RuleSuggestParams, RuleSuggestions, ToolCall};

use super::Loopback;

/// How many decisions are read to find the caller's own: the others are those of rules.
const MAX_READ: usize = 5_000;

/// How many rules one answer proposes. A caller that accepts some may ask again.
const MAX_PROPOSED: usize = 20;

/// How many decisions a proposal names as its evidence.
const MAX_NAMED: usize = 5;

/// A decision of the caller, with what the rules need to look at its call again.
struct Taken {
    id: ApprovalId,
    allowed: bool,
    session: SessionRecord,
    config: SessionConfig,
    home: Option<PathBuf>,
    ancestors: Vec<SessionId>,
    tool: ToolCall,
}

impl Loopback {
    pub(super) async fn rule_suggest(
        &self,
        call: Call,
        params: RuleSuggestParams,
    ) -> Result<RuleSuggestions, CallError> {
        let taken = self.taken(&call.caller, params.last.unwrap_or_default().get()).await?;
        let rules = self.approvals.rulebook.in_force().await?;
        let looked_at = taken.len();
        // Every rule is tried on every call, and paths are followed on the disk.
        let judged = tokio::task::spawn_blocking(move || {
            let proposals = proposals(&taken, &rules);
            (taken, proposals)
        });
        let (taken, proposals) = judged.await.map_err(|error| {
            tracing::error!(%error, "rules could not be proposed");
            CallError::internal("propose rules")
        })?;
        let mut suggestions = Vec::new();
        for Proposal { pattern, label, answers } in proposals {
            // What the caller could not add is not proposed to it.
            let scope = self.checked_scope(&call.caller, None, Decision::Allow, &pattern).await;
            let Ok(scope) = scope else { continue };
            let sessions: HashSet<SessionId> =
                answers.iter().map(|&at| taken[at].session.id).collect();
            suggestions.push(ProposedRule {
                pattern: pattern.to_string(),
                label,
                scope,
                answers: count(answers.len()),
                denied: 0,
                sessions: count(sessions.len()),
                evidence: answers.iter().take(MAX_NAMED).map(|&at| taken[at].id).collect(),
            });
            if suggestions.len() == MAX_PROPOSED {
                break;
            }
        }
        Ok(RuleSuggestions { looked_at: count(looked_at), suggestions })
    }

    /// Reads the newest `most` decisions that the caller took itself, newest first.
    async fn taken(&self, caller: &Caller, most: usize) -> Result<Vec<Taken>, CallError> {
        let filter = ApprovalFilter {
            stage: Stage::Decided,
            under: caller.session(),
            ..ApprovalFilter::default()
        };
        let (mut taken, mut read) = (Vec::new(), 0);
        let mut next = Some(PageRequest::first(limits::MAX_PAGE_ITEMS));
        while let Some(page) = next.filter(|_| read < MAX_READ) {
            let found = self.store.approvals(filter, page).await?;
            read += found.items.len();
            for record in &found.items {
                if taken.len() == most {
                    return Ok(taken);
                }
                if let Some(allowed) = decided_by(caller, record)
                    && let Some(one) = self.read_again(record, allowed).await?
                {
                    taken.push(one);
                }
            }
            next = page.then(found.next);
        }
        Ok(taken)
    }

    /// Reads a decided call as the rules see it; nothing when its session is gone.
    async fn read_again(
        &self,
        record: &ApprovalRecord,
        allowed: bool,
    ) -> Result<Option<Taken>, CallError> {
        let session = match self.store.session(record.session).await {
            Ok(session) => session,
            Err(StoreError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let config = SessionConfig::of(&session)?;
        let tool =
            self.approvals.views.tools.read(&config, &record.tool_name, &record.input.read()?);
        let ancestors = self.store.ancestors(session.id).await?;
        let home = config.home();
        Ok(Some(Taken { id: record.id, allowed, session, config, home, ancestors, tool }))
    }
}

fn proposals(taken: &[Taken], in_force: &RuleSet) -> Vec<Proposal> {
    let decided: Vec<Decided<'_>> = taken
        .iter()
        .map(|one| Decided {
            call: rule_call(
                &one.session,
                &one.config,
                &one.tool,
                &one.ancestors,
                one.home.as_deref(),
            ),
            allowed: one.allowed,
        })
        .collect();
    propose(&decided, in_force)
}

/// Says whether `caller` allowed or denied this itself; nothing when somebody else decided, or when
/// the input was edited, because another input ran than was asked for.
fn decided_by(caller: &Caller, record: &ApprovalRecord) -> Option<bool> {
    let decision = record.decision.as_ref()?;
    let own = match (caller, decision.by) {
        (Caller::Operator, DecidedBy::Operator | DecidedBy::Webhook | DecidedBy::Device(_)) => true,
        (Caller::Session(own), DecidedBy::Session(by)) => *own == by,
        _ => false,
    };
    match record.status {
        ApprovalStatus::Allowed if own && decision.updated_input.is_none() => Some(true),
        ApprovalStatus::Denied if own => Some(false),
        _ => None,
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
