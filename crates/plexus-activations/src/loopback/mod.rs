//! `loopback`: permission requests that reach the right parent, once, and cannot be forged.
//!
//! - this file: the method table, and the methods that list and decide;
//! - [`permit`]: the question of a child on the MCP channel; [`listening`]: who hears that
//!   something waits;
//! - [`rules`], [`preview`], [`suggest`]: standing rules, what they would say of a call, and which
//!   the decisions so far speak for;
//! - [`files`]: what a call would change, and what its command changes in a dry run; [`handles`]:
//!   what the handles of all this stand for.

mod files;
mod handles;
mod listening;
mod permit;
mod preview;
mod rules;
mod suggest;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use async_trait::async_trait;
use plexus_core::{
    Activation, ActivationInfo, Audience, Call, CallError, Caller, DeviceId, Door, FailureWatcher,
    Handle, HandleKind, HubContext, MethodDescriptor, MethodTable, ResourceForm, Resume, Shape,
    WireForm,
};
use plexus_engine::Engine;
use plexus_engine::agents::Agents;
use plexus_engine::approvals::shown::as_decision;
use plexus_engine::approvals::{Answer, Approvals};
use plexus_engine::audit::Refusals;
use plexus_engine::identity::Identity;
use plexus_engine::mcp::{PERMIT_SERVER, mcp_permit_server};
use plexus_engine::node::Neighbours;
use plexus_engine::preview::Previews;
use plexus_engine::reading::long_poll::LongPoll;
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
    ApprovalFilter, ApprovalRecord, Change, DecidedBy, PageRequest, Priority, SessionRecord, Stage,
    Store, StoreError, Topic, UnixMillis, UpdateSession,
};
use plexus_wire::method::loopback as wire;
use plexus_wire::{
    Approval, ApprovalPageParams, ApprovalsHealth, AuditList, ConfigureParams, Configured,
    DecidedApproval, DecisionList, Done, McpConfig, ModeSetParams, PendingApprovals, PermitAnswer,
    RespondManyParams, RespondOutcome, RespondOutcomes, RespondParams, Responded, Seconds,
    SessionId, SessionRef, TimedMode, WaitForApprovalParams,
};
use serde_json::Value;

use self::listening::Waiting;
use self::permit::RejoinParams;
use self::rules::Remembered;
use crate::claudecode::{page, said};
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

    async fn respond(&self, call: Call, params: RespondParams) -> Result<Responded, CallError> {
        let answer = Answer {
            approve: params.approve,
            message: params.message,
            updated_input: params.updated_input.map(Value::Object),
            answers: params.answers,
            input_digest: params.input_digest,
        };
        if matches!(call.caller, Caller::Device(_)) && params.remember.is_some() {
            return Err(CallError::forbidden("remember a decision: a device makes no rules")
                .with_field("remember")
                .with_hint("decide without it, or remember it in the dashboard"));
        }
        // A rule that cannot be made is said before anything is decided.
        let remembered = match &params.remember {
            Some(remember) => {
                self.prepare_rule(&call.caller, params.approval_id, params.approve, remember)
                    .await?
            }
            None => Remembered::default(),
        };
        let (record, _) = self
            .approvals
            .respond(&call.caller, params.approval_id, answer, remembered.new)
            .await?;
        let released = match remembered.id {
            Some(rule) => self.release_by(&call.caller, rule).await?,
            None => Vec::new(),
        };
        Ok(Responded { approval_id: record.id, rule_id: remembered.id, released })
    }

    async fn respond_many(
        &self,
        call: Call,
        params: RespondManyParams,
    ) -> Result<RespondOutcomes, CallError> {
        let mut outcomes = Vec::with_capacity(params.approval_ids.len());
        for approval_id in params.approval_ids {
            let answer = Answer {
                approve: params.approve,
                message: params.message.clone(),
                updated_input: None,
                answers: None,
                input_digest: None,
            };
            let error = self.approvals.respond(&call.caller, approval_id, answer, None).await.err();
            if let Some(error) = &error {
                // The call as a whole succeeds, so this refusal is recorded here.
                self.refusals.failed(&call.caller, "loopback.respond_many", error).await;
            }
            outcomes.push(RespondOutcome { approval_id, ok: error.is_none(), error });
        }
        Ok(RespondOutcomes { outcomes })
    }

    /// What a caller sees of approvals: the operator all, a session those of its strict
    /// descendants.
    pub(super) async fn filter(
        &self,
        caller: &Caller,
        only: SessionRef,
        stage: Stage,
    ) -> Result<ApprovalFilter, CallError> {
        let found = self
            .approvals
            .authority
            .find_any(caller, only.session_id, only.name.as_deref())
            .await?;
        let session = found.map(|session| session.id);
        Ok(ApprovalFilter { stage, session, under: caller.session(), ..ApprovalFilter::default() })
    }

    async fn pending(
        &self,
        call: Call,
        params: ApprovalPageParams,
    ) -> Result<PendingApprovals, CallError> {
        let filter = self.filter(&call.caller, params.session(), Stage::Pending).await?;
        let found =
            self.store.approvals(filter, page(params.limit, params.cursor.as_deref())?).await?;
        Ok(PendingApprovals::Ok {
            approvals: self.shown(&found.items).await?,
            cursor: found.next.map(|next| next.to_string()),
            ended: Vec::new(),
            after: None,
        })
    }

    async fn shown(&self, records: &[ApprovalRecord]) -> Result<Vec<Approval>, CallError> {
        let mut shown = Vec::with_capacity(records.len());
        for record in records {
            let session = match self.store.session(record.session).await {
                Ok(session) => session,
                Err(StoreError::NotFound { .. }) => continue,
                Err(error) => return Err(error.into()),
            };
            shown.push(self.approvals.views.pending(record, &session)?);
        }
        Ok(shown)
    }

    async fn decisions(
        &self,
        records: &[ApprovalRecord],
    ) -> Result<Vec<DecidedApproval>, CallError> {
        let mut sessions: HashMap<SessionId, Option<SessionRecord>> = HashMap::new();
        let mut devices: HashMap<DeviceId, Option<String>> = HashMap::new();
        let mut shown = Vec::with_capacity(records.len());
        for record in records {
            let session = match sessions.entry(record.session) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(unknown) => match self.store.session(record.session).await {
                    Ok(session) => unknown.insert(Some(session)),
                    Err(StoreError::NotFound { .. }) => unknown.insert(None),
                    Err(error) => return Err(error.into()),
                },
            };
            let decided = match session {
                Some(session) => self.approvals.views.decision(record, session)?,
                None => as_decision(record),
            };
            let device = match record.decision.as_ref().map(|decision| decision.by) {
                Some(DecidedBy::Device(id)) => match devices.entry(id) {
                    Entry::Occupied(known) => known.into_mut().clone(),
                    Entry::Vacant(unknown) => unknown.insert(self.device_name(id).await?).clone(),
                },
                _ => None,
            };
            shown.push(DecidedApproval { device, ..decided });
        }
        Ok(shown)
    }

    /// Returns the name of a device, until it is pruned long after it was revoked.
    async fn device_name(&self, id: DeviceId) -> Result<Option<String>, CallError> {
        match self.store.device(id).await {
            Ok(device) => Ok(Some(device.name)),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn wait_for_approval(
        &self,
        call: Call,
        params: WaitForApprovalParams,
    ) -> Result<PendingApprovals, CallError> {
        let wait = params.wait_ms.unwrap_or_default().duration();
        let filter = self.filter(&call.caller, params.session(), Stage::Pending).await?;
        let topic = match filter.session {
            Some(id) => Topic::Session(id),
            None => Topic::Pending,
        };
        // Only a caller that passes `after` hears of chats that end.
        let ends = params.after.map(|_| self.scopes.watch(call.caller.session()));
        let mut poll = LongPoll::new(&self.turns, call.caller, wait)
            .on([self.store.watch(topic)])
            .on_scope(ends);
        let mut after = params.after;
        loop {
            let turn = poll.turn().await;
            let found = self.store.approvals(filter, page(None, None)?).await?;
            let mut ended = Vec::new();
            if let Some(known) = after {
                let news = self.news.asked_or_ended(&call.caller, known).await?;
                after = Some(news.after);
                let wanted = |session: &&SessionRecord| {
                    session.open_chat().is_none()
                        && filter.session.is_none_or(|only| only == session.id)
                };
                for session in news.sessions.iter().filter(wanted) {
                    ended.push(self.news.changed(session).await?);
                }
            }
            if !found.items.is_empty() || !ended.is_empty() {
                return Ok(PendingApprovals::Ok {
                    approvals: self.shown(&found.items).await?,
                    cursor: found.next.map(|next| next.to_string()),
                    ended,
                    after,
                });
            }
            if poll.is_over() {
                return Ok(PendingApprovals::Timeout { after });
            }
            poll.wait(turn, after.unwrap_or_default()).await;
        }
    }

    async fn history(
        &self,
        call: Call,
        params: ApprovalPageParams,
    ) -> Result<DecisionList, CallError> {
        let filter = self.filter(&call.caller, params.session(), Stage::Decided).await?;
        let found =
            self.store.approvals(filter, page(params.limit, params.cursor.as_deref())?).await?;
        Ok(DecisionList {
            decisions: self.decisions(&found.items).await?,
            cursor: found.next.map(|next| next.to_string()),
        })
    }

    async fn audit(&self, call: Call, params: ApprovalPageParams) -> Result<AuditList, CallError> {
        let session = match (params.session_id, &params.name) {
            // Lines outlive the session that they tell of.
            (id, None) => id,
            (id, name) => {
                let authority = &self.approvals.authority;
                Some(authority.find(&call.caller, id, name.as_deref()).await?.id)
            }
        };
        let found =
            self.store.audit(session, page(params.limit, params.cursor.as_deref())?).await?;
        Ok(AuditList {
            lines: found.items.into_iter().map(handles::shown_line).collect(),
            cursor: found.next.map(|next| next.to_string()),
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
            CallError::unavailable("say where this server listens: it does not yet")
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
            // It writes its answer itself, and that is one answer: only so do doors without streams
            // offer it.
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
