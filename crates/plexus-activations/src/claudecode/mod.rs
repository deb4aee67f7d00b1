//! `claudecode`: sessions and chats that survive everything but their own end.
//!
//! In reading order:
//! - [`config`]: what a session was created with.
//! - [`event`]: an event of the wire becomes a row of the store.
//! - [`launch`]: the arguments, the environment and the MCP servers of a child.
//! - [`translate`]: from lines of the CLI to steps of ours; pure.
//! - [`start`]: the row, the directory, the process.
//! - [`hold`], [`orphans`]: a shim held by a descriptor, and what to end when it was killed.
//! - [`run`]: one run: tail, store, answer, end.
//! - [`supervisor`]: all runs; who starts, wakes and ends them.
//! - [`sweep`]: run directories that nobody needs any more.
//! - [`deltas`], [`feed`]: live text, and events serialised once for all their readers.
//! - [`scopes`], [`turns`]: what changed for one caller, looked up once for all its waits, and how many of them read at a time.
//! - [`news`], [`told`]: which sessions changed, and what is told of one without its transcript.
//! - [`activation`]: the methods. What they take and give is `plexus-wire`'s.

pub(crate) mod activation;
pub(crate) mod config;
pub(crate) mod deltas;
pub(crate) mod event;
pub(crate) mod feed;
pub(crate) mod hold;
pub(crate) mod launch;
mod news;
mod orphans;
pub(crate) mod run;
pub(crate) mod scopes;
pub(crate) mod start;
pub(crate) mod supervisor;
pub(crate) mod sweep;
pub(crate) mod told;
pub(crate) mod translate;
pub(crate) mod turns;

use std::sync::{Arc, OnceLock, PoisonError, RwLock, Weak};

use claude_code::journal::JournalWatcher;
use claude_code::{CliVersion, OLDEST_SUPPORTED_VERSION, ProbeError};
use plexus_core::{ApprovalId, SessionId};
use plexus_store::{NodeData, RunKey, Store, StoreError};
use tokio_util::sync::CancellationToken;

pub use activation::ClaudeCode;
use deltas::Deltas;
use launch::Channel;
use scopes::Scopes;
use supervisor::Supervisor;
use turns::Turns;

use crate::identity::Identity;
use crate::loopback::approvals::Approvals;
use crate::node::{Relay, Trust};
use crate::settings::Settings;

/// What every part of the activations shares.
pub(crate) struct Core {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) settings: Settings,
    pub(crate) approvals: Arc<Approvals>,
    pub(crate) identity: Arc<Identity>,
    pub(crate) watcher: JournalWatcher,
    pub(crate) deltas: Deltas,
    /// What changed, for whoever waits for any session.
    pub(crate) scopes: Scopes,
    /// Whose waiting calls may read now.
    pub(crate) turns: Turns,
    pub(crate) shutdown: CancellationToken,
    /// Whether children may be held; only a server that shares its store can lose that.
    pub(crate) trust: Trust,
    relay: OnceLock<Arc<dyn Relay>>,
    url: RwLock<Option<String>>,
    probed: tokio::sync::OnceCell<Agent>,
    supervisor: OnceLock<Weak<Supervisor>>,
}

/// The CLI that children run, as its `--version` says.
#[derive(Clone, Debug)]
pub(crate) struct Agent {
    /// What to call it in a notice.
    pub(crate) label: String,
    /// The channel that `auto` means for it.
    pub(crate) channel: Channel,
}

impl Core {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        settings: Settings,
        approvals: Arc<Approvals>,
        identity: Arc<Identity>,
    ) -> Arc<Self> {
        Arc::new(Self {
            scopes: Scopes::new(Arc::clone(&store)),
            turns: Turns::default(),
            store,
            approvals,
            identity,
            watcher: JournalWatcher::new(),
            deltas: Deltas::default(),
            shutdown: CancellationToken::new(),
            trust: Trust::default(),
            relay: OnceLock::new(),
            url: RwLock::new(settings.url.clone()),
            settings,
            probed: tokio::sync::OnceCell::new(),
            supervisor: OnceLock::new(),
        })
    }

    pub(crate) fn set_supervisor(&self, supervisor: Weak<Supervisor>) {
        let again = self.supervisor.set(supervisor);
        debug_assert!(again.is_ok(), "there is one supervisor");
    }

    pub(crate) fn set_relay(&self, relay: Arc<dyn Relay>) {
        let again = self.relay.set(relay);
        debug_assert!(again.is_ok(), "there is one relay");
    }

    pub(crate) fn relay_to(&self) -> Option<&Arc<dyn Relay>> {
        self.relay.get()
    }

    /// Has a run told when one of its approvals is decided, by whichever server. Without others the courier is all it takes.
    pub(crate) fn await_decision(&self, key: RunKey, id: ApprovalId) {
        if let Some(supervisor) = self.supervisor() {
            supervisor.await_decision(key, id);
        }
    }

    fn supervisor(&self) -> Option<Arc<Supervisor>> {
        self.supervisor.get().and_then(Weak::upgrade)
    }

    /// A run is over, and everything of it is stored, except a chat that it never got to.
    pub(crate) fn run_ended(&self, key: RunKey, unserved: Option<u32>) {
        let Some(supervisor) = self.supervisor() else { return };
        supervisor.forget(key);
        if let Some(chat) = unserved {
            supervisor.serve(key.session, chat);
        }
    }

    pub(crate) fn trim_warm(&self) {
        if let Some(supervisor) = self.supervisor() {
            supervisor.trim_warm();
        }
    }

    /// Where children reach this server.
    pub(crate) fn url(&self) -> Option<String> {
        self.url.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_url(&self, url: String) {
        *self.url.write().unwrap_or_else(PoisonError::into_inner) = Some(url);
    }

    /// Reads the prompt of a chat from its node.
    pub(crate) async fn prompt_text(
        &self,
        session: SessionId,
        chat: u32,
    ) -> Result<String, StoreError> {
        let chat = self.store.chat(session, Some(chat)).await?;
        match self.store.node(chat.user_node).await?.data {
            NodeData::Text { content } => Ok(content),
            NodeData::Pruned {} | NodeData::External { .. } => {
                Err(StoreError::invalid("read a prompt: its node holds no text"))
            }
        }
    }

    /// Asks the CLI for its version, once.
    pub(crate) async fn probe(&self) -> Result<Agent, ProbeError> {
        let probe = async {
            let line = &self.settings.agent;
            if !line.leading.is_empty() {
                // Our own binary plays the CLI: it speaks the version we were built with.
                return Ok(Agent {
                    label: "the built-in simulator (no claude CLI)".into(),
                    channel: Channel::Control,
                });
            }
            let probed = claude_code::probe_version(&line.program).await?;
            let channel = if probed.version >= OLDEST_SUPPORTED_VERSION {
                Channel::Control
            } else {
                Channel::Mcp
            };
            let note =
                if probed.is_newer_than_tested() { ", newer than any we have tested" } else { "" };
            Ok(Agent { label: format!("claude {}{note}", version(probed.version)), channel })
        };
        self.probed.get_or_try_init(|| probe).await.cloned()
    }
}

fn version(version: CliVersion) -> String {
    format!("{}.{}.{}", version.major, version.minor, version.patch)
}
