//! The methods about standing rules, and what a remembered decision releases. `remember` is
//! `rule_add` under the same checks.

use plexus_core::{ApprovalId, Call, CallError, Caller, RuleId, SessionId};
use plexus_engine::authority::may_decide_all_of;
use plexus_engine::handles;
use plexus_engine::rulebook::call as rule_call;
use plexus_engine::session::SessionConfig;
use plexus_rules::{
    CallParseError, Decision, ExampleContext, ExampleError, Pattern, PatternError, RealPaths, Rule,
    Scope,
};
use plexus_store::{
    Change, DecidedBy, NewRule, Owner, PageRequest, Priority, RemoveRules, RuleScope, StoreError,
    StoredRule, UnixMillis, limits,
};
use plexus_wire::{
    Done, Remember, RuleAddParams, RuleAdded, RuleAuthor, RuleList, RuleRemoveParams, RulesParams,
    Seconds, ToolTarget, Uses,
};
use serde_json::Value;
use uuid::Uuid;

use super::Loopback;
use crate::claudecode::page;

/// The namespace of the ids of remembered rules: the same answer given twice is one rule.
const REMEMBERED: Uuid = Uuid::from_u128(0x8c52_3f1d_6a0b_5e47_9d10_4b7f_c3a2_61e5);

/// How many rules one session may have, also those that are spent: each question, whoever asks it,
/// is judged by the rules of all.
const MAX_RULES_OF_SESSION: usize = 500;

/// How many bytes their texts may have together: the rules in force are held in memory.
const MAX_RULE_BYTES_OF_SESSION: usize = 1024 * 1024;

/// The rule that a decision is remembered as; nothing when it is not.
#[derive(Default)]
pub(super) struct Remembered {
    pub(super) id: Option<RuleId>,
    /// The rule, unless it is there already.
    pub(super) new: Option<NewRule>,
}

fn remembered_id(approval: ApprovalId, params: &RuleAddParams) -> RuleId {
    let name = format!("{approval} {:?} {:?} {}", params.decision, params.scope, params.pattern);
    RuleId::from_uuid(Uuid::new_v5(&REMEMBERED, name.as_bytes()))
}

/// A rule of the server's file. How often it has decided is not counted.
fn from_file(rule: &Rule) -> plexus_wire::Rule {
    plexus_wire::Rule {
        id: rule.id,
        decision: rule.decision.into(),
        pattern: rule.pattern.to_string(),
        scope: rule.scope.into(),
        author: RuleAuthor::File.into(),
        expires_at: rule.expires_at.map(Seconds),
        uses: None,
        used: None,
        uses_left: rule.uses_left,
        reason: rule.reason.clone(),
        matches: rule.matches.clone(),
        does_not_match: rule.does_not_match.clone(),
        created_at: None,
        handle: Some(handles::rule(rule.id)),
    }
}

/// A rule that was added.
fn from_store(stored: &StoredRule) -> plexus_wire::Rule {
    let rule = &stored.rule;
    plexus_wire::Rule {
        id: rule.id,
        decision: rule.decision.into(),
        pattern: rule.pattern.clone(),
        scope: rule.scope.into(),
        author: match rule.author {
            Owner::Operator => RuleAuthor::Operator.into(),
            Owner::Session(id) => RuleAuthor::Session(id).into(),
        },
        expires_at: rule.expires_at.map(Into::into),
        uses: rule.uses,
        used: Some(stored.used),
        uses_left: stored.uses_left(),
        reason: rule.reason.clone(),
        matches: rule.matches.clone(),
        does_not_match: rule.does_not_match.clone(),
        created_at: Some(stored.created_at.into()),
        handle: Some(handles::rule(rule.id)),
    }
}

/// The bytes of a rule's texts.
fn bytes_of(rule: &NewRule) -> usize {
    let examples = rule.matches.iter().chain(&rule.does_not_match).map(String::len);
    rule.pattern.len() + rule.reason.as_ref().map_or(0, String::len) + examples.sum::<usize>()
}

fn unreadable(error: PatternError, field: &str) -> CallError {
    CallError::invalid(format_args!("read the pattern: {error}")).with_field(field)
}

/// Names the example that a rule contradicts, or that cannot be read.
fn wrong_example(error: &ExampleError, matches: &[String], does_not_match: &[String]) -> CallError {
    let refused = CallError::invalid(format_args!("add the rule: {error}"));
    let (ExampleError::NotACall(CallParseError { example })
    | ExampleError::DoesNotMatch { example, .. }
    | ExampleError::Matches { example, .. }) = error;
    let lists = match error {
        ExampleError::DoesNotMatch { .. } => &[("matches", matches)][..],
        ExampleError::Matches { .. } => &[("does_not_match", does_not_match)],
        ExampleError::NotACall(_) => &[("matches", matches), ("does_not_match", does_not_match)],
    };
    for (field, list) in lists {
        if let Some(at) = list.iter().position(|one| one == example) {
            return refused.with_field(format!("{field}[{at}]"));
        }
    }
    refused
}

impl Loopback {
    pub(super) async fn rule_add(
        &self,
        call: Call,
        params: RuleAddParams,
    ) -> Result<RuleAdded, CallError> {
        let rule = self.new_rule(&call.caller, params).await?;
        let id = rule.id;
        self.store.commit(vec![Change::AddRule(rule)], Priority::Urgent).await?;
        self.release(&call.caller).await?;
        Ok(RuleAdded { rule_id: id })
    }

    /// Checks a rule whole before anything is changed: its pattern, its examples, its scope, and
    /// that its author may make it.
    async fn new_rule(&self, caller: &Caller, params: RuleAddParams) -> Result<NewRule, CallError> {
        let pattern: Pattern =
            params.pattern.parse().map_err(|error| unreadable(error, "pattern"))?;
        let scope = self.checked_scope(caller, params.scope, params.decision, &pattern).await?;
        let (matches, does_not_match) =
            (params.matches.unwrap_or_default(), params.does_not_match.unwrap_or_default());
        let mut rule = Rule::new(params.decision, pattern);
        (rule.matches, rule.does_not_match) = (matches.clone(), does_not_match.clone());
        let working_dir = self.dir_of(scope).await?;
        let home = std::env::home_dir();
        rule.check_examples(&ExampleContext {
            working_dir: &working_dir,
            home: home.as_deref(),
            paths: &RealPaths,
        })
        .map_err(|error| wrong_example(&error, &matches, &does_not_match))?;
        let author = match caller {
            Caller::Session(id) => Owner::Session(*id),
            Caller::Operator | Caller::Child(_) | Caller::Device(_) => Owner::Operator,
        };
        let new = NewRule {
            id: RuleId::generate(),
            decision: params.decision,
            pattern: params.pattern,
            scope,
            author,
            ends_with: self.ends_with(caller).await?,
            expires_at: params.expires_in_secs.map(|secs| UnixMillis::now().plus(secs.duration())),
            uses: params.uses.map(Uses::get),
            reason: params.reason,
            matches,
            does_not_match,
        };
        self.has_room_for(&new).await?;
        Ok(new)
    }

    /// Refuses a rule that is one too many for the session that makes it. The operator's are not
    /// counted.
    async fn has_room_for(&self, new: &NewRule) -> Result<(), CallError> {
        if new.author == Owner::Operator {
            return Ok(());
        }
        let (mut rules, mut bytes) = (1, bytes_of(new));
        let mut next = Some(PageRequest::first(limits::MAX_PAGE_ITEMS));
        while let Some(page) = next {
            let found = self.store.rules(page).await?;
            for stored in found.items.iter().filter(|it| it.rule.author == new.author) {
                rules += 1;
                bytes += bytes_of(&stored.rule);
            }
            next = page.then(found.next);
        }
        if rules <= MAX_RULES_OF_SESSION && bytes <= MAX_RULE_BYTES_OF_SESSION {
            return Ok(());
        }
        Err(CallError::conflict(format_args!(
            "add a rule: one session may have {MAX_RULES_OF_SESSION} rules, with \
             {MAX_RULE_BYTES_OF_SESSION} bytes of texts together"
        ))
        .with_hint("remove some of yours with loopback.rule_remove"))
    }

    /// A session's rules end with its run; one whose run is over makes none. A parent outside has
    /// no runs, and its rules stay.
    async fn ends_with(&self, caller: &Caller) -> Result<Option<plexus_store::RunKey>, CallError> {
        let Caller::Session(id) = caller else { return Ok(None) };
        let runs = self.store.runs(*id).await?;
        match runs.iter().rfind(|run| run.ended_at.is_none()) {
            Some(open) => Ok(Some(open.key)),
            None if runs.is_empty() => Ok(None),
            None => Err(CallError::conflict(
                "add a rule: your run has ended, and your rules end with it",
            )),
        }
    }

    async fn dir_of(&self, scope: RuleScope) -> Result<std::path::PathBuf, CallError> {
        match scope.session() {
            Some(id) => Ok(SessionConfig::of(&self.store.session(id).await?)?.working_dir),
            None => Ok("/".into()),
        }
    }

    /// `all` is the operator's. A session's rules cover strict descendants, never itself, and allow
    /// only what it may allow.
    pub(super) async fn checked_scope(
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
            Caller::Child(_) => {
                return Err(CallError::forbidden("add a rule: a child may only ask"));
            }
            Caller::Device(_) => {
                return Err(CallError::forbidden("add a rule: a device may only read and decide"));
            }
        };
        let scope = match scope {
            None => RuleScope::Subtree(own),
            Some(Scope::Subtree(id)) if id == own => RuleScope::Subtree(own),
            Some(Scope::Session(id)) => RuleScope::Session(self.below(caller, id).await?),
            Some(Scope::Subtree(id)) => RuleScope::Subtree(self.below(caller, id).await?),
            Some(Scope::All) => {
                return Err(CallError::forbidden(
                    "add a rule for all sessions: only the operator may",
                ));
            }
        };
        if says == Decision::Allow {
            let config = SessionConfig::of(&self.store.session(own).await?)?;
            if !may_decide_all_of(&config, pattern) {
                return Err(CallError::forbidden(format_args!(
                    "allow {} by a rule: your creator did not list it for you",
                    pattern.as_str()
                ))
                .with_hint(
                    "a rule may be as wide as a pattern of your may_decide, and its paths absolute",
                ));
            }
        }
        Ok(scope)
    }

    async fn existing(&self, id: SessionId) -> Result<SessionId, CallError> {
        Ok(self.store.session(id).await?.id)
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
    ) -> Result<Remembered, CallError> {
        let record = self.approvals.reach(caller, approval).await?;
        let session = self.store.session(record.session).await?;
        let config = SessionConfig::of(&session)?;
        let input: Value = record.input.read()?;
        let tool = self.approvals.views.tools.read(&config, &record.tool_name, &input);
        if tool.target == (ToolTarget::Question {}) {
            return Err(CallError::invalid(
                "remember this decision: it is a question, and no rule answers one",
            )
            .with_field("remember"));
        }
        if let Some(reason) = record.person_only.as_ref().filter(|_| approve) {
            return Err(CallError::invalid(format_args!(
                "remember this decision: no rule may allow such a call, because {reason}"
            ))
            .with_field("remember")
            .with_hint("allow it without remember, each time"));
        }
        let pattern = match &remember.pattern {
            Some(pattern) => pattern.clone(),
            None => match self.approvals.rulebook.narrowest(&session, &config, &tool) {
                Some(pattern) => pattern.as_str().to_owned(),
                None => {
                    return Err(CallError::invalid(
                        "remember this decision: no pattern is narrow enough for this call",
                    )
                    .with_field("remember")
                    .with_hint("decide it without remember, or name a pattern"));
                }
            },
        };
        let parsed: Pattern =
            pattern.parse().map_err(|error| unreadable(error, "remember.pattern"))?;
        let home = config.home();
        let call = rule_call(&session, &config, &tool, &[], home.as_deref());
        let says = if approve { Decision::Allow } else { Decision::Deny };
        if !plexus_rules::covers(&Rule::new(says, parsed), &call) {
            return Err(CallError::invalid(format_args!(
                "remember {pattern:?}: it does not cover this call"
            ))
            .with_field("remember.pattern")
            .with_hint("suggested_rules lists patterns that do"));
        }
        let params = RuleAddParams {
            decision: says,
            pattern,
            scope: Some(remember.scope),
            expires_in_secs: remember.expires_in_secs,
            uses: remember.uses,
            reason: Some(format!("remembered from approval {approval}")),
            matches: None,
            does_not_match: None,
        };
        let id = remembered_id(approval, &params);
        match self.store.rule(id).await {
            // The same answer again: the rule is there.
            Ok(_) => Ok(Remembered { id: Some(id), new: None }),
            Err(StoreError::NotFound { .. }) => {
                let rule = NewRule { id, ..self.new_rule(caller, params).await? };
                Ok(Remembered { id: Some(id), new: Some(rule) })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Does what [`release`](Self::release) does after a rule was remembered, and returns every
    /// request that this rule decided. Some of them may have been decided by the timer that judges
    /// late requests again.
    pub(super) async fn release_by(
        &self,
        caller: &Caller,
        rule: RuleId,
    ) -> Result<Vec<ApprovalId>, CallError> {
        let waiting = self.approvals.waiting(caller.session()).await?;
        let mut released = self.release(caller).await?;
        for id in waiting {
            if released.contains(&id) {
                continue;
            }
            match self.store.approval(id).await {
                Ok(record)
                    if record
                        .decision
                        .as_ref()
                        .is_some_and(|it| it.by == DecidedBy::Rule(rule)) =>
                {
                    released.push(id);
                }
                Ok(_) | Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(released)
    }

    /// Answers every pending request below the caller that the rules and modes now decide. Called
    /// after a rule or a mode was committed.
    ///
    /// A request that arrives meanwhile is judged by the new rules, because the compiled rules are
    /// dropped before the first pending request is read. A request that was judged before that and
    /// is stored after it is judged again ([`deadlines`](super::deadlines)).
    pub(super) async fn release(&self, caller: &Caller) -> Result<Vec<ApprovalId>, CallError> {
        self.approvals.rulebook.widened();
        Ok(self.approvals.release(caller.session(), None, |_| true).await?)
    }

    pub(super) async fn rules(
        &self,
        call: Call,
        params: RulesParams,
    ) -> Result<RuleList, CallError> {
        let found = self.store.rules(page(params.limit, params.cursor.as_deref())?).await?;
        let mut shown = Vec::new();
        for stored in &found.items {
            if self.may_see_rule(&call.caller, stored.rule.scope, stored.rule.author).await? {
                shown.push(from_store(stored));
            }
        }
        if call.caller == Caller::Operator && params.cursor.is_none() {
            shown.extend(self.approvals.rulebook.file_rules().iter().map(from_file));
        }
        Ok(RuleList { rules: shown, cursor: found.next.map(|next| next.to_string()) })
    }

    /// Returns a rule, of the server's file too, if `caller` may see it.
    pub(super) async fn rule_for(
        &self,
        caller: &Caller,
        id: RuleId,
    ) -> Result<plexus_wire::Rule, CallError> {
        let hidden = || CallError::not_found(format_args!("find the rule {id}"));
        match self.store.rule(id).await {
            Ok(stored) => {
                let rule = &stored.rule;
                let seen = self.may_see_rule(caller, rule.scope, rule.author).await?;
                if seen { Ok(from_store(&stored)) } else { Err(hidden()) }
            }
            Err(StoreError::NotFound { .. }) if *caller == Caller::Operator => {
                let rules = self.approvals.rulebook.file_rules();
                rules.iter().find(|rule| rule.id == id).map(from_file).ok_or_else(hidden)
            }
            Err(StoreError::NotFound { .. }) => Err(hidden()),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) async fn may_see_rule(
        &self,
        caller: &Caller,
        scope: RuleScope,
        author: Owner,
    ) -> Result<bool, CallError> {
        match caller {
            Caller::Operator | Caller::Device(_) => Ok(true),
            Caller::Session(own) if author == Owner::Session(*own) => Ok(true),
            Caller::Session(_) => match scope.session() {
                Some(id) => Ok(self.approvals.authority.reach(caller, id).await.is_ok()),
                None => Ok(false),
            },
            Caller::Child(_) => Ok(false),
        }
    }

    pub(super) async fn rule_remove(
        &self,
        call: Call,
        params: RuleRemoveParams,
    ) -> Result<Done, CallError> {
        let stored = self.store.rule(params.rule_id).await?;
        if !self.may_see_rule(&call.caller, stored.rule.scope, stored.rule.author).await? {
            return Err(CallError::not_found(format_args!("find the rule {}", params.rule_id)));
        }
        // A session removes what it made; a stricter rule from above stays.
        if let Caller::Session(own) = call.caller
            && stored.rule.author != Owner::Session(own)
        {
            return Err(CallError::forbidden("remove this rule: one of your ancestors made it"));
        }
        self.store
            .commit(vec![Change::RemoveRules(RemoveRules::One(params.rule_id))], Priority::Normal)
            .await?;
        self.approvals.rulebook.changed();
        Ok(Done {})
    }
}
