//! The methods about standing rules, and what a remembered decision releases. `remember` is `rule_add` under the same checks.

use plexus_core::{ApprovalId, Call, CallError, Caller, RuleId, SessionId};
use plexus_store::{
    ApprovalFilter, Change, DecidedBy, NewRule, Owner, PageRequest, Priority, RemoveRules, RuleDecision, RuleScope,
    Session, Stage, UnixMillis, Verdict, limits,
};
use serde_json::{Value, json};

use super::activation::Loopback;
use super::params::{
    Remember, RuleAddParams, RuleAdded, RuleList, RuleRemoveParams, RuleTestParams, RuleTested, RulesParams,
};
use super::rulebook::{call as rule_call, decision};
use crate::authority::EVERYTHING;
use crate::claudecode::activation::page;
use crate::claudecode::config::SessionConfig;
use crate::claudecode::params::Done;
use crate::rules::{self, Decision, ExampleContext, Pattern, RealPaths, Rule, Scope};

impl Loopback {
    pub(super) async fn rule_add(&self, call: Call, params: RuleAddParams) -> Result<RuleAdded, CallError> {
        let rule = self.new_rule(&call.caller, params).await?;
        let id = rule.id;
        self.add_and_release(&call.caller, rule).await?;
        Ok(RuleAdded { rule_id: id })
    }

    /// Checks a rule whole before anything is changed: its pattern, its examples, its scope, and that its author may make it.
    async fn new_rule(&self, caller: &Caller, params: RuleAddParams) -> Result<NewRule, CallError> {
        let pattern: Pattern =
            params.pattern.parse().map_err(|error| CallError::invalid(format_args!("read the pattern: {error}")))?;
        let scope = self.checked_scope(caller, params.scope, params.decision, &pattern).await?;
        let (matches, does_not_match) = (params.matches.unwrap_or_default(), params.does_not_match.unwrap_or_default());
        let mut rule = Rule::new(params.decision, pattern);
        (rule.matches, rule.does_not_match) = (matches.clone(), does_not_match.clone());
        let working_dir = self.dir_of(scope).await?;
        let home = std::env::home_dir();
        rule.check_examples(&ExampleContext { working_dir: &working_dir, home: home.as_deref(), paths: &RealPaths })
            .map_err(|error| CallError::invalid(format_args!("add the rule: {error}")))?;
        if params.uses == Some(0) {
            return Err(CallError::invalid("add a rule with no uses"));
        }
        let author = match caller {
            Caller::Session(id) => Owner::Session(*id),
            Caller::Operator | Caller::Child(_) => Owner::Operator,
        };
        Ok(NewRule {
            id: RuleId::generate(),
            decision: match params.decision {
                Decision::Allow => RuleDecision::Allow,
                Decision::Deny => RuleDecision::Deny,
                Decision::Ask => RuleDecision::Ask,
            },
            pattern: params.pattern,
            scope,
            author,
            ends_with: self.ends_with(caller).await?,
            expires_at: params.expires_in_secs.map(|secs| UnixMillis::now().plus(std::time::Duration::from_secs(secs))),
            uses: params.uses,
            reason: params.reason,
            matches,
            does_not_match,
        })
    }

    /// A session's rules end with its run.
    async fn ends_with(&self, caller: &Caller) -> Result<Option<plexus_store::RunKey>, CallError> {
        let Caller::Session(id) = caller else { return Ok(None) };
        let open = self.core.store.runs(*id).await?.into_iter().rfind(|run| run.ended_at.is_none());
        Ok(open.map(|run| run.key))
    }

    async fn dir_of(&self, scope: RuleScope) -> Result<std::path::PathBuf, CallError> {
        match scope.session() {
            Some(id) => Ok(SessionConfig::of(&self.core.store.session(id).await?)?.working_dir),
            None => Ok("/".into()),
        }
    }

    /// `all` is the operator's. A session's rules cover strict descendants, never itself, and allow only what it may allow.
    async fn checked_scope(
        &self,
        caller: &Caller,
        scope: Option<Scope>,
        says: Decision,
        pattern: &Pattern,
    ) -> Result<RuleScope, CallError> {
        let own = match caller {
            Caller::Operator => {
                return match scope {
                    None | Some(Scope::All) => Ok(RuleScope::All),
                    Some(Scope::Session(id)) => self.existing(id).await.map(RuleScope::Session),
                    Some(Scope::Subtree(id)) => self.existing(id).await.map(RuleScope::Subtree),
                };
            }
            Caller::Session(own) => *own,
            Caller::Child(_) => return Err(CallError::forbidden("add a rule: a child may only ask")),
        };
        let scope = match scope {
            None => RuleScope::Subtree(own),
            Some(Scope::Subtree(id)) if id == own => RuleScope::Subtree(own),
            Some(Scope::Session(id)) => RuleScope::Session(self.below(caller, id).await?),
            Some(Scope::Subtree(id)) => RuleScope::Subtree(self.below(caller, id).await?),
            Some(Scope::All) => {
                return Err(CallError::forbidden("add a rule for all sessions: that is the operator's"));
            }
        };
        if says == Decision::Allow {
            let config = SessionConfig::of(&self.core.store.session(own).await?)?;
            let granted = config.may_decide.iter().any(|text| text == EVERYTHING || text == pattern.as_str());
            if !granted {
                return Err(CallError::forbidden(format_args!(
                    "allow {} by a rule: your creator did not list it for you",
                    pattern.as_str()
                ))
                .with_hint("a pattern of your may_decide, word for word, can become a rule"));
            }
        }
        Ok(scope)
    }

    async fn existing(&self, id: SessionId) -> Result<SessionId, CallError> {
        Ok(self.core.store.session(id).await?.id)
    }

    async fn below(&self, caller: &Caller, id: SessionId) -> Result<SessionId, CallError> {
        Ok(self.approvals.authority.reach(caller, id).await?.id)
    }

    /// Builds the rule that a remembered decision becomes.
    pub(super) async fn prepare_rule(
        &self,
        caller: &Caller,
        approval: ApprovalId,
        approve: bool,
        remember: &Remember,
    ) -> Result<NewRule, CallError> {
        let record = self.approvals.reach(caller, approval).await?;
        let session = self.core.store.session(record.session).await?;
        let config = SessionConfig::of(&session)?;
        let input: Value = record.input.read()?;
        let pattern = match &remember.pattern {
            Some(pattern) => pattern.clone(),
            None => match self.approvals.rulebook.narrowest(&session, &config, &record.tool_name, &input) {
                Some(pattern) => pattern.as_str().to_owned(),
                None => {
                    return Err(CallError::invalid(
                        "remember this decision: no pattern is narrow enough for this call",
                    )
                    .with_hint("decide it without remember, or name a pattern"));
                }
            },
        };
        let parsed: Pattern =
            pattern.parse().map_err(|error| CallError::invalid(format_args!("read the pattern: {error}")))?;
        let home = std::env::home_dir();
        let call = rule_call(&session, &config, &record.tool_name, &input, &[], home.as_deref());
        if approve && !rules::covers(&Rule::new(Decision::Allow, parsed), &call) {
            return Err(CallError::invalid(format_args!("remember {pattern:?}: it does not cover this call"))
                .with_hint("suggested_rules lists patterns that do"));
        }
        let params = RuleAddParams {
            decision: if approve { Decision::Allow } else { Decision::Deny },
            pattern,
            scope: Some(remember.scope),
            expires_in_secs: remember.expires_in_secs,
            uses: remember.uses,
            reason: Some(format!("remembered from approval {approval}")),
            matches: None,
            does_not_match: None,
        };
        self.new_rule(caller, params).await
    }

    /// Adds a rule, then answers every pending request that the rules now decide and that its author may decide, each on its own record.
    ///
    /// Requests that come meanwhile see the rule: it is committed, and what was compiled before it forgotten, before the first is looked at.
    pub(super) async fn add_and_release(&self, caller: &Caller, rule: NewRule) -> Result<Vec<ApprovalId>, CallError> {
        self.core.store.commit(vec![Change::AddRule(rule)], Priority::Urgent).await?;
        self.approvals.rulebook.changed();
        let filter = ApprovalFilter { stage: Stage::Pending, under: caller.session(), ..ApprovalFilter::default() };
        let mut released = Vec::new();
        let mut next = PageRequest::first(limits::MAX_PAGE_ITEMS);
        loop {
            let found = self.core.store.approvals(filter, next).await?;
            for record in &found.items {
                let session = self.core.store.session(record.session).await?;
                let config = SessionConfig::of(&session)?;
                let input: Value = record.input.read()?;
                let ruling = self.approvals.rulebook.decide(&session, &config, &record.tool_name, &input).await?;
                let verdict = match ruling.decision {
                    Decision::Allow => Verdict::Allow { updated_input: None },
                    Decision::Deny => Verdict::Deny,
                    Decision::Ask => continue,
                };
                let Some(rule) = ruling.rule else { continue };
                if let Caller::Session(decider) = caller
                    && ruling.decision == Decision::Allow
                    && !self
                        .approvals
                        .authority
                        .may_allow(*decider, record.session, &config, &record.tool_name, &input)
                        .await?
                {
                    continue;
                }
                if self.approvals.decide_by_rule(record, verdict, DecidedBy::Rule(rule), &ruling).await? {
                    released.push(record.id);
                }
            }
            match found.next {
                Some(after) => next = PageRequest { after: Some(after), limit: limits::MAX_PAGE_ITEMS },
                None => return Ok(released),
            }
        }
    }

    pub(super) async fn rules(&self, call: Call, params: RulesParams) -> Result<RuleList, CallError> {
        let found = self.core.store.rules(page(params.limit, params.cursor.as_deref())?).await?;
        let mut shown = Vec::new();
        for stored in &found.items {
            if self.may_see_rule(&call.caller, stored.rule.scope, stored.rule.author).await? {
                let rule = &stored.rule;
                shown.push(json!({
                    "id": rule.id, "decision": decision(rule.decision), "pattern": rule.pattern, "scope": rule.scope, "author": rule.author,
                    "expires_at": rule.expires_at.map(UnixMillis::as_secs), "uses": rule.uses, "used": stored.used, "uses_left": stored.uses_left(),
                    "reason": rule.reason, "matches": rule.matches, "does_not_match": rule.does_not_match, "created_at": stored.created_at.as_secs(),
                }));
            }
        }
        if call.caller == Caller::Operator && params.cursor.is_none() {
            shown.extend(self.approvals.rulebook.file_rules().iter().map(|rule| {
                json!({
                    "id": rule.id, "decision": rule.decision, "pattern": rule.pattern.as_str(), "scope": rule.scope, "author": "file",
                    "expires_at": rule.expires_at, "uses_left": rule.uses_left, "reason": rule.reason,
                })
            }));
        }
        Ok(RuleList { rules: shown, cursor: found.next.map(|next| next.to_string()) })
    }

    async fn may_see_rule(&self, caller: &Caller, scope: RuleScope, author: Owner) -> Result<bool, CallError> {
        match caller {
            Caller::Operator => Ok(true),
            Caller::Session(own) if author == Owner::Session(*own) => Ok(true),
            Caller::Session(_) => match scope.session() {
                Some(id) => Ok(self.approvals.authority.reach(caller, id).await.is_ok()),
                None => Ok(false),
            },
            Caller::Child(_) => Ok(false),
        }
    }

    pub(super) async fn rule_remove(&self, call: Call, params: RuleRemoveParams) -> Result<Done, CallError> {
        let stored = self.core.store.rule(params.rule_id).await?;
        if !self.may_see_rule(&call.caller, stored.rule.scope, stored.rule.author).await? {
            return Err(CallError::not_found(format_args!("find the rule {}", params.rule_id)));
        }
        // A session removes what it made; a stricter rule from above stays.
        if let Caller::Session(own) = call.caller
            && stored.rule.author != Owner::Session(own)
        {
            return Err(CallError::forbidden("remove this rule: somebody above you made it"));
        }
        self.core.store.commit(vec![Change::RemoveRules(RemoveRules::One(params.rule_id))], Priority::Normal).await?;
        self.approvals.rulebook.changed();
        Ok(Done {})
    }

    pub(super) async fn rule_test(&self, call: Call, params: RuleTestParams) -> Result<RuleTested, CallError> {
        let session = match params.session_id {
            Some(id) => self.approvals.authority.reach(&call.caller, id).await?,
            None => self.any_session(&call.caller).await?,
        };
        let config = SessionConfig::of(&session)?;
        let ruling =
            self.approvals.rulebook.decide(&session, &config, &params.tool_name, &Value::Object(params.input)).await?;
        Ok(RuleTested { decision: ruling.decision, rule_id: ruling.rule, why: ruling.why })
    }

    /// A rule is tested as some session would see it; without a name, as the oldest that the caller has.
    async fn any_session(&self, caller: &Caller) -> Result<Session, CallError> {
        let filter = plexus_store::SessionFilter { under: caller.session(), ..plexus_store::SessionFilter::default() };
        let found = self.core.store.sessions(filter, PageRequest::first(1)).await?;
        found.items.into_iter().next().ok_or_else(|| {
            CallError::invalid("test a call without a session: there is none yet")
                .with_hint("create a session, or name one with session_id")
        })
    }
}
