//! `create` and `fork`: what a new session may be, and that nothing is made by halves.

use std::path::{Path, PathBuf};

use plexus_core::{Call, CallError, Caller, EventId, NodeId, SessionId};
use plexus_engine::authority::{EVERYTHING, narrowed, narrowed_wall};
use plexus_engine::budget::require_price;
use plexus_engine::handles::CONE;
use plexus_engine::session::{SessionConfig, SessionState};
use plexus_rules::{Pattern, PatternError};
use plexus_store::{
    Change, CreateSession, Fork, JsonText, Outcome, Priority, Room, SessionRecord, SpendTotals,
    StoreError, UpdateSession,
};
use plexus_wire::{
    AsksFor, CreateParams, FIRST_AGENT, ForkParams, ForkPower, ProjectSettings, SessionCreated,
    SessionForked, Supervise,
};
use uuid::Uuid;

use super::{ClaudeCode, Namespace};
use crate::identity::is_identity;

impl ClaudeCode {
    pub(super) async fn create(
        &self,
        call: Call,
        params: CreateParams,
    ) -> Result<SessionCreated, CallError> {
        let parent = self.parent_for(&call.caller, params.parent).await?;
        let mut config = self.config_of(&call.caller, &params)?;
        if self.namespace == Namespace::ClaudeCode && config.agent != FIRST_AGENT {
            return Err(CallError::invalid(format_args!(
                "create a session of {}: claudecode.create makes sessions of Claude Code",
                config.agent
            ))
            .with_field("agent")
            .with_hint("use agents.create"));
        }
        let needs = self.needs_of(&config);
        // A model without tools runs nothing and reads no file: there is nothing to confine, and a
        // parent behind a wall may ask it too.
        let is_walled = config.agent != CONE;
        if is_walled {
            config.confine = self.settings.wall.choose(params.confine, None, needs.as_ref());
        }
        if let Some(parent) = parent {
            let session = self.store.session(parent).await?;
            let above = SessionConfig::of(&session)?;
            if is_walled {
                let least = Some(above.confine);
                config.confine = self.settings.wall.choose(params.confine, least, needs.as_ref());
                narrowed_wall(&above, &config)?;
            }
            if call.caller == Caller::Session(parent) {
                inherit(&above, &mut config);
                // A parent outside has no agent that anybody is asked about.
                if !is_identity(&session) {
                    if is_other_agent(&above, &config) {
                        config.supervise = Supervise::All;
                    }
                    self.asks_as_much(&above, &config)?;
                }
                narrowed(&above, &config)?;
            }
        }
        if call.caller != Caller::Operator && config.project_settings == ProjectSettings::Trust {
            return Err(CallError::forbidden("trust project settings: only the operator may"));
        }
        self.settings.wall.check(&config, needs.as_ref())?;
        if let Some(budget) = &config.budget {
            plexus_engine::budget::check(budget, &SpendTotals::default())?;
        }
        require_price(&*self.store, &self.agents, &config, parent).await?;
        let metadata = JsonText::of(&params.metadata.unwrap_or_default())?;
        let session = CreateSession {
            config: config.to_json()?,
            metadata,
            room: self.room_below(parent).await?,
            ..CreateSession::new(params.name, parent)
        };
        let (id, head) = self.create_row(session, None).await?;
        self.beginnings.note(id, &config.working_dir).await;
        // A model itself has nothing to start that takes long.
        if config.agent != CONE {
            self.supervisor.prestart(id, params.prestart);
        }
        Ok(SessionCreated { id, head })
    }

    /// Refuses an agent of another kind than its creator, unless it asks about everything that it
    /// can ask about, and about no less than its creator. What agents ask about by themselves
    /// differs, and no session gets a call through a child that it would be asked about.
    fn asks_as_much(&self, above: &SessionConfig, child: &SessionConfig) -> Result<(), CallError> {
        if !is_other_agent(above, child) {
            return Ok(());
        }
        let refuse = |what: &str, field: &str| {
            Err(CallError::forbidden(format_args!(
                "create a session of {}: {what}, and you are asked about your own calls",
                child.agent
            ))
            .with_field(field)
            .with_hint("ask your own parent to create it, or take an agent that asks for more"))
        };
        // Some agents then run what they would have asked about.
        if !child.loopback_enabled {
            return refuse("with loopback_enabled false it asks about nothing", "loopback_enabled");
        }
        if child.supervise != Supervise::All {
            return refuse("it does not ask about everything", "supervise");
        }
        let asks = |config: &SessionConfig| {
            let asks_for = self.agents.get(&config.agent)?.driver.powers().asks_for;
            Ok::<_, CallError>(match config.supervise {
                Supervise::All => asks_for,
                Supervise::Default => asks_for.min(AsksFor::Changes),
            })
        };
        if asks(child)? < asks(above)? {
            return refuse("it asks about less than you do", "agent");
        }
        Ok(())
    }

    /// Creates the session, with its first state, in one transaction.
    async fn create_row(
        &self,
        session: CreateSession,
        state: Option<SessionState>,
    ) -> Result<(SessionId, plexus_store::Position), CallError> {
        let (id, name) = (session.id, session.name.clone());
        let mut changes = vec![Change::CreateSession(session)];
        if let Some(state) = state {
            changes.push(Change::UpdateSession(UpdateSession {
                state: Some(state.to_json()?),
                ..UpdateSession::of(id)
            }));
        }
        let committed =
            self.store.commit(changes, Priority::Normal).await.map_err(|error| match error {
                StoreError::Conflict { .. } => CallError::from(error).with_hint(format_args!(
                    "choose another name than {name:?}, or delete that session"
                )),
                StoreError::Busy { .. } => {
                    CallError::from(error).with_hint("delete one that is done")
                }
                other => other.into(),
            })?;
        match committed.outcomes.into_iter().next() {
            Some(Outcome::Session { id, head }) => Ok((id, head)),
            _ => Err(CallError::internal("create the session: the store returned no session")),
        }
    }

    /// A session creates below itself; only the operator says where.
    async fn parent_for(
        &self,
        caller: &Caller,
        named: Option<SessionId>,
    ) -> Result<Option<SessionId>, CallError> {
        match (caller, named) {
            (Caller::Operator, None) => Ok(None),
            (Caller::Operator, Some(id)) => {
                self.authority.reach(caller, id).await.map(|session| Some(session.id))
            }
            (Caller::Session(own), None) => Ok(Some(*own)),
            (Caller::Session(own), Some(id)) if id == *own => Ok(Some(*own)),
            (Caller::Session(_), Some(_)) => {
                Err(CallError::forbidden("name a parent: your sessions are your own children"))
            }
            (Caller::Child(_), _) => {
                Err(CallError::forbidden("create a session: a child may only ask for permission"))
            }
            (Caller::Device(_), _) => {
                Err(CallError::forbidden("create a session: a device may only read and decide"))
            }
        }
    }

    fn config_of(
        &self,
        caller: &Caller,
        params: &CreateParams,
    ) -> Result<SessionConfig, CallError> {
        let may_decide = params.may_decide.clone().unwrap_or_default();
        for (at, text) in may_decide.iter().enumerate().filter(|(_, text)| *text != EVERYTHING) {
            text.parse::<Pattern>()
                .map_err(|error| unreadable(error, format!("may_decide[{at}]")))?;
        }
        let timeout =
            params.loopback_timeout_secs.unwrap_or(self.settings.approval_timeout.as_secs());
        let mut add_dirs = Vec::new();
        for (at, dir) in params.add_dirs.iter().flatten().enumerate() {
            add_dirs.push(self.usable_dir(&format!("add_dirs[{at}]"), dir)?);
        }
        let allowed_tools = params.allowed_tools.clone().unwrap_or_default();
        for (at, text) in allowed_tools.iter().enumerate() {
            text.parse::<Pattern>()
                .map_err(|error| unreadable(error, format!("allowed_tools[{at}]")))?;
        }
        if !allowed_tools.is_empty() && params.loopback_enabled == Some(false) {
            return Err(CallError::invalid(
                "take allowed_tools with loopback_enabled false: rules answer what the agent asks, \
                 and it would not ask",
            )
            .with_field("allowed_tools")
            .with_hint("leave out one of the two"));
        }
        for (at, entry) in params.disallowed_tools.iter().flatten().enumerate() {
            check_tool_entry(entry)
                .map_err(|error| error.with_field(format!("disallowed_tools[{at}]")))?;
        }
        let agent = params.agent.as_deref().unwrap_or(FIRST_AGENT);
        let powers = self.agents.get(agent)?.driver.powers();
        let mcp_servers = params.mcp_servers.clone().unwrap_or_default();
        if !mcp_servers.is_empty() && !powers.mcp_servers {
            let names: Vec<&str> = mcp_servers.keys().map(String::as_str).collect();
            return Err(CallError::invalid(format_args!(
                "give {agent} the MCP servers {}: it does not have the power mcp_servers",
                names.join(", ")
            ))
            .with_field("mcp_servers")
            .with_hint(
                "leave them out, or choose an agent to which agents.kinds gives this power",
            ));
        }
        Ok(SessionConfig {
            agent: agent.to_owned(),
            // A model without tools reads nothing there.
            working_dir: match agent {
                CONE => from_home(&params.working_dir),
                _ => self.usable_dir("working_dir", &params.working_dir)?,
            },
            model: params.model.clone(),
            system_prompt: params.system_prompt.clone(),
            loopback_enabled: params.loopback_enabled.unwrap_or(true),
            loopback_timeout_secs: timeout,
            escalate_after_secs: params.escalate_after_secs,
            supervise: params.supervise.unwrap_or_default(),
            can_spawn: params.can_spawn.unwrap_or(false),
            can_use_cone: params.can_use_cone.unwrap_or(false),
            may_decide,
            project_settings: params.project_settings.unwrap_or_default(),
            channel: params.channel.unwrap_or(self.settings.channel),
            allowed_tools,
            allowed_by: caller.session(),
            disallowed_tools: params.disallowed_tools.clone().unwrap_or_default(),
            add_dirs,
            env: params.env.clone().unwrap_or_default(),
            mcp_servers,
            confine: params.confine.unwrap_or_default(),
            budget: params.budget,
        })
    }

    /// A directory that exists, can be read, and neither holds our data nor lies in it: the CLI
    /// reads below its directory unasked.
    fn usable_dir(&self, field: &str, dir: &Path) -> Result<PathBuf, CallError> {
        let refuse = |why: String, hint: &str| {
            Err(CallError::invalid(format_args!("use {} as {field}: {why}", dir.display()))
                .with_field(field)
                .with_hint(hint))
        };
        let real = match from_home(dir).canonicalize() {
            Ok(real) => real,
            Err(error) => {
                return refuse(error.to_string(), "create the directory first, or name another");
            }
        };
        if !real.is_dir() {
            return refuse(
                "it is not a directory".into(),
                "name the directory that the agent should work in",
            );
        }
        if let Err(error) = std::fs::read_dir(&real) {
            return refuse(error.to_string(), "name a directory that you can read");
        }
        let data = self
            .settings
            .data_dir
            .canonicalize()
            .unwrap_or_else(|_| self.settings.data_dir.clone());
        if real.starts_with(&data) || data.starts_with(&real) {
            return refuse(
                "the server's own data directory is inside it, or it is inside that one".into(),
                "an agent reads everything below its directory without asking; use another \
                 directory, or start the server with another --data-dir",
            );
        }
        Ok(real)
    }

    /// Returns how many sessions each budget above leaves room for; the store checks them when the
    /// session is created. Depth is checked here, because the parent of a session never changes.
    async fn room_below(&self, parent: Option<SessionId>) -> Result<Vec<Room>, CallError> {
        let Some(parent) = parent else { return Ok(Vec::new()) };
        let mut line = vec![parent];
        line.extend(self.store.ancestors(parent).await?);
        let mut room = Vec::new();
        for (generation, above) in line.into_iter().enumerate() {
            let session = self.store.session(above).await?;
            let Some(budget) = SessionConfig::of(&session)?.budget else { continue };
            let depth = generation as u64 + 1;
            if budget.depth.is_some_and(|most| depth > most) {
                return Err(CallError::forbidden(format_args!(
                    "create a session here: {} allows {} generations below it",
                    session.name,
                    budget.depth.unwrap_or(0)
                )));
            }
            room.extend(budget.children.map(|descendants| Room { above, descendants }));
        }
        Ok(room)
    }

    /// Finds the point up to which the agent of a fork remembers the conversation. It must be the
    /// point up to which the fork shows it.
    async fn fork_point(
        &self,
        source: &SessionRecord,
        at: Option<NodeId>,
    ) -> Result<ForkPoint, CallError> {
        let at = at.unwrap_or(source.head);
        if self.node_of(source, at).await?.parent.is_none() {
            return Ok(ForkPoint::Root);
        }
        match self.last_message(source, at).await? {
            Some(message) => Ok(ForkPoint::Behind(message)),
            None if at == source.head => Ok(ForkPoint::Head),
            None => Err(CallError::invalid(format_args!("fork {} at this node", source.name)).with_field("at").with_hint(format_args!(
                "an agent's memory can be taken up where a chat of the session has completed: at \
                 the node of a `complete` event of its own, at its head ({}), which is the \
                 default, or at the root of the tree for a new conversation",
                source.head
            ))),
        }
    }

    /// The agent's last message of the chat that completed at this node, if one of this session's
    /// did, in the conversation that it still has.
    async fn last_message(
        &self,
        source: &SessionRecord,
        at: NodeId,
    ) -> Result<Option<Uuid>, CallError> {
        let event = match self.store.event(EventId::from_uuid(*at.as_uuid())).await {
            Ok(event) => event,
            Err(StoreError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if event.session != source.id || event.event_type != "complete" {
            return Ok(None);
        }
        let body = event.body.to_value();
        let same =
            source.claude_session_id.as_deref().is_some_and(|id| body["claude_session_id"] == id);
        Ok(body["claude_message_id"]
            .as_str()
            .filter(|_| same)
            .and_then(|id| Uuid::try_parse(id).ok()))
    }

    pub(super) async fn fork(
        &self,
        call: Call,
        params: ForkParams,
    ) -> Result<SessionForked, CallError> {
        let source = self.find(&call.caller, params.session_id, params.name.as_deref()).await?;
        let mut config = SessionConfig::of(&source)?;
        if let Caller::Session(own) = call.caller {
            // A fork has all that its source may do, so its creator must be able to give that.
            let session = self.store.session(own).await?;
            let (above, child) = (SessionConfig::of(&session)?, &mut config);
            if !is_identity(&session) {
                self.asks_as_much(&above, child)?;
            }
            narrowed(&above, child)?;
            child.allowed_by = Some(own);
        }
        let fork = CreateSession {
            fork: Some(Fork { of: source.id, at: params.at }),
            config: config.to_json()?,
            metadata: source.metadata.clone(),
            room: self.room_below(source.parent).await?,
            ..CreateSession::new(params.new_name, source.parent)
        };
        let remembered = SessionState::of(&source)?;
        // The CLI counts on from what the whole conversation has cost, wherever it is taken up.
        let SessionState { conversation_cost, conversation_on, .. } = remembered;
        let of = |conversation, behind| SessionState {
            fork_from: Some(conversation),
            fork_of: Some(source.id),
            fork_behind: behind,
            conversation_cost,
            conversation_on,
            ..SessionState::default()
        };
        let state =
            match (self.fork_point(&source, params.at).await?, source.claude_session_id.clone()) {
                (ForkPoint::Root, _) => None,
                (ForkPoint::Behind(message), Some(conversation)) => {
                    Some(of(conversation, Some(message)))
                }
                (ForkPoint::Head, Some(conversation)) => Some(of(conversation, None)),
                // A fork that never ran has no conversation of its own yet: its fork goes on from
                // the same one.
                (ForkPoint::Behind(_) | ForkPoint::Head, None) => remembered
                    .fork_from
                    .is_some()
                    .then_some(SessionState { mode: None, ..remembered }),
            };
        if state.is_some() {
            self.require_fork(&config.agent)?;
        }
        let (id, head) = self.create_row(fork, state).await?;
        self.beginnings.note(id, &config.working_dir).await;
        Ok(SessionForked { id, head })
    }
}

impl ClaudeCode {
    /// Refuses a copy of a conversation whose agent makes none.
    fn require_fork(&self, agent: &str) -> Result<(), CallError> {
        match self.agents.get(agent)?.driver.powers().fork {
            ForkPower::Anywhere | ForkPower::Head => Ok(()),
            ForkPower::None => {
                Err(CallError::invalid("fork this session: its agent does not have the power fork")
                    .with_hint("a fork at the root of the tree begins a new conversation"))
            }
        }
    }
}

/// Where a fork may begin: where the agent's own conversation can be taken up.
enum ForkPoint {
    /// Behind this message of the agent, with which a chat completed.
    Behind(Uuid),
    /// After everything that was said so far. It is used when the last chat failed, or belongs to
    /// the session that this one is a fork of.
    Head,
    /// Before anything was said: the fork's conversation is a new one.
    Root,
}

/// Whether a child runs an agent of another kind than its creator. A model itself makes no calls.
fn is_other_agent(above: &SessionConfig, child: &SessionConfig) -> bool {
    child.agent != above.agent && child.agent != CONE
}

/// Gives a child what it takes from its parent without being asked: tools that the parent may not
/// use stay forbidden, and supervision is at least as strict.
fn inherit(parent: &SessionConfig, child: &mut SessionConfig) {
    // What the parent forbids comes first.
    let own = std::mem::replace(&mut child.disallowed_tools, parent.disallowed_tools.clone());
    child
        .disallowed_tools
        .extend(own.into_iter().filter(|tool| !parent.disallowed_tools.contains(tool)));
    if parent.supervise == Supervise::All {
        child.supervise = Supervise::All;
    }
}

/// Refuses a pattern, and says how one is written.
fn unreadable(error: PatternError, field: String) -> CallError {
    CallError::invalid(format_args!("read {field}: {error}")).with_field(field).with_hint(
        "a pattern is written as in Bash(git diff:*), Read(/src/**) or \
         WebFetch(domain:example.org)",
    )
}

/// Reads a leading `~` as the home directory of the server's user, as a shell does.
fn from_home(dir: &Path) -> PathBuf {
    match (dir.strip_prefix("~"), std::env::home_dir()) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => dir.to_owned(),
    }
}

/// A list of tools travels to the CLI as one text, which it splits at commas and spaces outside
/// parentheses. An entry that would fall apart there, or swallow its neighbours, would mean
/// something else than what was checked here.
fn check_tool_entry(entry: &str) -> Result<(), CallError> {
    let mut depth = 0_u32;
    let mut whole = !entry.is_empty();
    for c in entry.chars() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => whole = false,
            ')' => depth -= 1,
            ',' | ' ' if depth == 0 => whole = false,
            c if c.is_control() => whole = false,
            _ => {}
        }
    }
    if whole && depth == 0 {
        return Ok(());
    }
    Err(CallError::invalid(format_args!("take {entry:?} as one tool")).with_hint(
        "name one tool an entry, such as Read or Bash(git diff:*), with its parentheses closed",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_the_cli_would_split_or_join_is_refused() {
        for entry in
            ["Read", "Bash(git diff:*)", "Bash(echo (a, b))", "mcp__github__*", "Read(/src/a b.rs)"]
        {
            assert!(check_tool_entry(entry).is_ok(), "{entry}");
        }
        for entry in [
            "",
            "Read(a),Bash,Read(b)",
            "Read Bash",
            "X(",
            "X)",
            "Read(a) Bash(b)",
            "Bash(git diff 'x),Bash,Read(y':*)",
            "a\nb",
        ] {
            assert!(check_tool_entry(entry).is_err(), "{entry}");
        }
    }

    #[test]
    fn tools_that_the_parent_forbids_come_first() {
        let config = |tools: &[&str]| {
            SessionConfig {
            disallowed_tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
            ..serde_json::from_value(serde_json::json!({
                "working_dir": "/w", "loopback_enabled": true, "loopback_timeout_secs": 0, "supervise": "default", "can_spawn": false,
                "may_decide": [], "project_settings": "ignore", "channel": "auto", "allowed_tools": [], "disallowed_tools": [], "add_dirs": [], "env": {},
            }))
            .unwrap()
        }
        };
        let mut child = config(&["Write", "Bash"]);
        inherit(&config(&["WebFetch", "Bash"]), &mut child);
        assert_eq!(child.disallowed_tools, ["WebFetch", "Bash", "Write"]);
    }
}
