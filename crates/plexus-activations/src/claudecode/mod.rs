//! The activation of sessions, in both of its namespaces: its method table, and who may touch what.
//! Each group of methods has a file of its own.

mod budgets;
mod changes;
mod chats;
mod cone;
mod create;
mod elsewhere;
mod handles;
mod kinds;
mod live;
mod reading;
mod rendering;
mod search;
mod sessions;
mod shown;
mod streaming;
mod summaries;

use std::sync::Arc;

use async_trait::async_trait;
use plexus_core::{
    Activation, ActivationInfo, Audience, CallError, Caller, Door, Handle, HandleKind,
    MethodDescriptor, MethodTable, NodeId, PluginId, ResourceForm, SessionId, Shape,
};
use plexus_engine::Engine;
use plexus_engine::agents::Agents;
use plexus_engine::approvals::Approvals;
use plexus_engine::authority::Authority;
use plexus_engine::changes::Beginnings;
use plexus_engine::deltas::Deltas;
use plexus_engine::handles::{ACP, CODEX, CONE};
use plexus_engine::node::Neighbours;
use plexus_engine::reading::feed::Feed;
use plexus_engine::reading::news::SessionNews;
use plexus_engine::reading::scopes::Scopes;
use plexus_engine::reading::turns::Turns;
use plexus_engine::settings::{Settings, ToolNames};
use plexus_engine::supervisor::Supervisor;
use plexus_store::{Cursor, FIRST_OWNER, Node, PageRequest, SessionRecord, Store, StoreError};
use plexus_wire::{KnownThing, PageLimit, Polled, SessionRef};
use serde_json::Value;

use crate::handler::handler;

/// The namespaces that have methods or handles of sessions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Namespace {
    /// `agents`: sessions of every agent.
    Agents,
    /// `claudecode`: the older name of the same methods. `create` makes sessions of Claude Code;
    /// all else works on every session.
    ClaudeCode,
    /// `codex`: the owner of what sessions of Codex show. It has no methods.
    Codex,
    /// `acp`: the owner of what sessions of agents of the Agent Client Protocol show. It has no
    /// methods.
    Acp,
    /// `cone`: conversations with a model itself, and the owner of what they show.
    Cone,
}

impl Namespace {
    /// All of them.
    pub(crate) const ALL: [Self; 5] =
        [Self::Agents, Self::ClaudeCode, Self::Codex, Self::Acp, Self::Cone];

    fn name(self) -> &'static str {
        match self {
            Self::Agents => "agents",
            Self::ClaudeCode => FIRST_OWNER.0,
            Self::Codex => CODEX,
            Self::Acp => ACP,
            Self::Cone => CONE,
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Agents | Self::ClaudeCode => {
                "Creates sessions of coding agents, starts chats that return at once, and reads \
                 their events from durable streams."
            }
            Self::Codex => "Owns the sessions, chats and events of Codex.",
            Self::Acp => {
                "Owns the sessions, chats and events of agents of the Agent Client Protocol."
            }
            Self::Cone => {
                "Conversations with a model itself, without tools: a cheap second opinion."
            }
        }
    }

    /// Whether handles of this owner may stand for what `owner` owns. The first two resolve
    /// everything: before each agent had an owner, all handles named the first one.
    fn resolves(self, owner: PluginId) -> bool {
        match self {
            Self::Agents | Self::ClaudeCode => true,
            Self::Codex | Self::Acp | Self::Cone => {
                PluginId::of(self.name(), FIRST_OWNER.1) == owner
            }
        }
    }
}

/// The methods that a model needs to let sessions work for it. It reads and answers the requests of
/// those sessions with methods of `loopback`.
const SHORT_LIST: &[&str] = &["create", "chat_async", "poll", "get", "cancel", "delete"];

/// Sessions and chats of every kind of agent. It serves the namespaces `agents`, `claudecode` and
/// `cone`.
pub struct ClaudeCode {
    namespace: Namespace,
    /// Whether MCP lists the methods of this namespace as tools and resources. The other namespace
    /// has the same methods, so only one of the two is listed.
    listed: bool,
    store: Arc<dyn Store>,
    settings: Arc<Settings>,
    authority: Authority,
    approvals: Arc<Approvals>,
    agents: Agents,
    supervisor: Arc<Supervisor>,
    neighbours: Arc<Neighbours>,
    news: SessionNews,
    scopes: Arc<Scopes>,
    turns: Arc<Turns>,
    deltas: Deltas,
    feed: Feed,
    beginnings: Beginnings,
}

impl ClaudeCode {
    pub(crate) fn new(engine: &Engine, namespace: Namespace) -> Arc<Self> {
        let listed = match namespace {
            Namespace::Agents => engine.settings.tool_names == ToolNames::Agents,
            Namespace::ClaudeCode => engine.settings.tool_names == ToolNames::ClaudeCode,
            Namespace::Codex | Namespace::Acp => true,
            // A list of tools costs each model that reads it; agents.create makes these too.
            Namespace::Cone => false,
        };
        Arc::new(Self {
            namespace,
            listed,
            store: Arc::clone(&engine.store),
            settings: Arc::clone(&engine.settings),
            authority: engine.authority.clone(),
            approvals: Arc::clone(&engine.approvals),
            agents: engine.agents.clone(),
            supervisor: Arc::clone(&engine.supervisor),
            neighbours: Arc::clone(&engine.neighbours),
            news: engine.news.clone(),
            scopes: Arc::clone(&engine.scopes),
            turns: Arc::clone(&engine.turns),
            deltas: engine.deltas.clone(),
            feed: Feed::new(Arc::clone(&engine.store), engine.approvals.views.tools.clone()),
            beginnings: Beginnings::new(&engine.settings.data_dir),
        })
    }

    /// Finds a session by id or exact name, within what the caller may touch.
    async fn find(
        &self,
        caller: &Caller,
        id: Option<SessionId>,
        name: Option<&str>,
    ) -> Result<SessionRecord, CallError> {
        self.authority.find(caller, id, name).await
    }

    /// Reads a position in a session's events that a caller handed back.
    async fn resolve_cursor(&self, session: SessionId, cursor: &str) -> Result<Cursor, CallError> {
        self.store.resolve_cursor(session, cursor).await.map_err(wrong_cursor)
    }
}

#[async_trait]
impl Activation for ClaudeCode {
    fn info(&self) -> ActivationInfo {
        ActivationInfo {
            namespace: self.namespace.name(),
            version: (FIRST_OWNER.1, 0, 0),
            description: self.namespace.description(),
        }
    }

    fn methods(self: Arc<Self>) -> MethodTable {
        // One line for each method: its name, what it is for, what is special about it, and who
        // does it.
        macro_rules! with {
            ($method:ident) => {
                handler!(self, $method)
            };
        }
        let reads: fn(&mut MethodDescriptor) = |d| d.hints.read_only = true;
        let waits: fn(&mut MethodDescriptor) = |d| {
            d.hints.read_only = true;
            d.hints.waits = true;
        };
        // It moves the position that the server keeps: a second call gets other events.
        let moves: fn(&mut MethodDescriptor) = |d| {
            d.hints.waits = true;
            d.hints.idempotent_with = &["from_seq", "consumer", "cursor"];
        };
        let ends: fn(&mut MethodDescriptor) = |d| d.hints.destructive = true;
        let follows: fn(&mut MethodDescriptor) = |d| {
            d.hints.read_only = true;
            d.door = Door::Events;
        };
        // These change when an event comes, and reading them moves nobody's position.
        let session: fn(&mut MethodDescriptor) = |d| {
            d.hints.read_only = true;
            d.resource =
                Some(ResourceForm { uri: "plexus://sessions/{session_id}", changes: "follow" });
        };
        let conversation: fn(&mut MethodDescriptor) = |d| {
            d.hints.read_only = true;
            d.resource = Some(ResourceForm {
                uri: "plexus://sessions/{session_id}/conversation",
                changes: "follow",
            });
        };
        let recent: fn(&mut MethodDescriptor) = |d| {
            d.hints.read_only = true;
            d.door = Door::Internal;
            d.resource = Some(ResourceForm {
                uri: "plexus://sessions/{session_id}/events",
                changes: "follow",
            });
        };
        // The same methods under the name of either namespace.
        macro_rules! sessions {
            ($namespace:ident) => {{
                use plexus_wire::method::$namespace as wire;
                MethodTable::new(stringify!($namespace))
                    .serves::<wire::Create, _, _>("Creates a session: a supervised coding agent \
                        with a name and a working directory. It does nothing until chat_async \
                        gives it a prompt.", |_| {}, with!(create))
                    .serves::<wire::ChatAsync, _, _>("Gives a session a prompt and returns at \
                        once. Then call loopback.wait_for_approval until it asks or ends. A later \
                        call continues the conversation. One chat at a time: a second one is \
                        busy.", |_| {}, with!(chat_async))
                    .streams::<wire::Chat, _, _>("Gives a session a prompt and waits until the \
                        chat ends, a permission request is pending, or wait_ms is over; returns \
                        what poll returns. It cannot deadlock: answer the pending request, then \
                        poll on.", |d| { d.shape = Shape::Either; d.hints.waits = true; }, with!(chat))
                    .serves_then::<wire::Poll, _, _>("Reads the next events of a session's newest \
                        chat in full, and the permission requests that wait. With wait_ms it \
                        waits for the first event. Use it to see what the agent did; for its last \
                        answer alone use get.", moves, with!(poll))
                    .unary::<SessionRef, Polled, _, _>("recent", "Shows the last events of a \
                        session's newest chat, and the permission requests that \
                        wait.", recent, with!(recent))
                    .streams::<wire::Follow, _, _>("Streams a session's events as they happen, \
                        from a cursor on (WebSocket and SSE).", follows, with!(follow))
                    .serves::<wire::Wait, _, _>("Tells which sessions changed after a number, \
                        without transcripts: the cheap way to watch many children. With wait_ms \
                        it waits for a change.", waits, with!(wait))
                    .serves::<wire::Send, _, _>("Puts a message into the running chat, to steer \
                        it.", |_| {}, with!(send))
                    .serves::<wire::Cancel, _, _>("Ends the running chat; what happened stays on \
                        record.", ends, with!(cancel))
                    .serves::<wire::Get, _, _>("Shows one session: status, its last answer once \
                        its chat has ended, budget and what it has spent.", session, with!(get))
                    .serves::<wire::BudgetSet, _, _>("Gives a session below you other limits. \
                        Below what is spent already is \
                        refused.", |d| d.hints.idempotent = true, with!(budget_set))
                    .serves::<wire::List, _, _>("Lists your sessions, oldest first.", reads, with!(list))
                    .serves::<wire::Delete, _, _>("Ends a session and everything below it, and \
                        removes their records.", ends, with!(delete))
                    .serves::<wire::Fork, _, _>("Makes a new session that shares the conversation \
                        up to a node and then goes its own way.", |_| {}, with!(fork))
                    .serves::<wire::Rename, _, _>("Gives a session below you another name; its id \
                        stays.", |d| d.hints.idempotent = true, with!(rename))
                    .serves::<wire::Streams, _, _>("Lists event streams: one for each chat, with \
                        its status and how many events it has.", reads, with!(streams))
                    .serves::<wire::GetTree, _, _>("Says which Arbor tree holds a session, and \
                        where its head is.", reads, with!(get_tree))
                    .serves::<wire::RenderContext, _, _>("Shows the conversation as messages: \
                        text, tool uses, tool results and \
                        thinking.", conversation, with!(render_context))
                    .serves::<wire::Cursors, _, _>("Lists the named readers of a session and \
                        where they stand.", reads, with!(cursors))
                    .serves::<wire::CursorSet, _, _>("Moves a named reader to a position, making \
                        it if it is new.", |d| d.hints.idempotent = true, with!(cursor_set))
                    .serves::<wire::CursorDelete, _, _>("Forgets a named reader.", ends, with!(cursor_delete))
            }};
        }
        // What a phone reads. It steers nothing, and moves no position that the server keeps.
        let for_devices = ["follow", "wait", "get", "list", "streams", "render_context"];
        let table = match self.namespace {
            Namespace::Agents => {
                use plexus_wire::method::agents::{Changes, Kinds, Search};
                sessions!(agents)
                    .for_devices(&for_devices)
                    .serves::<Kinds, _, _>(
                        "Lists the agents that this server knows: \
                    the name that create takes, whether its program is installed, and what it can \
                    do.",
                        reads,
                        with!(kinds),
                    )
                    .serves::<Search, _, _>(
                        "Finds what was asked, said and done in your \
                    sessions, newest first: by words, session, tool, kind and time.",
                        reads,
                        with!(search),
                    )
                    .serves::<Changes, _, _>(
                        "Says what changed in a session's directory \
                    since the session began, file by file.",
                        |d| {
                            d.hints.read_only = true;
                            d.audience = Audience::Operator;
                        },
                        with!(changes),
                    )
            }
            Namespace::ClaudeCode => sessions!(claudecode).for_devices(&for_devices),
            Namespace::Codex | Namespace::Acp => MethodTable::new(self.namespace.name()),
            Namespace::Cone => {
                use plexus_wire::method::cone as wire;
                MethodTable::new(CONE)
                    .serves::<wire::Create, _, _>(
                        "Creates a conversation with a model, without \
                        an agent and without tools. Nothing is sent until chat_async gives it a \
                        prompt.",
                        |_| {},
                        with!(cone_create),
                    )
                    .serves::<wire::ChatAsync, _, _>(
                        "Gives a conversation a prompt and returns \
                        at once. Read the answer with poll. One prompt at a time: a second one is \
                        busy.",
                        |_| {},
                        with!(cone_chat_async),
                    )
                    .serves_then::<wire::Poll, _, _>(
                        "Reads the next events of a conversation's \
                        newest chat. With wait_ms it waits for the first \
                        event.",
                        moves,
                        with!(cone_poll),
                    )
                    .serves::<wire::List, _, _>(
                        "Lists the conversations among a page of your \
                        sessions, oldest first.",
                        reads,
                        with!(cone_list),
                    )
                    .serves::<wire::Get, _, _>(
                        "Shows one conversation: status, chat, head, \
                        budget and what it has spent.",
                        reads,
                        with!(cone_get),
                    )
                    .serves::<wire::Delete, _, _>(
                        "Ends a conversation and removes its \
                        records.",
                        ends,
                        with!(cone_delete),
                    )
            }
        };
        match (self.listed, self.namespace) {
            (true, Namespace::Agents | Namespace::ClaudeCode) => table.short_list(SHORT_LIST),
            (true, Namespace::Codex | Namespace::Acp | Namespace::Cone) => table.short_list(&[]),
            (false, _) => table.called_by_name(),
        }
    }

    async fn health(&self) -> Result<Option<Value>, CallError> {
        match self.namespace {
            Namespace::Agents | Namespace::ClaudeCode => said(&self.supervisor.health()),
            Namespace::Codex | Namespace::Acp | Namespace::Cone => Ok(None),
        }
    }

    fn handle_kinds(&self) -> &'static [HandleKind] {
        handles::KINDS
    }

    async fn resolve(&self, caller: &Caller, handle: &Handle) -> Result<Value, CallError> {
        self.resolved(caller, handle).await
    }

    async fn summarize(
        &self,
        caller: &Caller,
        handle: &Handle,
    ) -> Result<Option<String>, CallError> {
        self.summarized(caller, handle).await
    }
}

impl ClaudeCode {
    /// Returns a node of this session's tree. A node of another tree is answered as one that does
    /// not exist.
    pub(super) async fn node_of(
        &self,
        session: &SessionRecord,
        id: NodeId,
    ) -> Result<Node, CallError> {
        match self.store.node(id).await {
            Ok(node) if node.tree_id == session.tree => Ok(node),
            Ok(_) | Err(StoreError::NotFound { .. }) => Err(CallError::not_found(format_args!(
                "find the node {id} in the tree of {}",
                session.name
            ))),
            Err(error) => Err(error.into()),
        }
    }
}

/// Writes what a handle stands for.
pub(crate) fn as_value(thing: &KnownThing) -> Result<Value, CallError> {
    serde_json::to_value(thing).map_err(|error| {
        tracing::error!(%error, "what a handle stands for could not be serialised");
        CallError::internal("show what the handle stands for")
    })
}

/// Names the parameter when the store cannot read it as a position.
fn wrong_cursor(error: StoreError) -> CallError {
    match error {
        StoreError::Invalid { .. } => CallError::from(error).with_field("cursor"),
        other => other.into(),
    }
}

/// Writes what an activation says of its health.
pub(crate) fn said(health: &impl serde::Serialize) -> Result<Option<Value>, CallError> {
    serde_json::to_value(health).map(Some).map_err(|error| {
        tracing::error!(%error, "an activation's health could not be serialised");
        CallError::internal("report its health")
    })
}

/// Reads a page's parameters.
pub(crate) fn page(
    limit: Option<PageLimit>,
    cursor: Option<&str>,
) -> Result<PageRequest, CallError> {
    let after = cursor.map(str::parse).transpose().map_err(wrong_cursor)?;
    Ok(PageRequest { after, limit: limit.unwrap_or_default().get() })
}
