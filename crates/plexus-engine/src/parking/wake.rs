//! Starting the process that asks again about a parked call.
//!
//! The order matters: the approval says `waking` and names the run before the transcript is marked,
//! so that one server alone does it; the mark is durable before the process starts.

use std::sync::{Arc, Weak};

use plexus_core::SessionId;
use plexus_store::{
    ApprovalRecord, Change, Chat, JsonText, ParkApproval, ParkStep, Priority, RunKey,
    SessionRecord, StoreError, UpdateSession,
};

use super::transcript::{self, Unwakeable};
use super::{ParkedFacts, child_env, contents, directories, inode, packed};
use crate::driver::{AnyDriver, Begin, Channel, Conversation, WokenCall};
use crate::home::find_unwanted;
use crate::instructions;
use crate::run::state::{Begun, OpenChat, RunState};
use crate::run::woken::Woken;
use crate::run::{Origin, Run, RunKeeper};
use crate::session::{SessionConfig, SessionState};
use crate::start::{Beginning, Launched, StartError, Starter, check_dirs};
use crate::walled::wall_words;

/// What wakes an agent on this server.
struct Here {
    facts: ParkedFacts,
    /// The transcript that another server parked.
    shipped: Option<String>,
}

impl Starter {
    /// Starts a process that asks again about the call of `record`, which is parked and decided.
    /// Returns its run, not yet running.
    pub(crate) async fn wake(
        &self,
        keeper: Weak<dyn RunKeeper>,
        session: &SessionRecord,
        chat: &Chat,
        record: &ApprovalRecord,
    ) -> Result<Run, StartError> {
        let facts = record
            .parked
            .as_ref()
            .ok_or_else(|| StoreError::invalid("wake an agent: its approval does not say how"))?;
        let facts: ParkedFacts = facts.read()?;
        let config = SessionConfig::of(session)?;
        let agent = self.agents.get(&config.agent).map_err(StartError::Unknown)?;
        let identified = agent.identify_now().await?;
        if !identified.asks_again {
            return Err(Unwakeable::Version(identified.label).into());
        }
        check_dirs(&self.tools.settings, &config)?;
        let here = self.found_here(facts, (session.id, &config), &agent.driver, chat).await?;
        let Here { facts, shipped } = here;
        if let Some(found) = find_unwanted(&config.working_dir, &agent.driver.must_be_absent()) {
            return Err(StartError::Unwanted(found));
        }
        let (id, tool_name) = (facts.conversation.clone(), record.tool_name.clone());
        let conversation = Conversation::Wake { id, tool_name };
        let key = RunKey { session: session.id, n: session.next_run };
        let channel = Channel::Control;
        let mut session_state = SessionState::of(session)?;
        let cost_usd = session_state.conversation_cost;
        let begin = Begin { config: &config, channel, conversation: &conversation, cost_usd };
        let open = OpenChat::new(chat.number, None, Begun::WithProcess);
        let mut state = RunState::begin(Arc::clone(&agent.driver).begin(&begin), open);
        state.conversation = Some(facts.conversation.clone());
        state.woken = Some(Woken {
            approval: record.id,
            tool_use_id: record.tool_use_id.clone(),
            asked: false,
            finished: false,
        });
        let ours = self.tools.store.lease().map(|lease| lease.server);
        if !session_state.wakes(&record.tool_use_id, ours) {
            return Err(Unwakeable::TooOften.into());
        }
        if shipped.is_some() {
            session_state.conversation_on = ours;
        }
        let step = |step| Change::ParkApproval(ParkApproval { id: record.id, step });
        let mut claims = Vec::new();
        if ours.is_some() && chat.server.is_none() {
            claims.push(step(ParkStep::Adopt(JsonText::of(&facts)?)));
        }
        claims.extend([
            step(ParkStep::Wake),
            Change::UpdateSession(UpdateSession {
                expects_revision: Some(session.revision),
                state: Some(session_state.to_json()?),
                ..UpdateSession::of(session.id)
            }),
        ]);
        let launched = Launched {
            name: &agent.name,
            agent: &identified.label,
            ephemeral: false,
            boot: self.tools.settings.boot.as_deref(),
        };
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
            prompt: None,
            fork_of,
            reads_instructions,
        };
        let started = async {
            self.mark(&agent.driver, facts, shipped, record).await?;
            plexus_fault::point!("wake.marked");
            self.launch_child(begun).await
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

    /// Says what wakes the agent on this server. Where it was parked here, that is what was noted.
    /// Another server needs the same contents in the same directories and the transcript from the
    /// store. Nothing is changed yet.
    async fn found_here(
        &self,
        mut facts: ParkedFacts,
        of: (SessionId, &SessionConfig),
        driver: &Arc<dyn AnyDriver>,
        chat: &Chat,
    ) -> Result<Here, StartError> {
        let (session, config) = of;
        let ours = self.tools.store.lease().map(|lease| lease.server);
        if facts.server.is_none() || facts.server == ours {
            if facts.directory.is_some() && facts.directory != inode(&config.working_dir) {
                return Err(StartError::Moved(config.working_dir.clone()));
            }
            return Ok(Here { facts, shipped: None });
        }
        let packed = self.tools.store.parked_transcript(session, chat.number).await?;
        let packed = packed.ok_or(Unwakeable::NotStored)?;
        let wall = driver.wall();
        let settings = &self.tools.settings;
        let env = |name: &str| child_env(settings, of, wall.as_ref(), name);
        let place = driver.transcript(&facts.conversation, &env).ok_or(Unwakeable::NotStored)?;
        let dirs = directories(config);
        let check = move || {
            let there = facts.contents.as_ref().ok_or_else(|| {
                Unwakeable::Incomparable("they were too large to compare there".to_owned())
            })?;
            let here = contents::digest(&dirs);
            let here = here.map_err(|why| Unwakeable::Incomparable(why.to_string()))?;
            if *there != here {
                return Err(Unwakeable::OtherContents(dirs.into_iter().next().unwrap_or_default()));
            }
            let shipped = packed::unpack(&packed).map_err(|_| Unwakeable::NotStored)?;
            let path = transcript::find(&place).unwrap_or_else(|| {
                let folder = facts.transcript.parent().and_then(|it| it.file_name());
                place.root.join(folder.unwrap_or_default()).join(&place.name)
            });
            transcript::can_lie_at(&path, &facts, &shipped)?;
            (facts.transcript, facts.server) = (path, ours);
            facts.directory = dirs.first().and_then(|dir| inode(dir));
            Ok(Here { facts, shipped: Some(shipped) })
        };
        let checked = tokio::task::spawn_blocking(check).await;
        Ok(checked.map_err(|error| Unwakeable::Incomparable(error.to_string()))??)
    }

    /// Makes the transcript one from which the process asks again.
    async fn mark(
        &self,
        driver: &Arc<dyn AnyDriver>,
        facts: ParkedFacts,
        shipped: Option<String>,
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
            transcript::mark(&facts, &data_dir, id, shipped.as_deref(), is_settled)
        };
        let done = tokio::task::spawn_blocking(mark).await;
        Ok(done.map_err(|error| Unwakeable::Io { path, source: std::io::Error::other(error) })??)
    }

    /// Called before a process resumes or copies a conversation in which an agent was woken. If the
    /// woken call has no result in the transcript, the new process would ask about it again, or run
    /// it. So the call is taken out, and the agent reads that its outcome is unknown.
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
        let calls = SessionState::of(session)?.marked_calls();
        let Some(id) = session.claude_session_id.as_ref().filter(|_| !calls.is_empty()) else {
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
            let found = transcript::read(&path).map_err(failed)?;
            let mut text = found.clone();
            for call in &calls {
                match driver.woken_call(call, &text) {
                    WokenCall::Settled => {}
                    WokenCall::Open { unmarked } => text = unmarked,
                }
            }
            if text == found { Ok(()) } else { transcript::replace(&path, &text).map_err(failed) }
        };
        let done = tokio::task::spawn_blocking(settle).await;
        done.map_err(|error| Unwakeable::Io { path, source: std::io::Error::other(error) })??;
        Ok(())
    }

    /// Forgets a call that is settled, before the first process that goes on with the conversation.
    async fn forget_woken(&self, session: &SessionRecord) -> Result<(), StartError> {
        let found = SessionState::of(session)?;
        let mut state = found.clone();
        state.settle(self.tools.store.lease().map(|lease| lease.server));
        if state == found {
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
