//! `rule_preview` and `rule_test`: what a rule would do, before anybody makes it or asks. Nothing
//! is run or recorded.

use plexus_core::{ApprovalId, Call, CallError, Caller, RuleId, SessionId};
use plexus_engine::approvals::judge::Judgement;
use plexus_engine::authority::Deed;
use plexus_engine::rulebook::{call as rule_call, compile};
use plexus_engine::session::SessionConfig;
use plexus_rules::{self as rules, Decision, RealPaths, RuleSet};
use plexus_store::{
    ApprovalFilter, ApprovalRecord, NewRule, Owner, PageRequest, SessionFilter, Stage, StoreError,
    StoredRule, UnixMillis, limits,
};
use plexus_wire::{RulePreviewParams, RulePreviewed, RuleTestParams, RuleTested, ToolCall};
use serde_json::Value;

use super::Loopback;

impl Loopback {
    /// Says which other pending requests would be released if this decision were remembered so.
    pub(super) async fn rule_preview(
        &self,
        call: Call,
        params: RulePreviewParams,
    ) -> Result<RulePreviewed, CallError> {
        let approve = params.approve;
        let remembered =
            self.prepare_rule(&call.caller, params.approval_id, approve, &params.remember).await?;
        let new = match (remembered.new, remembered.id) {
            (Some(new), _) => new,
            (None, Some(id)) => self.store.rule(id).await?.rule,
            (None, None) => return Err(CallError::internal("preview a rule: there is none")),
        };
        let releases = self.released_by(&call.caller, &new, params.approval_id).await?;
        Ok(RulePreviewed { pattern: new.pattern, releases })
    }

    async fn released_by(
        &self,
        caller: &Caller,
        new: &NewRule,
        decided: ApprovalId,
    ) -> Result<Vec<ApprovalId>, CallError> {
        let stored = StoredRule { rule: new.clone(), used: 0, created_at: UnixMillis::now() };
        let rule = compile(&stored).ok_or_else(|| CallError::invalid("read the pattern"))?;
        let rules = self.approvals.rulebook.with(rule).await?;
        let filter = ApprovalFilter {
            stage: Stage::Pending,
            under: caller.session(),
            ..ApprovalFilter::default()
        };
        let most = new.uses.map_or(usize::MAX, |uses| usize::try_from(uses).unwrap_or(usize::MAX));
        let mut releases = Vec::new();
        let mut next = Some(PageRequest::first(limits::MAX_PAGE_ITEMS));
        while let Some(page) = next {
            let found = self.store.approvals(filter, page).await?;
            for record in found.items.iter().filter(|record| record.id != decided) {
                if releases.len() < most && self.would_release(&rules, new, record).await? {
                    releases.push(record.id);
                }
            }
            next = page.then(found.next);
        }
        Ok(releases)
    }

    async fn would_release(
        &self,
        rules: &RuleSet,
        new: &NewRule,
        record: &ApprovalRecord,
    ) -> Result<bool, CallError> {
        let session = match self.store.session(record.session).await {
            Ok(session) => session,
            Err(StoreError::NotFound { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let config = SessionConfig::of(&session)?;
        let input: Value = record.input.read()?;
        let ancestors = self.store.ancestors(session.id).await?;
        let home = config.home();
        let tool = self.approvals.views.tools.read(&config, &record.tool_name, &input);
        let call = rule_call(&session, &config, &tool, &ancestors, home.as_deref());
        let verdict = rules.decide(&call);
        if verdict.decision == Decision::Ask || !verdict.used.contains(&new.id) {
            return Ok(false);
        }
        if record.person_only.is_some() && verdict.decision == Decision::Allow {
            return Ok(false);
        }
        // An allow counts only for what its author may allow, as it will when it is made.
        if let (Owner::Session(author), Decision::Allow) = (new.author, verdict.decision) {
            let deed = Deed::of(record, &config, &tool);
            return Ok(self.approvals.authority.may_allow(author, &deed).await?);
        }
        Ok(true)
    }

    pub(super) async fn rule_test(
        &self,
        call: Call,
        params: RuleTestParams,
    ) -> Result<RuleTested, CallError> {
        let session = match (params.session_id, &params.working_dir) {
            (Some(_), Some(_)) => {
                return Err(CallError::invalid(
                    "test a call in another directory than its session's",
                )
                .with_field("working_dir")
                .with_hint("give session_id or working_dir, not both"));
            }
            (Some(id), None) => Some(self.approvals.authority.reach(&call.caller, id).await?),
            (None, Some(_)) => None,
            (None, None) => self.oldest_session(&call.caller).await?,
        };
        let input = Value::Object(params.input);
        let Some(session) = session else {
            let tool = self.approvals.views.tools.read_for_nobody(&params.tool_name, &input);
            return self.test_for_nobody(&call.caller, params.working_dir, &tool).await;
        };
        let config = SessionConfig::of(&session)?;
        let tool = self.approvals.views.tools.read(&config, &params.tool_name, &input);
        let deed = Deed {
            asker: session.id,
            asker_config: &config,
            tool: &tool,
            // Only the agent can say that a call is left to a person, when it asks.
            person_only: None,
        };
        let ruling = self.approvals.judge(&session, &deed).await?;
        let Judgement { decision, rule, used, why, .. } = ruling;
        self.tested(&call.caller, rules::Ruling { decision, rule, used, why }).await
    }

    /// Says what was found, without a rule that `rules` would not show this caller.
    async fn tested(
        &self,
        caller: &Caller,
        verdict: rules::Ruling,
    ) -> Result<RuleTested, CallError> {
        let rules::Ruling { decision, rule: rule_id, used, why } = verdict;
        if *caller == Caller::Operator {
            return Ok(RuleTested { decision: decision.into(), rule_id, why });
        }
        for rule in self.approvals.rulebook.in_force().await?.rules() {
            let told = used.contains(&rule.id) || why.contains(rule.pattern.as_str());
            if told && !self.may_see(caller, rule.id).await? {
                let why = match decision {
                    Decision::Allow => "a rule above you allows it",
                    Decision::Deny => "a rule above you denies it",
                    Decision::Ask => "it is asked, by a rule above you or because none allows it",
                };
                return Ok(RuleTested {
                    decision: decision.into(),
                    rule_id: None,
                    why: why.to_owned(),
                });
            }
        }
        Ok(RuleTested { decision: decision.into(), rule_id, why })
    }

    /// Whether `rules` shows this rule to the caller. Those of a file are the operator's.
    async fn may_see(&self, caller: &Caller, id: RuleId) -> Result<bool, CallError> {
        if self.approvals.rulebook.is_from_file(id) {
            return Ok(*caller == Caller::Operator);
        }
        match self.store.rule(id).await {
            Ok(stored) => self.may_see_rule(caller, stored.rule.scope, stored.rule.author).await,
            Err(StoreError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Without a name, a rule is tested as the oldest session would see it that the caller has.
    async fn oldest_session(
        &self,
        caller: &Caller,
    ) -> Result<Option<plexus_store::SessionRecord>, CallError> {
        let filter = SessionFilter { under: caller.session(), ..SessionFilter::default() };
        Ok(self.store.sessions(filter, PageRequest::first(1)).await?.items.into_iter().next())
    }

    /// Tests a call for a session that does not exist yet, as if the caller had created it: by the
    /// rules that would hold for it, without a mode.
    async fn test_for_nobody(
        &self,
        caller: &Caller,
        working_dir: Option<std::path::PathBuf>,
        tool: &ToolCall,
    ) -> Result<RuleTested, CallError> {
        let mut ancestors = Vec::new();
        let mut working_dir = working_dir;
        if let Caller::Session(own) = caller {
            ancestors.push(*own);
            ancestors.extend(self.store.ancestors(*own).await?);
            if working_dir.is_none() {
                working_dir =
                    Some(SessionConfig::of(&self.store.session(*own).await?)?.working_dir);
            }
        }
        let working_dir = working_dir.unwrap_or_else(|| "/".into());
        let home = std::env::home_dir();
        let call = rules::Call {
            tool,
            working_dir: &working_dir,
            home: home.as_deref(),
            session: SessionId::generate(),
            ancestors: &ancestors,
            now: UnixMillis::now().as_secs(),
            paths: &RealPaths,
        };
        let verdict = self.approvals.rulebook.in_force().await?.decide(&call);
        self.tested(caller, verdict).await
    }
}
