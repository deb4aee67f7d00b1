//! Who may see, steer and decide what. Authority only narrows on the way down.
//!
//! The attack comes first. A child would like to: approve itself; approve a sibling; approve an ancestor; have a child of its own do what it may
//! not do; hand a child more than it has; learn what strangers do. Against it stand three questions, and every method asks one of them:
//! - [`Authority::reach`]: may this caller touch this session at all? The operator everything, a session its strict descendants, a child nothing.
//!   What is out of reach is answered as if it did not exist.
//! - [`Authority::may_allow`]: does this session's "yes" count for this call? Only for what its creator listed (`may_decide`, `allowed_tools`).
//! - [`narrowed`]: is what a session hands to its child no more than it has itself?

use std::path::Path;
use std::sync::Arc;

use plexus_core::{CallError, Caller, SessionId};
use plexus_store::{Owner, Session, Store, StoreError};
use serde_json::Value;

use crate::claudecode::config::{ProjectSettings, SessionConfig, Supervise};
use crate::rules::{self, Decision, Pattern, RealPaths, Rule};

/// A pattern that stands for every tool, in `may_decide` alone.
pub(crate) const EVERYTHING: &str = "*";

/// Answers the three questions from the store.
#[derive(Clone)]
pub(crate) struct Authority {
    store: Arc<dyn Store>,
}

impl Authority {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// Returns the session if `caller` may touch it; else it does not exist, as far as this caller can tell.
    pub(crate) async fn reach(&self, caller: &Caller, id: SessionId) -> Result<Session, CallError> {
        let hidden = || {
            CallError::not_found(format_args!("find the session {id}"))
                .with_hint("claudecode.list shows the sessions you may use")
        };
        match caller {
            Caller::Operator => self.store.session(id).await.map_err(|error| match error {
                StoreError::NotFound { .. } => hidden(),
                other => other.into(),
            }),
            Caller::Session(own) => {
                let session = match self.store.session(id).await {
                    Ok(session) => session,
                    Err(StoreError::NotFound { .. }) => return Err(hidden()),
                    Err(error) => return Err(error.into()),
                };
                let ancestors = self.store.ancestors(id).await?;
                if ancestors.contains(own) { Ok(session) } else { Err(hidden()) }
            }
            Caller::Child(_) => Err(CallError::forbidden("reach a session: a child may only ask for permission")),
        }
    }

    /// Returns who is asked first about `call`, a tool call of `session`: the nearest ancestor whose allow would count, else the operator.
    pub(crate) async fn owner_of(
        &self,
        session: &Session,
        config: &SessionConfig,
        tool_name: &str,
        input: &Value,
    ) -> Result<Owner, StoreError> {
        for ancestor in self.store.ancestors(session.id).await? {
            if self.may_allow(ancestor, session.id, config, tool_name, input).await? {
                return Ok(Owner::Session(ancestor));
            }
        }
        Ok(Owner::Operator)
    }

    /// Says whether an allow of session `decider` counts for a tool call of `asker`, below it.
    ///
    /// `decider` must be a strict ancestor. It may allow what its creator listed in `may_decide`, and what it may do unasked itself
    /// (`allowed_tools`). Everything else is its own parent's to decide. The same must hold for nobody else: a grandparent that was
    /// given less is asked in its own right, and the operator last.
    pub(crate) async fn may_allow(
        &self,
        decider: SessionId,
        asker: SessionId,
        asker_config: &SessionConfig,
        tool_name: &str,
        input: &Value,
    ) -> Result<bool, StoreError> {
        let ancestors = self.store.ancestors(asker).await?;
        if !ancestors.contains(&decider) {
            return Ok(false);
        }
        let config = SessionConfig::of(&self.store.session(decider).await?)?;
        Ok(listed(&config, asker, asker_config, tool_name, input))
    }
}

/// Says whether `grants` lists this call.
fn listed(
    grants: &SessionConfig,
    asker: SessionId,
    asker_config: &SessionConfig,
    tool_name: &str,
    input: &Value,
) -> bool {
    let home = std::env::home_dir();
    let call = rules::Call {
        tool_name,
        input,
        // Relative patterns of a grant mean the granter's directory; a call is judged by where it happens.
        working_dir: &asker_config.working_dir,
        home: home.as_deref(),
        session: asker,
        ancestors: &[],
        now: 0,
        paths: &RealPaths,
    };
    grants.may_decide.iter().any(|text| text == EVERYTHING || covers(text, &call))
        || grants.allowed_tools.iter().any(|text| covers(text, &call))
}

/// A pattern that cannot be read grants nothing.
fn covers(pattern: &str, call: &rules::Call<'_>) -> bool {
    pattern.parse::<Pattern>().is_ok_and(|pattern| rules::covers(&Rule::new(Decision::Allow, pattern), call))
}

/// Checks that `child` has no more than its creator `parent`.
///
/// # Errors
/// `forbidden`, naming the first thing that is too much.
pub(crate) fn narrowed(parent: &SessionConfig, child: &SessionConfig) -> Result<(), CallError> {
    let too_much = |what: String| {
        Err(CallError::forbidden(format_args!("give a child {what}: you do not have it yourself"))
            .with_hint("authority only narrows; ask your own parent"))
    };
    if !inside(&child.working_dir, parent) {
        return too_much(format!("the directory {}", child.working_dir.display()));
    }
    if let Some(dir) = child.add_dirs.iter().find(|dir| !inside(dir, parent)) {
        return too_much(format!("the directory {}", dir.display()));
    }
    if let Some(tool) = child.allowed_tools.iter().find(|tool| !parent.allowed_tools.contains(tool)) {
        return too_much(format!("the tool {tool} unasked"));
    }
    if let Some(tool) = parent.disallowed_tools.iter().find(|tool| !child.disallowed_tools.contains(tool)) {
        return too_much(format!("the tool {tool}"));
    }
    if let Some((name, _)) = child.env.iter().find(|(name, value)| parent.env.get(*name) != Some(*value)) {
        return too_much(format!("the variable {name}"));
    }
    if parent.supervise == Supervise::All && child.supervise == Supervise::Default {
        return too_much("looser supervision".into());
    }
    if child.project_settings == ProjectSettings::Trust {
        return too_much("trusted project settings".into());
    }
    if !child.loopback_enabled && parent.loopback_enabled {
        return too_much("a run that nobody is asked about".into());
    }
    let decides = |pattern: &String| parent.may_decide.iter().any(|text| text == EVERYTHING || text == pattern);
    if let Some(pattern) = child.may_decide.iter().find(|pattern| !decides(pattern)) {
        return too_much(format!("the right to decide {pattern}"));
    }
    Ok(())
}

/// Both sides are canonical paths: they were resolved when the session was created.
fn inside(dir: &Path, parent: &SessionConfig) -> bool {
    std::iter::once(&parent.working_dir).chain(&parent.add_dirs).any(|allowed| dir.starts_with(allowed))
}
