//! Who may see, steer and decide what. Authority only narrows on the way down.
//!
//! A hostile child would try to approve its own request or one of a sibling or an ancestor, to
//! have a child of its own do what it may not do, to give a child more than it has, and to learn
//! what strangers do. Every method asks one of three questions, which together prevent this:
//! - [`Authority::reach`]: may this caller touch this session at all? The operator and its devices
//!   may touch every session (the method table says which methods a device may call). A session
//!   may touch its strict descendants. A token that may only ask (`Caller::Child`) may touch
//!   nothing. A session that is out of reach is answered as if it did not exist.
//! - [`Authority::may_allow`]: does this session's "yes" count for this call? Only if its creator
//!   listed the call for it (`may_decide`, `allowed_tools`), and every session above it was given
//!   the call too.
//! - [`narrowed`]: is what a session gives to its child no more than it has itself?
//!
//! The answer of a receiver has no caller; [`HookAnswers`](crate::hooks::HookAnswers) checks its
//! one-time token instead.

use std::path::Path;
use std::sync::Arc;

use plexus_core::{CallError, Caller, SessionId};
use plexus_rules::{self as rules, Decision, Pattern, Placed, RealPaths, Rule};
use plexus_store::{
    ApprovalRecord, Owner, PageRequest, SessionFilter, SessionRecord, Store, StoreError,
};
use plexus_wire::{Budget, Confine, ProjectSettings, Supervise, ToolCall};

use crate::handles::CONE;
use crate::session::SessionConfig;

/// How many sessions of one name are told apart in an error.
const NAMESAKES: usize = 4;

/// A pattern that stands for every tool, in `may_decide` alone.
pub const EVERYTHING: &str = "*";

/// Answers the three questions from the store.
#[derive(Clone)]
pub struct Authority {
    store: Arc<dyn Store>,
}

/// A tool call of a session, as a grant sees it.
#[derive(Clone, Copy)]
pub struct Deed<'a> {
    /// Whose agent wants to do it.
    pub asker: SessionId,
    /// What that session was created with.
    pub asker_config: &'a SessionConfig,
    /// The tool and what it would act on.
    pub tool: &'a ToolCall,
    /// Why only a person may allow it, if the agent says so: then no session's allow counts.
    pub person_only: Option<&'a str>,
}

impl<'a> Deed<'a> {
    /// The call of an approval. `tool` is what it would do with the input that would run.
    #[must_use]
    pub fn of(
        record: &'a ApprovalRecord,
        asker_config: &'a SessionConfig,
        tool: &'a ToolCall,
    ) -> Self {
        let person_only = record.person_only.as_deref();
        Self { asker: record.session, asker_config, tool, person_only }
    }
}

impl Authority {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Returns the session if `caller` may touch it; else it does not exist, as far as this caller
    /// can tell.
    pub async fn reach(&self, caller: &Caller, id: SessionId) -> Result<SessionRecord, CallError> {
        let hidden = || {
            CallError::not_found(format_args!("find the session {id}"))
                .with_hint("agents.list shows the sessions you may use")
        };
        let found = |result: Result<SessionRecord, StoreError>| match result {
            Ok(session) => Ok(session),
            Err(StoreError::NotFound { .. }) => Err(hidden()),
            Err(error) => Err(error.into()),
        };
        match caller {
            Caller::Operator | Caller::Device(_) => found(self.store.session(id).await),
            Caller::Session(own) => {
                let session = found(self.store.session(id).await)?;
                let ancestors = self.store.ancestors(id).await?;
                if ancestors.contains(own) { Ok(session) } else { Err(hidden()) }
            }
            Caller::Child(_) => {
                Err(CallError::forbidden("reach a session: a child may only ask for permission"))
            }
        }
    }

    /// Finds a session by id or exact name, within what the caller may touch.
    pub async fn find(
        &self,
        caller: &Caller,
        id: Option<SessionId>,
        name: Option<&str>,
    ) -> Result<SessionRecord, CallError> {
        self.find_any(caller, id, name).await?.ok_or_else(|| {
            CallError::invalid("find the session: give session_id or name").with_field("session_id")
        })
    }

    /// The same, where a call may name no session at all.
    pub async fn find_any(
        &self,
        caller: &Caller,
        id: Option<SessionId>,
        name: Option<&str>,
    ) -> Result<Option<SessionRecord>, CallError> {
        match (id, name) {
            (Some(id), None) => self.reach(caller, id).await.map(Some),
            (None, Some(name)) => self.find_by_name(caller, name).await.map(Some),
            (Some(_), Some(_)) => {
                Err(CallError::invalid("find the session: give session_id or name, not both")
                    .with_field("name"))
            }
            (None, None) => Ok(None),
        }
    }

    /// Finds a session by its name. Names are unique below each parent, so a session that the
    /// caller itself created is preferred. Otherwise the name must be unique among all sessions
    /// that the caller can reach.
    async fn find_by_name(&self, caller: &Caller, name: &str) -> Result<SessionRecord, CallError> {
        let unknown = || {
            CallError::not_found(format_args!("find the session {name:?}"))
                .with_hint("names are exact; agents.list shows them")
        };
        match self.store.session_named(caller.session(), name).await {
            Ok(session) => return self.reach(caller, session.id).await,
            Err(StoreError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let filter = SessionFilter {
            under: caller.session(),
            name: Some(name.to_owned()),
            ..SessionFilter::default()
        };
        let found = self.store.sessions(filter, PageRequest::first(NAMESAKES)).await?.items;
        match found.as_slice() {
            [] => Err(unknown()),
            [session] => self.reach(caller, session.id).await,
            several => {
                let mut created = Vec::new();
                for session in several {
                    // The parent of a session that the caller reaches is the caller itself, or one
                    // that it reaches too.
                    let creator = match session.parent {
                        Some(parent) => match self.store.session(parent).await {
                            Ok(parent) => parent.name,
                            Err(_) => parent.to_string(),
                        },
                        None => "the operator".to_owned(),
                    };
                    created.push(format!("{} (created by {creator})", session.id));
                }
                Err(CallError::conflict(format_args!(
                    "find the session {name:?}: several have this name"
                ))
                .with_hint(format_args!("use a session_id: {}", created.join(", "))))
            }
        }
    }

    /// Returns who is asked first about a tool call: the nearest ancestor whose allow would count,
    /// else the operator.
    pub(crate) async fn owner_of(&self, deed: &Deed<'_>) -> Result<Owner, StoreError> {
        let line = self.ancestors_with_grants(deed.asker).await?;
        Ok(nearest_decider(&line, deed).map_or(Owner::Operator, Owner::Session))
    }

    /// Returns who is asked when `owner` did not answer: the next one above whose allow would
    /// count, at the end the operator.
    pub(crate) async fn above(
        &self,
        owner: SessionId,
        deed: &Deed<'_>,
    ) -> Result<Owner, StoreError> {
        let line = self.ancestors_with_grants(deed.asker).await?;
        let above = line
            .iter()
            .position(|(id, _)| *id == owner)
            .and_then(|at| line.get(at + 1..))
            .unwrap_or_default();
        Ok(nearest_decider(above, deed).map_or(Owner::Operator, Owner::Session))
    }

    /// Says whether an allow of session `decider` counts for a tool call of a session below it.
    ///
    /// `decider` must be a strict ancestor. It may allow what its creator listed in `may_decide`,
    /// and what it may do unasked itself (`allowed_tools`). Everything else is its own parent's to
    /// decide.
    pub async fn may_allow(&self, decider: SessionId, deed: &Deed<'_>) -> Result<bool, StoreError> {
        let line = self.ancestors_with_grants(deed.asker).await?;
        let from = line.iter().position(|(id, _)| *id == decider).and_then(|at| line.get(at..));
        Ok(from.is_some_and(|line| all_list(line, deed)))
    }

    /// The strict ancestors of a session with their grants, its parent first.
    async fn ancestors_with_grants(
        &self,
        asker: SessionId,
    ) -> Result<Vec<(SessionId, SessionConfig)>, StoreError> {
        let mut line = Vec::new();
        for id in self.store.ancestors(asker).await? {
            line.push((id, SessionConfig::of(&self.store.session(id).await?)?));
        }
        Ok(line)
    }
}

fn nearest_decider(line: &[(SessionId, SessionConfig)], deed: &Deed<'_>) -> Option<SessionId> {
    let at = (0..line.len()).find(|at| line.get(*at..).is_some_and(|line| all_list(line, deed)))?;
    line.get(at).map(|(id, _)| *id)
}

/// Returns whether every session of `line`, which starts at the decider and ends at the topmost
/// session, was allowed to decide this call. None may decide what is left to a person.
///
/// When a session is created, its grants are compared with those of its creator, as patterns. Where
/// a path leads can change afterwards (a directory becomes a link). So every session above must
/// list the call itself, and no grant is worth more than the one it came from.
fn all_list(line: &[(SessionId, SessionConfig)], deed: &Deed<'_>) -> bool {
    deed.person_only.is_none() && line.iter().all(|(_, grants)| listed(grants, deed))
}

/// Says whether `grants` lists this call.
fn listed(grants: &SessionConfig, deed: &Deed<'_>) -> bool {
    let home = deed.asker_config.home();
    let call = rules::Call {
        tool: deed.tool,
        working_dir: &deed.asker_config.working_dir,
        home: home.as_deref(),
        session: deed.asker,
        ancestors: &[],
        now: 0,
        paths: &RealPaths,
    };
    grants.may_decide.iter().any(|text| text == EVERYTHING || covers(text, grants, &call))
        || grants.allowed_tools.iter().any(|text| covers(text, grants, &call))
}

/// Relative paths of a grant start in the granter's directory, those of a call where it happens: a
/// relative grant is therefore only taken for a call from that very directory. A pattern that
/// cannot be read grants nothing.
fn covers(pattern: &str, grants: &SessionConfig, call: &rules::Call<'_>) -> bool {
    pattern.parse::<Pattern>().is_ok_and(|pattern| {
        (!pattern.is_relative() || grants.working_dir == call.working_dir)
            && rules::covers(&Rule::new(Decision::Allow, pattern), call)
    })
}

/// Says whether `grants` lets its session decide every call of `pattern`, in whatever directory
/// below its own.
pub fn may_decide_all_of(grants: &SessionConfig, pattern: &Pattern) -> bool {
    grants.may_decide.iter().any(|text| text == EVERYTHING) || {
        let inner = Placed { pattern, dir: None };
        lists(&grants.may_decide, grants, inner) || lists(&grants.allowed_tools, grants, inner)
    }
}

/// Says whether one pattern of a list takes in `inner`.
fn lists(list: &[String], holder: &SessionConfig, inner: Placed<'_>) -> bool {
    list.iter().any(|text| {
        text.parse::<Pattern>().is_ok_and(|outer| {
            rules::includes(
                Placed { pattern: &outer, dir: Some(&holder.working_dir) },
                inner,
                &RealPaths,
            )
        })
    })
}

/// Says whether one pattern of `list`, held by `holder`, takes in `text`, held by `inner_holder`.
/// The same words in the same directory always do, also when we cannot read them: the agent knows
/// notations that we do not.
fn lists_text(
    list: &[String],
    holder: &SessionConfig,
    text: &str,
    inner_holder: &SessionConfig,
) -> bool {
    let same_words = list.iter().any(|outer| outer == text);
    match text.parse::<Pattern>() {
        Ok(pattern) => {
            (same_words
                && (!pattern.is_relative() || holder.working_dir == inner_holder.working_dir))
                || lists(
                    list,
                    holder,
                    Placed { pattern: &pattern, dir: Some(&inner_holder.working_dir) },
                )
        }
        Err(_) => same_words && holder.working_dir == inner_holder.working_dir,
    }
}

/// Checks that `child` has no more than its creator `parent`.
///
/// # Errors
/// `forbidden`, naming the first thing that is too much.
pub fn narrowed(parent: &SessionConfig, child: &SessionConfig) -> Result<(), CallError> {
    excess(parent, child).map_or(Ok(()), |what| Err(too_much(&what)))
}

/// Names the first thing that `child` has and `parent` has not. Every field of the configuration
/// has its line, so that a new one is not forgotten.
fn excess(parent: &SessionConfig, child: &SessionConfig) -> Option<String> {
    let SessionConfig {
        working_dir,
        // Its agent and its instructions are the creator's choice.
        agent: _,
        model: _,
        system_prompt: _,
        channel: _,
        // Its creator, which the server notes.
        allowed_by: _,
        // A session may choose this freely: whenever the question is passed on, the sessions above
        // may answer it at any time.
        escalate_after_secs: _,
        loopback_enabled,
        loopback_timeout_secs,
        supervise,
        can_spawn,
        can_use_cone,
        may_decide,
        project_settings,
        allowed_tools,
        disallowed_tools,
        add_dirs,
        env,
        mcp_servers,
        confine,
        budget,
    } = child;
    if let Some(dir) = std::iter::once(working_dir).chain(add_dirs).find(|dir| !inside(dir, parent))
    {
        return Some(format!("the directory {}", dir.display()));
    }
    if let Some(tool) =
        allowed_tools.iter().find(|tool| !lists_text(&parent.allowed_tools, parent, tool, child))
    {
        return Some(format!("the tool {tool} unasked"));
    }
    if let Some(tool) = parent.disallowed_tools.iter().find(|tool| !disallowed_tools.contains(tool))
    {
        return Some(format!("the tool {tool}"));
    }
    if let Some((name, _)) = env.iter().find(|(name, value)| parent.env.get(*name) != Some(*value))
    {
        return Some(format!("the variable {name}"));
    }
    // A server that the parent does not have may name a program, which would be started unasked.
    let is_parents = |name: &str, server| parent.mcp_servers.get(name) == Some(server);
    if let Some((name, _)) = mcp_servers.iter().find(|(name, server)| !is_parents(name, server)) {
        return Some(format!("the MCP server {name}"));
    }
    if *supervise == Supervise::Default && parent.supervise == Supervise::All {
        return Some("looser supervision".into());
    }
    if *project_settings == ProjectSettings::Trust {
        return Some("trusted project settings".into());
    }
    // An agent that cannot ask denies what it would ask about, which is harmless. But under a
    // parent that is asked about everything, nobody would be asked about the calls that the agent
    // does not ask about by itself.
    if !loopback_enabled && parent.supervise == Supervise::All {
        return Some("a run that nobody is asked about".into());
    }
    if *loopback_timeout_secs == 0 && parent.loopback_timeout_secs > 0 {
        return Some("questions without a deadline".into());
    }
    // A model without tools runs nothing and reads no file, so it needs no wall.
    let wall = (child.agent != CONE).then(|| looser_wall(parent.confine, *confine)).flatten();
    if let Some(looser) = wall {
        return Some(looser);
    }
    if *can_spawn && !parent.can_spawn {
        return Some("the right to create sessions".into());
    }
    // Another provider answers there, and the operator's key pays.
    if !parent.can_use_cone && (*can_use_cone || child.agent == CONE) {
        return Some("conversations with a model itself (can_use_cone)".into());
    }
    let everything = |list: &[String]| list.iter().any(|text| text == EVERYTHING);
    let decides = |text: &String| {
        everything(&parent.may_decide)
            || (text != EVERYTHING
                && (lists_text(&parent.may_decide, parent, text, child)
                    || lists_text(&parent.allowed_tools, parent, text, child)))
    };
    if let Some(pattern) = may_decide.iter().find(|text| !decides(text)) {
        return Some(format!("the right to decide {pattern}"));
    }
    budget.as_ref().and_then(|budget| larger_budget(parent.budget.as_ref(), budget))
}

/// Checks that a budget is no larger than that of the caller who sets it.
///
/// # Errors
/// `forbidden`, naming the first limit that is too much.
pub fn narrowed_budget(parent: Option<&Budget>, child: &Budget) -> Result<(), CallError> {
    larger_budget(parent, child).map_or(Ok(()), |what| Err(too_much(&what)))
}

/// Checks that the wall of a child is no looser than its parent's, whoever creates it: what the
/// child does is the parent's doing.
///
/// # Errors
/// `forbidden`, naming both.
pub fn narrowed_wall(parent: &SessionConfig, child: &SessionConfig) -> Result<(), CallError> {
    looser_wall(parent.confine, child.confine).map_or(Ok(()), |what| Err(too_much(&what)))
}

fn looser_wall(parent: Confine, child: Confine) -> Option<String> {
    (child < parent).then(|| format!("the wall {child} below one that has {parent}"))
}

fn too_much(what: &str) -> CallError {
    CallError::forbidden(format_args!("give a child {what}: you do not have it yourself"))
        .with_hint("authority only narrows; ask your own parent")
}

/// Names the first limit of `child` that is above the parent's. A limit that `child` does not set
/// is not checked, because the parent's own limit holds for the child too.
fn larger_budget(parent: Option<&Budget>, child: &Budget) -> Option<String> {
    let parent = parent?;
    let above = |most: Option<u64>, wanted: Option<u64>| {
        most.is_some_and(|most| wanted.is_some_and(|it| it > most))
    };
    let cost = parent.cost_usd.is_some_and(|most| child.cost_usd.is_some_and(|it| it > most));
    // A child of one that may have N below it is one of them, and one generation nearer to the end.
    let less_one = |most: Option<u64>| most.map(|most| most.saturating_sub(1));
    [
        cost.then_some("cost"),
        above(parent.turns, child.turns).then_some("turns"),
        above(parent.tokens, child.tokens).then_some("tokens"),
        above(parent.wall_secs, child.wall_secs).then_some("wall time"),
        above(less_one(parent.children), child.children).then_some("children"),
        above(less_one(parent.depth), child.depth).then_some("depth"),
    ]
    .into_iter()
    .flatten()
    .next()
    .map(|what| format!("a larger budget for {what}"))
}

/// Both sides are canonical paths: they were resolved when the session was created.
fn inside(dir: &Path, parent: &SessionConfig) -> bool {
    std::iter::once(&parent.working_dir)
        .chain(&parent.add_dirs)
        .any(|allowed| dir.starts_with(allowed))
}

#[cfg(test)]
mod tests {
    use plexus_core::ErrorKind;
    use serde_json::json;

    use super::*;

    fn config(agent: &str, can_use_cone: bool) -> SessionConfig {
        serde_json::from_value(json!({
            "agent": agent, "can_use_cone": can_use_cone, "working_dir": "/w",
            "loopback_enabled": true, "loopback_timeout_secs": 0, "supervise": "default",
            "can_spawn": true, "may_decide": [], "project_settings": "ignore", "channel": "auto",
            "allowed_tools": [], "disallowed_tools": [], "add_dirs": [], "env": {},
        }))
        .unwrap()
    }

    #[test]
    fn the_right_to_use_cone_only_narrows() {
        let agent = "claude_code";
        for (parent, child, is_granted) in [
            (config(agent, true), config(agent, true), true),
            (config(agent, true), config(agent, false), true),
            (config(agent, true), config(CONE, false), true),
            (config(agent, false), config(agent, false), true),
            (config(agent, false), config(agent, true), false),
            (config(agent, false), config(CONE, false), false),
        ] {
            let narrowed = narrowed(&parent, &child);
            assert_eq!(narrowed.is_ok(), is_granted, "{parent:?} {child:?}");
            if let Err(error) = narrowed {
                assert_eq!(error.kind, ErrorKind::Forbidden);
                assert!(error.message.contains("can_use_cone"), "{error}");
            }
        }
    }
}
