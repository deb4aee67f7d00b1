//! What a process is started with.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use plexus_core::SecretToken;
use plexus_wire::PromptImage;
use uuid::Uuid;

use super::say::OutLine;
use crate::session::SessionConfig;

/// How a run asks for permission.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Channel {
    /// On its own output; the answer goes to its stdin.
    Control,
    /// By calling our permission tool over MCP; the answer is the result of that call.
    Mcp,
}

impl Channel {
    /// The name under which it is stored and shown.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Mcp => "mcp",
        }
    }

    /// Finds it by its name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Control, Self::Mcp].into_iter().find(|channel| channel.name() == name)
    }
}

/// Which conversation a run goes on with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Conversation {
    /// None: it begins one.
    New,
    /// This one.
    Resume(String),
    /// A copy of this one, under a new id.
    Fork {
        /// The agent's id of the one that is copied.
        of: String,
        /// The last message that is copied; all of them without.
        up_to: Option<Uuid>,
    },
    /// This one, whose process ended while it waited with a call of this tool: the process asks
    /// about the call again, whatever else would let it run.
    Wake {
        /// The agent's id of the conversation.
        id: String,
        /// The tool.
        tool_name: String,
    },
}

/// Where a child reaches this server over MCP, and as whom.
#[derive(Clone, Debug)]
pub struct McpDoor {
    /// The address of this server.
    pub url: String,
    /// The token of the run.
    pub token: SecretToken,
}

/// Everything that decides how a run is started.
#[derive(Clone, Debug)]
pub struct Launch<'a> {
    /// What the session was created with.
    pub config: &'a SessionConfig,
    /// How the run asks.
    pub channel: Channel,
    /// Which conversation it goes on with.
    pub conversation: Conversation,
    /// Whether the agent reads the project's instructions, and nothing else of it.
    pub reads_instructions: bool,
    /// Where it asks, on the MCP channel.
    pub permit_door: Option<McpDoor>,
    /// Where it supervises children of its own, if it may.
    pub hub_door: Option<McpDoor>,
    /// The private directory of the run, in which the files of the plan will lie.
    pub run_dir: &'a Path,
    /// The home directory of this session's own, for an agent that has one of ours and runs within
    /// a wall. Without a wall all sessions of an agent share one.
    pub own_home: Option<&'a Path>,
    /// Whether somebody wants live text.
    pub live_text: bool,
    /// The prompt that the run is started for; `None` when it is started before its first prompt,
    /// or to ask again about a parked call.
    pub prompt: Option<FirstPrompt<'a>>,
}

/// The prompt that a run is started for.
#[derive(Clone, Copy, Debug)]
pub struct FirstPrompt<'a> {
    /// Its id.
    pub id: Uuid,
    /// Its text.
    pub text: &'a str,
    /// Its images.
    pub images: &'a [PromptImage],
}

/// What to start. The program itself is configured, and comes with its leading arguments.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The arguments.
    pub args: Vec<OsString>,
    /// The directory of the agent's own settings and login, where it has one of ours.
    pub home: Option<AgentHome>,
    /// The names of variables that the child inherits from the server, besides those that every
    /// child does.
    pub inherited: Vec<String>,
    /// Variables that the child has whatever its session says.
    pub env: Vec<(OsString, OsString)>,
    /// Files of the run directory, private to this user.
    pub files: Vec<PlanFile>,
    /// What the child reads.
    pub stdin: Stdin,
}

/// The directory in which an agent keeps its settings, login and conversations, apart from the
/// user's own. It is made ready before each start.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AgentHome {
    /// The directory.
    pub dir: PathBuf,
    /// Files of the user that are linked into it, by their names there.
    pub links: Vec<(String, PathBuf)>,
    /// Directories in it that must hold nothing.
    pub empty: Vec<String>,
    /// Files of it that are written before each start, whatever they held.
    pub files: Vec<HomeFile>,
    /// The arguments of a process that runs alone in the directory, before any other process of
    /// this server does. Its stdin is closed at once, and it must exit by itself. Empty when no
    /// such process is needed.
    pub first_run: Vec<OsString>,
}

/// A file of an agent's home.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HomeFile {
    /// Where it is in the home.
    pub path: String,
    /// What it holds.
    pub content: HomeContent,
}

/// What a file of an agent's home holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HomeContent {
    /// This text.
    Text(String),
    /// This JSON, with some values of the user's own file in their places.
    Json {
        /// The JSON.
        value: serde_json::Value,
        /// The user's own file.
        user_file: PathBuf,
        /// The values that are taken from it, as JSON Pointers (RFC 6901). Only values that cannot
        /// change what the agent asks about belong here.
        keep: Vec<String>,
    },
}

/// A private file of a run.
#[derive(Clone)]
pub struct PlanFile {
    /// Its name in the run directory.
    pub name: String,
    /// Its content, which may be a token and is never printed.
    pub content: String,
}

impl std::fmt::Debug for PlanFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PlanFile").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What a child reads on its stdin.
#[derive(Clone, Debug, Default)]
pub enum Stdin {
    /// Nothing.
    #[default]
    Nothing,
    /// This text, and then its end.
    Text(String),
    /// Lines, of which these are the first, for as long as the run goes on.
    Lines(Vec<OutLine>),
}

/// Why a run cannot be started as it is asked for.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LaunchError(pub String);
