//! `permit`: the MCP channel's question. Blocks until somebody decides; every error is a denial
//! with a reason that the model can read.

use std::sync::Arc;

use plexus_core::{Call, CallError, Caller, Reply};
use plexus_engine::approvals::Question;
use plexus_engine::approvals::answer::{answer_of, exact_json};
use plexus_engine::driver::Channel;
use plexus_engine::tools::NETWORK_TOOL;
use plexus_engine::wait::{STORE_RETRY, decision};
use plexus_store::{
    ApprovalRecord, Change, DecidedBy, Fate, JsonText, Priority, RunKey, SessionRecord,
    SettleApproval, StoreError, UnixMillis, Verdict,
};
use plexus_wire::{Done, ErrorKind, PermitAnswer, PermitRequest, RefusedAttempt};
use schemars::JsonSchema;
use serde::Deserialize;

use super::Loopback;

/// How often a client is told that its call waits.
const REPORT_EVERY: std::time::Duration = std::time::Duration::from_secs(5);

/// Names a permission request that is open, for the server's own calls.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RejoinParams {
    /// The call.
    tool_use_id: String,
}

impl Loopback {
    pub(super) async fn permit(
        self: Arc<Self>,
        call: Call,
        request: PermitRequest,
    ) -> Result<Reply, CallError> {
        plexus_fault::point!("permit.received");
        let response = match self.ask(&call, &request).await {
            Ok(record) => self.answer_to(&call, record).await,
            Err(error) => PermitAnswer::deny(format!("denied: could not {}", error.message)),
        };
        Ok(Reply::Value(exact_json(&response).into()))
    }

    pub(super) async fn permit_rejoin(
        self: Arc<Self>,
        call: Call,
        params: RejoinParams,
    ) -> Result<Reply, CallError> {
        let response = match self.open_request(&call, &params.tool_use_id).await {
            Ok(Some(record)) => self.answer_to(&call, record).await,
            Ok(None) => {
                PermitAnswer::deny("denied: the request is not known here any more; ask again")
            }
            Err(error) => PermitAnswer::deny(format!("denied: could not {}", error.message)),
        };
        Ok(Reply::Value(exact_json(&response).into()))
    }

    /// The client no longer wants an answer, which is not the same as a lost connection: nobody
    /// needs to give one.
    pub(super) async fn permit_cancel(
        self: Arc<Self>,
        call: Call,
        params: RejoinParams,
    ) -> Result<Done, CallError> {
        if let Some(record) = self.open_request(&call, &params.tool_use_id).await? {
            let why = "the agent withdrew its question";
            self.approvals
                .settle_by_itself(&record, Verdict::Cancel, DecidedBy::AgentEnded, why)
                .await?;
        }
        Ok(Done {})
    }

    /// Opens the approval, or joins the one that is open. Identity comes from the token alone.
    async fn ask(&self, call: &Call, request: &PermitRequest) -> Result<ApprovalRecord, CallError> {
        let session = self.asking_session(&call.caller).await?;
        if session.open_chat().is_none() && self.supervisor.waits_for_first_chat(session.id) {
            let why = "ask for permission: no chat has begun, so nobody can be asked";
            return Err(CallError::forbidden(why));
        }
        let input = JsonText::of(&request.input)?;
        // A connection names no call, so the decider is told which command opened it.
        let description = match request.tool_name == NETWORK_TOOL {
            true => Some(self.asked_by(&session, request).await?),
            false => None,
        };
        loop {
            // Each time: while the store could not be written, somebody may have stopped it.
            if self.supervisor.is_stopping(session.id) {
                return Err(CallError::conflict("ask for permission: the chat is being stopped"));
            }
            let question = Question {
                session: &session,
                chat: session.open_chat(),
                run: self.asking_run(&session, request).await?,
                channel: Channel::Mcp.name(),
                request_id: &request.tool_use_id,
                tool_name: &request.tool_name,
                tool_use_id: &request.tool_use_id,
                input: input.clone(),
                description: description.clone(),
                // This channel carries the call alone, without what the agent says of it.
                person_only: None,
            };
            match self.approvals.open(&question).await {
                Ok(record) => return Ok(record),
                Err(StoreError::Unavailable { .. }) => {
                    call.progress.report("waiting for the store");
                    tokio::time::sleep(STORE_RETRY).await;
                }
                Err(error) => {
                    if let StoreError::Conflict { message, .. } = &error {
                        let refused = RefusedAttempt {
                            tool_name: Some(request.tool_name.clone()),
                            tool_use_id: Some(request.tool_use_id.clone()),
                            ..RefusedAttempt::new(ErrorKind::Conflict, message)
                                .of(call.caller, "loopback.permit")
                        };
                        self.refusals.note(Some(session.id), refused).await;
                    }
                    return Err(error.into());
                }
            }
        }
    }

    async fn asked_by(
        &self,
        session: &SessionRecord,
        request: &PermitRequest,
    ) -> Result<String, StoreError> {
        let run = self.asking_run(session, request).await?;
        let run_dir = run.map(|n| self.settings.run_dir(RunKey { session: session.id, n }));
        self.approvals.asked_by(session, run_dir.as_deref(), &request.tool_use_id).await
    }

    async fn asking_session(&self, caller: &Caller) -> Result<SessionRecord, CallError> {
        let Caller::Child(id) = caller else {
            return Err(CallError::forbidden("ask for permission: only a child does"));
        };
        self.store.session(*id).await.map_err(CallError::from)
    }

    /// The run that asks, when the child is one of ours.
    ///
    /// About the network the egress process of the live run asks, whatever chat is open: something
    /// that the agent left running connects between two chats, and a question that is asked again
    /// after a restart is found by its run, though its chat may be over.
    async fn asking_run(
        &self,
        session: &SessionRecord,
        request: &PermitRequest,
    ) -> Result<Option<u32>, StoreError> {
        match self.supervisor.handle(session.id) {
            Some(live) if request.tool_name == NETWORK_TOOL => Ok(Some(live.number())),
            Some(_) | None => self.run_of(session).await,
        }
    }

    /// The run of the open chat.
    async fn run_of(&self, session: &SessionRecord) -> Result<Option<u32>, StoreError> {
        match session.open_chat() {
            Some(chat) => Ok(self.store.chat(session.id, Some(chat)).await?.run),
            None => Ok(None),
        }
    }

    async fn open_request(
        &self,
        call: &Call,
        tool_use_id: &str,
    ) -> Result<Option<ApprovalRecord>, CallError> {
        let session = self.asking_session(&call.caller).await?;
        let run = self.run_of(&session).await?;
        Ok(self.store.approval_by_request(session.id, run, tool_use_id).await?)
    }

    /// Waits for the decision, and tells the client now and then that it waits.
    async fn answer_to(&self, call: &Call, record: ApprovalRecord) -> PermitAnswer {
        plexus_fault::point!("permit.row.committed");
        let id = record.id;
        loop {
            let decision = decision(&*self.store, id);
            tokio::pin!(decision);
            let decided = loop {
                call.progress.report("waiting for a decision");
                tokio::select! {
                    decided = &mut decision => break decided,
                    () = tokio::time::sleep(REPORT_EVERY) => {}
                }
            };
            match decided {
                Ok(Some(record)) => {
                    plexus_fault::point!("permit.decided");
                    match self.deliver(&record).await {
                        Some(response) => return response,
                        None => tokio::time::sleep(STORE_RETRY).await,
                    }
                }
                Ok(None) => {
                    return PermitAnswer::deny("denied: the request was deleted with its session");
                }
                Err(error) => {
                    tracing::error!(approval = %id, %error, "a decision could not be read");
                    return PermitAnswer::deny("denied: the decision could not be read");
                }
            }
        }
    }

    /// Notes in the store that the answer is delivered, and returns it for the reply of this call.
    /// The note comes first, so that no answer leaves without one. `None` while the store cannot be
    /// written; the child then keeps waiting.
    async fn deliver(&self, record: &ApprovalRecord) -> Option<PermitAnswer> {
        let Some(response) = answer_of(record) else {
            return Some(PermitAnswer::deny("denied: nothing was decided"));
        };
        let is_allow = matches!(response, PermitAnswer::Allow { .. });
        let is_too_late = || is_allow && self.supervisor.is_stopping(record.session);
        let too_late = || Some(PermitAnswer::deny("denied: the chat is being stopped"));
        // Not noted as delivered: it is void once the run is over.
        if is_too_late() {
            return too_late();
        }
        if record.delivered_at.is_some() {
            // A second waiter of the same request, or a client that came back: it is told the same.
            return Some(response);
        }
        let settle = SettleApproval { id: record.id, fate: Fate::Delivered, at: UnixMillis::now() };
        match self.store.commit(vec![Change::SettleApproval(settle)], Priority::Urgent).await {
            // Somebody stopped the chat meanwhile. The answer that is noted as delivered is this
            // denial then.
            Ok(_) if is_too_late() => too_late(),
            Ok(_) => Some(response),
            // It is void. Whatever was decided, it is not sent.
            Err(StoreError::Conflict { .. }) => Some(PermitAnswer::deny(
                "denied: the run that asked was over before its answer left",
            )),
            Err(StoreError::Unavailable { .. } | StoreError::Busy { .. }) => None,
            Err(error) => {
                tracing::error!(approval = %record.id, %error, "a delivery could not be noted");
                Some(PermitAnswer::deny("denied: the answer could not be recorded"))
            }
        }
    }
}
