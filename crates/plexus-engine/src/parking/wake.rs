//! Starting the process that asks again about a parked call.
//!
//! The order matters: the approval says `waking` and names the run before the transcript is marked,
//! so that one server alone does it; the mark is durable before the process starts.

use std::sync::{Arc, Weak};

use plexus_store::{
    ApprovalRecord, Change, ParkApproval, ParkStep, Priority, RunKey, SessionRecord, StoreError,
    UpdateSession,
};
use uuid::Uuid;

use super::transcript::{self, Unwakeable};
use super::{ParkedFacts, child_env, inode};
use crate::driver::{AnyDriver, Begin, Channel, Conversation, WokenCall};
use crate::home::find_unwanted;
use crate::instructions;
use crate::prompt::Prompt;
use crate::run::state::{Begun, OpenChat, RunState};
use crate::run::woken::Woken;
use crate::run::{Origin, Run, RunKeeper};
use crate::session::{SessionConfig, SessionState};
use crate::start::{Beginning, Launched, StartError, Starter, check_dirs};
use crate::walled::wall_words;

impl Starter {
    /// Starts a process that asks again about the call of `record`, which is parked and decided.
    /// Returns its run, not yet running.
    pub(crate) async fn wake(
        &self,
        keeper: Weak<dyn RunKeeper>,
        session: &SessionRecord,
        chat: u32,
        record: &ApprovalRecord,
    ) -> Result<Run, StartError> {
        let facts = record
            .parked
            .as_ref()
            .ok_or_else(|| StoreError::invalid("wake an agent: its approval does not say how"))?;
        let facts: ParkedFacts = facts.read()?;
        let config = SessionConfig::of(session)?;
        let agent = self.agents.get(&config.agent).map_err(StartError::Unknown)?;
        let identified = agent.identify().await?;
        check_dirs(&self.tools.settings, &config)?;
        if facts.directory.is_some() && facts.directory != inode(&config.working_dir) {
            return Err(StartError::Moved(config.working_dir));
        }
        if let Some(found) = find_unwanted(&config.working_dir, &agent.driver.must_be_absent()) {
            return Err(StartError::Unwanted(found));
        }
        let (id, tool_name) = (facts.conversation.clone(), record.tool_name.clone());
        let conversation = Conversation::Wake { id, tool_name };
        let key = RunKey { session: session.id, n: session.next_run };
        let mut session_state = SessionState::of(session)?;
        let cost_usd = session_state.conversation_cost;
        let begin = Begin { config: &config, conversation: &conversation, cost_usd };
        let open = OpenChat::new(chat, None, Begun::WithProcess);
        let mut state = RunState::begin(Arc::clone(&agent.driver).begin(&begin), open);
        state.conversation = Some(facts.conversation.clone());
        state.woken = Some(Woken {
            approval: record.id,
            tool_use_id: record.tool_use_id.clone(),
            asked: false,
            finished: false,
        });
        session_state.woken_call = Some(record.tool_use_id.clone());
        let claims = vec![
            Change::ParkApproval(ParkApproval { id: record.id, step: ParkStep::Wake }),
            Change::UpdateSession(UpdateSession {
                expects_revision: Some(session.revision),
                state: Some(session_state.to_json()?),
                ..UpdateSession::of(session.id)
            }),
        ];
        let launched = Launched {
            name: &agent.name,
            agent: &identified.label,
            ephemeral: false,
            boot: self.tools.settings.boot.as_deref(),
        };
        let channel = Channel::Control;
        plexus_fault::point!("wake.claim.before");
        let wall = wall_words(&self.tools.settings, &config, agent);
        let project = instructions::Found::look(&config, &agent.driver.project_files());
        let told =
            [format!("{}, asking over the {} channel{wall}", launched.agent, channel.name())];
        let stored = self.create_row(key, channel, &launched, &told, &state, claims).await?;
        plexus_fault::point!("wake.claimed");
        let fork_of = None;
        let reads_instructions = project.is_read(config.project_settings);
        let begun = Beginning {
            key,
            agent,
            config: &config,
            channel,
            conversation,
            fork_of,
            reads_instructions,
        };
        let started = async {
            self.mark(&agent.driver, facts, record).await?;
            plexus_fault::point!("wake.marked");
            self.launch_child(begun, Uuid::nil(), &Prompt::default()).await
        };
        match started.await {
            Ok(hold) => {
                let tools = self.tools.clone();
                Ok(Run::new(tools, keeper, &agent.driver, &stored, Origin::Started, hold)?)
            }
            Err(error) => {
                self.undo(key).await;
                Err(error)
            }
        }
    }

    /// Makes the transcript one from which the process asks again.
    async fn mark(
        &self,
        driver: &Arc<dyn AnyDriver>,
        facts: ParkedFacts,
        record: &ApprovalRecord,
    ) -> Result<(), StartError> {
        let data_dir = self.tools.settings.data_dir.clone();
        let (driver, call, id) = (Arc::clone(driver), record.tool_use_id.clone(), record.id);
        let path = facts.transcript.clone();
        let mark = move || {
            // What follows the parked part begins with the mark: without a result after it, the
            // call is open.
            let is_settled = |behind: &str| {
                !behind.is_empty() && driver.woken_call(&call, behind) == WokenCall::Settled
            };
            transcript::mark(&facts, &data_dir, id, is_settled)
        };
        let done = tokio::task::spawn_blocking(mark).await;
        Ok(done.map_err(|error| Unwakeable::Io { path, source: std::io::Error::other(error) })??)
    }

    /// Before a process resumes or copies a conversation in which another one was woken: a call
    /// that has no result there would be asked about again, or run. It is taken out of the
    /// transcript, so that the agent reads that its outcome is unknown.
    pub(crate) async fn settle_woken(
        &self,
        session: &SessionRecord,
        config: &SessionConfig,
        driver: &Arc<dyn AnyDriver>,
    ) -> Result<(), StartError> {
        let state = SessionState::of(session)?;
        if let Some(source) = state.fork_of.filter(|_| state.fork_from.is_some()) {
            let source = match self.tools.store.session(source).await {
                Ok(source) => source,
                Err(StoreError::NotFound { .. }) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            if SessionState::of(&source)?.woken_call.is_some() && source.open_chat().is_some() {
                return Err(StartError::JustWoken);
            }
            let config = SessionConfig::of(&source)?;
            return self.settle_own(&source, &config, driver).await;
        }
        self.settle_own(session, config, driver).await?;
        self.forget_woken(session).await
    }

    async fn settle_own(
        &self,
        session: &SessionRecord,
        config: &SessionConfig,
        driver: &Arc<dyn AnyDriver>,
    ) -> Result<(), StartError> {
        let state = SessionState::of(session)?;
        let (Some(call), Some(id)) = (state.woken_call, &session.claude_session_id) else {
            return Ok(());
        };
        let wall = driver.wall();
        let settings = &self.tools.settings;
        let env = |name: &str| child_env(settings, (session.id, config), wall.as_ref(), name);
        let Some(place) = driver.transcript(id, &env) else { return Ok(()) };
        let driver = Arc::clone(driver);
        let path = place.root.join(&place.name);
        let settle = move || {
            let Some(path) = transcript::find(&place) else { return Ok(()) };
            let failed = |source| Unwakeable::Io { path: path.clone(), source };
            let text = transcript::read(&path).map_err(failed)?;
            match driver.woken_call(&call, &text) {
                WokenCall::Settled => Ok(()),
                WokenCall::Open { unmarked } => {
                    transcript::replace(&path, &unmarked).map_err(failed)
                }
            }
        };
        let done = tokio::task::spawn_blocking(settle).await;
        done.map_err(|error| Unwakeable::Io { path, source: std::io::Error::other(error) })??;
        Ok(())
    }

    /// Forgets a call that is settled, before the first process that goes on with the conversation.
    async fn forget_woken(&self, session: &SessionRecord) -> Result<(), StartError> {
        let mut state = SessionState::of(session)?;
        if state.woken_call.take().is_none() {
            return Ok(());
        }
        let forget = Change::UpdateSession(UpdateSession {
            expects_revision: Some(session.revision),
            state: Some(state.to_json()?),
            ..UpdateSession::of(session.id)
        });
        match self.tools.store.commit(vec![forget], Priority::Normal).await {
            // Something else of the session was changed in this moment: the next start looks again.
            Ok(_) | Err(StoreError::Conflict { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}
