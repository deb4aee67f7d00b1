//! What a session was created with, as it is stored, and what the activation remembers of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use plexus_core::{ServerId, SessionId};
use plexus_store::{JsonText, SessionRecord, StoreError};
use plexus_wire::{
    AgentMcpServer, Budget, ChannelChoice, Confine, FIRST_AGENT, ProjectSettings, Supervise,
    TimedMode,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// What a session was created with.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct SessionConfig {
    /// Its agent, by the name that the server knows it by.
    #[serde(default = "first_agent")]
    pub agent: String,
    /// Where its children work.
    pub working_dir: PathBuf,
    /// The model, if not the default one of the agent.
    pub model: Option<String>,
    /// What is added to the system prompt.
    pub system_prompt: Option<String>,
    /// Whether its children ask at all.
    pub loopback_enabled: bool,
    /// Zero: no deadline.
    pub loopback_timeout_secs: u64,
    /// When a question is passed on to the parent above.
    pub escalate_after_secs: Option<u64>,
    /// What is asked about.
    pub supervise: Supervise,
    /// Whether its children may supervise children of their own.
    pub can_spawn: bool,
    /// Whether it may create conversations with a model itself.
    #[serde(default)]
    pub can_use_cone: bool,
    /// What it may allow its own children, as patterns.
    pub may_decide: Vec<String>,
    /// Whether settings of the project count.
    pub project_settings: ProjectSettings,
    /// How its children ask.
    pub channel: ChannelChoice,
    /// Calls that it may make unasked, as patterns: rules of this session alone.
    pub allowed_tools: Vec<String>,
    /// The session that gave it `allowed_tools`; `None` for the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_by: Option<SessionId>,
    /// Tools that the agent's own configuration forbids.
    pub disallowed_tools: Vec<String>,
    /// Further directories that its children may use.
    pub add_dirs: Vec<PathBuf>,
    /// Further variables of its children.
    pub env: BTreeMap<String, String>,
    /// MCP servers for its children, by name. Sessions of the first stages have none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub mcp_servers: BTreeMap<String, AgentMcpServer>,
    /// The wall around its children. Sessions of the first stage have none.
    #[serde(default)]
    pub confine: Confine,
    /// What it and everything below it may spend.
    pub budget: Option<Budget>,
}

/// Sessions of the first stage do not say which agent they have.
fn first_agent() -> String {
    FIRST_AGENT.to_owned()
}

impl SessionConfig {
    /// Reads it from a session.
    ///
    /// # Errors
    /// When what is stored cannot be read.
    pub fn of(session: &SessionRecord) -> Result<Self, StoreError> {
        session.config.read()
    }

    /// What is stored of it.
    ///
    /// # Errors
    /// When it cannot be JSON.
    pub fn to_json(&self) -> Result<JsonText, StoreError> {
        JsonText::of(self)
    }

    /// The home directory of its children, where `~/` starts.
    pub fn home(&self) -> Option<PathBuf> {
        self.env.get("HOME").map(PathBuf::from).or_else(std::env::home_dir)
    }

    pub(crate) fn approval_timeout(&self) -> Option<Duration> {
        (self.loopback_timeout_secs > 0).then(|| Duration::from_secs(self.loopback_timeout_secs))
    }
}

/// What the activation remembers of a session besides its configuration.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct SessionState {
    /// The agent's id to fork from at the next start; cleared once the agent has shown the new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork_from: Option<String>,
    /// Whose conversation that is: what it has cost is known there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork_of: Option<SessionId>,
    /// The last message of that one which the fork shares; all of it without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork_behind: Option<Uuid>,
    /// What the conversation had cost when a CLI last left it: a run that resumes or forks it counts
    /// on from there.
    #[serde(default)]
    pub conversation_cost: f64,
    /// A mode for a while, set by the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<TimedMode>,
    /// The call for which a process was last woken. A process that resumes the conversation may
    /// find it open in the transcript, so it is looked for there before the next start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub woken_call: Option<String>,
    /// The server on which that was, where several share the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub woken_on: Option<ServerId>,
    /// The server that has the transcript, once an agent was woken on another server than the one
    /// that parked it. A chat on any other server would not know what was said there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation_on: Option<ServerId>,
    /// Calls that another server has marked in its own copy of the transcript. They are taken out
    /// when that server resumes the conversation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marked: Vec<MarkedCall>,
}

/// A call that is marked in the transcript of one server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MarkedCall {
    /// The server.
    pub server: ServerId,
    /// The agent's id of the call.
    pub call: String,
}

/// How many calls of one session may be marked on other servers. Each is a wake on a server that
/// went away before the call was settled.
const MAX_MARKED: usize = 64;

impl SessionState {
    /// Reads it from a session.
    ///
    /// # Errors
    /// When what is stored cannot be read.
    pub fn of(session: &SessionRecord) -> Result<Self, StoreError> {
        session.state.read()
    }

    /// What is stored of it.
    ///
    /// # Errors
    /// When it cannot be JSON.
    pub fn to_json(&self) -> Result<JsonText, StoreError> {
        JsonText::of(self)
    }

    /// Notes that a call is being woken on this server. `false` when too many are noted.
    #[must_use]
    pub(crate) fn wakes(&mut self, call: &str, ours: Option<ServerId>) -> bool {
        let is_noted = self.hand_over(ours);
        if is_noted {
            (self.woken_call, self.woken_on) = (Some(call.to_owned()), ours);
        }
        is_noted
    }

    /// Notes that this server has taken every call out of its transcript that it had marked.
    pub(crate) fn settle(&mut self, ours: Option<ServerId>) {
        if self.hand_over(ours) {
            (self.woken_call, self.woken_on) = (None, None);
        }
        self.marked.retain(|marked| Some(marked.server) != ours);
    }

    /// Keeps in mind a call that was last woken on another server, which has it in its transcript.
    fn hand_over(&mut self, ours: Option<ServerId>) -> bool {
        let (Some(call), Some(server)) = (&self.woken_call, self.woken_on) else { return true };
        let marked = MarkedCall { server, call: call.clone() };
        if Some(server) == ours || self.marked.contains(&marked) {
            return true;
        }
        let has_room = self.marked.len() < MAX_MARKED;
        if has_room {
            self.marked.push(marked);
        }
        has_room
    }

    /// The calls that a transcript here may have marked.
    pub(crate) fn marked_calls(self) -> Vec<String> {
        self.woken_call.into_iter().chain(self.marked.into_iter().map(|it| it.call)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_that_another_server_marked_is_kept_in_mind_until_that_server_settles_it() {
        let (a, b) = (ServerId::generate(), ServerId::generate());
        let mut state = SessionState::default();
        assert!(state.wakes("one", Some(a)));
        assert!(state.wakes("one", Some(b)));
        assert_eq!(state.clone().marked_calls(), ["one", "one"]);
        state.settle(Some(b));
        assert_eq!(state.marked, [MarkedCall { server: a, call: "one".to_owned() }]);
        assert!(state.wakes("two", Some(b)));
        state.settle(Some(a));
        // Another server's own mark is still there.
        assert_eq!(state.clone().marked_calls(), ["two"]);
        state.settle(Some(b));
        assert_eq!(state, SessionState::default());
    }

    #[test]
    fn without_other_servers_a_settled_call_is_forgotten() {
        let mut state = SessionState::default();
        assert!(state.wakes("one", None));
        state.settle(None);
        assert_eq!(state, SessionState::default());
    }

    #[test]
    fn no_mark_is_forgotten_for_want_of_room() {
        let (a, b) = (ServerId::generate(), ServerId::generate());
        let mut state = SessionState::default();
        for n in 0..=MAX_MARKED {
            assert!(state.wakes(&n.to_string(), Some([a, b][n % 2])), "{n}");
        }
        assert!(!state.wakes("more", Some(ServerId::generate())));
        assert_eq!(state.clone().marked_calls().len(), MAX_MARKED + 1);
        state.settle(Some(ServerId::generate()));
        assert_eq!(state.marked_calls().len(), MAX_MARKED + 1);
    }
}
