//! The standing rules in force: read from the store, compiled once, and asked on every question.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use plexus_core::{RuleId, SessionId};
use plexus_rules::{self as rules, Author, Decision, Pattern, RealPaths, Rule, RuleSet, Ruling};
use plexus_store::{
    JsonText, Owner, PageRequest, SessionRecord, Store, StoreError, StoredRule, UnixMillis,
};
use plexus_wire::{RuleScope, SuggestedRule, ToolCall};
use uuid::Uuid;

use crate::session::SessionConfig;

/// The namespace of the ids of granted rules: the same grant of a session is the same rule.
const GRANTED: Uuid = Uuid::from_u128(0x4f0e_62d7_91ac_5b3c_8a5d_2e71_90bc_46f3);

/// Why a granted rule exists, for everybody who sees its decisions.
const GRANT_REASON: &str = "the session was created with it (allowed_tools)";

/// How many rules one page of the store holds.
const PAGE: usize = 1_000;

/// The rules in force.
pub struct Rulebook {
    store: Arc<dyn Store>,
    /// Compiled rules; `None` until they are read, and after every change.
    compiled: RwLock<Compiled>,
    /// Rules of `loopback.toml`, which live in the file and not in the store.
    from_file: RwLock<Vec<Rule>>,
    /// When a rule or a mode last came that may answer what waits.
    widened_at: RwLock<Option<UnixMillis>>,
    /// Tells the watchers of pending approvals that a rule or a mode came.
    wider: tokio::sync::Notify,
}

/// What was compiled, and how often the rules have changed: a reading that began before a change is
/// not kept.
#[derive(Default)]
struct Compiled {
    rules: Option<Arc<RuleSet>>,
    changes: u64,
}

impl Rulebook {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            compiled: RwLock::default(),
            from_file: RwLock::default(),
            widened_at: RwLock::default(),
            wider: tokio::sync::Notify::new(),
        }
    }

    /// Says what the rules say of a call. `rule_test` and the live path are this one function.
    pub(crate) async fn decide(
        &self,
        session: &SessionRecord,
        config: &SessionConfig,
        tool: &ToolCall,
    ) -> Result<Ruling, StoreError> {
        let in_force = self.in_force().await?;
        let granted = granted(session.id, config);
        let ancestors = self.store.ancestors(session.id).await?;
        let home = config.home();
        let call = call(session, config, tool, &ancestors, home.as_deref());
        if granted.is_empty() {
            return Ok(in_force.decide(&call));
        }
        // Together: one command may need a rule of each kind for its parts.
        let rules = RuleSet::new(in_force.rules().iter().cloned().chain(granted));
        Ok(rules.decide(&call))
    }

    /// Rules that would cover a call, narrow to wide, as `suggested_rules` shows them.
    pub(crate) fn suggestions(
        &self,
        session: &SessionRecord,
        config: &SessionConfig,
        tool: &ToolCall,
    ) -> Result<JsonText, StoreError> {
        let home = config.home();
        let call = call(session, config, tool, &[], home.as_deref());
        let suggested: Vec<SuggestedRule> = rules::suggest(&call)
            .into_iter()
            .map(|one| SuggestedRule { pattern: one.pattern.to_string(), label: one.label })
            .collect();
        JsonText::of(&suggested)
    }

    /// Returns the narrowest pattern that covers a call.
    pub fn narrowest(
        &self,
        session: &SessionRecord,
        config: &SessionConfig,
        tool: &ToolCall,
    ) -> Option<Pattern> {
        let home = config.home();
        rules::narrowest(&call(session, config, tool, &[], home.as_deref()))
    }

    /// Says whether a call edits a file inside the session's own directories, and no program takes
    /// orders from that file (as git does from its hooks).
    pub(crate) fn is_edit_inside(
        &self,
        session: &SessionRecord,
        config: &SessionConfig,
        tool: &ToolCall,
    ) -> bool {
        let home = config.home();
        let call = call(session, config, tool, &[], home.as_deref());
        let dirs = std::iter::once(&config.working_dir).chain(&config.add_dirs);
        rules::is_edit_inside(&call, dirs.map(PathBuf::as_path))
    }

    /// Forgets what was compiled: a rule came or went.
    pub fn changed(&self) {
        let mut compiled = self.compiled.write().unwrap_or_else(PoisonError::into_inner);
        compiled.rules = None;
        compiled.changes += 1;
    }

    /// A rule or a mode came that may answer what waits. It is in the store by now, so whoever
    /// judges from here on sees it.
    pub fn widened(&self) {
        self.changed();
        *self.widened_at.write().unwrap_or_else(PoisonError::into_inner) = Some(UnixMillis::now());
        self.wider.notify_one();
    }

    /// Waits until a rule or a mode comes.
    pub(crate) async fn wider(&self) {
        self.wider.notified().await;
    }

    /// When a rule or a mode last came.
    pub(crate) fn widened_at(&self) -> Option<UnixMillis> {
        *self.widened_at.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the rules of the file.
    pub(crate) fn set_file_rules(&self, rules: Vec<Rule>) {
        *self.from_file.write().unwrap_or_else(PoisonError::into_inner) = rules;
        self.widened();
    }

    /// Says whether a rule lives in the file.
    pub fn is_from_file(&self, id: RuleId) -> bool {
        self.from_file
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .any(|rule| rule.id == id)
    }

    /// Counts a decision of a rule of the file. Such counts start again when the file is read
    /// again.
    pub(crate) fn use_file_rule(&self, id: RuleId) {
        let mut rules = self.from_file.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(left) =
            rules.iter_mut().find(|rule| rule.id == id).and_then(|rule| rule.uses_left.as_mut())
        {
            *left = left.saturating_sub(1);
            drop(rules);
            self.changed();
        }
    }

    /// Returns the rules of the file.
    pub fn file_rules(&self) -> Vec<Rule> {
        self.from_file.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the rules in force together with one more.
    pub async fn with(&self, more: Rule) -> Result<RuleSet, StoreError> {
        let others = self.in_force().await?;
        Ok(RuleSet::new(
            others.rules().iter().filter(|rule| rule.id != more.id).cloned().chain([more.clone()]),
        ))
    }

    /// Returns the rules in force, compiled.
    pub async fn in_force(&self) -> Result<Arc<RuleSet>, StoreError> {
        let changes = {
            let compiled = self.compiled.read().unwrap_or_else(PoisonError::into_inner);
            // Where servers share the store, a rule may come through any of them, and holds from
            // the moment it is stored.
            if let Some(rules) = compiled.rules.as_ref().filter(|_| self.store.lease().is_none()) {
                return Ok(Arc::clone(rules));
            }
            compiled.changes
        };
        let mut all = self.file_rules();
        let mut next = Some(PageRequest::first(PAGE));
        while let Some(page) = next {
            let read = self.store.rules(page).await?;
            all.extend(read.items.iter().filter_map(compile));
            next = page.then(read.next);
        }
        let rules = Arc::new(RuleSet::new(all));
        let mut compiled = self.compiled.write().unwrap_or_else(PoisonError::into_inner);
        if compiled.changes == changes {
            compiled.rules = Some(Arc::clone(&rules));
        }
        Ok(rules)
    }
}

/// Returns the rules that `allowed_tools` of a session are. They live in its configuration, so they
/// begin and end with it. A pattern that cannot be read allows nothing.
pub(crate) fn granted(session: SessionId, config: &SessionConfig) -> Vec<Rule> {
    let rule = |text: &String| {
        let mut rule = Rule::new(Decision::Allow, text.parse().ok()?);
        let name = format!("{session} {text}");
        rule.id = RuleId::from_uuid(Uuid::new_v5(&GRANTED, name.as_bytes()));
        rule.scope = RuleScope::Session(session);
        rule.author = config.allowed_by.map_or(Author::Operator, Author::Session);
        rule.reason = Some(GRANT_REASON.to_owned());
        Some(rule)
    };
    config.allowed_tools.iter().filter_map(rule).collect()
}

/// Makes the call that the engine judges.
pub fn call<'a>(
    session: &SessionRecord,
    config: &'a SessionConfig,
    tool: &'a ToolCall,
    ancestors: &'a [plexus_core::SessionId],
    home: Option<&'a Path>,
) -> rules::Call<'a> {
    rules::Call {
        tool,
        working_dir: &config.working_dir,
        home,
        session: session.id,
        ancestors,
        now: UnixMillis::now().as_secs(),
        paths: &RealPaths,
    }
}

/// Compiles a stored rule; `None` when this version cannot read its pattern. Calls that it covered
/// are then asked about.
pub fn compile(stored: &StoredRule) -> Option<Rule> {
    let pattern = match stored.rule.pattern.parse::<Pattern>() {
        Ok(pattern) => pattern,
        Err(error) => {
            tracing::warn!(rule = %stored.rule.id, %error, "a stored rule cannot be read and is \
                not in force");
            return None;
        }
    };
    let mut rule = Rule::new(stored.rule.decision, pattern);
    rule.id = stored.rule.id;
    rule.scope = stored.rule.scope;
    rule.author = match stored.rule.author {
        Owner::Operator => Author::Operator,
        Owner::Session(id) => Author::Session(id),
    };
    rule.expires_at = stored.rule.expires_at.map(UnixMillis::as_secs);
    rule.uses_left = stored.uses_left();
    rule.reason = stored.rule.reason.clone();
    Some(rule)
}
