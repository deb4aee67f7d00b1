//! What the activations are built from: paths, programs, bounds and defaults. The server's
//! configuration becomes one of these.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use plexus_wire::ChannelChoice;
use serde::{Deserialize, Serialize};

use crate::wall::WallSettings;

/// A program with the arguments that always come first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProgramLine {
    /// The program.
    pub program: PathBuf,
    /// What comes before the arguments of a run, for example `sim` when our own binary plays the
    /// agent.
    pub leading: Vec<OsString>,
}

/// Everything the activations need to know about the machine and its bounds.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The server's directory; run directories lie below it.
    pub data_dir: PathBuf,
    /// The program of each agent that is installed, by the agent's name.
    pub programs: BTreeMap<String, ProgramLine>,
    /// The shim that holds a child.
    pub shim: ProgramLine,
    /// Where children reach this server, for the MCP channel and for `can_spawn`; known once the
    /// listener is bound.
    pub url: Option<String>,
    /// The channel of a session that does not say.
    pub channel: ChannelChoice,
    /// Children that may run at the same time. Each takes about 200 MB.
    pub max_running: usize,
    /// Idle children kept for the next prompt; the least recently used goes first.
    pub max_warm: usize,
    /// How long an idle child is kept.
    pub warm_idle: Duration,
    /// When a warm child is replaced although it is in use often.
    pub warm_max_age: Duration,
    /// When a warm child is replaced because of what it has written.
    pub warm_max_journal_bytes: u64,
    /// Whether an agent is started before its first prompt when its session does not say. Such a
    /// child counts as an idle one, so `max_warm` bounds it too.
    pub prestart: Prestart,
    /// How long each step of ending a child may take.
    pub grace: Duration,
    /// How long an agent may take until it can take a prompt. It starts servers of its own
    /// meanwhile.
    pub handshake: Duration,
    /// How long an agent may ask about a call before it has told the whole input of it.
    pub whole_question: Duration,
    /// How long the note that an answer has arrived may wait for the lines that come after it. The
    /// result of a quick tool, and the next question with it, come sooner. With a slow tool the note
    /// waits this long in the journal, where a server that starts again finds it.
    pub linger: Duration,
    /// How long a permission request waits when its session does not say; zero is for ever.
    pub approval_timeout: Duration,
    /// How long an agent waits for a decision before it is parked; `None` never parks one.
    pub park_after: Option<Duration>,
    /// The boot of the machine, which tells processes of an earlier boot apart.
    pub boot: Option<String>,
    /// Whether children write partial messages, for live text in `follow`.
    pub live_deltas: bool,
    /// The walls around children, and which one a session has that does not say.
    pub wall: WallSettings,
    /// The shim ends its child when no server has touched the lease for this long (only with a
    /// shared store).
    pub leash: Option<Duration>,
    /// Under which names MCP lists the methods of sessions.
    pub tool_names: ToolNames,
    /// Who this server is among those that share its store; `None` where it has the store to
    /// itself.
    pub node: Option<NodeSettings>,
    /// How people elsewhere reach this server.
    pub reach: Reach,
}

/// Whether agents are started before their first prompt.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Prestart {
    /// While the machine has enough memory available, judged anew for each session.
    #[default]
    Auto,
    /// Yes.
    On,
    /// Only for a session that asks for it.
    Off,
}

/// How people elsewhere reach a server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reach {
    /// The address that they open, without a slash at its end; `None` where only this machine
    /// reaches it.
    pub url: Option<String>,
    /// The SHA-256 of the certificate that the server shows there, as browsers write it; `None`
    /// where a proxy shows the certificate, or the address is not encrypted.
    pub fingerprint: Option<String>,
}

/// Under which names MCP lists the methods of sessions. Both names can be called.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolNames {
    /// `agents_create` and so on.
    #[default]
    Agents,
    /// `claudecode_create` and so on, as the first stage did.
    ClaudeCode,
}

/// Who a server is among those that share its store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NodeSettings {
    /// The same at every start.
    pub id: plexus_core::ServerId,
    /// What people call it.
    pub name: String,
    /// Where the others reach it; `None` for where it listens.
    pub url: Option<String>,
    /// How long the others trust it without a word.
    pub lease: Duration,
}

impl Settings {
    /// The defaults of the design, for a server with its data in `data_dir`. No agent is installed.
    pub fn new(data_dir: impl Into<PathBuf>, shim: ProgramLine) -> Self {
        Self {
            data_dir: data_dir.into(),
            programs: BTreeMap::new(),
            shim,
            url: None,
            channel: ChannelChoice::Auto,
            max_running: 64,
            max_warm: 4,
            warm_idle: Duration::from_secs(300),
            warm_max_age: Duration::from_secs(3_600),
            warm_max_journal_bytes: 64 * 1024 * 1024,
            prestart: Prestart::Auto,
            grace: Duration::from_secs(5),
            handshake: Duration::from_secs(180),
            whole_question: Duration::from_secs(60),
            linger: Duration::from_millis(25),
            approval_timeout: Duration::from_secs(300),
            park_after: None,
            boot: plexus_shim::layout::boot_id(),
            live_deltas: true,
            wall: WallSettings::default(),
            leash: None,
            tool_names: ToolNames::Agents,
            node: None,
            reach: Reach::default(),
        }
    }

    /// Says which program an agent is.
    pub fn install(&mut self, agent: impl Into<String>, program: ProgramLine) {
        self.programs.insert(agent.into(), program);
    }

    /// Returns the run directory of the `n`-th run of a session.
    #[must_use]
    pub fn run_dir(&self, key: plexus_store::RunKey) -> PathBuf {
        self.session_dir(key.session).join(key.n.to_string())
    }

    /// Returns the directory that holds all runs of a session.
    #[must_use]
    pub fn session_dir(&self, session: plexus_core::SessionId) -> PathBuf {
        self.data_dir.join("runs").join(session.to_string())
    }
}
