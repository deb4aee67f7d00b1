//! `loopback`: permission requests that reach the right parent, once, and cannot be forged.
//!
//! - this file: the method table, and the methods that set a mode and configure a child;
//! - [`listing`], [`deciding`]: the methods that list approvals, and those that decide them;
//! - [`permit`]: the question of a child on the MCP channel; [`listening`]: who hears that
//!   something waits;
//! - [`rules`], [`preview`], [`suggest`]: standing rules, what they would say of a call, and which
//!   the decisions so far support;
//! - [`files`]: what a call would change, and what its command changes in a dry run; [`handles`]:
//!   what the handles of all this stand for.

mod deciding;
mod files;
mod handles;
mod listening;
mod listing;
mod permit;
mod preview;
mod rules;
mod suggest;

use std::sync::Arc;

use async_trait::async_trait;
use plexus_core::{
    Activation, ActivationInfo, Audience, Call, CallError, Caller, Door, FailureWatcher, Handle,
    HandleKind, HubContext, MethodDescriptor, MethodTable, ResourceForm, Resume, Shape, WireForm,
};
use plexus_engine::Engine;
use plexus_engine::agents::Agents;
use plexus_engine::approvals::Approvals;
use plexus_engine::audit::Refusals;
use plexus_engine::identity::Identity;
use plexus_engine::mcp::{PERMIT_SERVER, mcp_permit_server};
use plexus_engine::node::Neighbours;
use plexus_engine::preview::Previews;
use plexus_engine::reading::news::SessionNews;
use plexus_engine::reading::scopes::Scopes;
use plexus_engine::reading::turns::Turns;
use plexus_engine::replan::Replans;
use plexus_engine::session::SessionConfig;
use plexus_engine::session::SessionState;
use plexus_engine::settings::Settings;
use plexus_engine::start::Address;
use plexus_engine::supervisor::Supervisor;
use plexus_store::{
    ApprovalFilter, Change, PageRequest, Priority, Stage, Store, UnixMillis, UpdateSession,
};
use plexus_wire::method::loopback as wire;
use plexus_wire::{
    ApprovalPageParams, ApprovalsHealth, ConfigureParams, Configured, Done, McpConfig,
    ModeSetParams, PermitAnswer, Seconds, TimedMode,
};
use serde_json::Value;

use self::listening::Waiting;
use self::permit::RejoinParams;
use crate::claudecode::said;
use crate::handler::handler;

/// Permission requests and what decides them.
pub struct Loopback {
    store: Arc<dyn Store>,
    approvals: Arc<Approvals>,
    refusals: Arc<Refusals>,
    identity: Arc<Identity>,
    news: SessionNews,
    scopes: Arc<Scopes>,
    turns: Arc<Turns>,
    address: Arc<Address>,
    agents: Agents,
    neighbours: Arc<Neighbours>,
    previews: Arc<Previews>,
    settings: Arc<Settings>,
    supervisor: Arc<Supervisor>,
}

impl Loopback {
    pub(crate) fn new(engine: &Engine) -> Arc<Self> {
        Arc::new(Self {
            store: Arc::clone(&engine.store),
            approvals: Arc::clone(&engine.approvals),
            refusals: engine.identity.refusals(),
            identity: Arc::clone(&engine.identity),
            news: engine.news.clone(),
            scopes: Arc::clone(&engine.scopes),
            turns: Arc::clone(&engine.turns),
            address: Arc::clone(&engine.address),
            agents: engine.agents.clone(),
            neighbours: Arc::clone(&engine.neighbours),
            previews: Arc::clone(&engine.previews),
            settings: Arc::clone(&engine.settings),
            supervisor: Arc::clone(&engine.supervisor),
        })
    }

    async fn mode_set(&self, call: Call, params: ModeSetParams) -> Result<Done, CallError> {
        let mut replans = Replans::default();
        loop {
            let session = self.approvals.authority.reach(&call.caller, params.session_id).await?;
            let mut state = SessionState::of(&session)?;
            let until =
                UnixMillis::now().as_secs().saturating_add(params.expires_in_secs.get().into());
            state.mode = Some(TimedMode { mode: params.mode, until: Seconds(until) });
            let update = UpdateSession {
                state: Some(state.to_json()?),
                expects_revision: Some(session.revision),
                ..UpdateSession::of(session.id)
            };
            match self.store.commit(vec![Change::UpdateSession(update)], Priority::Normal).await {
                Ok(_) => break,
                // The session's own run changed something else of it.
                Err(error) => replans.after(error)?,
            }
        }
        self.release(&call.caller).await?;
        Ok(Done {})
    }

    async fn configure(
        &self,
        call: Call,
        params: ConfigureParams,
    ) -> Result<Configured, CallError> {
        let session = self.approvals.authority.reach(&call.caller, params.session_id).await?;
        let agent = self.agents.get(&SessionConfig::of(&session)?.agent)?;
        let flags = agent.driver.permit_flags().ok_or_else(|| {
            CallError::invalid(format_args!(
                "configure {}: this agent does not ask over MCP",
                agent.name
            ))
        })?;
        let url = self.address.get().ok_or_else(|| {
            CallError::unavailable("say where this server listens: it does not listen yet")
        })?;
        let token = self.identity.mint(Caller::Child(session.id), None).await?;
        Ok(Configured {
            mcp_config: McpConfig {
                mcp_servers: [(PERMIT_SERVER.to_owned(), mcp_permit_server(&url, &token))].into(),
            },
            flags: flags.iter().map(|&flag| flag.to_owned()).collect(),
        })
    }
}

#[async_trait]
impl Activation for Loopback {
    fn info(&self) -> ActivationInfo {
        ActivationInfo {
            namespace: "loopback",
            version: (1, 0, 0),
            description: "Permission requests of child sessions: lists them, decides them once, \
                and keeps the record.",
        }
    }

    async fn health(&self) -> Result<Option<Value>, CallError> {
        let filter = ApprovalFilter { stage: Stage::Pending, ..ApprovalFilter::default() };
        let oldest = self.store.approvals(filter, PageRequest::first(1)).await?;
        said(&ApprovalsHealth {
            pending: self.store.counts().await?.approvals_pending,
            oldest_since: oldest.items.first().map(|record| record.created_at.into()),
        })
    }

    fn methods(self: Arc<Self>) -> MethodTable {
        macro_rules! with {
            ($method:ident) => {
                handler!(self, $method)
            };
        }
        let reads: fn(&mut MethodDescriptor) = |d| d.hints.read_only = true;
        let lists_pending: fn(&mut MethodDescriptor) = |d| {
            d.hints.read_only = true;
            d.resource =
                Some(ResourceForm { uri: "plexus://approvals", changes: "pending_changes" });
        };
        let tells: fn(&mut MethodDescriptor) = |d| {
            d.hints.read_only = true;
            d.door = Door::Internal;
        };
        let operators: fn(&mut MethodDescriptor) = |d| d.audience = Audience::Operator;
        let audits: fn(&mut MethodDescriptor) = |d| {
            d.audience = Audience::Operator;
            d.hints.read_only = true;
        };
        let asks: fn(&mut MethodDescriptor) = |d| {
            d.audience = Audience::Child;
            d.wire = WireForm::ExactText;
            // It writes its answer itself, and that is one answer. Without this, transports that
            // cannot stream would not list it.
            d.shape = Shape::Unary;
            d.hints.waits = true;
            d.resume = Some(Resume { key: "tool_use_id", rejoin: "permit_rejoin" });
            d.on_cancel = Some("permit_cancel");
        };
        let rejoins: fn(&mut MethodDescriptor) = |d| {
            d.audience = Audience::Child;
            d.wire = WireForm::ExactText;
            d.shape = Shape::Unary;
            d.door = Door::Internal;
        };
        let withdraws: fn(&mut MethodDescriptor) = |d| {
            d.audience = Audience::Child;
            d.door = Door::Internal;
        };
        let waits: fn(&mut MethodDescriptor) = |d| {
            d.hints.read_only = true;
            d.hints.waits = true;
        };
        MethodTable::new("loopback")
            .streams::<wire::Permit, _, _>(
                "Asks for permission to use a tool, and waits for the \
                decision. For the Claude Code CLI, not for a model.",
                asks,
                with!(permit),
            )
            .streaming::<RejoinParams, PermitAnswer, _, _>(
                "permit_rejoin",
                "Joins a permission \
                request that was open when the server stopped.",
                rejoins,
                with!(permit_rejoin),
            )
            .unary::<RejoinParams, Done, _, _>(
                "permit_cancel",
                "Takes back a permission request \
                whose client no longer wants an answer.",
                withdraws,
                with!(permit_cancel),
            )
            .serves::<wire::Respond, _, _>(
                "Decides one permission request of your child: approve \
                true or false, a message that the model reads, and perhaps an edited input. Copy \
                input_digest from the request that you read. Decided once; the same answer again \
                is fine.",
                |d| d.hints.idempotent = true,
                with!(respond),
            )
            .serves::<wire::RespondMany, _, _>(
                "Decides several permission requests the same way, \
                by their exact ids.",
                |d| d.hints.idempotent = true,
                with!(respond_many),
            )
            .serves::<wire::Pending, _, _>(
                "Lists the permission requests of your sessions that \
                wait, oldest first, without waiting.",
                lists_pending,
                with!(pending),
            )
            .streaming::<ApprovalPageParams, Waiting, _, _>(
                "pending_changes",
                "Tells when the \
                list of waiting permission requests has changed.",
                tells,
                with!(pending_changes),
            )
            .serves::<wire::WaitForApproval, _, _>(
                "Waits until a session asks for permission or, \
                with after, its chat ends: the way to wait for your sessions. Returns the \
                requests that wait, whole, and the sessions that ended with their last answer. \
                Start with after 0 and hand back the after you got. It returns at once while a \
                request waits; for one that somebody else must decide, use poll with \
                wait_ms.",
                waits,
                with!(wait_for_approval),
            )
            .serves::<wire::Files, _, _>(
                "Shows the files that a permission request would change, \
                as they are now. Reads only text inside the session's \
                directories.",
                audits,
                with!(files),
            )
            .serves::<wire::Preview, _, _>(
                "Runs the shell command of a permission request over a \
                copy of the session's directory, within its wall and without a network, and shows \
                what it changed. For whoever may allow it. It is information, bound to nothing: \
                the real run may do otherwise.",
                waits,
                with!(preview),
            )
            .serves::<wire::History, _, _>(
                "Lists decisions, newest first: who decided what, \
                when, and when it reached the child.",
                reads,
                with!(history),
            )
            .serves::<wire::Audit, _, _>(
                "Lists what must be told, newest first: refused \
                attempts, breaches, messages that could not be sent.",
                audits,
                with!(audit),
            )
            .serves::<wire::ModeSet, _, _>(
                "Allows edits, or everything, for a session and for a \
                while.",
                operators,
                with!(mode_set),
            )
            .serves::<wire::RuleAdd, _, _>(
                "Adds a standing rule that answers permission requests \
                before anybody is asked.",
                |_| {},
                with!(rule_add),
            )
            .serves::<wire::Rules, _, _>(
                "Lists the standing rules, with how often each has \
                decided.",
                reads,
                with!(rules),
            )
            .serves::<wire::RuleRemove, _, _>(
                "Removes a standing rule.",
                |d| d.hints.destructive = true,
                with!(rule_remove),
            )
            .serves::<wire::RuleTest, _, _>(
                "Says which rule would decide a call, and why; \
                nothing is run or recorded.",
                reads,
                with!(rule_test),
            )
            .serves::<wire::RulePreview, _, _>(
                "Says which other pending requests would be \
                decided at once if a decision were remembered as a rule; nothing is decided or \
                recorded.",
                reads,
                with!(rule_preview),
            )
            .serves::<wire::RuleSuggest, _, _>(
                "Proposes rules that your own decisions speak for, \
                narrowest first: each would have allowed several calls that you allowed and none \
                that you denied. None is in force until rule_add makes it \
                one.",
                reads,
                with!(rule_suggest),
            )
            .serves::<wire::Configure, _, _>(
                "Makes the token, MCP configuration and flags for a \
                child that somebody else starts.",
                operators,
                with!(configure),
            )
            .short_list(&["permit", "pending", "respond", "wait_for_approval"])
            .for_devices(&[
                "respond",
                "respond_many",
                "pending",
                "wait_for_approval",
                "files",
                "history",
            ])
    }

    fn attach(&self, hub: HubContext) {
        let refusals: Arc<dyn FailureWatcher> =
            Arc::clone(&self.refusals) as Arc<dyn FailureWatcher>;
        if !hub.watch_failures(Arc::downgrade(&refusals)) {
            tracing::warn!("somebody else keeps the record of refused calls of this hub");
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
